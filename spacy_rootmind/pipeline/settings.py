"""The settings of `root_mst`, the values that each may have, and how they are changed."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from spacy.language import Language
from spacy.util import registry

from spacy_rootmind.training.objective import MARGIN

Objective = Literal["tree_crf", "head_selection", "perceptron"]
Sentences = Literal["auto", "given", "doc"]
Decode = Literal["tree", "labelled_tree"]
Alternatives = Literal["kbest", "sample"]


class Expected(NamedTuple):
    """The values that a setting accepts: in words, as a check, and the type they are kept in."""

    words: str
    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any]


def _number(words: str, accepts: Callable[[Any], bool], kind: type = float) -> Expected:
    types = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)

    def accepts_number(value: Any) -> bool:
        return isinstance(value, types) and not isinstance(value, bool) and accepts(value)

    return Expected(words, accepts_number, kind)


def _one_of(literal: Any) -> Expected:
    names = get_args(literal)
    words = f"one of {', '.join(names)}"
    return Expected(words, lambda value: isinstance(value, str) and value in names, str)


def _names_function(block: Mapping) -> bool:
    return [type(value) for key, value in block.items() if str(key).startswith("@")] == [str]


def _resolve(value: Any) -> Callable:
    made = value if callable(value) else registry.resolve({"function": dict(value)})["function"]
    if not callable(made):
        raise ValueError(f"the block gives {made!r}")
    return made


POSITIVE = _number("a number above 0", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = _number("a number of at least 0", lambda value: 0 <= value < math.inf)
PROBABILITY = _number("a probability above 0 and at most 1", lambda value: 0 < value <= 1)
THRESHOLD = _number("a probability from 0 to 1", lambda value: 0 <= value <= 1)
COUNT = _number("an integer of at least 1", lambda value: value >= 1, int)
SEED = _number("an integer of at least 0", lambda value: value >= 0, int)
FLAG = Expected("True or False", lambda value: isinstance(value, bool | np.bool_), bool)
FUNCTION = Expected(
    'the block of a config that names a registered function, such as {"@misc": "my_function.v1"}',
    lambda value: callable(value) or (isinstance(value, Mapping) and _names_function(value)),
    _resolve,
)


@dataclass(frozen=True)
class Settings:
    """The settings of the component; `configure` changes them.

    The factory `root_mst` has these fields as parameters. The checks in their types are made
    whenever there are new settings.

    Raises
    ------
    ValueError
        If a value is not allowed; the message gives the setting, what is allowed and the value.
    """

    objective: Annotated[Objective, _one_of(Objective)] = "tree_crf"
    """Training objective of the arc scores: "tree_crf" (the gold tree among all trees with one
    root), "head_selection" (each word's gold head among all heads) or "perceptron" (the gold tree
    ahead of all others by a margin). See `spacy_rootmind.trees.losses`.
    """
    margin: Annotated[float, NOT_NEGATIVE] = MARGIN
    """With the objective "perceptron", by how much per wrong arc the gold tree's score has to be
    above that of any other tree. With 0, the perceptron's own rule, there is an update only where
    the best tree is wrong.
    """
    sentences: Annotated[Sentences, _one_of(Sentences)] = "auto"
    """How sentences are found: "auto" keeps boundaries from an earlier component or the user and
    predicts the others; "given" requires them; "doc" takes a Doc as one sentence.
    """
    boundary_threshold: Annotated[float, THRESHOLD] = 0.5
    """A word starts a sentence if the probability that it does is above this. Lower it if the
    parser finds too few sentences on the dev set. With `sentences = "auto"`, sentences without a
    letter or digit are then joined to their neighbours, unless the boundary is nearly certain.
    """
    blank_lines: Annotated[bool, FLAG] = True
    """Whether a blank line ends a sentence, with `sentences = "auto"`, unless the Doc or the
    constraints say otherwise. Turn it off for double-spaced text.
    """
    line_ends: Annotated[bool, FLAG] = False
    """Whether every line end ends a sentence in the same way, for text with a sentence or a title
    on each line.
    """
    max_sentence_length: Annotated[int, COUNT] = 512
    """A sentence with more words is split where a boundary is most likely. Time and memory grow
    with the square of a sentence's length.
    """
    decode: Annotated[Decode, _one_of(Decode)] = "labelled_tree"
    """The kind of parse: "tree" is the most probable tree, with the best label for each of its
    arcs, whatever the temperatures; "labelled_tree" is the most probable tree together with its
    labels, which is correct slightly more often with fitted temperatures.
    """
    projective: Annotated[bool, FLAG] = False
    """Whether arcs must not cross, that from ROOT before the first word included: of trees,
    probabilities and alternatives. Training does not depend on it, but temperatures do. Time grows
    with the cube of a sentence's length instead of its square. It does not go together with spans
    as `constraints`, nor with `distribution_threshold`.
    """
    guidelines: Annotated[Callable | None, FUNCTION] = None
    """Rules that the parse keeps, which is then the most probable of the labelled trees that do:
    `spacy_rootmind.ud_guidelines.v1`, or a function as `spacy_rootmind.guidelines.ud`
    describes. Alternatives keep them as well; probabilities are over all trees. A sentence's
    `span._.guideline_status` is "not proven" if another such tree may be more probable, and
    "broken" if none was found under the constraints.
    """
    constraints: Annotated[Callable | None, FUNCTION] = None
    """Arcs to force or forbid in each Doc, and labels: `spacy_rootmind.preset_heads.v1`, or a
    function from a Doc to `spacy_rootmind.guidelines.constraints.Constraints`.
    """
    temperature: Annotated[float | None, POSITIVE] = None
    """Divisor of the arc scores before they become probabilities: above 1 for an overconfident
    parser. `decode` says whether the parse depends on it. By default the temperature fitted in
    training, see `spacy_rootmind.CalibrationCorpus.v1`, or else 1.
    """
    confidence: Annotated[bool, FLAG] = False
    """Whether to find `token._.head_prob`, `token._.arc_prob`, `token._.sent_start_prob`,
    `span._.parse_log_prob` and `span._.parse_entropy`.
    """
    arc_threshold: Annotated[float | None, PROBABILITY] = None
    """Least probability of the labelled arcs to keep, whichever trees they are in: `span._.arcs` of
    each sentence, `token._.arcs`. At most 1 / `arc_threshold` arcs per word.
    """
    alternatives: Annotated[Alternatives | None, _one_of(Alternatives)] = None
    """Other labelled trees to list in `span._.parses`: "kbest" for the most probable ones, best
    first, or "sample" for independent samples.
    """
    n_alternatives: Annotated[int, COUNT] = 5
    """Number of alternatives of each sentence; fewer of the k best where there are no more."""
    sample_seed: Annotated[int | None, SEED] = 0
    """Random seed: the samples of a sentence depend on it and on the words alone. None for new
    samples each time.
    """
    keep_trees: Annotated[bool, FLAG] = False
    """Whether to keep the distribution over all trees of each sentence, for `span._.trees` and
    `spacy_rootmind.TreeMatcher`: four bytes for each pair of words, and the labels of arcs that
    have, together with their label, a probability of at least 0.001.
    """
    distribution_threshold: Annotated[float | None, PROBABILITY] = None
    """Stores the distribution over each sentence's trees in the Doc, for another parser to learn
    from: the arcs with at least this probability and the arcs of the parse, with their weights and
    label probabilities. See `docs/distillation.md`.
    """
    learn_rate_factor: Annotated[float, POSITIVE] = 1.0
    """Factor on the learning rate of the layers above the token vectors. A pretrained transformer
    needs a small rate; the new layers above it need a larger one. So may layers above token vectors
    that are shared with other components.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            # A frozen dataclass has no other way to keep a value in another form.
            object.__setattr__(self, each.name, _checked(each, getattr(self, each.name)))

        if self.projective and self.distribution_threshold is not None:
            raise ValueError(
                "expected distribution_threshold as None where projective is true, received "
                f"{self.distribution_threshold!r}: students learn distributions over all trees"
            )

        if self.guidelines is not None and self.decode != "labelled_tree":
            raise ValueError(
                f'expected decode as "labelled_tree" where there are guidelines, received '
                f"{self.decode!r}: they are about labels too"
            )

    @property
    def finds_details(self) -> bool:
        """Whether parses come with probabilities, alternatives or distributions."""
        optional = (self.arc_threshold, self.alternatives, self.distribution_threshold)
        return self.confidence or self.keep_trees or optional != (None, None, None)


