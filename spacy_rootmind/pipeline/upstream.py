"""The component that a parser listens to, and whether Docs come from it.

A parser that listens reads what another component computed, and that component stays behind when
the parser is taken into another pipeline (`nlp.add_pipe(..., source=...)`). There, spaCy lets it
listen to whatever has the same name. Its heads would be wrong, without any error.

The parser therefore keeps the component that it was trained over. A digest of the component's
weights is saved with the parser and compared at load. In a running program, the vectors of the
first Doc that does not come from the parser's own pipeline are compared with those that the
component computes.
"""

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_rootmind.compat import ListenedToComponent
from spacy_rootmind.network.listeners import Tok2Vec, listeners_in
from spacy_rootmind.network.structure import weights_digest
from spacy_rootmind.network.types import Floats2d
from spacy_rootmind.pipeline.own_static_vectors import keep_static_vectors, missing_widths

# Vectors of one component differ by less, relative to the largest number, whatever else is in the
# batch. Vectors of another component differ by more.
TOLERANCE = 0.01


class Upstream:
    """The component that a parser listens to.

    Parameters
    ----------
    nlp : Language, optional
        The pipeline that the parser was made for, its home. Without one, all are accepted.
    component : optional
        The component that the parser was trained over, if it is known.
    digest : str, optional
        The digest of its weights that was saved with the parser.
    """

    def __init__(
        self, nlp: Language | None = None, component: Any = None, digest: str | None = None
    ) -> None:
        self._home: Callable[[], Language | None] = _no_home if nlp is None else weakref.ref(nlp)
        self.component = component
        self._digest = digest
        # The last vocab whose Docs were found to have the component's vectors.
        self._known: Vocab | None = None

    def __reduce__(self) -> tuple[type["Upstream"], tuple[None, Any, str | None]]:
        """Pickle the component, which its pipeline also has, without the pipeline."""
        return Upstream, (None, self.component, self._digest)

    def connect(self, model: Model) -> None:
        """Find the component at home, and let copies of it keep their static vectors."""
        home = self._home()
        if home is None:
            return
        keep_static_vectors(home)
        listeners = listeners_in(model)
        for _, pipe in home.components:
            linked = pipe.listeners if isinstance(pipe, ListenedToComponent) else ()
            if any(listener in linked for listener in listeners):
                self.component = pipe

    def digest(self) -> str | None:
        """Digest the weights of the component; None if it is not known."""
        return self._digest if self.component is None else weights_digest([self.component.model])

    def require_trained(self, digest: str | None, name: str) -> None:
        """Refuse to load a parser called `name` over another component than it was trained over."""
        self._digest = digest
        if digest is not None and digest != self.digest():
            self._refuse(name)

    def require(self, tok2vec: Tok2Vec, docs: Sequence[Doc], name: str) -> None:
        """Refuse to parse Docs with the vectors of another component.

        Raises ValueError if the parser was taken from another pipeline, or the component was
        replaced.
        """
        if self._comes_from_home(docs) or not listeners_in(tok2vec):
            return
        doc = next((doc for doc in docs if not doc.text.isspace() and len(doc)), None)
        if doc is None:
            return
        component = self.component
        # Static vectors come from the component's vocab, which may have lost them.
        if component is None or missing_widths([component.model], component.vocab.vectors):
            self._refuse(name)
        with warnings.catch_warnings():
            # spaCy warns that a user's hooks are not copied.
            warnings.simplefilter("ignore")
            data = doc.to_bytes(exclude=["tensor", "user_data"])
        [copy] = component.pipe([Doc(component.vocab).from_bytes(data)])
        (found,), (expected,) = tok2vec.predict([doc]), tok2vec.predict([copy])
        if found.shape != expected.shape or not _are_close(found, expected):
            self._refuse(name)
        self._known = doc.vocab

    def _comes_from_home(self, docs: Sequence[Doc]) -> bool:
        """Tell whether Docs are known to have the right vectors, if they have any."""
        vocab, home = docs[0].vocab if docs else None, self._home()
        if vocab is self._known:
            return True
        if home is None:
            return self.component is None and self._digest is None
        is_there = self.component is None or any(
            pipe is self.component for _, pipe in home.components
        )
        return is_there and home.vocab is vocab

    def _refuse(self, name: str) -> None:
        upstream = "tok2vec" if self.component is None else self.component.name
        raise ValueError(
            f"the parser was taken from a pipeline whose {upstream!r} it listens to. This pipeline "
            f"lacks that component, or has another of this name, so heads would be wrong. Give the "
            f"parser its own token vectors first: "
            f"`source.replace_listeners({upstream!r}, {name!r}, ['model.tok2vec'])`, with "
            f"{upstream!r} enabled in the source, then `nlp.add_pipe({name!r}, source=source)`; or "
            f'in a config, under [components.{name}], `replace_listeners = ["model.tok2vec"]`'
        )

    def accept(self, vocab: Vocab) -> None:
        """Accept another component, over which the parser is trained from now on."""
        home = self._home()
        if home is None or home.vocab is not vocab:
            self._home, self.component, self._digest = _no_home, None, None


def _are_close(found: Floats2d, expected: Floats2d) -> bool:
    return bool(abs(found - expected).max() <= TOLERANCE * abs(expected).max())


def _no_home() -> None:
    """Stand for a pipeline that is not known."""
