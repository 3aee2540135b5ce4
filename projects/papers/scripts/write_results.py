"""Write the results of the other commands into RESULTS.md.

The text between <!-- name --> and <!-- end of name --> is replaced by results/name.md, its headings
one level deeper.
"""

import argparse
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SECTION = re.compile(
    r"^<!-- (?P<name>\w+) -->$.*?^<!-- end of (?P=name) -->$", flags=re.DOTALL | re.MULTILINE
)


def section(results: Path, name: str) -> str:
    """Read the Markdown of one command for RESULTS.md."""
    path = results / f"{name}.md"
    if not path.exists():
        raise SystemExit(f"no {path}: run `python -m spacy project run {name}`")
    parts = path.read_text(encoding="utf8").strip().split("\n\n")
    deeper = [f"#{part}" if part.startswith("#") else part for part in parts]
    return "\n\n".join([f"<!-- {name} -->", *deeper, f"<!-- end of {name} -->"])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=PROJECT, help="folder with results/")
    options = parser.parse_args()
    target = PROJECT / "RESULTS.md"
    text = SECTION.sub(
        lambda found: section(options.root / "results", found["name"]),
        target.read_text(encoding="utf8"),
    )
    target.write_text(text, encoding="utf8")
    print(f"Wrote {target}")


if __name__ == "__main__":
    main()