def describe(setting: Field) -> str:
    """Say what a setting accepts, as errors do."""
    kind, expected = get_args(setting.type)
    return expected.words + (", or None" if type(None) in get_args(kind) else "")


def _checked(setting: Field, value: Any) -> Any:
    """Check a value, and return it in the form that is kept."""
    kind, expected = get_args(setting.type)
    if value is None and type(None) in get_args(kind):
        return None
    reason = ""
    try:
        is_accepted = expected.accepts(value)
        value = expected.convert(value) if is_accepted else value
    except ValueError as error:
        is_accepted, reason = False, f": {error}"
    if not is_accepted:
        raise ValueError(
            f"expected {setting.name} as {describe(setting)}, received {value!r}{reason}"
        )
    return value


def default_settings() -> dict[str, Any]:
    """Return the default of each setting, as for a config."""
    return {each.name: each.default for each in fields(Settings)}


def find_parser(nlp: Language, name: str | None = None) -> tuple[str, Any]:
    """Find a parser among the components of a pipeline, disabled ones included.

    Parameters
    ----------
    nlp : Language
    name : str, optional
        Its name. By default it is the only `root_mst`, or else the one of that name.

    Returns
    -------
    name, parser

    Raises ValueError if there is no component of this name, it is no `root_mst`, or there are
    several to choose from.
    """
    pipes = dict(nlp.components)
    parsers = {
        other: pipe
        for other, pipe in pipes.items()
        if isinstance(getattr(pipe, "settings", None), Settings)
    }
    if name is None:
        name = next(iter(parsers)) if len(parsers) == 1 else "root_mst"
    if name not in parsers:
        found = repr(pipes[name]) if name in pipes else f"the components {nlp.component_names}"
        raise ValueError(f"expected a root_mst called {name!r}, found {found}")
    return name, parsers[name]


