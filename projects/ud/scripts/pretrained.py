"""Pretrained encoders: their requirements, the choice for a language, and their sizes."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from thinc.compat import has_torch_cuda_gpu, has_torch_mps_gpu
from thinc.util import gpu_is_available

PACKAGE = "spacy-rootmind"
AUTO = "auto"
ENGLISH = "en"
CPU, CURATED, TRANSFORMER = ENCODERS = ("cpu", "curated", "transformer")
MODEL = "components.transformer.model"
# Settings of a BERT: their names in the config, and in the encoder's config.json.
SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_width": "hidden_size",
    "intermediate_width": "intermediate_size",
    "num_attention_heads": "num_attention_heads",
    "num_hidden_layers": "num_hidden_layers",
    "max_position_embeddings": "max_position_embeddings",
    "model_max_length": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "padding_idx": "pad_token_id",
    "hidden_act": "hidden_act",
    "layer_norm_eps": "layer_norm_eps",
    "hidden_dropout_prob": "hidden_dropout_prob",
    "attention_probs_dropout_prob": "attention_probs_dropout_prob",
}


class SetupError(ValueError):
    """A requirement is not met; the message says why and what to do."""


@dataclass(frozen=True)
class Kind:
    """A kind of transformer component: the extra that installs it, and encoders for treebanks."""

    extra: str
    english: str
    multilingual: str


KINDS = {
    TRANSFORMER: Kind("transformers", "roberta-base", "xlm-roberta-base"),
    CURATED: Kind("curated", "bert-base-cased", "bert-base-multilingual-cased"),
}


# --- requirements ------------------------------------------------------------------------------


def check(encoder: str, pretrained: str, gpu: int) -> None:
    """Check that packages and GPU are available, without loading them."""
    kind = KINDS.get(encoder)
    if kind is None and pretrained != AUTO:
        raise SetupError(
            f"expected an encoder for --vars.pretrained {pretrained!r}: set --vars.encoder "
            f"transformer or --vars.encoder curated too"
        )
    if kind is not None:
        missing = unmet(kind.extra)
        if missing:
            raise SetupError(
                f"--vars.encoder {encoder} needs {' and '.join(missing)}: in projects/ud of a "
                f'checkout, pip install -e "../..[{kind.extra}]"'
            )
    check_gpu(gpu, needs_torch=kind is not None)


def unmet(extra: str) -> list[str]:
    """List unmet requirements of an extra of our package, with the installed versions."""
    missing = []
    for line in requires(PACKAGE) or ():
        requirement = Requirement(line)
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        wanted = f"{requirement.name}{requirement.specifier}"
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            missing.append(f"{wanted} (not installed)")
        else:
            if not requirement.specifier.contains(found, prereleases=True):
                missing.append(f"{wanted} (installed: {found})")
    return missing


def check_gpu(gpu: int, needs_torch: bool = False) -> None:
    """Check that there is a GPU, if one is to be used."""
    if gpu < 0:
        return
    if not gpu_is_available():
        raise SetupError(
            f"expected a GPU for --vars.gpu {gpu}, and spaCy finds none: it needs a driver and "
            f'CuPy (pip install "spacy[cuda12x]"). Without --vars.gpu, the CPU is used'
        )
    if needs_torch and not (has_torch_cuda_gpu or has_torch_mps_gpu):
        raise SetupError(
            f"expected a GPU for --vars.gpu {gpu}, and torch, which transformers run on, finds "
            f"none: install a build of it for your GPU"
        )


def check_package(name: str, needed_by: str, otherwise: str = "") -> None:
    """Check that a package is installed; SetupError says what else to do."""
    try:
        # By its distribution: a folder named `build` can be imported as well.
        version(name)
    except PackageNotFoundError as error:
        raise SetupError(
            f"{needed_by} needs the package {name!r}, which is not installed: pip install {name}"
            f"{otherwise}"
        ) from error


# --- which encoder -----------------------------------------------------------------------------


def choose(encoder: str, pretrained: str, code: str) -> tuple[str | None, str]:
    """Choose the given encoder, or one for the language of a treebank with this code.

    Returns its name, None if nothing is pretrained, and a message for the user.
    """
    if encoder == CPU:
        return None, "no pretrained encoder"
    if pretrained != AUTO:
        return pretrained, f"encoder {pretrained}"
    language = code.split("_")[0]
    kind = KINDS[encoder]
    if language == ENGLISH:
        return kind.english, f"encoder {kind.english}, for English"
    return kind.multilingual, (
        f"encoder {kind.multilingual}, for many languages: check that {language!r} is one of them, "
        f"or choose another with --vars.pretrained"
    )


def settings_of(encoder: str, name: str) -> dict[str, Any]:
    """List the settings of a config for a pretrained encoder; downloads its config.json."""
    from transformers import AutoConfig

    try:
        if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
            # AutoConfig would guess the type from the folder's name.
            raise OSError("this folder has no config.json")
        found = AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SetupError(
            f"cannot read the encoder {name!r}; expected the name of a model on the Hugging Face "
            f"hub, or a folder written by save_pretrained (relative to projects/ud): "
            f"{error}"
        ) from error
    if encoder != CURATED:
        return {}
    check_bert(name, found.model_type)
    return {f"{MODEL}.{own}": getattr(found, its) for own, its in SETTINGS.items()}


def check_bert(name: str, model_type: str) -> None:
    """Check that an encoder is a BERT with a WordPiece tokenizer; downloads the tokenizer."""
    from transformers import AutoTokenizer, BertTokenizerFast

    advice = "choose another one, or --vars.encoder transformer, for encoders of all kinds"
    if model_type != "bert":
        raise SetupError(
            f"expected a BERT for --vars.encoder curated, {name!r} is of type {model_type!r}: "
            f"{advice}"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (ImportError, OSError, ValueError) as error:
        raise SetupError(f"cannot read the tokenizer of {name!r}: {error}") from error
    if not isinstance(tokenizer, BertTokenizerFast):
        raise SetupError(
            f"expected a WordPiece tokenizer (BertTokenizer) for --vars.encoder curated, that of "
            f"{name!r} is {type(tokenizer).__name__}: {advice}"
        )
