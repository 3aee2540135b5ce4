"""Measure the memory of a process that parses and learns: `python leak.py KIND N_BLOCKS SIZE`.

KIND is `docs` or `updates`, and SIZE their number per block. Prints the bytes that malloc has given
out after each block, as JSON. `--leak BYTES` keeps that much of each Doc or update on purpose.
"""

import argparse
import ctypes
import gc
import json
import sys
from array import array
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import spacy
from parsers import assign, gold_examples, kbest, make_nlp, sample, train
from spacy.tokens import Doc

LIBC = ctypes.CDLL(None)
HEADS = [1, 2, 2, 4, 2]
DEPS = ["det", "nsubj", "ROOT", "det", "obj"]
ANIMALS = ["cat", "dog", "girl", "farmer", "letter", "window", "guest", "child"]
WORDS = [["The", a, "saw", "a", b] for a in ANIMALS for b in ANIMALS]
TEXTS = [" ".join(words) for words in WORDS]
MAKERS = [kbest(4), sample(4)]


class Mallinfo(ctypes.Structure):
    """The structure that `mallinfo2` returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def measure():
    """Return the bytes that malloc has given out."""
    gc.collect()
    # Up to 4096 names of attributes, which NumPy makes each time that it looks up a method.
    sys._clear_type_cache()
    LIBC.mallinfo2.restype = Mallinfo
    info = LIBC.mallinfo2()
    return info.uordblks + info.hblkhd


def examples():
    vocab = spacy.blank("en").vocab
    return [Doc(vocab, words=words, heads=HEADS, deps=DEPS) for words in WORDS]


def parse_block(nlp, size):
    """Parse as many texts, a third of them with each kind of alternatives, and read all of it."""
    parser = nlp.get_pipe("root_mst")
    for i, maker in enumerate(MAKERS):
        assign(parser, **maker)
        for doc in nlp.pipe(islice(cycle(TEXTS), size // 3 + (i < size % 3))):
            for sentence in doc.sents:
                [parse.to_doc() for parse in sentence._.parses]
                assert sentence._.parse_entropy is not None
            assert doc[0]._.head_prob is not None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind", choices=["docs", "updates"])
    arguments.add_argument("n_blocks", type=int)
    arguments.add_argument("size", type=int)
    arguments.add_argument("--leak", type=int, default=0)
    options = arguments.parse_args()
    nlp = make_nlp(confidence=True, arc_threshold=0.1)
    gold = gold_examples(examples(), nlp)
    train(nlp, gold, steps=4)
    optimizer = nlp.resume_training()
    batches = cycle([gold[i : i + 4] for i in range(0, len(gold), 4)])
    kept = []

    def run_block():
        if options.kind == "docs":
            parse_block(nlp, options.size)
        else:
            for batch in islice(batches, options.size):
                nlp.update(batch, sgd=optimizer)
        kept.extend(
            bytes([i % 256]) * options.leak for i in range(options.size * (options.leak > 0))
        )

    # Caches are filled, and memory for one block is there.
    for _ in range(3):
        run_block()
    # Made before, so that the measurements themselves take no memory.
    in_use = array("q", [0] * (options.n_blocks + 1))
    for i in range(options.n_blocks + 1):
        run_block()
        in_use[i] = measure()
    print(json.dumps(list(in_use)))


if __name__ == "__main__":
    main()