def configure(nlp: Language, pipe: str | None = None, **settings: Any) -> None:
    """Change settings of a parser, and the pipeline's config, so that they are saved with it.

    A parser that two pipelines share, as after `add_pipe(source=...)`, is changed for both; the
    config is that of the given one alone.

    Parameters
    ----------
    nlp : Language
    pipe : str, optional
        Name of the component; needed if there are several, none of which is called `root_mst`.
    **settings
        As in a config; see `spacy_rootmind.pipeline.settings.Settings`. Give functions
        by the block of a config that names them: they have to be registered.

    Raises
    ------
    ValueError
        If there is no `root_mst` of this name, or a setting does not exist or has a value that is
        not allowed. Nothing has changed then.

    Examples
    --------
    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> parser = nlp.add_pipe("root_mst")
    >>> configure(nlp, confidence=True, decode="tree")
    >>> nlp.config["components"]["root_mst"]["confidence"]
    True
    """
    pipe, parser = find_parser(nlp, pipe)
    known = {each.name: get_args(each.type)[1] for each in fields(Settings)}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(
                f"root_mst has no setting {name!r}, expected one of {', '.join(known)}"
            )
        if known[name] is FUNCTION and callable(value):
            raise ValueError(f"expected {name} as {FUNCTION.words}, received {value!r}")
    parser.use_settings(replace(parser.settings, **settings))
    block = nlp.get_pipe_config(pipe)
    for name, value in settings.items():
        kept = getattr(parser.settings, name)
        block[name] = copy.deepcopy(value) if callable(kept) else kept
