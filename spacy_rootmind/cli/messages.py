"""Messages on stderr, in spaCy's looks, that do not tear a progress bar apart."""

import sys
from contextlib import redirect_stdout

from tqdm import tqdm
from wasabi import Printer


class CommandError(Exception):
    """Ends a command with a message instead of a traceback."""

    def __init__(self, title: str, text: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.text = text


class Bar(tqdm):
    """A progress bar without a thread of its own, which would be in the way of forking."""

    monitor_interval = 0


class Messages:
    """Prints messages; if quiet, only of what went wrong."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        with redirect_stdout(sys.stderr):
            # In a log file, neither colours nor line breaks.
            self._printer = Printer(pretty=sys.stderr.isatty())

    def good(self, title: str, text: str = "") -> None:
        """Say that something is done."""
        if not self.quiet:
            self._print("good", title, text)

    def info(self, title: str, text: str = "") -> None:
        """Say how things stand."""
        if not self.quiet:
            self._print("info", title, text)

    def warn(self, title: str, text: str = "") -> None:
        """Say what may be wrong."""
        self._print("warn", title, text)

    def fail(self, title: str, text: str = "") -> None:
        """Say what is wrong."""
        self._print("fail", title, text)

    def _print(self, style: str, title: str, text: str) -> None:
        with Bar.external_write_mode(file=sys.stderr), redirect_stdout(sys.stderr):
            getattr(self._printer, style)(title, text)
