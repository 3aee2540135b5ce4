"""Pretrained encoders: checks of requirements, and settings of the config."""

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import check
import pretrained
import pytest
from conftest import CONFIGS
from pretrained import KINDS, SetupError, check_gpu, choose, settings_of
from spacy.util import load_config

SIZES = "components.transformer.model"


SCORER = {"udtools": "0.2.9"}
ALL = {
    **SCORER,
    "spacy-transformers": "1.4.0",
    "spacy-curated-transformers": "0.3.1",
    "transformers": "4.53.2+own",
}


@pytest.fixture
def check_command(made, monkeypatch):
    """Runs the command where these versions are installed, and nothing else is."""

    def run(encoder, *arguments, installed=ALL):
        def version(name):
            if name not in installed:
                raise PackageNotFoundError(name)
            return installed[name]

        monkeypatch.setattr(pretrained, "version", version)
        monkeypatch.setattr(check, "ASSETS", made[0].parent)
        command = ["check.py", encoder, "--treebank", made[0].name, *arguments]
        monkeypatch.setattr(sys, "argv", command)
        check.main()

    return run


# --- before anything is done -------------------------------------------------------------------


@pytest.mark.parametrize(("encoder", "kind"), KINDS.items())
def test_missing_package_is_named_with_what_installs_it(check_command, encoder, kind):
    with pytest.raises(SystemExit) as error:
        check_command(encoder, installed=SCORER)
    assert str(error.value) == (
        f"--vars.encoder {encoder} needs the package {kind.package!r}, which is not installed: "
        f'pip install -e "../..[{kind.extra}]", in projects/ud of a checkout'
    )


def test_all_that_is_missing_is_named_at_once(check_command, tmp_path):
    arguments = ["--build", "wheel", "--language", "zz", "--source", str(tmp_path)]
    arguments += ["--seeds", "a", "--components", "tager"]
    with pytest.raises(SystemExit) as error:
        check_command("cpu", *arguments, installed={})
    named = ["UD_Made-Up does not exist", "language 'zz'", "expected seeds", "'tager'"]
    for line, name in zip(str(error.value).splitlines(), [*named, "build", "udtools"], strict=True):
        assert name in line


def test_missing_gpu_raises(check_command, monkeypatch):
    monkeypatch.setattr(pretrained, "gpu_is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"a GPU for --vars.gpu 0, and spaCy finds none"):
        check_command("cpu", "--gpu-id", "0")
    check_gpu(-1)
    monkeypatch.setattr(pretrained, "gpu_is_available", lambda: True)
    monkeypatch.setattr(pretrained, "has_torch_cuda_gpu", False)
    monkeypatch.setattr(pretrained, "has_torch_mps_gpu", False)
    check_command("cpu", "--gpu-id", "0")
    with pytest.raises(SystemExit, match="torch"):
        check_command("transformer", "--gpu-id", "0")


# --- which encoder -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_encoder_suits_the_treebanks_language(name):
    shipped = load_config(CONFIGS / f"{name}.cfg")
    assert choose(name, "auto", "en_ewt")[0] == shipped["paths"]["encoder"]
    found, reason = choose(name, "auto", "kk_ktb")
    assert found == KINDS[name].multilingual
    assert found in reason
    assert "'kk'" in reason
    assert choose(name, "own/model", "kk_ktb") == ("own/model", "encoder own/model")


# --- what the config has to say ----------------------------------------------------------------


def test_sizes_are_the_encoders(bert):
    assert settings_of("transformer", bert) == {}
    settings = settings_of("curated", bert)
    model = load_config(CONFIGS / "curated.cfg")["components"]["transformer"]["model"]
    own = json.loads((Path(bert) / "config.json").read_text("utf8"))
    assert settings[f"{SIZES}.hidden_width"] == own["hidden_size"] == 32
    assert settings[f"{SIZES}.vocab_size"] == own["vocab_size"] == 300
    assert settings[f"{SIZES}.num_hidden_layers"] == 2
    assert settings[f"{SIZES}.model_max_length"] == own["max_position_embeddings"] == 64
    assert settings[f"{SIZES}.hidden_dropout_prob"] == 0.0
    # The config's settings of an encoder are set, and nothing else.
    kept = {"@architectures", "mixed_precision", "torchscript", "wrapped_listener"}
    kept |= {"piece_encoder", "with_spans", "grad_scaler_config"}
    named = {name.rpartition(".")[2] for name in settings}
    assert named == model.keys() - kept


def test_only_a_bert_is_curated(bert, sentences, tmp_path):
    from encoders import write_roberta

    (tmp_path / "roberta").mkdir()
    roberta = write_roberta(tmp_path / "roberta", sentences)
    with pytest.raises(SetupError, match=r"is of type 'roberta': choose .*--vars.encoder transf"):
        settings_of("curated", roberta)
    assert settings_of("transformer", roberta) == {}
