"""Checks that the sanitizers cover every extension: each was built with them, and ran under them.

To be run after the tests, where `ROOTMIND_DEBUG=1` has built the extensions in place. Such a build
also counts calls (gcov). Each extension must have run at least half of its own C functions.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

# Marks of code that is instrumented: what the sanitizers' libraries define.
MARKS = (b"__asan_report_load", b"__ubsan_handle_")
LEAST = 0.5


def own_functions(name: str, data: dict) -> list[dict]:
    """List the functions of an extension that come from its source, not from Cython."""
    package = "annotation" if name == "doc_trees" else "kernel"
    mangled = f"{len('spacy_rootmind')}spacy_rootmind_{len(package)}{package}_{len(name)}{name}_"
    pattern = re.compile(rf"__pyx_(f|pf|fuse_\w*__pyx_p?f)_{mangled}")
    found = [function for file in data["files"] for function in file["functions"]]
    return [function for function in found if pattern.search(function["name"])]


def counts(name: str, folder: Path) -> tuple[int, int]:
    """Count an extension's own functions, and those that ran."""
    ran, there = set(), set()
    for notes in folder.rglob(f"{name}.gcno"):
        if not notes.with_suffix(".gcda").exists():
            continue
        command = ["gcov", "--json-format", "--stdout", str(notes.with_suffix(".gcda"))]
        printed = subprocess.run(command, capture_output=True, check=True).stdout
        for line in printed.splitlines():
            for function in own_functions(name, json.loads(line)):
                there.add(function["name"])
                if function["execution_count"]:
                    ran.add(function["name"])
    return len(ran), len(there)


def problem(source: Path) -> str | None:
    """Find what is wrong with an extension, given its source."""
    name = source.stem
    built = [path for path in Path("spacy_rootmind").rglob(f"{name}.*") if path.suffix == ".so"]
    if len(built) != 1:
        return f"expected one built extension, found {built}"
    missing = [mark.decode() for mark in MARKS if mark not in built[0].read_bytes()]
    if missing:
        return f"built without {' and '.join(missing)}"
    ran, there = counts(name, Path("build"))
    print(f"{name}: {ran} of {there} functions ran")
    if not there or ran < LEAST * there:
        return f"only {ran} of its {there} functions ran under the sanitizers"
    return None


def main() -> int:
    """Check each source; returns the exit code."""
    problems = {source.stem: problem(source) for source in sorted(Path("cython_src").glob("*.pyx"))}
    for name, what in problems.items():
        if what is not None:
            print(f"{name}: {what}", file=sys.stderr)
    return int(not problems or any(problems.values()))


if __name__ == "__main__":
    sys.exit(main())
