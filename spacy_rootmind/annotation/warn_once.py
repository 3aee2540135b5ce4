"""Warnings that a loop over many Docs would otherwise repeat."""

from spacy import util


class WarnOnce:
    """Logs a warning the first time it is called, with the arguments of the call in it."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.has_warned = False

    def __call__(self, *args: object) -> None:
        """Warn, unless this was done before."""
        if not self.has_warned:
            self.has_warned = True
            util.logger.warning(self.message + " This warning is not repeated.", *args)
