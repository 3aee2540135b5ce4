"""The component `mwt_expander`: training, saving, and the words that it leaves in Docs."""

import json

import numpy as np
import pytest
import spacy
from parsers import COPIES, LISTENER, SMALL_MODEL
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.util import fix_random_seed

from spacy_rootmind import register_extensions
from spacy_rootmind.annotation.words import (
    OUTSIDE,
    Expansion,
    Word,
    get_words,
    read_expansion,
    write_expansions,
)
from spacy_rootmind.formats.conllu import WordNumbers, write_conllu
from spacy_rootmind.formats.jsonl import write_jsonl
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.multiword.expander import cross_entropy, score_words

DU = Expansion(
    0,
    (
        Word("de"),
        Word("le", "le", "DET", "", "Definite=Def", "det", OUTSIDE),
    ),
)
# "des" is an article after a verb, and "de les" after a noun.
DES = Expansion(0, (Word("de"), Word("les", "le", "DET", "", "Definite=Def", "det", OUTSIDE)))
NOUNS = ("chat", "chien", "lit", "roi")
VERBS = ("voit", "veut", "prend", "perd")
MODEL = {"@architectures": "spacy_rootmind.ScriptScorer.v1", "tok2vec": SMALL_MODEL["tok2vec"]}


def make_doc(nlp, words, expansions):
    doc = Doc(nlp.vocab, words=words)
    write_expansions(doc, expansions)
    return doc


def references(nlp):
    docs = []
    for noun in NOUNS:
        docs.append(make_doc(nlp, ["le", noun, "du", "roi"], {2: DU}))
        docs.append(make_doc(nlp, ["le", noun, "des", "rois"], {2: DES}))
    docs += [make_doc(nlp, ["il", verb, "des", "rois"], {}) for verb in VERBS]
    return docs


def examples_of(nlp):
    return [
        Example(Doc(nlp.vocab, words=[token.text for token in doc]), doc) for doc in references(nlp)
    ]


def train(nlp, steps=60):
    fix_random_seed(0)
    examples = examples_of(nlp)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(steps):
        losses = nlp.update(examples, sgd=optimizer)
    return losses


@pytest.fixture(scope="module")
def trained():
    nlp = spacy.blank("fr")
    nlp.add_pipe("mwt_expander", config={"model": MODEL})
    train(nlp)
    return nlp


def forms(doc):
    return [[word.form for word in token._.words] for token in doc]


def test_context_decides(trained):
    scores = trained.evaluate(examples_of(trained))
    assert scores["mwt_f"] == scores["mwt_p"] == scores["mwt_r"] == 1.0
    doc = trained("Le chat du roi")
    assert doc.text == "Le chat du roi"
    assert forms(doc) == [[], [], ["de", "le"], []]
    assert forms(trained("le chat des rois"))[2] == ["de", "les"]
    assert forms(trained("il perd des rois"))[2] == []
    assert forms(trained("")) == []
    assert forms(trained("LE CHAT DU ROI"))[2] == ["DE", "LE"]


def test_earlier_words_are_replaced(trained):
    doc = make_doc(trained, ["il", "perd", "des", "rois"], {2: DES, 3: DU})
    assert forms(trained(doc)) == [[], [], [], []]


def test_saved_pipelines_do_the_same(trained, tmp_path):
    texts = ["le chat des rois", "il perd des rois", "le lit du roi"]
    expected = [forms(trained(text)) for text in texts]
    trained.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    sourced = spacy.blank("fr")
    sourced.add_pipe("mwt_expander", source=trained)
    for nlp in (again, sourced):
        assert [forms(doc) for doc in nlp.pipe(texts)] == expected
        assert [forms(doc) for doc in nlp.pipe(texts, batch_size=1)] == expected
    assert [forms(doc) for doc in again.pipe(texts, n_process=2)] == expected


def test_the_prior_alone_decides_at_first():
    """The token "des" is expanded in four of eight places."""
    nlp = spacy.blank("fr")
    expander = nlp.add_pipe("mwt_expander", config={"model": MODEL})
    expander.initialize(lambda: examples_of(nlp), nlp=nlp)
    assert forms(nlp("le chat du roi"))[2] == ["de", "le"]


def test_it_learns_with_others_over_shared_vectors():
    nlp = spacy.blank("fr")
    nlp.add_pipe("tok2vec", config={"model": SMALL_MODEL["tok2vec"]})
    model = {**MODEL, "tok2vec": LISTENER}
    nlp.add_pipe("mwt_expander", config={"model": model})
    before = train(nlp, 1)["mwt_expander"]
    assert train(nlp, 60)["mwt_expander"] < 0.1 * before
    with nlp.select_pipes(disable=["mwt_expander"]):
        assert forms(nlp("le chat du roi"))[2] == []
    assert forms(nlp("le chat du roi"))[2] == ["de", "le"]


