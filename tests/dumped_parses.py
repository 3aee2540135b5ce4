"""Parses as plain numbers, to compare parses of several processes.

`python dumped_parses.py PIPELINE BATCH_SIZE` parses lists of words, in JSON, from stdin.
"""

import json
import sys

import numpy as np
import spacy
from spacy.tokens import Doc

from spacy_rootmind import configure

# docs/promises.md promises these, for what does not come out the same to the last bit.
PROB_BOUND = 1e-5
LOG_BOUND = 2e-4
# Arcs below it are not listed.
ARC_THRESHOLD = 0.01


def load_with_details(path):
    """Load a pipeline that finds probabilities, arcs and samples."""
    nlp = spacy.load(path)
    configure(nlp, confidence=True, arc_threshold=ARC_THRESHOLD)
    configure(nlp, alternatives="sample", n_alternatives=4)
    return nlp


def read_sentences(path):
    """List the words of each sentence of a CoNLL-U file."""
    with open(path, encoding="utf8") as file:
        blocks = file.read().strip().split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    return [[row[1] for row in own if row[0].isdecimal()] for own in rows]


def parse(nlp, sentences, **options):
    """Parse Docs of the given words, with the options of `nlp.pipe`."""
    docs = [Doc(nlp.vocab, words=words) for words in sentences]
    return [dump(doc) for doc in nlp.pipe(docs, **options)]


def parse_alone(nlp, sentences):
    """Parse each Doc by itself."""
    return [dump(nlp(Doc(nlp.vocab, words=words))) for words in sentences]


def dump(doc):
    """List what a Doc says of its parse."""
    return {
        "heads": [token.head.i for token in doc],
        "deps": [token.dep_ for token in doc],
        "starts": [sentence.start for sentence in doc.sents],
        "head_probs": [token._.head_prob for token in doc],
        "log_probs": [sentence._.parse_log_prob for sentence in doc.sents],
        "entropies": [sentence._.parse_entropy for sentence in doc.sents],
        "arcs": [
            [arc.token.i, arc.head.i, arc.dep, arc.prob]
            for sentence in doc.sents
            for arc in sentence._.arcs
        ],
        "samples": [
            [parse.heads.tolist() for parse in sentence._.parses] for sentence in doc.sents
        ],
    }


def tree_of(dumped):
    """Return boundaries, heads and labels."""
    return dumped["starts"], dumped["heads"], dumped["deps"]


def find_differences(first, second):
    """Find the largest differences of probabilities and of numbers in nats."""
    prob = log = 0.0
    for one, other in zip(first, second, strict=True):
        prob = max(prob, _largest(one["head_probs"], other["head_probs"]))
        for name in ("log_probs", "entropies"):
            log = max(log, _largest(one[name], other[name]))
        arcs, other_arcs = ({tuple(arc[:3]): arc[3] for arc in d["arcs"]} for d in (one, other))
        for arc in arcs.keys() | other_arcs.keys():
            # One that is not listed has a probability below the threshold.
            pair = arcs.get(arc, ARC_THRESHOLD), other_arcs.get(arc, ARC_THRESHOLD)
            prob = max(prob, abs(pair[0] - pair[1]))
    return prob, log


def share_of_other_samples(first, second):
    """Find the share of samples that are other trees."""
    pairs = [
        (tree, other_tree)
        for one, other in zip(first, second, strict=True)
        for own, others in zip(one["samples"], other["samples"], strict=True)
        for tree, other_tree in zip(own, others, strict=True)
    ]
    return sum(tree != other for tree, other in pairs) / len(pairs)


def _largest(first, second):
    return float(np.abs(np.subtract(first, second)).max(initial=0.0))


if __name__ == "__main__":
    pipeline, batch_size = sys.argv[1:]
    found = parse(load_with_details(pipeline), json.load(sys.stdin), batch_size=int(batch_size))
    print(json.dumps(found))
