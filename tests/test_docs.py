"""The documentation's examples, links and tables, checked against the code."""

import ast
import doctest
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
import spacy
from commandline import run_module
from conftest import CONFIGS, ROOT, blocks
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.util import load_config, registry
from thinc.api import Config

from spacy_rootmind import bridges
from spacy_rootmind.annotation.teacher_records import read_distribution
from spacy_rootmind.cli.init_config import make_config
from spacy_rootmind.cli.options import ConfigOptions
from spacy_rootmind.network.architecture import reading_layers
from spacy_rootmind.pipeline.inputs import attributes_read
from spacy_rootmind.pipeline.settings import default_settings
from spacy_rootmind.training.objective import OBJECTIVES

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)
README = (ROOT / "README.md").read_text(encoding="utf8")


def test_every_promise_names_tests_that_exist():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        named = re.findall(r"\btests/[\w/.:]+", section)
        assert named, section
        for name in named:
            file, _, function = name.partition("::")
            path = ROOT / file
            sources = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
            found = "".join(source.read_text(encoding="utf8") for source in sources)
            assert re.search(rf"^def {function or 'test_'}", found, flags=re.MULTILINE), name
    commands = re.findall(r"`pytest ([^`]*)`", text)
    assert commands
    for command in commands:
        files = re.findall(r"tests/\S+\.py", command)
        found = "".join((ROOT / file).read_text(encoding="utf8") for file in files)
        for expression in re.findall(r"-k (\w+)", command):
            assert re.search(rf"^def test_\w*{expression}", found, flags=re.MULTILINE), command


def templates(node):
    """The texts that a program's string literals make, with … for what is put into them."""
    for child in ast.walk(node):
        if isinstance(child, ast.JoinedStr):
            parts = [getattr(part, "value", "…") for part in child.values]
            yield "".join(part if isinstance(part, str) else "…" for part in parts)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield re.sub(r"%[sdr]", "…", child.value)


def test_messages_page_quotes_the_sources():
    sources = (ROOT / "spacy_rootmind").rglob("*.py")
    found = [text for path in sources for text in templates(ast.parse(path.read_text("utf8")))]
    # A name in quotation marks, `{name!r}` or `'%s'`, is a … as well.
    found = [re.sub(r"['\"]…['\"]", "…", text) for text in found]
    page = (ROOT / "docs" / "messages.md").read_text(encoding="utf8")
    quoted = re.findall(r"^\| (`.*?`) \| ", page, flags=re.MULTILINE)
    assert len(quoted) >= 20
    for message in quoted:
        text = message.strip("`").removeprefix("… ").removesuffix(" …")
        assert any(text in template for template in found), message


def test_page_on_how_it_works_names_files_that_exist():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf8")
    names = re.findall(r"`(\w+/[\w/]+\.py)`", page)
    assert len(names) >= 10
    assert [name for name in names if not (ROOT / "spacy_rootmind" / name).is_file()] == []


def test_readme_names_every_page():
    for page in PAGES[1:]:
        assert f"]({page.relative_to(ROOT).as_posix()})" in README


def public_names(module):
    """`__all__` of a module, without importing it: torch and pyarrow may be missing."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return {*ast.literal_eval(node.value)} - {"__version__"}
    raise AssertionError(f"{module} has no __all__")


PUBLIC = ("spacy_rootmind", "spacy_rootmind.torch", "spacy_rootmind.bulk", "spacy_rootmind.bridges")


def test_page_of_names_has_every_public_name():
    page = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf8")
    tables = re.findall(
        r"^\| `([\w.]+)` \| \|\n\|---\|---\|\n((?:\|.*\n)+)", page, flags=re.MULTILINE
    )
    assert tuple(module for module, _ in tables) == PUBLIC
    for module, rows in tables:
        named = [
            name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
        ]
        assert sorted(named) == sorted(public_names(module))


def imports(source):
    """The modules of ours that a program imports, with the names that it takes from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((name.name, None) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, name.name) for name in node.names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_import_public_names_alone(page):
    for block in blocks(page.relative_to(ROOT), "python"):
        for module, name in imports(block):
            if module.partition(".")[0] == "spacy_rootmind":
                assert module in PUBLIC, module
                assert name in {None, "bridges", *public_names(module)}, name


class Finder(doctest.DocTestFinder):
    """Finds decorated functions as well."""

    def _from_module(self, module, found) -> bool:
        return super()._from_module(module, inspect.unwrap(found))


@pytest.mark.parametrize(
    "name",
    [
        *(f"trees.{name}" for name in ("checks", "decoding", "distribution", "losses", "sampling")),
        *("pipeline.settings", "torch.distribution"),
    ],
)
def test_docstring_examples_run(name):
    module = pytest.importorskip(f"spacy_rootmind.{name}", exc_type=ImportError)
    runner = doctest.DocTestRunner()
    for examples in Finder().find(module):
        runner.run(examples)
    assert runner.tries > 0
    assert runner.failures == 0


