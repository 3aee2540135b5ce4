"""Peers to compare with, and files from the checkouts of their repositories."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

Checkouts = Mapping[str, Path]
"""Folder of each peer's repository, by the peer's name."""

Loaders = Mapping[str, tuple[Callable[[Checkouts], list[Any]], str]]
"""How to load what a peer has, and what to install or which option to give, by its name."""


def load_peers(loaders: Loaders, checkouts: Checkouts) -> tuple[list[Any], dict[str, str]]:
    """Load the peers that are there; for the others, return how to install them, and the error."""
    found, missing = [], {}
    for name, (load, remedy) in loaders.items():
        try:
            found += load(checkouts)
        except Exception as error:  # an error of a peer must not end the run
            reason = (str(error).splitlines() or [""])[0]
            missing[name] = f"{remedy} ({type(error).__name__}: {reason})"
    return found, missing


def checkout_file(checkouts: Checkouts, name: str, path: str) -> Path:
    """Find a file of a checkout."""
    if name not in checkouts:
        raise FileNotFoundError(f"no checkout of {name} given")
    file = checkouts[name] / path
    if not file.exists():
        raise FileNotFoundError(f"{name}: the checkout has no {path}")
    return file


def load_file(name: str, file: Path) -> ModuleType:
    """Import one file, without the package around it."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def commit(folder: Path) -> str:
    """Name the commit of a checkout."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown commit"
    return answer.stdout.strip()
