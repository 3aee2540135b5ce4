"""Random sentences with trees, all that UD's rules read of them, and the official validator."""

import io

import numpy as np
import pytest
from reference import random_heads

from spacy_rootmind.formats.conllu import write_conllu
from spacy_rootmind.formats.records import InputRecord
from spacy_rootmind.guidelines.rules import TAG_RULES, LabelTables
from spacy_rootmind.guidelines.ud import UDRules
from spacy_rootmind.guidelines.words import TAGS
from spacy_rootmind.kernel import ud_rules as kernel

# Relations of which rules speak, with subtypes, and some others.
RELATIONS = (
    "acl advcl:relcl advmod advmod:emph amod appos aux aux:pass case cc cc:preconj ccomp clf "
    "compound conj cop csubj csubj:outer dep det det:poss discourse expl expl:pv fixed flat "
    "flat:foreign goeswith iobj mark nmod nmod:poss nsubj nsubj:outer nsubj:pass nummod obj obl "
    "obl:arg orphan parataxis punct reparandum vocative dislocated xcomp"
)
LABELS = ["ROOT", *RELATIONS.split()]
NAMES = [label.partition(":")[0] for label in LABELS]


def random_sentence(rng, n):
    """Words with all that rules read; some have parts of speech that fit their labels."""
    heads = random_heads(rng, n, True)
    if rng.random() < 0.5:
        heads = neighbours(rng, n)
    chosen = rng.choice(len(LABELS) - 1, int(rng.integers(2, 7)), replace=False) + 1
    labels = np.array([-1, *rng.choice(chosen, n)])
    labels[heads == 0] = 0
    tags = rng.integers(1, len(TAGS), n + 1)
    for word in range(1, n + 1):
        if NAMES[labels[word]] == "punct" or rng.random() < 0.3:
            fitting = FITTING.get(NAMES[labels[word]], "NOUN PRON PROPN VERB PUNCT")
            tags[word] = TAGS.index(rng.choice(fitting.split()))
    feats = [{} for _ in range(n + 1)]
    for each in feats:
        if rng.random() < 0.1:
            each["ExtPos"] = rng.choice([*TAGS[1:], "SCONJ", "ADV"])
        if rng.random() < 0.2:
            each["Polarity"] = rng.choice(["Neg", "Pos"])
        if rng.random() < 0.2:
            each["Poss"] = "Yes"
    return heads, labels, tags, feats, rng.random(n + 1) < 0.6


def marked_sentence(rng, n):
    """Words half of which are punctuation."""
    heads = random_heads(rng, n, True) if rng.random() < 0.8 else neighbours(rng, n)
    marks = rng.random(n + 1) < 0.5
    labels = np.where(marks, LABELS.index("punct"), LABELS.index("dep"))
    labels[heads == 0], labels[0] = 0, -1
    tags = np.where(marks, TAGS.index("PUNCT"), TAGS.index("NOUN"))
    return heads, labels, tags, [{} for _ in marks], np.ones(n + 1, dtype=bool)


def trees_of(sentences):
    heads, labels = ([np.asarray(one[i], dtype=np.int32) for one in sentences] for i in (0, 1))
    return heads, labels


FITTING = {"punct": "PUNCT", "advmod": "ADV PART", "det": "DET", "case": "ADP", "aux": "AUX"}


def neighbours(rng, n):
    """Heads that are mostly near, so that runs of words with the same head are frequent."""
    heads = np.full(n + 1, -1)
    root = int(rng.integers(1, n + 1))
    heads[root] = 0
    for word in range(root + 1, n + 1):
        heads[word] = word - 1 if rng.random() < 0.5 else heads[word - 1] or word - 1
    for word in range(root - 1, 0, -1):
        heads[word] = word + 1 if rng.random() < 0.5 else heads[word + 1] or word + 1
    return heads


def as_words(sentences):
    """The arrays that rules read."""
    columns = []
    for _, _, tags, feats, spaces in sentences:
        external = [
            TAGS.index(own["ExtPos"]) if "ExtPos" in own else tag
            for own, tag in zip(feats, tags, strict=True)
        ]
        negative = [
            TAGS[tag] in ("PART", "ADV") and own.get("Polarity") == "Neg"
            for own, tag in zip(feats, tags, strict=True)
        ]
        columns.append(
            (tags, external, negative, [own.get("Poss") == "Yes" for own in feats], spaces)
        )
    return np.concatenate([np.array(own, dtype=np.int8) for own in columns], axis=1)


def as_rules(sentences, tables=None):
    lengths = [len(heads) - 1 for heads, *_ in sentences]
    return UDRules(tables or LabelTables(LABELS), as_words(sentences), lengths)


# The rule of each error, by the start of its name.
RULES = {
    "upos-rel-punct": TAG_RULES,
    "rel-upos-": TAG_RULES,
    "right-to-left-": kernel.LEFTWARD,
    "leaf-": kernel.CHILD,
    "too-many-subjects": kernel.SUBJECTS,
    "too-many-objects": kernel.OBJECTS,
    "goeswith-gap": kernel.GAP_IN_WORD,
    "goeswith-nospace": kernel.UNSPACED_PART,
    "punct-": kernel.CROSSED_PUNCTUATION,
    "obl-should-be-nmod": kernel.OBL_OF_NOMINAL,
}


def rule_of(name):
    return next(rule for start, rule in RULES.items() if name.startswith(start))


def is_tag_rule(name):
    return name.startswith(("rel-upos-", "upos-rel-"))


def find_errors(rules, numbers, heads, labels):
    """The words of each tree at which rules are broken, with the rule."""
    broken, starts = rules.find_broken(numbers, heads, labels)
    return [
        {(word, rule) for rule in RULES.values() for word in np.flatnonzero(own & rule).tolist()}
        for own in np.split(broken, starts[1:])
    ]


def as_lines(number, heads, labels, tags, feats, spaces):
    lines = [f"# sent_id = {number}", "# text = x"]
    for word in range(1, len(heads)):
        own = "|".join(f"{key}={value}" for key, value in sorted(feats[word].items())) or "_"
        label = "root" if labels[word] == 0 else LABELS[labels[word]]
        misc = "_" if spaces[word] else "SpaceAfter=No"
        columns = (word, "w", "w", TAGS[tags[word]], "_", own, heads[word], label, "_", misc)
        lines.append("\t".join(map(str, columns)))
    return [*lines, ""]


def validate(text):
    """Find the errors of syntax at level 3: the number of the line and the name of the test."""
    return {(error.lineno, error.testid) for error in find_incidents(text)}


def syntax_errors(docs):
    """Find the errors of syntax in Docs: the number of the Doc and the name of the test."""
    data = b""
    for number, doc in enumerate(docs):
        data += write_conllu(doc, InputRecord(f"{number}", 1, text=doc.text))
    errors = find_incidents(data.decode())
    return {(int(error.sentid.partition(":")[0]), error.testid) for error in errors}


def find_incidents(text):
    udtools = pytest.importorskip("udtools", reason="needs the validator, `pip install udtools`")
    from udtools.incident import TestClass

    validator = udtools.Validator(lang="ud", level=3, output=None)
    state = validator.validate_file_handle(io.StringIO(text))
    return [
        error
        for error in state.error_tracker
        if error.is_error() and error.level == 3 and error.testclass is TestClass.SYNTAX
    ]
