"""Taking a trained parser into another pipeline."""

import warnings
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language

from spacy_rootmind.compat import ListenedToComponent, load_model_from_config
from spacy_rootmind.network.architecture import reading_layers
from spacy_rootmind.network.listeners import listeners_in
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import find_parser
from spacy_rootmind.pipeline.vectors import (
    ARCHITECTURE,
    copy_table,
    vocab_readers,
    with_static_vectors,
)


def replace_parser(nlp: Language, source: str | Path | Language) -> RootMST:
    """Put the parser of another pipeline in the place of a pipeline's own.

    The new parser has the place and the name of the old one; without an old one it comes last, with
    the name that it has in its source. It brings token vectors and static vectors of its own.

    Parameters
    ----------
    nlp : Language
        Changed in place.
    source : str, Path or Language
        What `spacy.load` accepts, or a loaded pipeline, which stays as it is.

    Returns
    -------
    RootMST
        The new parser.

    Raises
    ------
    ValueError
        If the pipeline has several components that set heads, or the source has no trained
        `root_mst` or lacks what that listens to. The pipeline is then unchanged.
    """
    old = _find_old(nlp)
    taken = _load(source)
    name, parser = find_parser(taken)
    if not parser.is_initialized:
        raise ValueError(
            f"expected a source with a trained parser, found {name!r} without training"
        )
    _own_vectors(taken, name)
    _own_static_vectors(taken, name, parser)
    place = nlp.component_names.index(old) if old else len(nlp.component_names)
    if old:
        nlp.remove_pipe(old)
    _add(nlp, taken, name, old or name, place)
    # spaCy disables what has the name of a component that was removed while disabled.
    nlp.enable_pipe(old or name)
    return parser


def _find_old(nlp: Language) -> str:
    """Find the component that sets heads, if there is one."""
    found = [
        name for name in nlp.component_names if "token.head" in nlp.get_pipe_meta(name).assigns
    ]
    if len(found) > 1:
        raise ValueError(
            f"expected at most one component that sets heads, found {found}: first remove those "
            f"that are not to be replaced, by `nlp.remove_pipe`"
        )
    return found[0] if found else ""


def _load(source: str | Path | Language) -> Language:
    """Load or copy a pipeline, with all components enabled."""
    if not isinstance(source, Language):
        return spacy.load(source, config={"nlp.disabled": []})
    config = source.config.copy()
    config["nlp"]["disabled"] = []
    copy = load_model_from_config(config).from_bytes(source.to_bytes())
    # spaCy does not write by which attribute vectors are looked up. A table has one vocab.
    copy.vocab.vectors = copy_table(source.vocab.vectors)
    return copy


def _own_vectors(nlp: Language, name: str) -> None:
    """Replace the listener of a component by what it listens to."""
    for upstream, pipe in nlp.pipeline:
        if isinstance(pipe, ListenedToComponent) and pipe.listener_map.get(name):
            nlp.replace_listeners(upstream, name, ["model.tok2vec"])
    component: Any = nlp.get_pipe(name)
    if listeners_in(component.model):
        raise ValueError(
            f"expected a source with the component that {name!r} listens to, found "
            f"{nlp.component_names}: load it without excluding that"
        )


def _own_static_vectors(nlp: Language, name: str, parser: RootMST) -> None:
    """Give token vectors that read the static vectors of the vocab a table of their own."""
    config = nlp.get_pipe_config(name)["model"]
    for key, layer in zip(("tok2vec", "features"), reading_layers(parser.model), strict=False):
        if vocab_readers(layer):
            own = with_static_vectors(layer, copy_table(nlp.vocab.vectors))
            parser.model.layers[parser.model.layers.index(layer)] = own
            parser.model.set_ref(key, own)
            config[key] = {"@architectures": ARCHITECTURE, "model": config[key]}


def _add(nlp: Language, source: Language, name: str, new_name: str, place: int) -> None:
    """Add a component of another pipeline at a place."""
    after: Any = {"after": nlp.component_names[place - 1]} if place else {"first": True}
    with warnings.catch_warnings():
        # "The vectors are not identical": it has its own.
        warnings.filterwarnings("ignore", message=r"\[W113\]")
        nlp.add_pipe(name, name=new_name, source=source, **after)
