"""UD's guidelines: against the official validator, and trees found under them by enumeration."""

import itertools
from collections import Counter

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab
from strategies import rng_for
from ud_sentences import (
    LABELS,
    RULES,
    as_lines,
    as_rules,
    find_errors,
    is_tag_rule,
    marked_sentence,
    random_sentence,
    rule_of,
    trees_of,
    validate,
)

from spacy_rootmind import decode
from spacy_rootmind.guidelines.rules import TAG_RULES, LabelTables
from spacy_rootmind.guidelines.ud import make_rules, ud_guidelines
from spacy_rootmind.guidelines.words import TAGS, read_words


def change(rng, sentence):
    """Give the words of a sentence other heads and labels."""
    heads, labels, *_ = random_sentence(rng, len(sentence[0]) - 1)
    marks = sentence[2] == TAGS.index("PUNCT")
    free = (rng.random(len(heads)) < 0.6) & ~marks
    labels = np.where((labels > 0) & free, LABELS.index("dep"), labels)
    return heads, np.where((labels > 0) & marks, LABELS.index("punct"), labels), *sentence[2:]


def test_as_the_validator():
    rng = rng_for("guidelines")
    sentences = [random_sentence(rng, int(rng.integers(1, 9))) for _ in range(2200)]
    sentences += [marked_sentence(rng, int(rng.integers(4, 13))) for _ in range(300)]
    lines = [as_lines(number, *one) for number, one in enumerate(sentences)]
    reported = {}
    for line, name in validate("\n".join(itertools.chain(*lines))):
        reported.setdefault(line, set()).add(rule_of(name))
    found = find_errors(as_rules(sentences), range(len(sentences)), *trees_of(sentences))
    first, seen = 2, Counter()
    for own, errors in zip(lines, found, strict=True):
        words = range(1, len(own) - 2)
        expected = {(word, rule) for word in words for rule in reported.get(first + word, ())}
        assert errors == expected, "\n".join(own)
        seen.update({rule for _, rule in errors} or [0])
        first += len(own)
    assert seen.keys() == {*RULES.values(), 0}
    assert min(seen.values()) > 10


ADVMOD = {number for number, label in enumerate(LABELS) if label.startswith("advmod")}


def test_the_mask_rules_out_what_single_arcs_break():
    rng = rng_for("guidelines", "mask")
    sentences = [random_sentence(rng, int(rng.integers(1, 9))) for _ in range(500)]
    rules, (heads, labels) = as_rules(sentences), trees_of(sentences)
    alone = {rule_of("right-to-left-"), rule_of("goeswith-nospace")}
    n_masked = 0
    for i, own in enumerate(find_errors(rules, range(len(sentences)), heads, labels)):
        if rules.mask(i)[np.arange(1, len(heads[i])), heads[i][1:], labels[i][1:]].all():
            assert not alone & {rule for _, rule in own}
            assert all(labels[i][word] in ADVMOD for word, rule in own if rule == TAG_RULES)
        else:
            n_masked += 1
            assert own
    assert 150 < n_masked < 500


def meets(conflict, heads, labels):
    return all(
        (some_heads[heads[word]] and some_labels[labels[word]]) == holds
        for word, some_heads, some_labels, holds in conflict
    )


@pytest.mark.parametrize("kind", ["random", "marked"])
def test_trees_with_errors_meet_conflicts_and_no_valid_tree_does(kind):
    rng = rng_for("guidelines", "conflicts", kind)
    make = {"random": random_sentence, "marked": marked_sentence}[kind]
    n_valid = n_conflicts = 0
    for _ in range(12):
        sentence = make(rng, int(rng.integers(3, 6)))
        trees = trees_of([change(rng, sentence) for _ in range(150)])
        rules, numbers = as_rules([sentence]), [0] * 150
        errors = find_errors(rules, numbers, *trees)
        conflicts = [list(rules.find_conflicts(0, *tree)) for tree in zip(*trees, strict=True)]
        assert [bool(own) for own in errors] == [bool(own) for own in conflicts]
        valid = [tree for *tree, own in zip(*trees, errors, strict=True) if not own]
        for heads, labels, own in zip(*trees, conflicts, strict=True):
            for conflict in own:
                assert meets(conflict, heads, labels)
                assert not any(meets(conflict, *tree) for tree in valid)
        mask = rules.mask(0)
        for heads, labels in valid:
            assert mask[np.arange(1, len(heads)), heads[1:], labels[1:]].all()
        n_valid += len(valid)
        n_conflicts += sum(map(len, conflicts))
    assert n_valid > 50
    assert n_conflicts > 1000


