"""The list of phrases that pages, docstrings and comments do without."""

import importlib.util

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def prose():
    """The script that the lint session runs."""
    path = ROOT / ".ci" / "prose.py"
    if not path.is_file():
        pytest.skip("the source distribution has no .ci")
    spec = importlib.util.spec_from_file_location("prose", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "n_phrases"),
    [
        ("Trees are exact. Of a copy, nothing is kept.", 1),
        ("- Where it is set, heads stay.", 1),
        ("| a | What is there stays |", 2),
        ("A line that goes\non. Those are left out.", 1),
        ("All pages but\n  for this one, as much as all that is there.", 3),
        ("Which heads are right? The most probable ones.", 0),
        ('What it costs: see `Where`, and "Which book did she read".', 1),
        ("## What it costs\n\n```python\nWhere = Of\n```\n", 0),
        ("A list of those off the page, as far away as much bread.", 0),
    ],
)
def test_phrases_are_found(prose, text, n_phrases):
    assert len(prose.find_phrases(text)) == n_phrases


def test_pages_and_code_have_none(prose, capsys):
    assert prose.main([]) == 0, capsys.readouterr().out


def test_comments_and_docstrings_are_read(prose):
    quotes = '"' * 3
    # As strings, so that the check passes over them in this file.
    code = (
        f"def f():\n    {quotes}Of trees.\n\n    Those stay.\n    {quotes}\n"
        "    # Where it is\n    # dead, it goes.\n"
        '    return "Of"  '
        "# What is left\n"
    )
    texts = prose.comments(code)
    assert texts == ["Of trees.\n\nThose stay.\n", "Where it is\ndead, it goes.\n", "What is left"]
    assert [len(prose.find_phrases(text)) for text in texts] == [2, 1, 2]
