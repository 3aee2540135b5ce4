"""Small parsers, and Docs and Examples to train and try them on."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.converters import conllu_to_docs
from spacy.util import fix_random_seed

from spacy_rootmind.annotation.sentences import sentences_of
from spacy_rootmind.network.architecture import ParserInput
from spacy_rootmind.network.label_scorer import ChosenArcs, begin_label_scores

SMALL_MODEL = {
    "@architectures": "spacy_rootmind.BiaffineParser.v1",
    "qrnn_width": 24,
    "arc_width": 16,
    "label_width": 8,
    "refinements": 1,
    "dropout": 0.0,
    "tok2vec": {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 32,
        "depth": 1,
        "embed_size": 200,
        "window_size": 1,
        "maxout_pieces": 2,
        "subword_features": True,
    },
}
# Token vectors of a component `tok2vec`, and a parser that reads them.
LISTENER = {
    "@architectures": "spacy.Tok2VecListener.v1",
    "width": SMALL_MODEL["tok2vec"]["width"],
    "upstream": "*",
}
LISTENING = {**SMALL_MODEL, "tok2vec": LISTENER}

# Ways to copy a Doc with its user data.
COPIES = {
    "copy": lambda doc: doc.copy(),
    "bytes": lambda doc: Doc(doc.vocab).from_bytes(doc.to_bytes()),
    "bin": lambda doc: next(
        DocBin().from_bytes(DocBin(store_user_data=True, docs=[doc]).to_bytes()).get_docs(doc.vocab)
    ),
    "joined": lambda doc: Doc.from_docs([doc, Doc(doc.vocab, ["x"], heads=[0], deps=["ROOT"])]),
    "whole": lambda doc: doc[:].as_doc(copy_user_data=True),
}


def multi_hash(*attrs, width=16, rows=100, include_static_vectors=False):
    """The config of embeddings of attributes."""
    return {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": width,
        "attrs": list(attrs),
        "rows": [rows] * len(attrs),
        "include_static_vectors": include_static_vectors,
    }


def tok2vec_of(embed):
    """The config of token vectors from embeddings, by one layer."""
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": embed["width"],
        "depth": 1,
        "window_size": 1,
        "maxout_pieces": 2,
    }
    return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}


def read_conllu(path, vocab, limit=None, step=1):
    """Read a CoNLL-U file, or every `step`-th sentence of it, to Docs of one sentence each."""
    blocks = Path(path).read_text(encoding="utf8").strip().split("\n\n")[::step][:limit]
    docs = conllu_to_docs("\n\n".join([*blocks, ""]), n_sents=1, no_print=True)
    # Their vocab is another one.
    return list(DocBin(docs=docs).get_docs(vocab))


def kbest(k):
    """Settings for the k best trees as alternatives."""
    return {"alternatives": "kbest", "n_alternatives": k}


def sample(k, seed=0):
    """Settings for k samples as alternatives."""
    return {"alternatives": "sample", "n_alternatives": k, "sample_seed": seed}


def gold_examples(docs, nlp):
    """Examples on the gold tokens of each Doc."""
    return [
        Example(
            spacy.tokens.Doc(
                nlp.vocab,
                words=[token.text for token in doc],
                spaces=[bool(token.whitespace_) for token in doc],
            ),
            doc,
        )
        for doc in docs
    ]


def join(docs, size):
    """Join the given Docs, `size` to a Doc."""
    return [spacy.tokens.Doc.from_docs(docs[i : i + size]) for i in range(0, len(docs), size)]


def arcs_of(doc):
    """Heads and labels of a Doc, for comparison."""
    return [(token.head.i, token.dep_) for token in doc]


def starts_of(doc):
    """The places where a Doc's sentences start."""
    return [sentence.start for sentence in doc.sents]


def random_words(rng, n, spaces=0.3):
    """Words and punctuation, with runs of whitespace anywhere."""
    plain = ["The", "cat", "slept", ".", "She", "saw", "him", "!", "and", "Tom"]
    blank = ["\n", " ", "\n\n", "\t"]
    return [
        blank[rng.integers(len(blank))]
        if rng.random() < spaces
        else plain[rng.integers(len(plain))]
        for _ in range(n)
    ]


def score_labels(model, trees, deps, heads):
    """Label scores of arcs, given as flat rows, without dropout."""
    arcs = ChosenArcs(deps, heads, deps)
    return begin_label_scores(model.get_ref("labels"), trees, arcs, is_train=False)[0].scores


def assign(parser, **settings):
    """Give a parser other settings, whatever its pipeline's config says; returns those before."""
    before = parser.settings
    parser.use_settings(replace(before, **settings))
    return before


