"""Copying of treebanks to the assets."""

import sys

import fetch
import pytest

FILES = {f"en_made-ud-{split}.conllu" for split in ("train", "dev", "test")}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("below", [True, False])
def test_treebank_is_copied_from_its_folder_or_the_one_above(below, made, tmp_path):
    folder, _ = made
    (tmp_path / "UD_Made-Up").mkdir()
    (tmp_path / "UD_Made-Up" / "en_old-ud-train.conllu").write_text("old", encoding="utf8")
    fetch.fetch(str(folder.parent if below else folder), tmp_path, "UD_Made-Up")
    assert contents(tmp_path / "UD_Made-Up") == contents(folder)
    assert set(contents(folder)) == {*FILES, "README.md"}


@pytest.mark.parametrize("has_source", [True, False])
def test_error_names_the_folder_and_similar_ones(has_source, tmp_path, monkeypatch):
    for name in ("UD_Irish-IDT", "UD_Irish-Cadhan", "UD_French-GSD"):
        (tmp_path / name).mkdir()
    source = str(tmp_path) if has_source else ""
    monkeypatch.setattr(sys, "argv", ["fetch.py", source, str(tmp_path), "UD_Irsh-IDT"])
    with pytest.raises(SystemExit) as error:
        fetch.main()
    message = str(error.value)
    assert f"{tmp_path / 'UD_Irsh-IDT'} does not exist (similar: UD_Irish-IDT" in message
    assert "UD_French-GSD" not in message
    assert "--vars.source" in message
    assert has_source is not ("spacy project assets" in message)
