"""The component that a parser listens to, and whether the parser's pipeline has it.

A parser that listens reads what another component computed, and that component stays behind when
the parser is taken into another pipeline (`nlp.add_pipe(..., source=...)`). There, spaCy lets it
listen to whatever has the same name. Its heads would be wrong, without any error.

spaCy does not tell a component which pipeline it is in. But whenever a pipeline changes, spaCy
first sets the names of all its components, and then makes the lists of what listens to them again.
So a parser that takes itself off the list whenever its name is set is put on it again exactly if
its pipeline has the component.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from spacy_rootmind.compat import ListenedToComponent
from spacy_rootmind.network.listeners import listeners_in


class Upstream:
    """What a parser listens to.

    Parameters
    ----------
    nlp : Language, optional
        The pipeline that the parser was made for.
    """

    def __init__(self, nlp: Language | None = None) -> None:
        self._home: Callable[[], Language | None] = lambda: None
        if nlp is not None:
            self._home = weakref.ref(nlp)
        self._component: Any = None
        # What listens to it, as the parser took itself off; spaCy makes a new one each time.
        self._listener_map: Any = None
        self._is_missing = False

    def __reduce__(self) -> tuple[type["Upstream"], tuple[()]]:
        """Pickle it without the component, which is pickled where it belongs."""
        return Upstream, ()

    def unlink(self, model: Model, name: str) -> None:
        """Take a parser, under its present name, off the list of what listens to the component."""
        self._is_missing = False
        for component in self._candidates():
            for listener in listeners_in(model):
                if component.remove_listener(listener, name):
                    self._component, self._listener_map = component, component.listener_map

    def _candidates(self) -> Iterator[ListenedToComponent]:
        """Components that the parser may listen to, but for those whose lists stay as they are."""
        home = self._home()
        pipes = [] if home is None else [pipe for _, pipe in home.pipeline]
        if self._component is not None and (home is None or not self._is_disabled(home)):
            pipes.append(self._component)
        for pipe in pipes:
            if isinstance(pipe, ListenedToComponent):
                yield pipe

    def _is_disabled(self, home: Language) -> bool:
        return any(
            pipe is self._component and name in home.disabled for name, pipe in home.components
        )

    def _is_linked(self, model: Model, name: str) -> bool:
        if self._component.listener_map is not self._listener_map:
            # Made since by a pipeline that did not name the parser, as it is disabled there.
            return True
        linked = self._component.listener_map.get(name, [])
        return any(listener in linked for listener in listeners_in(model))

    def require(self, model: Model, name: str, docs: Sequence[Doc] = ()) -> None:
        """Refuse a parser in a pipeline without the component that it listens to.

        Docs of the pipeline that the parser was made for are accepted, wherever else it is.

        Raises
        ------
        ValueError
            If it was taken there from another pipeline.
        """
        listeners = listeners_in(model)
        home = self._home()
        is_home = home is not None and bool(docs) and docs[0].vocab is home.vocab
        if self._component is None or not listeners or is_home:
            return
        if not self._is_missing and not self._is_linked(model, name):
            self._is_missing = True
            # So that `replace_listeners` finds it where it comes from.
            for listener in listeners:
                self._component.add_listener(listener, name)
        if self._is_missing:
            upstream = self._component.name
            raise ValueError(
                f"the parser was taken from a pipeline whose {upstream!r} it listens to, and that "
                f"is not in this pipeline, so its heads would be wrong. Give it token vectors of "
                f"its own first: `source.replace_listeners({upstream!r}, {name!r}, "
                f"['model.tok2vec'])`, then `nlp.add_pipe({name!r}, source=source)`; or in a "
                f'config, under [components.{name}], `replace_listeners = ["model.tok2vec"]`'
            )

    def forget_missing(self, model: Model, name: str) -> None:
        """Accept what the parser listens to, if it is another component: it is trained with it."""
        if self._component is not None and (self._is_missing or not self._is_linked(model, name)):
            self._home = lambda: None
            self._component, self._is_missing = None, False
