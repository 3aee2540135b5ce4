"""`spacy package`: what it builds installs where nothing else is, and parses the same there."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
import spacy
import srsly
from commandline import arcs_of, spacy_command
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from spacy.util import get_minor_version_range

import spacy_rootmind

pytestmark = pytest.mark.workflow

TEXTS = ["The teacher that she met gave the boy a book.", "Which book did Anna read?"]
PROJECT = "spacy-rootmind"
NEEDED = f"{PROJECT}{get_minor_version_range(spacy_rootmind.__version__)}"
PARSE = """
import json, sys
import spacy

nlp = spacy.load("en_tiny")
docs = list(nlp.pipe(json.loads(sys.argv[1])))
arcs = [[(token.head.i, token.dep_) for token in doc] for doc in docs]
files = [sys.modules[name].__file__ for name in ("spacy", "spacy_rootmind")]
print(json.dumps([*files, nlp.meta["version"], arcs]))
"""


@pytest.fixture(scope="module")
def package(shared, tmp_path_factory):
    """A folder in which `spacy package` has built a trained pipeline."""
    folder = tmp_path_factory.mktemp("package")
    arguments = ("--name", "tiny", "--version", "1.2.3", "--build", "sdist,wheel")
    printed = spacy_command("package", shared, folder, *arguments, cwd=folder)
    assert "Successfully created zipped Python package" in printed
    assert "Successfully created binary wheel" in printed
    return folder / "en_tiny-1.2.3"


@pytest.fixture(scope="module")
def wheel(package):
    return package / "dist" / "en_tiny-1.2.3-py3-none-any.whl"


def required(metadata):
    """Requirements in a package's metadata, each in one form."""
    return {
        str(Requirement(line)) for line in message_from_bytes(metadata).get_all("Requires-Dist")
    }


def test_package_requires_spacy_rootmind(package, wheel):
    needed = str(Requirement(NEEDED))
    named = srsly.read_json(package / "meta.json")["requirements"]
    assert needed in {str(Requirement(line)) for line in named}
    with zipfile.ZipFile(wheel) as archive:
        assert needed in required(archive.read("en_tiny-1.2.3.dist-info/METADATA"))
    with tarfile.open(package / "dist" / "en_tiny-1.2.3.tar.gz") as archive:
        assert needed in required(archive.extractfile("en_tiny-1.2.3/PKG-INFO").read())


def test_package_tells_labels_and_scores(package, shared):
    nlp = spacy.load(shared)
    meta = srsly.read_json(package / "meta.json")
    assert meta["labels"]["root_mst"] == list(nlp.get_pipe("root_mst").labels)
    assert meta["performance"]["dep_las"] == nlp.meta["performance"]["dep_las"]
    readme = (package / "README.md").read_text(encoding="utf8")
    assert "| **`root_mst`** | `ROOT`" in readme
    assert f"| `DEP_LAS` | {100 * meta['performance']['dep_las']:.2f} |" in readme


# --- installation ------------------------------------------------------------------------------


def run(*command, cwd, succeeds=True):
    result = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    assert (result.returncode == 0) == succeeds, result.stdout + result.stderr
    return result.stdout + result.stderr


def installed_project():
    """The distribution of spacy-rootmind that pip has installed.

    `python -m pytest` puts the checkout first on the path, and with it the folder egg-info that a
    build leaves there, which has no METADATA.
    """
    found = distributions(name=PROJECT)
    return next(one for one in found if one.read_text("METADATA") is not None)


def pack_installed(folder):
    """Make a wheel of spacy-rootmind as it is installed here, compiled modules and all.

    Compiling it again would take minutes; the `slow` test below does.
    """
    here = Path(spacy_rootmind.__file__).parent
    installed = installed_project()
    tag = next(sys_tags())
    stem = f"spacy_rootmind-{installed.version}"
    info = {
        "METADATA": installed.read_text("METADATA"),
        "entry_points.txt": installed.read_text("entry_points.txt"),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        for path in sorted(here.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, Path("spacy_rootmind") / path.relative_to(here))
        for name, text in info.items():
            archive.writestr(f"{stem}.dist-info/{name}", text)


def requirements_of(needing, seen=None):
    """Distributions that one needs here, and that these need."""
    seen = set() if seen is None else seen
    for line in needing.requires or []:
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in seen:
            seen.add(requirement.name)
            requirements_of(distribution(requirement.name), seen)
    return seen


def link_distribution(name, folder):
    """Put a distribution that is installed here into another environment."""
    found = distribution(name)
    for top in {path.parts[0] for path in found.files} - {"..", "__pycache__"}:
        if not (folder / top).exists():
            (folder / top).symlink_to(Path(found.locate_file(top)).resolve())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment with all that spacy-rootmind requires, but not itself; its interpreter."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in requirements_of(installed_project()):
        link_distribution(name, packages)
    return folder / "bin" / "python"


def check_parses(python, nlp, folder):
    """Compare parses of the installed package with those of the pipeline that it was made of."""
    printed = run(python, "-c", PARSE, json.dumps(TEXTS), cwd=folder).splitlines()[-1]
    spacy_file, rootmind_file, version, arcs = json.loads(printed)
    environment = python.parent.parent
    assert Path(spacy_file).is_relative_to(environment)
    assert Path(rootmind_file).is_relative_to(environment)
    assert version == "1.2.3"
    expected = [arcs_of(doc) for doc in nlp.pipe(TEXTS)]
    assert [[tuple(arc) for arc in doc] for doc in arcs] == expected


def test_package_brings_spacy_rootmind_with_it(bare, wheel, shared, tmp_path):
    pip = (bare, "-m", "pip", "install", "--no-index", "--disable-pip-version-check")
    # Nowhere to take it from: the requirement is a real one.
    printed = run(*pip, wheel, cwd=tmp_path, succeeds=False)
    assert PROJECT in printed
    run(bare, "-c", "import spacy_rootmind", cwd=tmp_path, succeeds=False)
    pack_installed(tmp_path)
    run(*pip, "--find-links", tmp_path, wheel, cwd=tmp_path)
    check_parses(bare, spacy.load(shared), tmp_path)


@pytest.mark.slow
def test_package_installs_from_nothing(wheel, shared, tmp_path):
    """The same with spaCy from the package index, and a wheel of ours that was built for it.

    That is the one that ROOTMIND_WHEEL names, or else it is compiled here.
    """
    own = os.environ.get("ROOTMIND_WHEEL")
    if own is None:
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT, cwd=tmp_path)
        [own] = tmp_path.glob("spacy_rootmind-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--find-links", Path(own).parent, wheel, cwd=tmp_path)
    check_parses(python, spacy.load(shared), tmp_path)
