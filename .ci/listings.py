"""Write a release's listings: recipe.yaml for conda-forge, universe.json for spaCy's universe.

    python .ci/listings.py FOLDER MAINTAINER...

FOLDER has the release's sdist, and gets both files. MAINTAINERs are GitHub names of those who look
after the recipe.
"""

import hashlib
import re
import sys
import tarfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

TEMPLATES = ("recipe.yaml", "universe.json")
HERE = Path(__file__).parent


def read_metadata(sdist: Path) -> Message:
    """Read PKG-INFO, which every sdist has in its only folder."""
    with tarfile.open(sdist) as archive:
        names = [name for name in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name)]
        [name] = names
        file = archive.extractfile(name)
        assert file is not None
        return BytesParser().parse(file, headersonly=True)


def repository_of(metadata: Message) -> str:
    """Find the repository's address among the project's URLs."""
    for entry in metadata.get_all("Project-URL", []):
        label, _, address = entry.partition(", ")
        if label == "Repository" and re.fullmatch(r"https://github\.com/[^/]+/[^/]+", address):
            return address
    raise SystemExit(
        "expected the address of a GitHub repository as Repository under [project.urls] in "
        f"pyproject.toml, found {metadata.get_all('Project-URL', [])}: set it there, "
        "and build the sdist again"
    )


def release_data(sdist: Path, maintainers: list[str]) -> dict[str, str]:
    """Collect what the templates leave open."""
    metadata = read_metadata(sdist)
    address = repository_of(metadata)
    github = address.removeprefix("https://github.com/")
    return {
        "ADDRESS": address,
        "GITHUB": github,
        "MAINTAINERS": ", ".join(maintainers),
        "OWNER": github.partition("/")[0],
        "SHA256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        "SUMMARY": metadata["Summary"],
        "VERSION": metadata["Version"],
    }


def main(folder: Path, maintainers: list[str]) -> None:
    """Fill the templates from the folder's sdist."""
    sdists = sorted(folder.glob("*.tar.gz"))
    if len(sdists) != 1:
        raise SystemExit(f"expected one sdist in {folder}, found {[path.name for path in sdists]}")
    data = release_data(sdists[0], maintainers)
    for name in TEMPLATES:
        template = (HERE / name).read_text(encoding="utf8")
        lines = [line for line in template.splitlines(keepends=True) if "@NAMES@" not in line]
        filled = re.sub(r"@([A-Z\d]+)@", lambda match: data[match[1]], "".join(lines))
        (folder / name).write_text(filled, encoding="utf8")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
