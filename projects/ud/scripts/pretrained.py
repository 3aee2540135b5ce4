"""Pretrained encoders: their requirements, and the choice for a language."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from thinc.compat import has_torch_cuda_gpu, has_torch_mps_gpu
from thinc.util import gpu_is_available

AUTO = "auto"
CPU, TRANSFORMER = ENCODERS = ("cpu", "transformer")
EXTRA, PACKAGE = "transformers", "spacy-transformers"
ENGLISH_ENCODER, MULTILINGUAL_ENCODER = "roberta-base", "xlm-roberta-base"


class SetupError(ValueError):
    """A requirement is not met; the message says why and what to do."""


# --- requirements ------------------------------------------------------------------------------


def check(encoder: str, pretrained: str, gpu: int) -> None:
    """Check that packages and GPU are available, without loading them."""
    if encoder == TRANSFORMER:
        otherwise = f' -e "../..[{EXTRA}]", in projects/ud of a checkout'
        check_package(PACKAGE, f"--vars.encoder {encoder}", otherwise)
    elif pretrained != AUTO:
        raise SetupError(
            f"expected an encoder for --vars.pretrained {pretrained!r}: set --vars.encoder "
            f"{TRANSFORMER} too"
        )
    check_gpu(gpu, needs_torch=encoder == TRANSFORMER)


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
    if language == "en":
        return ENGLISH_ENCODER, f"encoder {ENGLISH_ENCODER}, for English"
    return MULTILINGUAL_ENCODER, (
        f"encoder {MULTILINGUAL_ENCODER}, for many languages: check that {language!r} is one of "
        f"them, or choose another with --vars.pretrained"
    )


def check_encoder(name: str) -> None:
    """Check that a pretrained encoder can be read; downloads its config.json."""
    from transformers import AutoConfig

    try:
        if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
            # AutoConfig would guess the type from the folder's name.
            raise OSError("this folder has no config.json")
        AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise SetupError(
            f"cannot read the encoder {name!r}; expected the name of a model on the Hugging Face "
            f"hub, or a folder written by save_pretrained (relative to projects/ud): "
            f"{error}"
        ) from error
