"""Write the results of the other commands into RESULTS.md.

The text between <!-- name --> and <!-- end of name --> is replaced by results/name.md, its headings
one level deeper; its pictures are copied to pictures/.
"""

import argparse
import re
import shutil
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SECTION = re.compile(
    r"^<!-- (?P<name>\w+) -->$.*?^<!-- end of (?P=name) -->$", flags=re.DOTALL | re.MULTILINE
)
PICTURE = re.compile(r"!\[(?P<caption>.*)\]\((?P<file>.*)\)")


def section(results: Path, name: str, pictures: Path) -> str:
    """Read the Markdown of one command for RESULTS.md, and copy its pictures."""
    path = results / f"{name}.md"
    if not path.exists():
        raise SystemExit(f"no {path}: run `python -m spacy project run {name}`")
    parts = []
    for part in path.read_text(encoding="utf8").strip().split("\n\n"):
        picture = PICTURE.fullmatch(part)
        if picture:
            pictures.mkdir(parents=True, exist_ok=True)
            shutil.copy(results / picture["file"], pictures)
            part = f"![{picture['caption']}]({pictures.name}/{picture['file']})"
        parts.append(f"#{part}" if part.startswith("#") else part)
    return "\n\n".join([f"<!-- {name} -->", *parts, f"<!-- end of {name} -->"])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with results/")
    options = parser.parse_args()
    target = PROJECT / "RESULTS.md"
    text = SECTION.sub(
        lambda found: section(options.root / "results", found["name"], PROJECT / "pictures"),
        target.read_text(encoding="utf8"),
    )
    target.write_text(text, encoding="utf8")
    print(f"Wrote {target}")


if __name__ == "__main__":
    main()
