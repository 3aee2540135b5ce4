"""Counted instructions: files of callgrind are read right, and what became slower is an error."""

import importlib
import sys

import pytest
from conftest import ROOT

# One library calls another: what the callee takes is not the caller's.
PROFILE = """\
# callgrind format
version: 1
desc: Trigger: Client Request: k_best

positions: line
events: Ir

ob=(1) /lib/spacy_rootmind/kernel/decode.so
fl=(1) ???
fn=(1) decode
0 100
+3 20
cob=(2) /lib/numpy.libs/libopenblas.so
cfn=(2) dgemm
calls=1 0
0 5000
* 3

ob=(2)
fn=(2)
0 5000

ob=(1)
fn=(3) free_all
-2 7

totals: 5130
"""


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("instructions")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_costs_are_those_of_the_library_itself(benchmark, tmp_path):
    (tmp_path / "counts.1").write_text(PROFILE, encoding="utf8")
    found = benchmark.read_counts(tmp_path)
    assert found == {
        "k_best": {
            "/lib/spacy_rootmind/kernel/decode.so": 130,
            "/lib/numpy.libs/libopenblas.so": 5000,
        }
    }


def test_arrays_count_the_package_and_the_parser_all_but_blas(benchmark):
    costs = {
        "/x/spacy_rootmind/kernel/sums.so": 1,
        "/x/numpy.libs/libscipy_openblas64_.so": 10,
        "/x/blis/cy.so": 100,
        "/lib/libm.so.6": 1000,
        "/lib/libc.so.6": 10_000,
        "/x/libpython3.11.so": 100_000,
    }
    assert benchmark.total("decode", costs) == 1
    assert benchmark.total("parse", costs) == 100_001


@pytest.mark.parametrize(("found", "is_slower"), [(1030, False), (1031, True), (500, False)])
def test_only_more_than_the_tolerance_is_slower(benchmark, found, is_slower):
    [line], slower = benchmark.compare({"decode": found}, {"decode": 1000})
    assert line[1:3] == [f"{found:,}", "1,000"]
    assert [name.split()[0] for name in slower] == ["decode"] * is_slower


def test_baselines_have_all_cases(benchmark):
    baselines = benchmark.json.loads(benchmark.BASELINE.read_text(encoding="utf8"))
    for counts in baselines.values():
        assert set(counts) == {*benchmark.array_cases(), benchmark.PARSE}
