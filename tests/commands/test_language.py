"""The methods of spaCy's `Language`, as users of `parser` know them."""

import copy
import gc
import json
import pickle
import subprocess
import sys

import pytest
import spacy
from commandline import read_docs
from parsers import SMALL_MODEL, arcs_of, gold_examples
from spacy.tokens import Doc, Span, Token

pytestmark = pytest.mark.workflow

TEXTS = ["The teacher that she met gave the boy a book.", "\n Yes", "", "Dogs bark. A cat came."]
UNSURE = {
    "components.root_mst.confidence": True,
    "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 3},
    # Heads, of which these Docs have none: it is there to be copied.
    "components.root_mst.constraints": {"@misc": "spacy_rootmind.preset_heads.v1"},
}


@pytest.fixture
def nlp(shared):
    """A trained pipeline with shared vectors, a tagger and the parser, fresh for each test."""
    return spacy.load(shared)


def parses_of(nlp):
    return [arcs_of(doc) for doc in nlp.pipe(TEXTS)]


def weights(nlp, name="root_mst"):
    return nlp.get_pipe(name).model.to_bytes()


# --- processes and memory ----------------------------------------------------------------------

PROCESSES = """
import json, multiprocessing, sys
import spacy


def known(doc):
    return [
        [(token.head.i, token.dep_, token.is_sent_start, token.tag_) for token in doc],
        [(sent.start, sent.end, sent._.parse_log_prob) for sent in doc.sents],
        [(p.heads.tolist(), p.deps, p.log_prob) for sent in doc.sents for p in sent._.parses],
    ]


if __name__ == "__main__":
    path, settings, texts = sys.argv[1:]
    multiprocessing.set_start_method("spawn")
    nlp = spacy.load(path, config=json.loads(settings))
    texts = json.loads(texts)
    one = [known(doc) for doc in nlp.pipe(texts, batch_size=3)]
    two = [known(doc) for doc in nlp.pipe(texts, batch_size=3, n_process=2)]
    assert one == two, (one, two)
    print(sum(len(sentences) for _, sentences, _ in one), sum(len(p) for _, _, p in one))
"""


