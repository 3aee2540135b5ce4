"""The command `init-config`: a complete config to train a pipeline with `root_mst`.

spaCy's own `init config` makes the sections of the other components.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from thinc.api import Config

from spacy_rootmind.cli.messages import Messages
from spacy_rootmind.cli.options import ConfigOptions
from spacy_rootmind.compat import combine_score_weights
from spacy_rootmind.compat import init_config as init_spacy_config
from spacy_rootmind.parsing.settings import RunError

PARSER = "root_mst"
# The component with the rule that tags whitespace.
RULER = "attribute_ruler"
# Gives words parts of speech that go with their labels.
REPAIR = "ud_tag_repair"
# Finds the words of multiword tokens; spaCy's `init config` does not make it listen.
EXPANDER = "mwt_expander"
# Components with the vectors that others listen to; they are added where one listens.
SHARED = ("tok2vec", "transformer")
# Training configs of the parser alone; one for each kind of encoder, and one for none.
CONFIGS = Path(__file__).parents[1] / "configs"
# `curated.cfg` there has the sizes of this encoder.
CURATED_ENCODER = "bert-base-cased"
# The tags of whitespace in spaCy's pipelines, by the tagger's name.
OF_WHITESPACE = {"tagger": {"TAG": "_SP"}, "morphologizer": {"POS": "SPACE", "MORPH": "_"}}
# Trees keep the guidelines of Universal Dependencies, by the tags that the pipeline predicts.
GUIDELINES = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": False}
# The tokenizer is fitted to the training corpus.
FIT_TOKENIZER = {"@callbacks": "spacy_rootmind.fit_tokenizer.v1", "path": "${paths.train}"}
LISTENER = {
    "@architectures": "spacy.Tok2VecListener.v1",
    "width": "${components.tok2vec.model.encode.width}",
    "upstream": "*",
}
# The shared token vectors read the first and last letters of words.
AFFIX_EMBED = {
    "@architectures": "spacy_rootmind.AffixEmbed.v1",
    "width": "${components.tok2vec.model.encode.width}",
    "attrs": ["NORM", "SHAPE"],
    "prefixes": [1, 3],
    "suffixes": [1, 2, 3, 4, 5],
    "rows": [5000, 1000, 500, 2000, 500, 1000, 2000, 2000, 2000],
    "include_static_vectors": False,
}


def init_config(output: Path, options: ConfigOptions, *, force: bool = False) -> None:
    """Write a training config to a file, or to stdout for "-", and say how to use it."""
    if str(output) == "-":
        print(make_config(options).to_str())
        return
    if os.path.exists(output) and not force:
        raise RunError(f"{output} exists: use --force to overwrite it")
    text = make_config(options).to_str()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text + "\n", encoding="utf8")
    except OSError as error:
        raise RunError(f"Cannot write {output}: {error.strerror}") from error
    messages = Messages()
    messages.show("good", f"Saved config {output}")
    if options.curated not in (None, CURATED_ENCODER):
        messages.show(
            "warn",
            f"The sizes of the encoder are those of {CURATED_ENCODER}. To write those of "
            f"{options.curated}: python -m spacy init fill-curated-transformer {output} {output} "
            f"-m {options.curated}",
        )
    gpu = "" if options.encoder is None else " --gpu-id 0"
    messages.show(
        "info",
        f"Train with: python -m spacy train {output}{gpu} --output training "
        "--paths.train train.spacy --paths.dev dev.spacy",
    )


def make_config(options: ConfigOptions) -> Config:
    """Make a complete training config.

    Raises RunError if spaCy has no such language or component, or options contradict others.
    """
    choices = (options.transformer, options.curated, options.vectors)
    if sum(choice is not None for choice in choices) > 1:
        raise RunError("Expected one of --transformer, --curated and --vectors at most")
    if "transformer" in options.names and options.encoder is None:
        raise RunError("Expected --transformer ENCODER for the transformer in --pipeline")
    with spacys_errors(f"Cannot make a pipeline for --lang {options.lang}"):
        nlp = spacy.blank(options.lang)
    # The shared vectors are added where a component listens to them.
    names = with_ruler([name for name in options.names if name not in SHARED])
    if PARSER not in names:
        received = ",".join(names) or "nothing"
        raise RunError(f"Expected {PARSER} in --pipeline, received {received}")
    if options.ud and "morphologizer" in names and REPAIR not in names:
        # Words are chosen by the tags that it leaves.
        names.insert(names.index(EXPANDER) if EXPANDER in names else len(names), REPAIR)
    with spacys_errors(f"Cannot make a config for --pipeline {','.join(names)}"):
        # With the score weights of all components, and token vectors of its own for root_mst.
        config = init_spacy_config(lang=options.lang, pipeline=names)
    shipped = shipped_config(options.encoder)
    if names != [PARSER]:
        fit_to_others(shipped, options.encoder)
    merge(config, shipped)
    config["training"]["score_weights"] = settled(config["training"]["score_weights"])
    for section in config["components"].values():
        if "neg_prefix" in section:
            # With spaCy's "!", training fails if "!" is itself a tag, as in Irish and Vietnamese.
            section["neg_prefix"] = ""
    if EXPANDER in names and "tok2vec" in config["components"]:
        config["components"][EXPANDER]["model"]["tok2vec"] = dict(LISTENER)
    if options.encoder is not None:
        config["paths"]["encoder"] = options.transformer or options.curated
        listen_to_transformer(config)
    else:
        tok2vec = share_tok2vec(config)
        if options.vectors is not None:
            config["paths"]["vectors"] = options.vectors
            tok2vec["embed"]["include_static_vectors"] = True
    if options.ud:
        config["components"][PARSER]["guidelines"] = dict(GUIDELINES)
    if options.fit_tokenizer:
        config["initialize"]["before_init"] = dict(FIT_TOKENIZER)
    annotate_sentences(config, nlp)
    if RULER in names and RULER not in options.names:
        tag_whitespace(config)
    return config


def shipped_config(encoder: str | None) -> Config:
    """Read a config that ships, without what depends on the language and the other components."""
    config = Config().from_disk(CONFIGS / f"{encoder or 'cpu'}.cfg", interpolate=False)
    for name in ("lang", "pipeline", "tokenizer"):
        del config["nlp"][name]
    del config["training"]["score_weights"]
    return config


def fit_to_others(config: Config, encoder: str | None) -> None:
    """Change a config of the parser alone into that of one among other components, in place."""
    parser = config["components"][PARSER]
    # It shares its token vectors, and leaves them some gradient.
    del parser["model"]["grad_factor"]
    if encoder is None:
        del parser["model"]["tok2vec"]
        # The shared tok2vec and the other components are slower than the parser.
        parser["model"].update(qrnn_width=288, arc_width=192, label_width=96)
        # Its own layers learn faster than the token vectors that it shares.
        parser["learn_rate_factor"] = 2.0
        config["nlp"]["after_pipeline_creation"] = {"@callbacks": "spacy_rootmind.fast_cpu.v1"}


def annotate_sentences(config: Config, nlp: Language) -> None:
    """Let components that find sentences before the parser do so in training too, in place.

    It is then trained on the sentences that it will get. A component that listens to shared vectors
    would find zeros there if these were not annotated as well.
    """
    names = config["nlp"]["pipeline"]
    before = names[: names.index(PARSER)]
    shared = [name for name in before if name in SHARED]
    finders = [
        name
        for name in before
        if name not in SHARED and "token.is_sent_start" in nlp.get_factory_meta(name).assigns
    ]
    listen = any(is_listening(config["components"][name]) for name in finders)
    config["training"]["annotating_components"] = [*(shared if listen else []), *finders]


def is_listening(section: dict[str, Any]) -> bool:
    """Return whether the section of a component has a listener to shared vectors."""
    return "Listener" in (_function(section) or "") or any(
        is_listening(value) for value in section.values() if isinstance(value, dict)
    )


def with_ruler(names: Sequence[str]) -> list[str]:
    """Put an attribute ruler behind the taggers, if there are any and it is not there."""
    taggers = [i for i, name in enumerate(names) if name in OF_WHITESPACE]
    if not taggers or RULER in names:
        return list(names)
    after = taggers[-1] + 1
    return [*names[:after], RULER, *names[after:]]


def tag_whitespace(config: Config) -> None:
    """Give the attribute ruler of a config the rule for whitespace, in place.

    It has no scorer, which would repeat the scores of the taggers.
    """
    attrs: dict[str, str] = {}
    for name, own in OF_WHITESPACE.items():
        if name in config["components"]:
            attrs.update(own)
    config["components"][RULER]["scorer"] = None
    rule = {"patterns": [[{"IS_SPACE": True}]], "attrs": attrs, "index": 0}
    config["initialize"]["components"][RULER] = {"patterns": [rule]}


def settled(weights: dict[str, float | None]) -> dict[str, float | None]:
    """Rescale score weights until they stay the same: spaCy rescales and rounds them repeatedly."""
    rescaled = combine_score_weights([weights])
    return weights if rescaled == weights else settled(rescaled)


@contextmanager
def spacys_errors(title: str) -> Iterator[None]:
    """Turn what spaCy refuses into errors of one line."""
    try:
        yield
    except Exception as error:
        raise RunError(f"{title}: {' '.join(str(error).split())}") from error


def merge(config: dict[str, Any], changes: dict[str, Any]) -> None:
    """Put changes into a config, in place: sections that it already has stay in their order."""
    for name, value in changes.items():
        section = config.get(name)
        if (
            isinstance(value, dict)
            and isinstance(section, dict)
            and _function(value) in (None, _function(section))
        ):
            merge(section, value)
        else:
            config[name] = value


def _function(section: dict[str, Any]) -> str | None:
    """Return the registered function that a section is for."""
    return next((value for name, value in section.items() if name.startswith("@")), None)


def share_tok2vec(config: Config) -> dict[str, Any]:
    """Make the parser listen to a shared tok2vec, if there is one; returns its section."""
    if "tok2vec" in config["components"]:
        config["components"][PARSER]["model"]["tok2vec"] = dict(LISTENER)
        tok2vec = config["components"]["tok2vec"]["model"]
        # Tags and lemmas depend on endings.
        tok2vec["embed"] = deepcopy(AFFIX_EMBED)
        return tok2vec
    tok2vec = config["components"][PARSER]["model"]["tok2vec"]
    tok2vec["embed"]["width"] = f"${{components.{PARSER}.model.tok2vec.encode.width}}"
    return tok2vec


def listen_to_transformer(config: Config) -> None:
    """Let all components that listened to a tok2vec listen to the transformer, as the parser."""
    components = config["components"]
    components.pop("tok2vec", None)
    replace_listeners(components, components[PARSER]["model"]["tok2vec"])
    others = [name for name in config["nlp"]["pipeline"] if name not in SHARED]
    names = config["nlp"]["pipeline"] = ["transformer", *others]
    config["components"] = {name: components[name] for name in names}


def replace_listeners(section: dict[str, Any], listener: dict[str, Any]) -> None:
    """Replace the listeners to a tok2vec in a section, in place."""
    for name, value in section.items():
        if not isinstance(value, dict):
            continue
        if _function(value) == "spacy.Tok2VecListener.v1":
            section[name] = deepcopy(listener)
        else:
            replace_listeners(value, listener)
