"""The error of commands."""


class CommandError(Exception):
    """An error that ends a command with a message instead of a traceback."""

    def __init__(self, title: str, text: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.text = text
