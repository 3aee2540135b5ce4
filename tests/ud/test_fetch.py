"""Copying of treebanks to the assets."""

import sys

import fetch
import pytest
from treebank import TreebankError
from ud_treebanks import write_treebank

FILES = {f"en_made-ud-{split}.conllu" for split in ("train", "dev", "test")}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("below", [True, False])
def test_treebank_is_copied_from_its_folder_or_the_one_above(below, made, tmp_path):
    folder, _ = made
    (tmp_path / "UD_Made-Up").mkdir()
    (tmp_path / "UD_Made-Up" / "en_old-ud-train.conllu").write_text("old", encoding="utf8")
    fetch.fetch(folder.parent if below else folder, tmp_path / "UD_Made-Up")
    assert contents(tmp_path / "UD_Made-Up") == contents(folder)
    assert set(contents(folder)) == {*FILES, "README.md"}


def test_treebank_in_place_stays(tmp_path):
    write_treebank(tmp_path / "UD_Made-Up")
    before = contents(tmp_path / "UD_Made-Up")
    fetch.fetch(tmp_path, tmp_path / "UD_Made-Up")
    assert contents(tmp_path / "UD_Made-Up") == before


def test_folder_without_treebank_keeps_the_assets(tmp_path):
    write_treebank(tmp_path / "UD_Made-Up")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TreebankError, match="found none"):
        fetch.fetch(tmp_path / "empty", tmp_path / "UD_Made-Up")
    assert set(contents(tmp_path / "UD_Made-Up")) == {*FILES, "README.md"}


def test_error_says_how_to_get_a_missing_treebank(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fetch.py", "", str(tmp_path / "UD_Made-Up")])
    with pytest.raises(SystemExit, match=r"spacy project assets.*--vars.source"):
        fetch.main()
    monkeypatch.setattr(sys, "argv", ["fetch.py", str(tmp_path), str(tmp_path / "UD_Made-Up")])
    with pytest.raises(SystemExit, match="found none"):
        fetch.main()
