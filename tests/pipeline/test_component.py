"""The component as users meet it: training, parsing, odd Docs, odd training data."""

import numpy as np
import pytest
from parsers import (
    SMALL_MODEL,
    arcs_of,
    assert_parsed,
    assign,
    gold_examples,
    initialized,
    make_nlp,
    multi_hash,
    train,
)
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import SGD

from spacy_rootmind.training.objective import OBJECTIVES

SENTENCE = {
    "words": ["She", "saw", "the", "cat", "."],
    "heads": [1, 1, 3, 1, 1],
    "deps": ["nsubj", "ROOT", "det", "obj", "punct"],
}


def example_of(nlp, **changed):
    return Example.from_dict(nlp.make_doc("She saw the cat ."), {**SENTENCE, **changed})


# --- learning ----------------------------------------------------------------------------------


def test_training_overfits_the_examples(trained, quickstart_docs):
    scores = trained.evaluate(gold_examples(quickstart_docs[:100], trained))
    assert scores["dep_uas"] > 0.95
    assert scores["dep_las"] > 0.9
    assert scores["root_violations"] == 0.0


# --- labels ------------------------------------------------------------------------------------


def test_labels_come_from_the_data_or_label_data(quickstart_docs):
    nlp, examples = initialized(quickstart_docs[:50])
    pipe = nlp.get_pipe("root_mst")
    assert pipe.labels[0] == "ROOT"
    assert set(pipe.labels) == {token.dep_ for doc in quickstart_docs[:50] for token in doc}
    again = make_nlp()
    again.config["initialize"]["components"] = {"root_mst": {"labels": pipe.label_data}}
    again.initialize(lambda: examples[:1])
    assert again.get_pipe("root_mst").labels == pipe.labels


@pytest.mark.parametrize("root_label", ["root", "sentence"])
def test_labels_take_the_roots_own_label(root_label):
    nlp = make_nlp()
    examples = [example_of(nlp, deps=["nsubj", root_label, "det", "obj", "punct"])]
    train(nlp, examples, steps=5)
    assert nlp.get_pipe("root_mst").root_label == root_label
    doc = nlp("She saw the cat .")
    assert [token.dep_ == root_label for token in doc] == [t.head.i == t.i for t in doc]


def test_labels_of_one_word_sentences_suffice():
    nlp = make_nlp()
    examples = [
        Example.from_dict(nlp.make_doc("Yes"), {"words": ["Yes"], "heads": [0], "deps": ["ROOT"]})
    ]
    train(nlp, examples, steps=3)
    assert_parsed(nlp("Yes it is"))


def test_add_label_before_initialization():
    nlp = make_nlp()
    pipe = nlp.get_pipe("root_mst")
    assert pipe.add_label("rare") == 1
    assert pipe.add_label("rare") == 0
    examples = [example_of(nlp)]
    nlp.initialize(lambda: examples)
    assert "rare" in pipe.labels
    with pytest.raises(ValueError, match="non-empty string"):
        pipe.add_label("")


@pytest.mark.parametrize(
    "model",
    [
        SMALL_MODEL,
        {**SMALL_MODEL, "null_label": True, "label_rank": 4},
        {"@architectures": "spacy_rootmind.LinearParser.v1"},
    ],
    ids=["biaffine", "null label and rank", "linear"],
)
def test_a_trained_parser_learns_an_added_label(quickstart_docs, model):
    nlp, examples = initialized([doc.copy() for doc in quickstart_docs[:20]], model=model)
    pipe = nlp.get_pipe("root_mst")

    def train_further():
        optimizer = nlp.resume_training()
        optimizer.learn_rate = 0.01
        for _ in range(20):
            nlp.update(examples, sgd=optimizer)

    def parse(nlp):
        return [arcs_of(nlp(example.predicted.copy())) for example in examples]

    train_further()
    before = parse(nlp)
    assert pipe.add_label("det:new") == 1
    assert parse(nlp) == before
    for example in examples:
        for token in example.reference:
            token.dep_ = "det:new" if token.dep_ == "det" else token.dep_
    train_further()
    scores = nlp.evaluate(examples)["dep_las_per_type"]
    assert scores["det:new"]["f"] > 0.8
    assert scores["nsubj"]["f"] > 0.8
    again = make_nlp(model=model)
    again.get_pipe("root_mst").from_bytes(pipe.to_bytes())
    assert again.get_pipe("root_mst").labels == pipe.labels
    assert parse(again) == parse(nlp)


