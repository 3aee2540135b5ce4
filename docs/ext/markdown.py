"""Markdown of generated parts."""

from collections.abc import Iterable, Sequence


def code(text: object) -> str:
    """Format inline code, also with backticks in it."""
    marks = "``" if "`" in str(text) else "`"
    space = " " if marks == "``" else ""
    return f"{marks}{space}{text}{space}{marks}"


def block(language: str, text: str) -> str:
    """Format a block of code."""
    return f"```{language}\n{text.strip()}\n```\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def definitions(terms: Iterable[tuple[str, str]]) -> str:
    """Format a list of terms, which are code, with their explanations."""
    return "\n".join(f"{code(term)}\n: {text}\n" for term, text in terms)
