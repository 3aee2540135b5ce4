"""spaCy's command line as users run it, and small configs and corpora for it."""

import atexit
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import spacy
import srsly
from parsers import SMALL_MODEL
from spacy.tokens import DocBin
from thinc.api import Config

PLAIN = {"ANSI_COLORS_DISABLED": "1", "NO_COLOR": "1", "COLUMNS": "1000"}
TOK2VEC = {"factory": "tok2vec", "model": SMALL_MODEL["tok2vec"]}


def root_mst(tok2vec=None, **settings):
    """The parser's section of a config, with token vectors of its own by default."""
    model = {**SMALL_MODEL, "tok2vec": tok2vec or SMALL_MODEL["tok2vec"]}
    return {"factory": "root_mst", "model": model, **settings}


def tagger(tok2vec=None, factory="tagger"):
    """The section of a component that labels tokens."""
    return {
        "factory": factory,
        "model": {
            "@architectures": "spacy.Tagger.v2",
            "nO": None,
            "tok2vec": tok2vec or SMALL_MODEL["tok2vec"],
        },
    }


def write_config(path, components, corpora, *, steps=10, **training):
    """Write a complete config for a pipeline, given its sections in order; returns the path.

    The log goes to a file next to it, with one JSON object per line and evaluation.
    """
    config = Config(spacy.blank("en").config)
    config["nlp"]["pipeline"] = list(components)
    config["components"] = components
    config["paths"].update(train=str(corpora / "train.spacy"), dev=str(corpora / "dev.spacy"))
    config["training"].update(max_steps=steps, eval_frequency=max(1, steps // 2), **training)
    config["training"]["optimizer"]["learn_rate"] = 0.01
    config["training"]["batcher"] = {
        "@batchers": "spacy.batch_by_words.v1",
        "size": 200,
        "tolerance": 0.2,
        "discard_oversize": False,
        "get_length": None,
    }
    config["training"]["logger"] = {
        "@loggers": "spacy.ConsoleLogger.v3",
        "progress_bar": None,
        "console_output": True,
        "output_file": str(path.with_suffix(".jsonl")),
    }
    config.to_disk(path)
    return path


class Server:
    """A process that commands are forked from; it ends with this one.

    It has imported spaCy and the given modules.
    """

    def __init__(self, *modules, **environment):
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("spacy_server.py"), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **PLAIN, "PYTHONUTF8": "1", **environment},
        )
        atexit.register(self._process.communicate)

    def start(self, module, *arguments, cwd, input=b"", **environment):
        """Start `python -m` in a process of its own, with this stdin; one at a time."""
        self._folder = TemporaryDirectory()
        self._outputs = {name: Path(self._folder.name, name) for name in ("stdout", "stderr")}
        for path in self._outputs.values():
            path.touch()
        given = Path(self._folder.name, "stdin")
        given.write_bytes(input)
        command = {
            "module": module,
            "arguments": list(map(str, arguments)),
            "cwd": str(cwd),
            "environment": {**os.environ, **environment},
            "stdin": str(given),
            **{name: str(path) for name, path in self._outputs.items()},
        }
        self._arguments = command["arguments"]
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def wait(self):
        """Wait for the command to end; returns what `subprocess.run` does, with bytes."""
        returncode = int(self._process.stdout.readline())
        printed = {name: path.read_bytes() for name, path in self._outputs.items()}
        self._folder.cleanup()
        return subprocess.CompletedProcess(self._arguments, returncode, **printed)


server = cache(Server)


def run_module(module, *arguments, cwd, **environment):
    """Run `python -m` in a process of its own; returns what `subprocess.run` does, with bytes."""
    server().start(module, *arguments, cwd=cwd, **environment)
    return server().wait()


def run_spacy(*arguments, cwd):
    """Run `python -m spacy` in a process of its own; returns what `subprocess.run` does."""
    result = run_module("spacy", *arguments, cwd=cwd, **PLAIN)
    result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
    return result


def spacy_command(*arguments, cwd):
    """Run `python -m spacy` in a separate process, which succeeds; return its output, stderr last.

    It does not run in the folder of the sources, which Python would find before the package. A
    warning of spaCy's counts as a failure.
    """
    result = run_spacy(*arguments, cwd=cwd)
    printed = result.stdout + result.stderr
    assert result.returncode == 0, f"spacy {' '.join(result.args)}\n{printed}"
    assert not re.search(r"\[W\d{3}\]", printed), printed
    return printed


def train(config, output, *arguments):
    """Run `spacy train`; returns the folder of the last model."""
    spacy_command("train", config, "--output", output, *arguments, cwd=config.parent)
    return output / "model-last"


def log_of(config):
    """The evaluations of a training run, oldest first."""
    return list(srsly.read_jsonl(config.with_suffix(".jsonl")))


def weights_of(folder, name="root_mst"):
    """The saved weights of a component, as bytes."""
    return (folder / name / "model").read_bytes()


def write_docs(path, docs):
    """Write a corpus as `spacy convert` does; returns the path."""
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path


def read_docs(path, vocab):
    return list(DocBin().from_disk(path).get_docs(vocab))


def lines_in(data):
    """The lines of a file with this content."""
    from spacy_rootmind.formats.lines import Line

    return (Line(i, line) for i, line in enumerate(data.split(b"\n"), start=1))


def sentences_in(data):
    """The sentences of CoNLL-U, of a file or bytes, all of which are valid."""
    from spacy_rootmind.formats.conllu import read_sentences
    from spacy_rootmind.formats.records import Failure

    data = data.read_bytes() if isinstance(data, Path) else data
    found = list(read_sentences("out", lines_in(data)))
    assert not any(isinstance(sentence, Failure) for sentence in found)
    return found


def misc(row):
    """The attributes in the column MISC of a row of CoNLL-U."""
    return dict(part.split("=", 1) for part in row[9].split("|") if part != "_")


def errors_in(text, level):
    """The names of the errors that UD's validator finds in CoNLL-U, up to a level."""
    import udtools

    validator = udtools.Validator(lang="en", level=level, output=None)
    found = validator.validate_file_handle(io.StringIO(text)).error_tracker
    return [error.testid for error in found if error.is_error()]


def assert_one_root_each(doc):
    """Assert that the Doc is parsed, and each of its sentences has one root and no head outside."""
    assert doc.has_annotation("DEP") or not len(doc)
    for sentence in doc.sents:
        assert sum(token.head == token for token in sentence) == 1
        assert all(sentence.start <= token.head.i < sentence.end for token in sentence)


def parse_options(pipeline, inputs, output="-", texts=(), **changes):
    """Make the options of `parse`; `changes` are options of the command or of the parser."""
    from spacy_rootmind.cli.options import ParseOptions
    from spacy_rootmind.parsing.settings import ParserSettings

    names = {field.name for field in fields(ParserSettings)}
    settings = {name: changes.pop(name) for name in list(changes) if name in names}
    parser = ParserSettings(str(pipeline), **settings)
    return ParseOptions(parser, inputs, list(texts), output, **changes)
