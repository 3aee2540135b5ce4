"""`spacy package`: what it builds installs where nothing else is, and parses the same there."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import spacy
import srsly
from commandline import spacy_command
from conftest import ROOT
from environments import PROJECT, Environment, make_bare, pack_installed
from packaging.requirements import Requirement
from parsers import arcs_of
from spacy.util import get_minor_version_range

import spacy_rootmind

pytestmark = pytest.mark.workflow

TEXTS = ["The teacher that she met gave the boy a book.", "Which book did Anna read?"]
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


# --- installation ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment with all that spacy-rootmind requires, but not itself."""
    return make_bare(tmp_path_factory.mktemp("bare"))


def check_parses(environment, nlp, folder):
    """Compare the parses of the installed package and of the pipeline that it was made of."""
    printed = environment.run("python", "-c", PARSE, json.dumps(TEXTS), cwd=folder)
    spacy_file, rootmind_file, version, arcs = json.loads(printed.splitlines()[-1])
    assert Path(spacy_file).is_relative_to(environment.folder)
    assert Path(rootmind_file).is_relative_to(environment.folder)
    assert version == "1.2.3"
    expected = [arcs_of(doc) for doc in nlp.pipe(TEXTS)]
    assert [[tuple(arc) for arc in doc] for doc in arcs] == expected


def test_package_brings_spacy_rootmind_with_it(bare, wheel, shared, tmp_path):
    install = ("pip", "install", "--no-index", "--disable-pip-version-check")
    # Nowhere to take it from: the requirement is a real one.
    printed = bare.run(*install, wheel, cwd=tmp_path, succeeds=False)
    assert PROJECT in printed
    bare.run("python", "-c", "import spacy_rootmind", cwd=tmp_path, succeeds=False)
    pack_installed(tmp_path)
    bare.run(*install, "--find-links", tmp_path, wheel, cwd=tmp_path)
    check_parses(bare, spacy.load(shared), tmp_path)


@pytest.mark.slow
def test_package_installs_from_nothing(wheel, shared, tmp_path):
    """The same with spaCy from the package index, and a wheel of ours that was built for it.

    That is the one that ROOTMIND_WHEEL names, or else it is compiled here.
    """
    own = os.environ.get("ROOTMIND_WHEEL")
    if own is None:
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT]
        subprocess.run(command, cwd=tmp_path, check=True)
        [own] = tmp_path.glob("spacy_rootmind-*.whl")
    environment = Environment(tmp_path / "venv")
    venv.create(environment.folder, with_pip=True)
    environment.run("pip", "install", "--find-links", Path(own).parent, wheel, cwd=tmp_path)
    check_parses(environment, spacy.load(shared), tmp_path)
