"""Files that `.ci/listings.py` writes for conda-forge and for spaCy's universe."""

import hashlib
import io
import re
import runpy
import sys
import tarfile
from importlib.metadata import metadata, requires

import pytest
import srsly
from conftest import ROOT
from packaging.requirements import Requirement

import spacy_rootmind

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCRIPT = ROOT / ".ci" / "listings.py"
ADDRESS = "https://github.com/someone/a-parser"


def make_sdist(folder, address):
    """Write an sdist that has this package's metadata and nothing else."""
    info = metadata("spacy-rootmind")
    del info["Project-URL"]
    if address:
        info["Project-URL"] = f"Repository, {address}"
    data = info.as_string().encode("utf8")
    name = f"spacy_rootmind-{spacy_rootmind.__version__}"
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        for path in (f"{name}/PKG-INFO", f"{name}/spacy_rootmind.egg-info/PKG-INFO"):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return folder / f"{name}.tar.gz"


@pytest.fixture(scope="module")
def write_listings():
    """The script, as a function of a folder."""
    if not SCRIPT.is_file():
        pytest.skip("the source distribution has no .ci")
    main = runpy.run_path(SCRIPT)["main"]
    return lambda folder: main(folder, ["ann", "bob"])


@pytest.fixture(scope="module")
def folder(write_listings, tmp_path_factory):
    """A folder with an sdist and its listings."""
    folder = tmp_path_factory.mktemp("release")
    make_sdist(folder, ADDRESS)
    write_listings(folder)
    return folder


@pytest.fixture(scope="module")
def recipe(folder):
    return srsly.read_yaml(folder / "recipe.yaml")


@pytest.fixture(scope="module")
def entry(folder):
    return srsly.read_json(folder / "universe.json")


@pytest.fixture(scope="module")
def project():
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


@pytest.mark.parametrize("address", [None, "https://example.org/a-parser"])
def test_needs_the_address_of_the_repository(write_listings, tmp_path, address):
    make_sdist(tmp_path, address)
    with pytest.raises(SystemExit, match=r"Repository under \[project.urls\] in pyproject.toml"):
        write_listings(tmp_path)


# --- conda-forge -------------------------------------------------------------------------------


def conda_requirements(lines):
    """Read requirements of a recipe, except lines that name no package of the index."""
    return {str(Requirement(line.replace(" ", "", 1))) for line in lines if "$" not in line}


def test_recipe_names_the_release(recipe, folder):
    for name in ("recipe.yaml", "universe.json"):
        assert not re.search(r"@[A-Z\d]+@", (folder / name).read_text(encoding="utf8"))
    [sdist] = folder.glob("*.tar.gz")
    assert recipe["context"]["version"] == spacy_rootmind.__version__
    assert recipe["source"]["sha256"] == hashlib.sha256(sdist.read_bytes()).hexdigest()
    url = recipe["source"]["url"].replace("${{ version }}", spacy_rootmind.__version__)
    assert url.endswith(f"/{sdist.name}")
    assert recipe["about"]["homepage"] == recipe["about"]["repository"] == ADDRESS
    assert recipe["extra"]["recipe-maintainers"] == ["ann", "bob"]


def test_recipe_requires_what_the_package_requires(recipe, project):
    run = [line for line in requires("spacy-rootmind") if "extra ==" not in line]
    assert conda_requirements(recipe["requirements"]["run"]) == {
        "python", *(str(Requirement(line)) for line in run)
    }  # fmt: skip
    # Its own NumPy is conda-forge's rule.
    build = {str(Requirement(line)) for line in project["build-system"]["requires"]}
    build = {"numpy" if line.startswith("numpy") else line for line in build}
    assert conda_requirements(recipe["requirements"]["host"]) == {"python", "pip", *build}


# --- spaCy's universe --------------------------------------------------------------------------


def test_example_of_the_entry_runs(entry, web_pipeline, capsys):
    code = "\n".join(entry["code_example"]).replace("en_rootmind_web_sm", str(web_pipeline))
    exec(compile(code, "universe.json", "exec"), {})
    words, parses = 8, 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == words + parses
    assert lines[0].startswith("She nsubj saw 0.9")
