"""The command `init-config`: a complete config to train a pipeline with `root_mst`.

It is one of the configs that ship, with the sections of other components in `shared_vectors.cfg`.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

from spacy.language import Language
from thinc.api import Config

from spacy_rootmind.cli.messages import Messages
from spacy_rootmind.cli.options import ConfigOptions
from spacy_rootmind.compat import load_model_from_config
from spacy_rootmind.parsing.settings import RunError

PARSER = "root_mst"
# The component with the rule that tags whitespace.
RULER = "attribute_ruler"
# Gives words parts of speech that go with their labels.
REPAIR = "ud_tag_repair"
# Finds the words of multiword tokens.
EXPANDER = "mwt_expander"
# Components with the vectors that others listen to; they are added where one listens.
SHARED = ("tok2vec", "transformer")
# Training configs of the parser alone; one for each kind of encoder, and one for none.
CONFIGS = Path(__file__).parents[1] / "configs"
# `curated.cfg` there has the sizes of this encoder.
CURATED_ENCODER = "bert-base-cased"
# The sections of components that share vectors.
OTHERS = Path(__file__).with_name("shared_vectors.cfg")
# The attributes of tokens that taggers set.
OF_TAGGERS = {"tagger": ["TAG"], "morphologizer": ["POS", "MORPH"]}
# Trees keep the guidelines of Universal Dependencies, by the tags that the pipeline predicts.
GUIDELINES = {"@misc": "spacy_rootmind.ud_guidelines.v1", "fixed_tags": False}
# The tokenizer is fitted to the training corpus.
FIT_TOKENIZER = {"@callbacks": "spacy_rootmind.fit_tokenizer.v1", "path": "${paths.train}"}


def init_config(output: Path, options: ConfigOptions, *, force: bool = False) -> None:
    """Write a training config to a file, or to stdout for "-", and say how to use it."""
    text = make_config(options).to_str()
    if str(output) == "-":
        print(text)
        return
    if output.exists() and not force:
        raise RunError(f"{output} exists: use --force to overwrite it")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text + "\n", encoding="utf8")
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
    """Make a complete training config."""
    names = component_names(options)
    shipped = Config().from_disk(CONFIGS / f"{options.encoder or 'cpu'}.cfg", interpolate=False)
    others = Config().from_disk(OTHERS, interpolate=False)
    config, shared = shipped.copy(), others["components"]
    listeners = [name for name in names if name != PARSER and is_listening(shared.get(name))]
    if options.encoder is not None:
        config["paths"]["encoder"] = options.transformer or options.curated
        model = config["components"][PARSER]["model"]
        # spaCy would import the encoder's package to fill in the rest.
        model["tok2vec"] = shared[PARSER]["model"]["tok2vec"]
        config["initialize"]["components"] = {}
        if names != [PARSER]:
            # The parser leaves the encoder to the others in part.
            model["grad_factor"] = shared[PARSER]["model"]["grad_factor"]
    elif listeners:
        config["nlp"] |= others["nlp"]
        own = Config(config["components"][PARSER], is_interpolated=False)
        config["components"][PARSER] = own.merge(shared[PARSER])
    parser = config["components"][PARSER]
    if options.encoder is not None or listeners:
        names = ["tok2vec", *names]
    if options.vectors is not None:
        config["paths"]["vectors"] = options.vectors
        tok2vec = shared["tok2vec"]["model"] if listeners else parser["model"]["tok2vec"]
        tok2vec["embed"]["include_static_vectors"] = True
    if options.ud:
        parser["guidelines"] = GUIDELINES
    if options.fit_tokenizer:
        config["initialize"]["before_init"] = FIT_TOKENIZER
    config["components"] = {name: shared.get(name, {"factory": name}) for name in names}
    config["components"][PARSER] = parser
    if RULER in names and RULER not in options.names:
        tag_whitespace(config, others["initialize"]["components"][RULER]["patterns"][0])
    config["nlp"] |= {"lang": options.lang, "pipeline": names}
    nlp = filled(config)
    config = nlp.config
    if options.encoder is not None:
        put_encoder_in(config, shipped)
    annotate_sentences(config, nlp)
    return config


def tag_whitespace(config: Config, rule: dict[str, Any]) -> None:
    """Give the attribute ruler a rule for whitespace, with what the taggers set, in place.

    It has no scorer, which would repeat the scores of the taggers.
    """
    taggers = [name for name in OF_TAGGERS if name in config["components"]]
    attrs = {key: rule["attrs"][key] for name in taggers for key in OF_TAGGERS[name]}
    config["components"][RULER]["scorer"] = None
    config["initialize"]["components"][RULER] = {"patterns": [rule | {"attrs": attrs}]}


def filled(config: Config) -> Language:
    """Make the pipeline of a config; its own config has everything that has been left out."""
    # These depend on the language and the components.
    del config["nlp"]["tokenizer"], config["training"]["score_weights"]
    try:
        nlp = load_model_from_config(config, auto_fill=True)
    except Exception as error:
        names = ",".join(name for name in config["nlp"]["pipeline"] if name not in SHARED)
        raise RunError(
            f"Cannot make a config for --lang {config['nlp']['lang']} --pipeline {names}: "
            f"{' '.join(str(error).split())}"
        ) from error
    # Whenever spaCy returns a config, it rescales and rounds the weights of scores.
    before, weights = None, nlp.config["training"]["score_weights"]
    while weights != before:
        before, weights = weights, nlp.config["training"]["score_weights"]
    return nlp


def put_encoder_in(config: Config, shipped: Config) -> None:
    """Replace the tok2vec of a config, and the listeners to it, by an encoder, in place."""
    config["initialize"]["components"] |= shipped["initialize"]["components"]
    components = {"transformer": shipped["components"]["transformer"], **config["components"]}
    del components["tok2vec"]
    replace_listeners(components, shipped["components"][PARSER]["model"]["tok2vec"])
    config["components"], config["nlp"]["pipeline"] = components, list(components)


def replace_listeners(section: dict[str, Any], listener: dict[str, Any]) -> None:
    """Replace the listeners to a tok2vec in a section, in place."""
    for name, value in section.items():
        if isinstance(value, dict):
            if value.get("@architectures") == "spacy.Tok2VecListener.v1":
                section[name] = deepcopy(listener)
            else:
                replace_listeners(value, listener)


def annotate_sentences(config: Config, nlp: Language) -> None:
    """Let components that find sentences before the parser do so in training too, in place.

    It is then trained on the sentences that it will get. A component that listens to shared vectors
    would find zeros there if these were not annotated as well.
    """
    names = config["nlp"]["pipeline"]
    finders = [
        name
        for name in names[: names.index(PARSER)]
        if name not in SHARED and "token.is_sent_start" in nlp.get_pipe_meta(name).assigns
    ]
    listen = any(is_listening(config["components"][name]) for name in finders)
    config["training"]["annotating_components"] = [*(names[:1] if listen else []), *finders]


def is_listening(section: dict[str, Any] | None) -> bool:
    """Return whether the section of a component has a listener to shared vectors."""
    return "Listener" in str(section)


def component_names(options: ConfigOptions) -> list[str]:
    """List the components, with those that belong to others and without the shared vectors."""
    choices = (options.transformer, options.curated, options.vectors)
    if sum(choice is not None for choice in choices) > 1:
        raise RunError("Expected one of --transformer, --curated and --vectors at most")
    if "transformer" in options.names and options.encoder is None:
        raise RunError("Expected --transformer ENCODER for the transformer in --pipeline")
    names = [name for name in options.names if name not in SHARED]
    if PARSER not in names:
        received = ",".join(names) or "nothing"
        raise RunError(f"Expected {PARSER} in --pipeline, received {received}")
    taggers = [i for i, name in enumerate(names) if name in OF_TAGGERS]
    if taggers and RULER not in names:
        names.insert(taggers[-1] + 1, RULER)
    if options.ud and "morphologizer" in names and REPAIR not in names:
        # Words are chosen by the tags that it leaves.
        names.insert(names.index(EXPANDER) if EXPANDER in names else len(names), REPAIR)
    return names
