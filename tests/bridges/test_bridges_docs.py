"""The examples of docs/bridges.md, run as printed, and its table of parsers."""

import doctest
import importlib
import inspect
import re

import pytest
from conftest import ROOT

from spacy_rootmind import bridges

PAGE = (ROOT / "docs" / "bridges.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "torch" in block])
def test_examples_print_the_output_shown(block, capsys, monkeypatch):
    pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
    monkeypatch.chdir(ROOT)
    exec(compile(block, "bridges.md", "exec"), {})
    shown = re.findall(r"^print.*  # (.*)$", block, flags=re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


def test_docstring_examples_run():
    pytest.importorskip("torch", reason="needs torch, of the extra [torch]")
    module = importlib.import_module("spacy_rootmind.torch")
    runner = doctest.DocTestRunner()
    examples = [inspect.unwrap(getattr(module, name)) for name in module.__all__]
    for one in examples:
        for found in doctest.DocTestFinder().find(one, globs=vars(module).copy()):
            runner.run(found)
    assert runner.tries > 20
    assert runner.failures == 0


def test_every_parser_is_in_the_table():
    rows = re.findall(r'^\| `"(\w+)"` \| `([\w.]+)`', PAGE, re.MULTILINE)
    assert dict(rows) == {
        parser: f"{own.module}.{own.name}" for parser, own in bridges.DECODERS.items()
    }
