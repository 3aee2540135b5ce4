"""The options of each command, from the parsers that read them."""

from typing import Any

import typer
from markdown import block, code, definitions

from spacy_rootmind.cli import spacy_commands
from spacy_rootmind.cli.app import COMMAND, app


def describe_commands() -> str:
    """Describe all commands: usage, help, arguments and options."""
    group = typer.main.get_command(app)
    commands = [(f"{COMMAND} {name}", command) for name, command in group.commands.items()]
    debug = typer.main.get_command(spacy_commands.debug_cli).commands["root-mst"]
    commands.append(("python -m spacy debug root-mst", debug))
    return "\n".join(describe(name, command) for name, command in commands)


def describe(name: str, command: Any) -> str:
    """Describe one command."""
    context = command.context_class(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    title = name.removeprefix(f"{COMMAND} ").removeprefix("python -m spacy ")
    rows = [param.get_help_record(context) for param in command.get_params(context)]
    options = definitions(filter(None, rows))
    parts = f"## {code(title)}", block("text", usage), command.help, options
    return "\n\n".join(parts)
