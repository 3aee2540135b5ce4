"""Messages on stderr in spaCy's style, which do not break a progress bar."""

import sys
from contextlib import redirect_stdout

from tqdm import tqdm
from wasabi import Printer

from spacy_rootmind.annotation.details import BROKEN, NOT_PROVEN
from spacy_rootmind.parsing.stream import Counts, errors_in

# Its monitor thread would interfere with forking.
tqdm.monitor_interval = 0


def amounts(counts: Counts) -> str:
    """Say what was parsed."""
    numbers = {
        "document": counts["documents"] - sum(errors_in(counts).values()),
        "sentence": counts["sentences"],
        "word": counts["words"],
    }
    return ", ".join(f"{number} {noun}{'s' * (number != 1)}" for noun, number in numbers.items())


def progress_bar(total: int | None, unit: str, *, quiet: bool, initial: int = 0) -> tqdm:
    """Make a progress bar, over bytes if the unit is "B", which is shown on a terminal."""
    return tqdm(
        desc="Parsing",
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=unit == "B",
        disable=quiet or None,
        file=sys.stderr,
    )


class Messages:
    """Prints messages; if quiet, only warnings and errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        with redirect_stdout(sys.stderr):
            # No colours or line wrapping in a log file.
            self._printer = Printer(pretty=sys.stderr.isatty())

    def show(self, style: str, title: str, text: str = "") -> None:
        """Print a message; `style` is good, info, warn or fail."""
        if self.quiet and style in ("good", "info"):
            return
        with tqdm.external_write_mode(file=sys.stderr), redirect_stdout(sys.stderr):
            getattr(self._printer, style)(title, text)


def warn_of_guidelines(messages: Messages, counts: Counts) -> None:
    """Warn of trees that break the guidelines, or may not be the best ones that keep them."""
    if counts[NOT_PROVEN] or counts[BROKEN]:
        messages.show(
            "warn",
            f"Trees that break the guidelines: {counts[BROKEN]}; trees that keep them, but may not "
            f"be the best that do: {counts[NOT_PROVEN]}",
            'The attribute span._.guideline_status is "broken" or "not proven" for these.',
        )