def test_initialize_again_with_the_same_labels(quickstart_docs):
    nlp = make_nlp()
    examples = gold_examples(quickstart_docs[:50], nlp)
    nlp.initialize(lambda: examples[:5])
    labels = nlp.get_pipe("root_mst").labels
    nlp.initialize(lambda: examples[:5])
    assert nlp.get_pipe("root_mst").labels == labels
    with pytest.raises(ValueError, match="the network has"):
        nlp.initialize(lambda: examples)
    assert nlp.get_pipe("root_mst").labels == labels


# --- odd training data -------------------------------------------------------------------------


def test_initialize_without_heads_or_tokens_says_so():
    nlp = make_nlp()
    bare = [
        Example.from_dict(nlp.make_doc("No tree here"), annotation)
        for annotation in ({}, {"tags": ["A", "B", "C"]})
    ]
    with pytest.raises(ValueError, match="none of the 2 training examples has heads"):
        nlp.initialize(lambda: bare)
    gold = Doc(nlp.vocab, words=["Yes"], heads=[0], deps=["ROOT"])
    with pytest.raises(ValueError, match="none of the 1 training examples has tokens"):
        nlp.initialize(lambda: [Example(nlp.make_doc(""), gold)])
    assert nlp.get_pipe("root_mst").labels == ("ROOT",)


def test_update_takes_partial_and_misaligned_annotation():
    nlp = make_nlp()
    odd = [
        ("She saw the cat .", [1, None, 3, None, None], ["nsubj", None, "det", None, None]),
        ("She saw the cat.", [1, 1, 3, 1], ["nsubj", "ROOT", "det", "obj"]),
        (
            *("She sa w the cat .", [1, 1, 1, 4, 1, 1]),
            ["nsubj", "ROOT", "goeswith", "det", "obj", "punct"],
        ),
    ]
    examples = [example_of(nlp, words=a.split(), heads=b, deps=c) for a, b, c in odd]
    deps = ["nsubj", "ROOT", "det", "ROOT", "punct"]
    two = {"sent_starts": [1, 0, 1, 0, 0], "heads": [1, 1, 3, 3, 3], "deps": deps}
    examples += [example_of(nlp), example_of(nlp, **two)]
    train(nlp, examples, steps=4, size=2)
    assert_parsed(nlp("She saw the cat ."))


@pytest.mark.parametrize("text", ["", " \n "])
def test_update_skips_examples_without_words(text):
    nlp = make_nlp()
    examples = [example_of(nlp)]
    nlp.initialize(lambda: examples)
    empty = Example(nlp.make_doc(text), nlp.make_doc(text))
    assert nlp.update([empty])["root_mst"] == 0.0
    assert nlp.update([empty, *examples])["root_mst"] > 0.0


def test_uninitialized_component_says_so():
    nlp = make_nlp()
    pipe = nlp.get_pipe("root_mst")
    example = example_of(nlp)
    for use, given in (
        (pipe.predict, example.predicted),
        (pipe.update, example),
        (pipe.fit_temperature, example),
    ):
        with pytest.raises(ValueError, match="parser 'root_mst' is not initialized"):
            use([given])


def test_damaged_weights_are_noticed(quickstart_docs):
    nlp, examples = initialized(quickstart_docs[:5])
    parser = nlp.get_pipe("root_mst")
    arcs = parser.model.get_ref("trees").get_ref("arcs")
    arcs.set_param("W", arcs.get_param("W") * np.nan)
    for use in (lambda: nlp("The cat slept ."), lambda: parser.fit_temperature(examples)):
        with pytest.raises(ValueError, match=r"arc scores are not finite"):
            use()
    for objective in OBJECTIVES:
        assign(parser, objective=objective)
        with pytest.raises(ValueError, match=r"arc scores are not finite"):
            nlp.update(examples)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("grad_factor", float("inf")),
        ("refinements", -1),
        ("arc_width", 0),
        ("label_width", 0),
        ("qrnn_width", -1),
        ("boundary_qrnn_width", -1),
        ("label_rank", 0),
        ("label_rank", 2.0),
        ("arc_widht", 3),
        # Configs let a text pass where a number is expected, if it is one.
        *[("arc_width", "16"), ("refinements", "16"), ("dropout", "0.5"), ("grad_factor", "0.5")],
    ],
)
def test_model_refuses_unknown_options_and_values_out_of_range(option, value):
    with pytest.raises(ValueError, match=option):
        make_nlp(model={**SMALL_MODEL, option: value})


