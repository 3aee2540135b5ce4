"""Pretrained encoders: their requirements, the choice for a language, and their sizes."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from thinc.compat import has_torch_cuda_gpu, has_torch_mps_gpu
from thinc.util import gpu_is_available

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


class Kind(NamedTuple):
    """A kind of transformer component: the extra and package that it needs, and its encoders."""

    extra: str
    package: str
    english: str
    multilingual: str


KINDS = {
    TRANSFORMER: Kind("transformers", "spacy-transformers", "roberta-base", "xlm-roberta-base"),
    CURATED: Kind(
        "curated",
        "spacy-curated-transformers",
        "bert-base-cased",
        "bert-base-multilingual-cased",
    ),
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
        otherwise = f' -e "../..[{kind.extra}]", in projects/ud of a checkout'
        check_package(kind.package, f"--vars.encoder {encoder}", otherwise)
    check_gpu(gpu, needs_torch=kind is not None)


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


def check_package(name: str, needed_by: str, install: str = "") -> None:
    """Check that a package is installed; `install` says how, unless by its name."""
    try:
        # By its distribution: a folder named `build` can be imported as well.
        version(name)
    except PackageNotFoundError as error:
        raise SetupError(
            f"{needed_by} needs the package {name!r}, which is not installed: pip install"
            f"{install or f' {name}'}"
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
    if found.model_type != "bert":
        raise SetupError(
            f"expected a BERT for --vars.encoder curated, {name!r} is of type "
            f"{found.model_type!r}: choose another one, or --vars.encoder transformer"
        )
    return {f"{MODEL}.{own}": getattr(found, its) for own, its in SETTINGS.items()}