def test_spawned_processes_give_what_one_gives(shared, tmp_path):
    """Trees, tags, boundaries, probabilities and alternatives, digit for digit.

    Forked ones: `tests/pipeline/test_same_parse.py`.
    """
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES, encoding="utf8")
    sample = {"@misc": "spacy_rootmind.sample.v1", "k": 3}
    settings = {**UNSURE, "components.root_mst.alternatives": sample}
    arguments = (shared, json.dumps(settings), json.dumps(TEXTS * 3))
    result = subprocess.run(
        [sys.executable, *map(str, (script, *arguments))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    n_sentences, n_parses = map(int, result.stdout.split())
    assert n_sentences >= 9
    assert n_parses > n_sentences


def test_memory_zones_keep_nothing(shared):
    nlp = spacy.load(shared, config=UNSURE)
    parses_of(nlp)
    kinds = (Doc, Span, Token, spacy.lexeme.Lexeme)

    def held():
        gc.collect()
        return sum(isinstance(thing, kinds) for thing in gc.get_objects())

    def kept():
        return held(), len(nlp.vocab.strings), sum(1 for _ in nlp.vocab)

    before = kept()
    log_probs = []
    for number in range(30):
        with nlp.memory_zone():
            texts = [f"Word{number} saw other{number}x{i} ." for i in range(20)]
            for doc in nlp.pipe(texts, batch_size=7):
                [sentence] = doc.sents
                log_probs.append(sentence._.parse_log_prob)
                assert len(sentence._.parses) == 3
                assert all(0 <= token._.head_prob <= 1 for token in doc)
                assert {token.dep_ for token in doc} <= set(nlp.get_pipe("root_mst").labels)
            if number == 0:
                # The counted objects exist as long as they are in use.
                assert all(now > then for now, then in zip(kept(), before, strict=True))
            del doc, sentence
    assert kept() == before
    assert len(log_probs) == 600
    assert all(log_prob <= 0 for log_prob in log_probs)


def test_labels_outlive_memory_zones(plain):
    """Also where the Vocab knows nothing, and the first Doc ever is parsed in a zone."""
    source = spacy.load(plain)
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("root_mst", config={"model": SMALL_MODEL})
    assert "nsubj:pass" not in nlp.vocab.strings
    pipe.from_disk(plain / "root_mst", exclude=["vocab"])
    with nlp.memory_zone():
        assert parses_of(nlp) == parses_of(source)
    assert "nsubj:pass" in pipe.labels
    assert all(label in nlp.vocab.strings for label in pipe.labels)
    assert parses_of(nlp) == parses_of(source)


def test_two_parsers_in_one_pipeline(corpora):
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", name="first", config={"model": SMALL_MODEL})
    other = {"model": {**SMALL_MODEL, "arc_width": 24}, "objective": "perceptron"}
    nlp.add_pipe("root_mst", name="second", config=other)
    examples = gold_examples(read_docs(corpora / "train.spacy", nlp.vocab)[:20], nlp)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(5):
        losses = nlp.update(examples, sgd=optimizer)
    assert set(losses) == {"first", "second"}
    alone = {}
    for name in losses:
        with nlp.select_pipes(enable=name):
            alone[name] = parses_of(nlp)
    assert alone["first"] != alone["second"]
    # The later one has the last word, on the sentences that the first has set.
    doc = nlp.get_pipe("first")(nlp.make_doc(TEXTS[0]))
    assert arcs_of(doc) == alone["first"][0]
    assert arcs_of(nlp.get_pipe("second")(doc)) == arcs_of(nlp(TEXTS[0]))


# --- what a pipeline says of itself -------------------------------------------------------------


def analysis_with(factory):
    """Analyse a pipeline with a parser between what it may need and what needs it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("merge_noun_chunks", name="early")
    nlp.add_pipe(factory, name="the_parser")
    nlp.add_pipe("merge_subtokens")
    return nlp.analyze_pipes(pretty=True)


def test_analyze_pipes_says_what_it_says_of_parser(capsys):
    own, spacys = analysis_with("root_mst"), analysis_with("parser")
    for key in ("assigns", "requires", "retokenizes"):
        assert own["summary"]["the_parser"][key] == spacys["summary"]["the_parser"][key]
    assert set(own["summary"]["the_parser"]["scores"]) > (
        set(spacys["summary"]["the_parser"]["scores"])
    )
    assert own["problems"] == spacys["problems"]
    assert own["problems"]["merge_subtokens"] == []
    assert "token.dep" in own["problems"]["early"]
    assert own["attrs"]["doc.sents"] == {"assigns": ["the_parser"], "requires": []}
    printed = capsys.readouterr().out
    assert printed.count("the_parser") == 2
    assert "'early' requirements not met: token.dep" in printed


# --- copies ------------------------------------------------------------------------------------


def from_disk(nlp, folder):
    nlp.to_disk(folder)
    return spacy.load(folder)


def from_bytes(nlp, folder):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def from_pickle(nlp, folder):
    return pickle.loads(pickle.dumps(nlp))


def from_deepcopy(nlp, folder):
    return copy.deepcopy(nlp)


@pytest.mark.parametrize("make", [from_disk, from_bytes, from_pickle, from_deepcopy])
def test_copy_parses_alike_and_learns_by_itself(make, shared, corpora, tmp_path):
    nlp = spacy.load(shared, config=UNSURE)
    again = make(nlp, tmp_path)
    assert again.config["components"] == nlp.config["components"]
    assert again.pipe_labels == nlp.pipe_labels
    before = weights(nlp), parses_of(nlp)
    assert (weights(again), parses_of(again)) == before
    for doc, same in zip(nlp.pipe(TEXTS), again.pipe(TEXTS), strict=True):
        for sentence, other in zip(doc.sents, same.sents, strict=True):
            assert sentence._.parse_entropy == pytest.approx(other._.parse_entropy, abs=1e-6)
            assert len(sentence._.parses) == len(other._.parses)
    optimizer = again.resume_training()
    optimizer.learn_rate = 0.1
    docs = read_docs(corpora / "train.spacy", again.vocab)[:30]
    again.update(gold_examples(docs, again), sgd=optimizer)
    assert weights(again) != before[0]
    assert (weights(nlp), parses_of(nlp)) == before