def test_learn_rate_factor_is_that_of_the_layers_above_the_token_vectors(quickstart_docs):
    def steps(factor):
        """Sizes of a first step without momentum, below and above the token vectors."""
        features = multi_hash("LOWER", width=8)
        nlp, examples = initialized(
            quickstart_docs[:20],
            model={**SMALL_MODEL, "features": features},
            learn_rate_factor=factor,
        )
        pipe = nlp.get_pipe("root_mst")
        below = set(map(id, pipe.model.get_ref("tok2vec").walk()))
        before = [
            (id(node) in below, node, name, node.get_param(name).copy())
            for node in pipe.model.walk()
            for name in node.param_names
        ]
        pipe.update(examples, sgd=SGD(0.01))
        sizes = {True: [], False: []}
        for is_below, node, name, value in before:
            sizes[is_below].append(np.abs(node.get_param(name) - value).sum())
        return np.array(sizes[True]), np.array(sizes[False])

    slow, fast = steps(1.0), steps(20.0)
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_allclose(fast[1], 20.0 * slow[1], rtol=1e-2, atol=1e-6)
    assert slow[1].sum() > 0


def with_label(doc, label, i):
    doc = doc.copy()
    doc[i].dep_ = label
    return doc


def test_labels_that_the_network_does_not_score_are_told_of_once(quickstart_docs, caplog):
    nlp = make_nlp()
    train(nlp, gold_examples(quickstart_docs[:20], nlp), steps=2)
    parser = nlp.get_pipe("root_mst")
    before = parser.labels
    words = ["The", "cat", "slept", "."]
    doc = Doc(nlp.vocab, words=words, heads=[1, 2, 2, 2], deps=["det", "nsubj", "root", "punct"])
    root = with_label(doc, "ROOT", 2)

    def told(*docs):
        caplog.clear()
        nlp.update(gold_examples(docs, nlp))
        return [r.getMessage() for r in caplog.records if "not learnt" in r.getMessage()]

    # Labels of roots are not scored at all, in any spelling.
    assert told(doc, root) == []
    [message] = told(with_label(doc, "novel", 0), with_label(doc, "new", 3))
    assert message.startswith("[root_mst] the labels ['new', 'novel'] ")
    assert f"the network scores {len(before) - 1} others" in message
    assert told(with_label(doc, "new", 0)) == []
    [message] = told(with_label(doc, "new", 0), with_label(doc, "another", 0))
    assert "['another']" in message
    assert parser.labels == before


@pytest.mark.parametrize(
    ("heads", "labels", "expected"),
    [
        ([0, 0, 2, 2, 3], "ROOT a ROOT b c", ""),
        ([0, 0, 2, 4, 3], "ROOT a ROOT b c", "2 on cycles"),
        ([0, 0, 2, 2, 3], "ROOT a ROOT ROOT b", "1 between words with the label ROOT"),
        ([0, 0, 2, 3, 3], "ROOT a ROOT top b", "1 of roots without the label ROOT"),
        ([0, 0, 2, 0, 2], "ROOT a ROOT b c", "1 to another sentence"),
    ],
)
def test_arcs_that_cannot_be_learnt_are_told_of(heads, labels, expected, caplog):
    nlp = make_nlp()
    doc = Doc(nlp.vocab, ["a", " ", "b", "c", "d"], heads=heads, deps=labels.split())
    nlp.initialize(lambda: gold_examples([doc], nlp))
    found = [r.getMessage() for r in caplog.records if "cannot be learnt as" in r.getMessage()]
    assert [text.partition("as they are: ")[2] for text in found] == [expected] * bool(expected)


def test_update_without_an_optimizer_takes_no_step(quickstart_docs):
    """spaCy's own components take False for "no step" as well."""
    nlp, examples = initialized(quickstart_docs[:4])
    pipe = nlp.get_pipe("root_mst")
    for sgd in (False, None):
        before = pipe.model.to_bytes()
        assert pipe.update(examples, sgd=sgd)["root_mst"] > 0
        assert pipe.model.to_bytes() == before
        assert np.abs(pipe.model.get_ref("trees").get_grad("root")).max() > 0
        assert nlp.update(examples, sgd=sgd)["root_mst"] > 0


@pytest.mark.parametrize(
    "labels",
    ["nsubj", 3, ["a"], {"labels": ["a"]}, {"root_label": "", "labels": ["a"]}],
)
def test_initialize_refuses_malformed_labels(labels):
    nlp = make_nlp()
    examples = [example_of(nlp)]
    with pytest.raises(ValueError, match="expected labels as written by"):
        nlp.get_pipe("root_mst").initialize(lambda: examples, labels=labels)