# Pages of arrays and tensors, and a word that is in their examples.
ON_ARRAYS = {"docs/arrays.md": "", "docs/bridges.md": "torch"}


@pytest.mark.parametrize("page", ON_ARRAYS)
def test_array_examples_print_the_output_shown(page, capsys, monkeypatch):
    pytest.importorskip(ON_ARRAYS[page] or "numpy", reason="needs torch, of the extra [torch]")
    monkeypatch.chdir(ROOT)
    namespace = {}
    for block in blocks(page, "python"):
        if ON_ARRAYS[page] in block:
            exec(compile(block, page, "exec"), namespace)
            shown = re.findall(r"^print.*  # (.*)$", block, flags=re.MULTILINE)
            assert capsys.readouterr().out.splitlines() == shown


def test_every_parser_is_in_the_table_of_bridges():
    page = (ROOT / "docs" / "bridges.md").read_text(encoding="utf8")
    rows = re.findall(r'^\| `"(\w+)"` \| `([\w.]+)`', page, re.MULTILINE)
    assert dict(rows) == {
        parser: f"{own.module}.{own.name}" for parser, own in bridges.DECODERS.items()
    }


# The other examples on these pages run in files of their own.
EXAMPLES = {
    "README.md": "spacy.load",
    "docs/settings.md": "spacy.load",
    "docs/alternatives.md": "",
    "docs/extraction.md": "",
    "docs/migrating.md": "spacy.load",
}


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_print_the_output_shown(page, web_pipeline, capsys, tmp_path, monkeypatch):
    """Examples of a page are one program; a block after one of them is what it prints."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf8")
    pattern = r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?"
    namespace = {}
    for block, shown in re.findall(pattern, text, flags=re.DOTALL | re.MULTILINE):
        if EXAMPLES[page] in block:
            run(block, web_pipeline, namespace)
            printed = capsys.readouterr().out
            assert printed == shown or not shown
    assert namespace


def run(block, pipeline, namespace):
    """Run an example with this folder in place of the English pipeline."""
    code = block.replace("en_rootmind_web_sm", str(pipeline))
    exec(compile(code, "documentation", "exec"), namespace)


def named_under(heading):
    """Names in the first column of the table under a heading of docs/settings.md."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    [section] = [part for part in section if part.startswith(heading)]
    cells = re.findall(r"^\|([^|]*)\|", section, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_settings_page_has_all_settings():
    build = registry.architectures.get("spacy_rootmind.BiaffineParser.v1")
    assert named_under("The network") == set(signature(build).parameters) - {"nO"}
    component = spacy.blank("en").get_factory_meta("root_mst").default_config
    assert named_under("The component") == set(component) - {"model"}
    assert named_under("Objectives") == {"objective", *OBJECTIVES}


def test_settings_page_has_the_defaults():
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf8")
    shown = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", text, flags=re.MULTILINE))
    defaults = default_settings()
    assert {name: json.loads(shown[name]) for name in defaults} == defaults


def test_settings_page_has_all_scores():
    # A pipeline: without one, spaCy has not looked for its own factories yet.
    nlp = spacy.blank("en")
    ours = set(nlp.get_factory_meta("root_mst").default_score_weights)
    spacys = set(nlp.get_factory_meta("parser").default_score_weights)
    assert named_under("Scores") == ours - spacys


@pytest.mark.workflow
def test_readme_training_commands_run(ud_folder, tmp_path):
    """Run as printed, on the first sentences of the treebank, for two steps."""
    for part in ("train", "dev", "test"):
        name = f"en_ewt-ud-{part}.conllu"
        text = (ud_folder / "UD_English-EWT" / name).read_text(encoding="utf8")
        (tmp_path / name).write_text("\n\n".join(text.split("\n\n")[:60]) + "\n\n", "utf8")
    (tmp_path / "spacy_rootmind").mkdir()
    (tmp_path / "spacy_rootmind" / "configs").symlink_to(CONFIGS)
    train = "spacy train spacy_rootmind/configs/cpu.cfg"
    [block] = [block for block in blocks("README.md", "bash") if train in block]
    few = "--training.max_steps 2 --training.eval_frequency 1"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    command = block.replace(train, f"{train} {few}")
    result = subprocess.run(
        ["bash", "-ec", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "training" / "model-best" / "config.cfg").is_file()
    assert re.search(r"^LAS +\d", result.stdout, flags=re.MULTILINE)


@pytest.fixture
def checkout(trained, quickstart_docs, tmp_path):
    """A folder that looks like a checkout after the first training, to run commands in."""
    quickstart = tmp_path / "projects" / "quickstart"
    (quickstart / "corpus").mkdir(parents=True)
    (quickstart / "training").mkdir()
    trained.to_disk(quickstart / "training" / "model-best")
    (quickstart / "assets").symlink_to(ROOT / "projects" / "quickstart" / "assets")
    (tmp_path / "spacy_rootmind").mkdir()
    (tmp_path / "spacy_rootmind" / "configs").symlink_to(CONFIGS)
    for part in ("train", "dev"):
        docs = [Doc.from_docs(quickstart_docs[:10])]
        DocBin(docs=docs).to_disk(quickstart / "corpus" / f"en_quick-ud-{part}.spacy")
    return tmp_path


def run_commands(block, folder):
    """Run a block's lines `python -m ...` in a folder; returns what they have printed."""
    printed = []
    for line in block.replace("\\\n", " ").splitlines():
        python, option, module, *rest = shlex.split(line)
        assert (python, option) == ("python", "-m"), line
        arguments = [name for word in rest for name in expand(word, folder)]
        result = run_module(module, *arguments, cwd=folder)
        assert result.returncode == 0, (result.stdout + result.stderr).decode()
        printed.append(result.stdout.decode())
    return "".join(printed)


def expand(word, folder):
    """List the files that a word stands for, as a shell does."""
    return sorted(map(str, folder.glob(word))) if "*" in word else [word]


def test_command_line_examples_run(checkout, web_pipeline):
    block = blocks("docs/command-line.md", "bash")[0]
    run_commands(block.replace("en_rootmind_web_sm", str(web_pipeline)), checkout)
    parsed = (checkout / "parsed.conllu").read_text(encoding="utf8")
    assert "HeadProb=" in parsed
    assert parsed.count("# parse_3 = ") > 10
    assert len((checkout / "parsed.jsonl").read_text(encoding="utf8").splitlines()) > 50
    assert load_config(checkout / "own.cfg")["nlp"]["pipeline"][-1] == "root_mst"


@pytest.mark.workflow
def test_distillation_examples_run(checkout):
    for block in blocks("docs/distillation.md", "bash"):
        run_commands(block, checkout)
    student = spacy.load(checkout / "student" / "model-best")
    assert student.get_pipe("root_mst").labels
    vocab = spacy.blank("en").vocab
    for folder in ("taught/first", "taught/second"):
        parts = sorted((checkout / folder / "parts").glob("*.spacy"))
        docs = [doc for part in parts for doc in DocBin().from_disk(part).get_docs(vocab)]
        assert all(read_distribution(sentence) for doc in docs for sentence in doc.sents)


def test_features_page_trains_together(quickstart_docs, tmp_path, monkeypatch):
    """The config of the page's command, with its lines in the place of those that it names."""
    monkeypatch.chdir(tmp_path)
    [command, *_] = [
        block for block in blocks("docs/features.md", "bash") if "init-config" in block
    ]
    run_commands(command, tmp_path)
    [shown, *_] = blocks("docs/features.md", "ini")
    features, annotating = shown.split("[training]\n")
    text = Path("features.cfg").read_text("utf8")
    for old, new in (("features = null", ""), ("annotating_components = []", annotating)):
        assert text.count(old) == 1
        text = text.replace(old, new)
    Path("features.cfg").write_text(f"{text}\n\n{features}", "utf8")
    DocBin(docs=[Doc.from_docs(quickstart_docs[:5])]).to_disk("corpus.spacy")
    corpus = {"paths.train": "corpus.spacy", "paths.dev": "corpus.spacy"}
    steps = {"training.max_steps": 1, "training.eval_frequency": 1}
    train(Path("features.cfg"), Path("training"), overrides={**corpus, **steps})
    nlp = spacy.load("training/model-last")
    assert attributes_read(reading_layers(nlp.get_pipe("root_mst").model)) == [
        "TAG",
        "POS",
        "MORPH",
    ]
    assert nlp("The cat saw a dog.").has_annotation("DEP")


def test_features_page_has_the_embedding_of_shared_vectors():
    [*_, shown] = blocks("docs/features.md", "ini")
    assert shown.strip() in make_config(ConfigOptions(pipeline="tagger,root_mst")).to_str()


def test_blocks_of_settings_are_those_of_the_configs():
    half, calibrated, blas, optimizer = blocks("docs/settings.md", "ini")
    shipped = Config().from_disk(CONFIGS / "cpu.cfg", interpolate=False)
    shown = Config().from_str(
        calibrated.replace("[corpora.", "[corpora]\n\n[corpora."), interpolate=False
    )
    assert shown["training"]["dev_corpus"] == shipped["training"]["dev_corpus"]
    assert shown["corpora"]["calibrated_dev"] == shipped["corpora"]["calibrated_dev"]
    names = re.findall(r'@architectures = "(.*)"', half)
    assert [callable(registry.architectures.get(name)) for name in names] == [True, True]
    shared = make_config(ConfigOptions(pipeline="tagger,root_mst"))
    shown = Config().from_str("[nlp]\n\n" + blas)
    name = "after_pipeline_creation"
    assert shown["nlp"][name] == shared["nlp"][name]
    shown = Config().from_str("[training]\n\n" + optimizer)["training"]["optimizer"]
    assert shown.items() <= shipped["training"]["optimizer"].items()
