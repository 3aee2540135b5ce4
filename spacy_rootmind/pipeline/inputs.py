"""The inputs of a network besides words, and a check that it was trained on the same ones.

These are attributes that components before the parser set, vectors of a component that the parser
listens to, and static vectors of the vocab. A parser that is taken into another pipeline
(`nlp.add_pipe(..., source=...)`) leaves the last two behind, and would read whatever is there: its
heads would be wrong, without any error. Digests of both are therefore saved with the parser and
compared at load. In a running program, they are compared once for each vocab that Docs have, and
where the component was taken out of the parser's pipeline.
"""

import hashlib
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS, intify_attr
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy

from spacy_rootmind.annotation.sentences import words_of
from spacy_rootmind.compat import ATTRIBUTE_EXTRACTOR, ListenedToComponent
from spacy_rootmind.network.architecture import ParserModel, reading_layers
from spacy_rootmind.network.listeners import Tok2Vec, listeners_in, require_vectors
from spacy_rootmind.pipeline.vectors import vocab_readers

# Attributes that no token has until a component sets them, and a component that does. Every token
# has the others, such as NORM, from the vocab.
SETTERS = {
    "TAG": "tagger",
    "POS": "morphologizer",
    "MORPH": "morphologizer",
    "LEMMA": "trainable_lemmatizer",
}
# Vectors of one component differ by less, relative to the largest number, whatever else is in the
# batch. Vectors of another component differ by more.
TOLERANCE = 0.01
# Rows of static vectors in a digest, at most: evenly over the table.
DIGEST_ROWS = 1000
# Names of the digests among what is saved.
DIGESTS = OF_COMPONENT, OF_STATIC_VECTORS = "upstream_weights", "static_vectors"


