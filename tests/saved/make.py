"""Save the component that later versions must be able to load: `python tests/saved/make.py`.

Run it when the format of saved components changes, and keep the files of earlier formats.
"""

import json
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

from spacy_rootmind import configure
from spacy_rootmind.pipeline.serialization import FORMAT

MODEL = {
    "@architectures": "spacy_rootmind.BiaffineParser.v1",
    "qrnn_width": 3,
    "arc_width": 3,
    "label_width": 2,
    "refinements": 1,
    "dropout": 0.1,
    "boundary_width": 2,
    "null_label": True,
    "tok2vec": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 4,
        "depth": 1,
        "embed_size": 20,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": False,
    },
    "features": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 2,
        "attrs": ["SHAPE"],
        "rows": [5],
        "include_static_vectors": False,
    },
}
SENTENCES = [
    ("the cat saw a dog .", [1, 2, 2, 4, 2, 2], ["det", "nsubj", "root", "det", "obj", "punct"]),
    ("she gave him a book", [1, 1, 1, 4, 1], ["nsubj", "root", "iobj", "det", "obj"]),
    ("dogs bark .", [1, 1, 1], ["nsubj", "root", "punct"]),
]


def example(vocab):
    """A training example of all sentences."""
    words, heads, deps, starts = [], [], [], []
    for text, own_heads, own_deps in SENTENCES:
        heads += [len(words) + head for head in own_heads]
        starts += [True, *[False] * (len(own_heads) - 1)]
        words += text.split()
        deps += own_deps
    gold = Doc(vocab, words=words, heads=heads, deps=deps, sent_starts=starts)
    return Example(Doc(vocab, words=words), gold)


def parse(nlp, words):
    """Heads, labels and probabilities of words, as they are kept next to the component."""
    configure(nlp, confidence=True)
    doc = nlp(Doc(nlp.vocab, words=words))
    return {
        "words": words,
        "heads": [token.head.i for token in doc],
        "deps": [token.dep_ for token in doc],
        "probs": [token._.head_prob for token in doc],
    }


def main():
    """Train on three sentences, and write config, component and parses."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("root_mst", config={"model": MODEL})
    own = [example(nlp.vocab)]
    optimizer = nlp.initialize(lambda: own)
    optimizer.learn_rate = 0.05
    for _ in range(60):
        nlp.update(own, sgd=optimizer)
    nlp.get_pipe("root_mst").fit_temperature(own)
    folder = Path(__file__).parent / f"format-{FORMAT}"
    nlp.config.to_disk(folder.with_suffix(".cfg"))
    nlp.get_pipe("root_mst").to_disk(folder, exclude=["vocab"])
    words = [token.text for token in own[0].reference]
    parses = [parse(nlp, words), parse(nlp, ["a", "book", "saw", "an", "elk", "."])]
    folder.with_suffix(".json").write_text(json.dumps(parses) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