@contextmanager
def changeable(nlp):
    """Yield a function that gives the parser other settings, which it has until the end."""
    parser = nlp.get_pipe("root_mst")
    before = parser.settings
    try:
        yield partial(assign, parser)
    finally:
        parser.use_settings(before)


@contextmanager
def settable(nlp):
    """Yield a function that gives the parser settings until its next call; returns the pipeline."""
    with changeable(nlp):
        parser = nlp.get_pipe("root_mst")
        before = parser.settings

        def set_all(**settings):
            parser.use_settings(replace(before, **settings))
            return nlp

        yield set_all


def make_nlp(lang="xx", **config):
    """A blank pipeline with a small parser, not initialized.

    Its language has the fewest exceptions: spaCy takes 50 ms to read the English ones.
    """
    fix_random_seed(0)
    nlp = spacy.blank(lang)
    nlp.add_pipe("root_mst", config={"model": SMALL_MODEL, **config})
    return nlp


def make_shared(components, lang="xx", name="tok2vec", depth=1):
    """A blank pipeline of token vectors and components that listen to them, not initialized."""
    fix_random_seed(0)
    nlp = spacy.blank(lang)
    nlp.add_pipe("tok2vec", name=name, config={"model": {**SMALL_MODEL["tok2vec"], "depth": depth}})
    for factory, model in components.items():
        nlp.add_pipe(factory, config={"model": model})
    return nlp


def arc_scores(nlp, doc):
    """The network's arc scores of each sentence of a parsed Doc, in double precision."""
    trees = nlp.get_pipe("root_mst").model.predict(ParserInput([doc], [sentences_of(doc)])).trees
    found = {}
    for bucket, arcs in zip(trees.layout.buckets, trees.arcs, strict=True):
        for own, sentence, n in zip(arcs, bucket.sentences, bucket.lengths.tolist(), strict=True):
            found[sentence] = own[: n + 1, : n + 1].astype("f8")
    return [found[i] for i in range(len(found))]


def initialized(docs, **config):
    """A blank pipeline whose small parser is sized for gold Docs, and Examples of these."""
    nlp = make_nlp(**config)
    examples = gold_examples(docs, nlp)
    nlp.initialize(lambda: examples)
    return nlp, examples


def with_weights_of(trained, **config):
    """A pipeline with the weights of another one's parser, and settings of its own."""
    nlp = make_nlp(**config)
    weights = trained.get_pipe("root_mst").to_bytes(exclude=["vocab"])
    nlp.get_pipe("root_mst").from_bytes(weights, exclude=["vocab"])
    return nlp


def update(nlp, examples, optimizer, **settings):
    """Take a step as `spacy train` does.

    Given an optimizer, `nlp.update` steps each component before those that listen to it have sent
    their gradients.
    """
    losses = nlp.update(examples, sgd=False, **settings)
    for name, pipe in nlp.pipeline:
        if name not in settings.get("exclude", ()) and getattr(pipe, "is_trainable", False):
            pipe.finish_update(optimizer)
    return losses


def train(nlp, examples, steps, size=20):
    """Initialize on all examples and take some steps on batches of them."""
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    for step in range(steps):
        start = step * size % len(examples)
        update(nlp, examples[start : start + size], optimizer, drop=0.0)
    return nlp


def add_initialized(nlp, factory, **place):
    """Add one of spaCy's own `parser` and `ner`, without any training."""
    pipe = nlp.add_pipe(factory, **place)
    pipe.add_label("dep")
    pipe.initialize(lambda: [Example(Doc(nlp.vocab, ["a"]), Doc(nlp.vocab, ["a"]))], nlp=nlp)
    return pipe


def assert_parsed(doc):
    """Assert what holds for any parsed Doc, whitespace anywhere."""
    assert "".join(s.text_with_ws for s in doc.sents) == doc.text
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        [root] = [token for token in sentence if token.head == token]
        assert sentence.root == root
        assert root.dep_ == "ROOT"
        assert not words or root in words
        for token in sentence:
            assert token.head in sentence
            assert token.sent.start == sentence.start
            if token != root:
                assert token.dep_ not in ("", "ROOT")
            # From head to head one comes to the root.
            above = token
            for _ in range(len(sentence)):
                above = above.head
            assert above == root
        spaces = [token for token in sentence if token.is_space]
        for token in spaces:
            if words:
                before = [word for word in words if word.i < token.i]
                assert token.head == (before[-1] if before else words[0])
                assert not list(token.children)
            else:
                assert token.head == sentence[0]
            assert token == root or token.dep_ == "dep"
