"""The component that a parser listens to, and whether the parser's pipeline has it.

A parser that listens reads what another component computed, and that component stays behind when
the parser is taken into another pipeline (`nlp.add_pipe(..., source=...)`). There, spaCy lets it
listen to whatever has the same name. Its heads would be wrong, without any error.

spaCy does not tell a component which pipeline it is in. But whenever a pipeline changes, spaCy
first sets the names of all its components, and then makes the lists of what listens to them again.
So a parser that takes itself off the list whenever its name is set is put on it again exactly if
its pipeline has the component. Besides, Docs have the vocab of the pipeline that made them.

This cannot tell two pipelines with one vocab apart while both exist.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from spacy_rootmind.compat import ListenedToComponent
from spacy_rootmind.config_blocks import replace_settings
from spacy_rootmind.network.listeners import listeners_in
from spacy_rootmind.pipeline.own_static_vectors import keep_static_vectors


class Upstream:
    """What a parser listens to.

    Parameters
    ----------
    nlp : Language, optional
        The pipeline that the parser was made for, its home. Without one, all are accepted.
    is_missing : bool
        Whether the parser's pipeline is known to lack the component.
    """

    def __init__(self, nlp: Language | None = None, is_missing: bool = False) -> None:
        self._home: Callable[[], Language | None] | None = None
        if nlp is not None:
            self._home = weakref.ref(nlp)
        self._is_missing = is_missing
        self._name = ""
        self._listeners: list[Model] = []
        self._component: Any = None
        # The list of what listens to it, as the parser took itself off; spaCy makes new ones.
        self._listener_map: Any = None
        # Whether no list was made, as the component is disabled at home.
        self._is_disabled = False

    def __reduce__(self) -> tuple[type["Upstream"], tuple[None, bool]]:
        """Pickle whether the component is missing, without pipelines and components."""
        return Upstream, (None, self._is_missing or not self._is_linked())

    def prepare_link(self, model: Model, name: str | None, new_name: str) -> None:
        """Take a parser off the list of what listens to the component, before lists are made.

        `name` is its present one.
        """
        self._listeners = listeners_in(model)
        self._name = new_name
        self._is_missing = self._is_disabled = False
        home = self._get_home()
        if home is not None:
            keep_static_vectors(home)
            _rename_references(home, model, name, new_name)
            for home_name, pipe in home.components:
                self._unlink(pipe, name, home_name in home.disabled)
        self._unlink(self._component, name, self._is_disabled)

    def _unlink(self, pipe: Any, name: str | None, is_disabled: bool) -> None:
        """Take the parser off the list of a component, unless none will be made."""
        if name is None or not isinstance(pipe, ListenedToComponent):
            return
        if is_disabled:
            if any(listener in pipe.listener_map.get(name, []) for listener in self._listeners):
                self._component, self._is_disabled = pipe, True
            return
        for listener in self._listeners:
            if pipe.remove_listener(listener, name):
                self._component, self._listener_map = pipe, pipe.listener_map

    def _get_home(self) -> Language | None:
        return None if self._home is None else self._home()

    def _lists(self, pipe: Any) -> bool:
        """Tell whether a component lists the parser as listening to it."""
        linked = pipe.listener_map.get(self._name, [])
        return any(listener in linked for listener in self._listeners)

    def _is_linked(self) -> bool:
        """Tell whether the pipeline that changed last has the component, as far as is known."""
        if self._component is None or self._is_disabled:
            return True
        # If it is another list, the pipeline did not name the parser, as it is disabled there.
        is_new = self._component.listener_map is not self._listener_map
        return is_new or self._lists(self._component)

    def require(self, model: Model, docs: Sequence[Doc]) -> None:
        """Refuse to parse Docs of a pipeline without the component that a parser listens to.

        Raises
        ------
        ValueError
            If the parser was taken there from another pipeline, or the component was replaced.
        """
        if not docs or not listeners_in(model.get_ref("tok2vec")):
            return
        home = self._get_home()
        if home is not None and docs[0].vocab is home.vocab:
            # What `ListenedToComponent` asks for, which takes 100 times as long.
            others = [pipe for _, pipe in home.pipeline if hasattr(pipe, "listener_map")]
            known = self._component
            if known is not None and any(self._lists(it) for it in others if it is not known):
                self._refuse()
            return
        is_unknown = self._component is None or self._is_disabled
        if self._is_missing or not self._is_linked() or (self._home is not None and is_unknown):
            self._refuse()

    def require_to_save(self, model: Model) -> None:
        """Refuse to save a parser in a pipeline without the component; raises as `require`."""
        if listeners_in(model) and (self._is_missing or not self._is_linked()):
            self._refuse()

    def _refuse(self) -> None:
        name, component = self._name, self._component
        upstream = "tok2vec" if component is None else component.name
        self._is_missing = True
        if component is not None:
            # So that `replace_listeners` finds it where it comes from.
            for listener in self._listeners:
                component.add_listener(listener, name)
        raise ValueError(
            f"the parser was taken from a pipeline whose {upstream!r} it listens to. This pipeline "
            f"lacks that component, or has another of this name, so heads would be wrong. Give the "
            f"parser its own token vectors first: "
            f"`source.replace_listeners({upstream!r}, {name!r}, ['model.tok2vec'])`, with "
            f"{upstream!r} enabled in the source, then `nlp.add_pipe({name!r}, source=source)`; or "
            f'in a config, under [components.{name}], `replace_listeners = ["model.tok2vec"]`. '
            f"(If this is the pipeline that the parser comes from, add or remove any component: "
            f"spaCy then connects the two again.)"
        )

    def accept(self) -> None:
        """Accept what the parser listens to, if it is another component: it is trained with it."""
        is_other = self._is_missing or not self._is_linked() or self._component is None
        if self._listeners and is_other:
            self._home, self._is_missing = None, False
            self._component = self._listener_map = None


def _rename_references(nlp: Language, model: Model, name: str | None, new_name: str) -> None:
    """Let a parser's section of the config refer to itself by its new name."""
    pipe: Any = dict(nlp.components).get(new_name)
    if name not in (None, new_name) and getattr(pipe, "model", None) is model:
        old, new = (f"${{components.{each}." for each in (name, new_name))
        config = nlp.get_pipe_config(new_name)
        config.update(
            replace_settings(
                config,
                lambda value: value.startswith(old),
                lambda value: new + value.removeprefix(old),
            )
        )