def test_safe_arcs_break_no_rule_in_projective_trees():
    rng, tables = rng_for("guidelines", "safe"), LabelTables(LABELS)
    for _ in range(100):
        n = int(rng.integers(1, 9))
        sentence = (random_sentence if rng.random() < 0.5 else marked_sentence)(rng, n)
        rules = as_rules([sentence], tables)
        log_weights = np.where(
            rules.safe(0) & rules.mask(0), rng.normal(size=(n + 1, 1, 1)), -np.inf
        )
        log_weights += rng.normal(size=log_weights.shape)
        heads = decode(log_weights.max(axis=2), projective=True)
        labels = log_weights[np.arange(n + 1), heads].argmax(axis=1)
        labels[0] = -1
        assert find_errors(rules, [0], [heads], [labels]) == [set()]


# --- labels and words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["ROOT", "dobj", "punct", "dep"], "received dobj: set guidelines to null"),
        (["ROOT", "root", "punct", "dep"], "received root"),
    ],
)
def test_labels_that_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        LabelTables(labels)


@pytest.mark.parametrize("labels", [("ROOT", "nsubj", "dep"), ("ROOT", "nsubj", "punct")])
def test_too_few_labels_are_refused(labels):
    with pytest.raises(ValueError, match=r"expected 'punct' and one of acl, .* every sentence"):
        ud_guidelines(fixed_tags=True)(labels)


def test_free_tags_need_no_label_of_punctuation():
    """As of treebanks without punctuation: a sentence of nothing else has a valid tree as well."""
    doc = Doc(Vocab(), words=[".", "!"], pos=["PUNCT", "PUNCT"])
    rules = make_rules(LabelTables(["ROOT", "nsubj", "dep"]), False, [(doc, np.arange(2))])
    assert rules.safe(0)[2, 1, 2]


def test_words_are_read_from_docs():
    doc = Doc(
        Vocab(),
        words=["Not", "a", "\n", "can", "not", "mine", "x"],
        spaces=[True, False, False, False, True, True, False],
        pos=["PART", "DET", "SPACE", "NOUN", "ADV", "PRON", ""],
        morphs=["Polarity=Neg", "ExtPos=PRON", "", "Polarity=Neg", "Polarity=Neg", "Poss=Yes", ""],
    )
    words = read_words([(doc, np.array([0, 1, 3])), (doc, np.array([4, 5, 6]))])
    tags, external, *features = words
    assert [TAGS[tag] for tag in tags] == ["", "PART", "DET", "NOUN", "", "ADV", "PRON", ""]
    assert TAGS[external[2]] == "PRON"
    assert np.delete(external, 2).tolist() == np.delete(tags, 2).tolist()
    # Negative, possessive, with a space after: a token of whitespace is after the second word.
    assert [row.nonzero()[0].tolist() for row in features] == [[1, 5], [6], [1, 2, 5, 6]]


def test_external_parts_of_speech_may_be_several():
    """As by the validator, which compares the beginning of ExtPos for these relations."""
    relations = ["det", "advmod", "aux", "cop", "case", "mark", "cc"]
    # Punctuation, which it compares as a whole, has another rule.
    cases = list(itertools.product(relations, [tag for tag in TAGS[1:-1] if tag != "PUNCT"]))
    heads, tags, spaces = np.array([-1, 0, 1]), np.full(3, TAGS.index("VERB")), [True] * 3
    lines, found = [], set()
    for number, (relation, first) in enumerate(cases):
        labels = np.array([-1, 0, LABELS.index(relation)])
        feats = [{}, {}, {"ExtPos": f"{first},X"}]
        lines += as_lines(number, heads, labels, tags, feats, spaces)
        morphs = ["", f"ExtPos={first},X"]
        doc = Doc(Vocab(), words=["w", "w"], pos=["VERB", "VERB"], morphs=morphs)
        rules = make_rules(LabelTables(LABELS), True, [(doc, np.arange(2))])
        if (2, TAG_RULES) in find_errors(rules, [0], [heads], [labels])[0]:
            found.add((5 * number + 4, relation))
    reported = {line for line, name in validate("\n".join(lines)) if is_tag_rule(name)}
    assert {line for line, _ in found} == reported
    assert {relation for _, relation in found} == set(relations)


def test_tags_that_may_be_wrong_rule_nothing_out():
    doc = Doc(Vocab(), words=["a", "b", "."], pos=["NOUN", "VERB", "PUNCT"])
    det, aux, punct = (LABELS.index(label) for label in ("det", "aux:pass", "punct"))
    tables, sentences = LabelTables(LABELS), [(doc, np.arange(3))]
    fixed, free = (make_rules(tables, fixed_tags, sentences) for fixed_tags in (True, False))
    assert free.mask(0)[1, 2, [det, aux]].all()
    assert free.mask(0)[1, 2, punct]
    assert free.mask(0)[3, 2, det]
    assert not fixed.mask(0)[1, 2, [det, aux, punct]].any()
    assert fixed.mask(0)[3, 2].nonzero()[0].tolist() == [punct]
