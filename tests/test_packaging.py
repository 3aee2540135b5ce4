"""Facts about the package, in every place that states them."""

import os
import re
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import srsly
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import run_python

import spacy_rootmind


def test_one_version():
    citation = srsly.read_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == spacy_rootmind.__version__
    assert version("spacy-rootmind") == spacy_rootmind.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
    [latest, *_] = re.findall(r"(?m)^## (\S+) \(", changelog)
    assert latest == spacy_rootmind.__version__


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = spacy_rootmind.colour


def test_sources_that_hide_the_installed_package_are_named(tmp_path):
    """A checkout that is not built, in the current folder, where Python looks first."""
    package = Path(spacy_rootmind.__file__).parent
    for path in package.rglob("*.py"):
        copy = tmp_path / "spacy_rootmind" / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    code = "try:\n    import spacy_rootmind\nexcept ImportError as error:\n    print(error)"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    last = run_python(code, cwd=tmp_path, env=env)
    assert last.startswith("expected spacy_rootmind with its compiled modules")
    assert repr(str(tmp_path)) in last
    assert "pip install -e ." in last


def test_pipeline_allows_the_version(web_pipeline):
    found = map(Requirement, srsly.read_json(web_pipeline / "meta.json")["requirements"])
    required = {requirement.name: requirement.specifier for requirement in found}
    assert set(required) == {"spacy", "spacy-rootmind"}
    assert required["spacy-rootmind"].contains(spacy_rootmind.__version__)


# Extras that CI does not install, and that of the site, which does not install on Python 3.10.
NOT_PINNED = {"benchmark-torch", "benchmark-checkouts", "docs"}
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def constraints(python):
    """Versions in `.ci/constraints.txt` for a version of Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.9"}
    found = {}
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf8").splitlines():
        if line.startswith("#"):
            continue
        assert re.match(r"[\w.-]+==[\w.]+( ; .*)?$", line), line
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate({**environment, "sys_platform": "linux"}):
            [specifier] = pin.specifier
            assert found.setdefault(pin.name, specifier.version) == specifier.version
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_pin_what_ci_installs(python):
    """Each requirement has one version, which is allowed."""
    if not (ROOT / ".ci").is_dir():
        pytest.skip("the source distribution has no .ci")
    pinned = constraints(python)
    tools = (ROOT / ".ci" / "tools.txt").read_text(encoding="utf8").splitlines()
    wanted = [Requirement(line) for line in tools if line and not line.startswith("#")]
    for line in requires("spacy-rootmind"):
        requirement = Requirement(line)
        extras = set(re.findall(r'extra == "([\w-]+)"', line.replace("'", '"')))
        if requirement.name != "spacy-rootmind" and not extras & NOT_PINNED:
            wanted.append(requirement)
    assert len(wanted) > 15
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(pinned[name]), (requirement, pinned[name])