def test_others_learn_from_batches_without_multiword_tokens():
    """spaCy updates a shared tok2vec when the last of its listeners has a gradient."""
    nlp = spacy.blank("fr")
    tok2vec = nlp.add_pipe("tok2vec", config={"model": SMALL_MODEL["tok2vec"]})
    tagger = {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": LISTENER}
    nlp.add_pipe("tagger", config={"model": tagger})
    nlp.add_pipe("mwt_expander", config={"model": {**MODEL, "tok2vec": LISTENER}})
    doc = Doc(nlp.vocab, words=["le", "chat"], tags=["A", "B"])
    examples = [Example(nlp.make_doc("le chat"), doc)]
    optimizer = nlp.initialize(lambda: [*examples_of(nlp), *examples])
    before = tok2vec.model.to_bytes()
    # The tagger's weights are zero at first.
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    assert tok2vec.model.to_bytes() != before


def test_without_multiword_tokens_nothing_is_learnt(caplog):
    nlp = spacy.blank("fr")
    expander = nlp.add_pipe("mwt_expander", config={"model": MODEL})
    examples = [Example(nlp.make_doc("le chat"), Doc(nlp.vocab, words=["le", "chat"]))]
    optimizer = nlp.initialize(lambda: examples)
    assert "no words of multiword tokens in the examples" in caplog.text
    assert nlp.update(examples, sgd=optimizer) == {"mwt_expander": 0.0}
    assert expander.labels == ()
    assert forms(nlp("du chat")) == [[], []]
    assert nlp.evaluate(examples)["mwt_f"] is None


def test_loss_has_the_gradient_of_its_scores(trained):
    expander = trained.get_pipe("mwt_expander")
    targets = [one for example in examples_of(trained) for one in expander._targets(example)]
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(len(targets), len(expander.labels) + 1))
    loss, gradient = cross_entropy(scores, targets)
    assert loss > 0
    for _ in range(10):
        move = rng.normal(size=scores.shape)
        ahead, behind = (cross_entropy(scores + s * 1e-5 * move, targets)[0] for s in (1, -1))
        assert (gradient * move).sum() == pytest.approx((ahead - behind) / 2e-5, abs=1e-4)


def test_tokens_that_are_split_otherwise_teach_nothing(trained):
    expander = trained.get_pipe("mwt_expander")
    reference = make_doc(trained, ["chat", "du", "roi"], {1: DU})
    predicted = Doc(
        trained.vocab, words=["chat", "d", "u", "roi"], spaces=[True, False, True, True]
    )
    assert expander._targets(Example(predicted, reference)) == []


# Words in Docs


def parsed(nlp):
    """The subtree "parle du chat": the article hangs from the noun as well."""
    return Doc(
        nlp.vocab,
        words=["parle", "du", "chat"],
        heads=[0, 2, 0],
        deps=["ROOT", "case", "obl"],
        pos=["VERB", "ADP", "NOUN"],
        lemmas=["parler", "de", "chat"],
    )


def test_words_have_the_parse_of_their_token():
    doc = parsed(spacy.blank("fr"))
    register_extensions()
    write_expansions(doc, {1: DU})
    de, le = doc[1]._.words
    assert (de.form, de.lemma, de.pos, de.dep, de.head, de.head_place) == (
        *("de", "de", "ADP", "case"),
        *(doc[2], 0),
    )
    assert (le.form, le.lemma, le.pos, le.morph, le.dep, le.head, le.head_place) == (
        *("le", "le", "DET", "Definite=Def", "det"),
        *(doc[2], 0),
    )
    # A head that is a multiword token: its topmost word.
    noun = Expansion(1, (Word("a", dep="x", head=1), Word("b")))
    write_expansions(doc, {1: DU, 2: noun})
    assert doc[1]._.words[0][-2:] == (doc[2], 1)
    assert doc[2]._.words[0][-2:] == (doc[2], 1)
    # The root's: its words hang from its topmost one.
    write_expansions(doc, {0: Expansion(1, (Word("a", dep="x"), Word("b")))})
    assert [word[-2:] for word in doc[0]._.words] == [(doc[0], 1)] * 2


