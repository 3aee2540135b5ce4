"""Every registered name resolves through package metadata alone."""

import pickle
import re
from importlib.metadata import distribution, entry_points
from importlib.util import find_spec

import pytest
import spacy
from processes import run_python
from spacy.util import registry

import spacy_rootmind

ENTRY_POINTS = [
    (group, entry.name)
    for group in (
        "spacy_factories",
        "spacy_architectures",
        "spacy_callbacks",
        "spacy_misc",
        "spacy_scorers",
        "spacy_tokenizers",
        "spacy_vectors",
        "thinc_optimizers",
    )
    for entry in entry_points(group=group)
    if entry.value.startswith("spacy_rootmind")
]


def test_entry_points_are_declared():
    assert {name for _, name in ENTRY_POINTS} == {
        "root_mst",
        "mwt_expander",
        "ud_tag_repair",
        "spacy_rootmind.Adam.v1",
        "spacy_rootmind.AffixEmbed.v1",
        "spacy_rootmind.BiaffineParser.v1",
        "spacy_rootmind.HalfPrecision.v1",
        "spacy_rootmind.JoiningTokenizer.v1",
        "spacy_rootmind.HalfPrecisionVectors.v1",
        "spacy_rootmind.LinearParser.v1",
        "spacy_rootmind.ScriptScorer.v1",
        "spacy_rootmind.OwnStaticVectors.v1",
        "spacy_rootmind.fit_tokenizer.v1",
        "spacy_rootmind.fast_cpu.v1",
        "spacy_rootmind.parser_scorer.v1",
        "spacy_rootmind.mwt_scorer.v1",
        "spacy_rootmind.preset_heads.v1",
        "spacy_rootmind.ud_guidelines.v1",
    }


@pytest.mark.parametrize(("group", "name"), ENTRY_POINTS)
def test_entry_point_resolves(group, name):
    if group == "spacy_factories":
        assert spacy.blank("xx").has_factory(name)
    else:
        assert callable(registry.get(group.partition("_")[2], name))


def test_core_install_requires_spacy_and_numpy_only():
    required = [r for r in distribution("spacy-rootmind").requires or [] if "extra ==" not in r]
    assert sorted(re.split(r"[<>=!~ ]", r)[0] for r in required) == ["numpy", "spacy"]


def test_import_loads_neither_spacy_nor_thinc_nor_torch(tmp_path):
    code = (
        "import sys, spacy_rootmind; "
        "print([m for m in ('spacy', 'thinc', 'torch', 'transformers') if m in sys.modules])"
    )
    assert run_python(code, cwd=tmp_path) == "[]"
    # Names that are looked up later are listed all the same.
    code = "import spacy_rootmind as s; print({*s.__all__} - {*dir(s)})"
    assert run_python(code, cwd=tmp_path) == "set()"


def test_import_needs_no_docstrings(tmp_path):
    run_python("import spacy_rootmind", "-OO", cwd=tmp_path)


@pytest.mark.parametrize("name", sorted({*spacy_rootmind.__all__} - {"__version__"}))
def test_public_names_are_pickled_by_reference(name):
    public = getattr(spacy_rootmind, name)
    assert pickle.loads(pickle.dumps(public)) is public


def test_add_pipe_needs_no_import_and_neither_torch_nor_transformers(tmp_path):
    # spaCy imports these packages, where they are, and they need torch.
    packages = ("spacy_curated_transformers", "spacy_transformers")
    absent = "" if any(map(find_spec, packages)) else "torch=None, transformers=None"
    run_python(
        f"import sys; sys.modules.update({absent}); "
        "import spacy; spacy.blank('en').add_pipe('root_mst')",
        cwd=tmp_path,
    )