class Inputs:
    """The component and the static vectors that a parser was trained over.

    Parameters
    ----------
    nlp : Language, optional
        The pipeline that the parser was made for. Without one, all inputs are accepted.
    """

    def __init__(self, nlp: Language | None = None) -> None:
        self._home: Callable[[], Language | None] | None = None if nlp is None else weakref.ref(nlp)
        # The component that the parser listens to, if it is known, and the digests of both.
        self.component: Any = None
        self._saved: dict[str, str] = {}
        # The last vocab whose Docs were found to have the right vectors.
        self._known: Vocab | None = None
        # The layers that read Docs, and the attributes that they read.
        self._attributes: tuple[list[Tok2Vec], list[str]] = [], []

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the component, which its pipeline also has, without the pipeline."""
        return {**vars(self), "_home": None}

    def connect(self, model: ParserModel) -> None:
        """Find the component in the parser's own pipeline."""
        home = self._home and self._home()
        if home is None:
            return
        self._known, listeners = home.vocab, listeners_in(model)
        for _, pipe in home.components:
            linked = pipe.listeners if isinstance(pipe, ListenedToComponent) else ()
            if any(listener in linked for listener in listeners):
                self.component = pipe

    def digests(self, model: ParserModel) -> dict[str, str]:
        """Digest what the network reads; where that is not known, as it was saved."""
        is_listener = bool(listeners_in(model.get_ref("tok2vec")))
        if self._known is None or (is_listener and self.component is None):
            return self._saved
        found, layers = {}, reading_layers(model)
        if is_listener:
            found[OF_COMPONENT] = _weights_digest(self.component.model)
            layers.append(self.component.model)
        if any(map(vocab_readers, layers)):
            found[OF_STATIC_VECTORS] = _vectors_digest(self._known)
        return found

    def load(self, model: ParserModel, saved: dict[str, str], name: str) -> None:
        """Take over saved digests; refuses a parser that is called `name` over other inputs."""
        self._saved = saved
        self.connect(model)
        found = self.digests(model)
        if any(found.get(each) != digest for each, digest in saved.items()):
            self._refuse(name)

    def accept(self, vocab: Vocab) -> None:
        """Accept other inputs, over which the parser is trained from now on."""
        if vocab is not self._known:
            self._home, self.component, self._saved, self._known = None, None, {}, vocab

    def require(self, model: ParserModel, docs: Sequence[Doc], name: str) -> None:
        """Refuse Docs without what the network reads, or with that of another pipeline."""
        self.require_attributes(model, docs)
        if docs and not self._is_home(docs[0].vocab):
            self._require_same(model, docs, name)
        require_vectors(listeners_in(model.get_ref("tok2vec")), docs)

    def require_attributes(self, model: ParserModel, docs: Sequence[Doc]) -> None:
        """Refuse Docs with words none of whose tokens has an attribute that the network reads.

        The network takes a token without the attribute, among others that have it, for one with a
        value of its own, "unset". A Doc without it was not seen by the component that sets it.
        """
        layers = reading_layers(model)
        if layers != self._attributes[0]:
            self._attributes = layers, attributes_read(layers)
        for name in self._attributes[1]:
            for doc in docs:
                if not doc.has_annotation(name) and len(words_of(doc)):
                    raise ValueError(
                        f"expected {name} on the tokens of each Doc, which the network reads, "
                        f"found none in {doc.text[:40]!r}: put a component that sets it, such as "
                        f"`{SETTERS[name]}`, before the parser; to train, list this component, and "
                        f"the tok2vec or transformer that it listens to, in "
                        f"training.annotating_components (or the argument `annotates` of "
                        f"`nlp.update`)"
                    )

    def _is_home(self, vocab: Vocab) -> bool:
        """Tell whether Docs of a vocab are known to have the right vectors, if they have any."""
        if vocab is not self._known or self._home is None:
            return vocab is self._known
        home = self._home()
        # `spacy assemble` and `spacy train` give the pipelines of sources the vocab of the new one.
        return home is not None and (
            self.component is None or any(pipe is self.component for _, pipe in home.components)
        )

    def _require_same(self, model: ParserModel, docs: Sequence[Doc], name: str) -> None:
        doc = next((doc for doc in docs if len(words_of(doc))), None)
        if doc is None:
            return
        # A saved digest goes first: the vocab may have lost its vectors.
        expected = {
            each: self._saved.get(each, digest) for each, digest in self.digests(model).items()
        }
        static = expected.get(OF_STATIC_VECTORS)
        if static is not None and static != _vectors_digest(doc.vocab):
            self._refuse(name)
        if OF_COMPONENT in expected and not self._has_vectors_of_component(model, doc):
            self._refuse(name)
        self._home, self._known = None, doc.vocab

    def _has_vectors_of_component(self, model: ParserModel, doc: Doc) -> bool:
        """Compare the vectors that a Doc has with those that the component computes."""
        if self.component is None:
            return False
        with warnings.catch_warnings():
            # spaCy warns that a user's hooks are not copied.
            warnings.simplefilter("ignore")
            data = doc.to_bytes(exclude=["tensor", "user_data"])
        [copy] = self.component.pipe([Doc(self.component.vocab).from_bytes(data)])
        (found,), (expected,) = (model.get_ref("tok2vec").predict([each]) for each in (doc, copy))
        return found.shape == expected.shape and bool(
            abs(found - expected).max() <= TOLERANCE * abs(expected).max()
        )

    def _refuse(self, name: str) -> None:
        raise ValueError(
            f"{name!r} was trained over other token vectors than this pipeline has, so heads would "
            f"be wrong: the component that it listens to, or the static vectors of the vocab, are "
            f"missing or not the same. Put the parser in by `spacy_rootmind.replace_parser(nlp, "
            f"source)`, which takes both along"
        )


def _vectors_digest(vocab: Vocab) -> str:
    data: Any = vocab.vectors.data
    return _digest([data[:: 1 + len(data) // DIGEST_ROWS]])


def attributes_read(layers: Iterable[Tok2Vec]) -> list[str]:
    """List the attributes in `SETTERS` that layers read, in the order there."""
    columns = {
        intify_attr(column)
        for layer in layers
        for node in layer.walk()
        if node.name == ATTRIBUTE_EXTRACTOR
        for column in node.attrs["columns"]
    }
    return [name for name in SETTERS if IDS[name] in columns]


def _weights_digest(model: Model) -> str:
    """Digest the weights of a network.

    They are rounded as packages round them (`network.half_precision`), so a network and its package
    have the same digest.
    """
    names = ((node, name) for node in model.walk() for name in node.param_names)
    return _digest(node.get_param(name) for node, name in names if node.has_param(name))


def _digest(arrays: Iterable[Any]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in map(to_numpy, arrays):
        digest.update(_rounded(array).tobytes())
    return digest.hexdigest()


def _rounded(weights: NDArray) -> NDArray:
    # Packages have no weights that overflow; here they are as good as any.
    with np.errstate(over="ignore"):
        return weights.astype(np.float16) if weights.dtype == np.float32 else weights
