"""The options of each command, from the parsers that read them."""

import re
from typing import Any

import typer
from markdown import block, code, definitions

from spacy_rootmind.cli.app import COMMAND, app


def describe_commands() -> str:
    """Describe all commands: usage, help, arguments and options."""
    commands = typer.main.get_command(app).commands
    return "\n".join(describe(f"{COMMAND} {name}", each) for name, each in commands.items())


def describe(name: str, command: Any) -> str:
    """Describe one command."""
    context = command.context_class(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    title = name.removeprefix(f"{COMMAND} ")
    rows = [param.get_help_record(context) for param in command.get_params(context)]
    options = definitions((names, mark_options(text)) for names, text in filter(None, rows))
    parts = f"## {code(title)}", block("text", usage), mark_options(command.help), options
    return "\n\n".join(parts)


def mark_options(text: str) -> str:
    """Format options in a text as code."""
    return re.sub(r"(?<![\w-])--[a-z][\w.-]*[a-z]", lambda match: code(match[0]), text)
