"""A server that runs `python -m` in forks of a process that has imported spaCy and this package.

A fork takes a tenth of a second, an interpreter that imports spaCy more than a second. That spaCy
imports the package by itself is tested in `test_registry.py`.

Commands come from stdin, one JSON object per line, and their exit codes go to stdout. The arguments
are further modules to import.
"""

import gc
import importlib
import json
import os
import runpy
import sys

import spacy.cli
from faster_spacy import look_through_once
from no_network import forbid_network

import spacy_rootmind.cli.init_config
import spacy_rootmind.cli.parse
import spacy_rootmind.pipeline.factory  # noqa: F401

forbid_network()
look_through_once()
# The first pipeline imports all that spaCy has of languages and components.
spacy.blank("en")


def next_command():
    """Return a command in a process of its own, for each that is read."""
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            return command
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def main():
    for name in sys.argv[1:]:
        importlib.import_module(name)
    # Otherwise, each fork would look for garbage in all of this when it ends, and copy its memory.
    gc.freeze()
    command = next_command()
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(os.open(command[name], os.O_RDWR), descriptor)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["cwd"])
    # As `-m` has it.
    sys.path[0] = command["cwd"]
    sys.argv[1:] = command["arguments"]
    runpy.run_module(command["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
