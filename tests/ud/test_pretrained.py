"""Pretrained encoders: checks of requirements."""

import sys
from importlib.metadata import PackageNotFoundError

import check
import pretrained
import pytest
from conftest import CONFIGS
from pretrained import MULTILINGUAL_ENCODER, choose
from spacy.util import load_config

SCORER = {"udtools": "0.2.9"}
ALL = {
    **SCORER,
    "spacy-transformers": "1.4.0",
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


def test_all_that_is_missing_is_named_at_once(check_command, tmp_path):
    arguments = ["--build", "wheel", "--language", "zz", "--source", str(tmp_path)]
    arguments += ["--seeds", "a", "--components", "tager"]
    with pytest.raises(SystemExit) as error:
        check_command("transformer", *arguments, installed={})
    package = (
        "--vars.encoder transformer needs the package 'spacy-transformers', which is not "
        'installed: pip install -e "../..[transformers]", in projects/ud of a checkout'
    )
    named = ["UD_Made-Up does not exist", "language 'zz'", "expected seeds", "'tager'", package]
    for line, name in zip(str(error.value).splitlines(), [*named, "build", "udtools"], strict=True):
        assert name in line


# --- which encoder -----------------------------------------------------------------------------


def test_encoder_suits_the_treebanks_language():
    shipped = load_config(CONFIGS / "transformer.cfg")
    assert choose("transformer", "auto", "en_ewt")[0] == shipped["paths"]["encoder"]
    found, reason = choose("transformer", "auto", "kk_ktb")
    assert found == MULTILINGUAL_ENCODER
    assert found in reason
    assert "'kk'" in reason
    assert choose("transformer", "own/model", "kk_ktb") == ("own/model", "encoder own/model")
