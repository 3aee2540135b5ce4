"""Warnings that a loop over many Docs would otherwise repeat."""

from spacy import util


class WarnOnce:
    """Logs a warning the first time it is called in a process.

    Parameters
    ----------
    message : str
        What is wrong, with one `%s` for the reason.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        self.has_warned = False

    def __call__(self, reason: object) -> None:
        """Warn, unless this was done before."""
        if not self.has_warned:
            self.has_warned = True
            util.logger.warning(self.message + " This warning is not repeated.", reason)