def test_words_stay_with_their_tokens():
    nlp = spacy.blank("fr")
    doc = parsed(nlp)
    write_expansions(doc, {1: DU})
    for other, place in (
        *((copy(doc), 1) for copy in COPIES.values()),
        (Doc.from_docs([doc, doc]), 4),
        (doc[1:].as_doc(copy_user_data=True), 0),
    ):
        assert read_expansion(other[place]) == DU, place
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
    assert read_expansion(doc[1]) is None
    assert get_words(doc[1]) == ()


def test_words_are_written():
    """With the alternatives, whose heads are numbered as words are."""
    doc = parsed(spacy.blank("fr"))
    write_expansions(doc, {1: DU})
    record = InputRecord("a", 1, text=doc.text)
    rows = [line.split("\t") for line in write_conllu(doc, record).decode().splitlines()]
    assert [row[:2] + row[6:8] for row in rows if len(row) > 1] == [
        ["1", "parle", "0", "root"],
        ["2-3", "du", "_", "_"],
        ["2", "de", "4", "case"],
        ["3", "le", "4", "det"],
        ["4", "chat", "1", "obl"],
    ]
    numbers = WordNumbers([None, DU, None])
    assert numbers.expand([2, 0, 2], ["x", "ROOT", "y"]) == [
        *((2, "x"), (0, "ROOT"), (2, "det")),
        (2, "y"),
    ]
    [written] = map(json.loads, write_jsonl(doc, record).splitlines())
    assert [token.get("words") for token in written["tokens"]] == [
        None,
        [{**word._asdict(), "head": 2} for word in get_words(doc[1])],
        None,
    ]


DAMAGED = {
    "no list": 5,
    "too short": ["du"],
    "one word": ["du", 0, [["de"]]],
    "no lists of words": ["du", 0, [1, 2]],
    "another form": ["du", 0, [["de"], [1]]],
    "an empty word": ["du", 0, [["de"], [""]]],
    "no topmost word": ["du", 7, [["de"], ["le"]]],
    "a topmost word with a head inside": ["du", 1, [["de"], ["le", *[""] * 5, 0]]],
    "a head behind the end": ["du", 0, [["de"], ["le", *[""] * 5, 9]]],
    "a cycle": ["du", 0, [["de"], ["a", *[""] * 5, 2], ["b", *[""] * 5, 1]]],
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_damaged_words_are_refused(damaged, trained):
    doc = parsed(spacy.blank("fr"))
    write_expansions(doc, {1: DU})
    [key] = doc.user_data
    doc.user_data[key] = damaged
    message = "stored for token 1, 'du', of 'parle du chat ' are damaged: "
    for read in (
        lambda: get_words(doc[1]),
        lambda: write_conllu(doc, InputRecord("a", 1, text=doc.text)),
        lambda: trained.get_pipe("mwt_expander").initialize(
            lambda: [Example(Doc(doc.vocab, words=["parle", "du", "chat"]), doc)]
        ),
    ):
        with pytest.raises(ValueError, match=message):
            read()


def test_a_taken_name_is_refused():
    Token.remove_extension("words")
    Token.set_extension("words", default=1)
    try:
        with pytest.raises(ValueError, match=r"Token\._\.words to be free"):
            register_extensions()
    finally:
        Token.remove_extension("words")
        register_extensions()


def test_scores_count_forms_at_their_places():
    nlp = spacy.blank("fr")
    reference = make_doc(nlp, ["du", "du", "des"], {0: DU, 1: DU, 2: DES})
    predicted = make_doc(nlp, ["du", "du", "des"], {0: DU, 2: DU})
    scores = score_words([Example(predicted, reference)])
    of_multiword = {"mwt_p": 0.5, "mwt_r": 1 / 3, "mwt_f": 0.4}
    assert scores == pytest.approx({"mwt_acc": 1 / 3, **of_multiword})


def test_tokens_of_other_lengths_are_no_worse_than_wrong():
    nlp = spacy.blank("fr")
    reference = Doc(nlp.vocab, ["dududu"], [False])
    predicted = make_doc(nlp, ["du", "du", "du"], {0: DU, 1: DU, 2: DU})
    assert score_words([Example(predicted, reference)])["mwt_acc"] == 0.0


def test_a_few_multiword_tokens_do_not_decide_which_pipeline_is_the_best():
    nlp = spacy.blank("fr")
    words = ["du", *["lait"] * 99]
    reference, predicted = (make_doc(nlp, words, own) for own in ({0: DU}, {}))
    scores = score_words([Example(predicted, reference)])
    weights = nlp.get_factory_meta("mwt_expander").default_score_weights
    assert sum(weight * scores[name] for name, weight in weights.items() if weight) == 0.99
