"""Virtual environments with what spacy-rootmind requires and nothing else, as users have them.

They link to what is installed here: to install it again would take a minute for each of them.
"""

import os
import subprocess
import venv
import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

import spacy_rootmind

PROJECT = "spacy-rootmind"
# spaCy finds what a package requires by the last of them.
COPIED = ("METADATA", "entry_points.txt", "top_level.txt")


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of its own."""

    folder: Path

    @property
    def python(self):
        """Path of the interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *command, cwd, succeeds=True, **variables):
        """Run a command as if the environment were activated; returns what it printed."""
        inherited = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        result = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env={**inherited, "PATH": path, "VIRTUAL_ENV": str(self.folder), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        printed = result.stdout + result.stderr
        assert (result.returncode == 0) == succeeds, f"{command}\n{printed}"
        return printed

    def shell(self, block, *, cwd, **variables):
        """Run a block of the documentation, until a command fails; returns what it printed."""
        return self.run("bash", "-ec", block, cwd=cwd, **variables)


def make_bare(folder):
    """Make an environment with all that spacy-rootmind requires, and pip, but not itself."""
    venv.create(folder)
    for name in {"pip", *requirements_of(installed_project())}:
        link_distribution(name, folder)
    return Environment(folder)


def make_installed(folder):
    """Make an environment in which spacy-rootmind was installed, without extras."""
    environment = make_bare(folder / "venv")
    wheel = pack_installed(folder)
    environment.run("pip", "install", "--no-index", "--no-deps", wheel, cwd=folder)
    return environment


def installed_project():
    """The distribution of spacy-rootmind that pip has installed.

    An editable one puts the checkout on the path, and with it the folder egg-info that a build
    leaves there, which has no METADATA.
    """
    found = distributions(name=PROJECT)
    return next(one for one in found if one.read_text("METADATA") is not None)


def pack_installed(folder):
    """Make a wheel of spacy-rootmind as it is installed here, compiled modules and all.

    Compiling it again would take minutes. Returns the path.
    """
    here = Path(spacy_rootmind.__file__).parent
    installed = installed_project()
    tag = next(sys_tags())
    stem = f"spacy_rootmind-{installed.version}"
    info = {
        **{name: installed.read_text(name) for name in COPIED},
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "RECORD": "",
    }
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(here.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, Path("spacy_rootmind") / path.relative_to(here))
        for name, text in info.items():
            archive.writestr(f"{stem}.dist-info/{name}", text)
    return wheel


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


def link_distribution(name, environment):
    """Put a distribution that is installed here, with its commands, into another environment."""
    found = distribution(name)
    [packages] = environment.glob("lib/python*/site-packages")
    for top in {path.parts[0] for path in found.files} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(Path(found.locate_file(top)).resolve())
    for entry in found.entry_points:
        if entry.group == "console_scripts":
            write_command(environment / "bin" / entry.name, entry)


def write_command(path, entry):
    """Write a command of a distribution, as pip does."""
    path.write_text(
        f"#!{path.with_name('python')}\nimport sys\nfrom {entry.module} import "
        f"{entry.attr.split('.')[0]}\nsys.exit({entry.attr}())\n",
        encoding="utf8",
    )
    path.chmod(0o755)
