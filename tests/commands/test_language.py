"""What spaCy's `Language` does with a pipeline, as users of `parser` know it."""

import copy
import gc
import json
import pickle
import subprocess
import sys

import pytest
import spacy
from commandline import TOK2VEC, read_docs
from parsers import SMALL_MODEL, arcs_of, gold_examples, update
from spacy.tokens import Doc, Span, Token
from spacy.training import Example
from spacy.util import load_config, load_model_from_config

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


@pytest.fixture
def examples(nlp, corpora):
    return gold_examples(read_docs(corpora / "train.spacy", nlp.vocab)[:30], nlp)


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


# --- which components run ----------------------------------------------------------------------


def test_disabled_parser_leaves_docs_alone(nlp):
    expected = parses_of(nlp)
    with nlp.select_pipes(disable="root_mst"):
        assert not nlp(TEXTS[0]).has_annotation("HEAD")
    assert parses_of(nlp) == expected
    with nlp.select_pipes(enable=["tok2vec", "root_mst"]):
        assert parses_of(nlp) == expected


def test_renamed_parser_parses_learns_and_is_saved(nlp, examples, tmp_path):
    expected = parses_of(nlp)
    nlp.rename_pipe("root_mst", "trees")
    assert nlp.pipe_names == ["tok2vec", "tagger", "trees"]
    assert parses_of(nlp) == expected
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert parses_of(again) == expected
    losses = again.update(examples, sgd=again.resume_training())
    assert losses["trees"] > 0
    assert parses_of(again) != expected or weights(again, "trees") != weights(nlp, "trees")


def test_two_parsers_in_one_pipeline(corpora, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", name="first", config={"model": SMALL_MODEL})
    second = {"model": {**SMALL_MODEL, "arc_width": 24}, "objective": "perceptron"}
    nlp.add_pipe("root_mst", name="second", config=second)
    examples = gold_examples(read_docs(corpora / "train.spacy", nlp.vocab)[:20], nlp)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(5):
        losses = nlp.update(examples, sgd=optimizer)
    assert set(losses) == {"first", "second"}
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert again.get_pipe("first").settings.objective == "tree_crf"
    assert again.get_pipe("second").settings.objective == "perceptron"
    alone = {}
    for name in ("first", "second"):
        with nlp.select_pipes(enable=name), again.select_pipes(enable=name):
            alone[name] = parses_of(nlp)
            assert parses_of(again) == alone[name]
    assert alone["first"] != alone["second"]
    # The later one has the last word, on the sentences that the first has set.
    doc = again.get_pipe("first")(again.make_doc(TEXTS[0]))
    assert arcs_of(doc) == alone["first"][0]
    assert arcs_of(again.get_pipe("second")(doc)) == arcs_of(again(TEXTS[0]))


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


# --- scores ------------------------------------------------------------------------------------


def parsed(nlp, examples):
    """The same examples, with what the pipeline says of them.

    Of the same Docs, since the tokenizer gives words such as "n't" another norm.
    """
    return [Example(nlp(example.predicted.copy()), example.reference) for example in examples]


def test_scores_hold_all_that_parser_has(nlp, examples):
    parser = spacy.blank("en").add_pipe("parser")
    pipes = nlp.get_pipe("root_mst"), parser
    own, spacys = (pipe.score(parsed(nlp, examples)) for pipe in pipes)
    assert spacys.items() <= own.items()
    weights = spacy.blank("en").get_factory_meta("parser").default_score_weights
    assert weights.keys() <= nlp.get_factory_meta("root_mst").default_score_weights.keys()


# --- copies ------------------------------------------------------------------------------------


def from_disk(nlp, folder):
    nlp.to_disk(folder)
    return spacy.load(folder)


def from_bytes(nlp, folder):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def from_config_file(nlp, folder):
    nlp.config.to_disk(folder / "config.cfg")
    again = load_model_from_config(load_config(folder / "config.cfg"))
    return again.from_bytes(nlp.to_bytes())


def from_pickle(nlp, folder):
    return pickle.loads(pickle.dumps(nlp))


def from_deepcopy(nlp, folder):
    return copy.deepcopy(nlp)


@pytest.mark.parametrize(
    "make", [from_disk, from_bytes, from_config_file, from_pickle, from_deepcopy]
)
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


def test_source_from_shared_vectors_after_replace_listeners(nlp):
    expected = parses_of(nlp)
    nlp.replace_listeners("tok2vec", "root_mst", ["model.tok2vec"])
    assert nlp.get_pipe("tok2vec").listening_components == ["tagger"]
    assert nlp.config["components"]["root_mst"]["model"]["tok2vec"] == TOK2VEC["model"]
    assert parses_of(nlp) == expected
    other = spacy.blank("en")
    other.add_pipe("root_mst", source=nlp)
    assert parses_of(other) == expected
    # It is a copy: what the shared vectors learn from now on does not reach it.
    before = weights(nlp)
    for node in nlp.get_pipe("tok2vec").model.walk():
        for name in node.param_names:
            if node.has_param(name):
                node.set_param(name, node.get_param(name) * 0)
    assert weights(nlp) == before
    assert parses_of(nlp) == expected


# --- training ----------------------------------------------------------------------------------


def test_update_by_nlp_trains_the_shared_vectors_too(nlp, examples):
    before = weights(nlp, "tok2vec"), weights(nlp), weights(nlp, "tagger")
    losses = update(nlp, examples, nlp.resume_training(), exclude=["tagger"])
    assert losses["root_mst"] > 0
    after = weights(nlp, "tok2vec"), weights(nlp), weights(nlp, "tagger")
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, False, True]
