"""Commands with faults, and checks of what they leave."""

import json
from dataclasses import dataclass
from pathlib import Path

import spacy
from commandline import assert_one_root_each

HERE = Path(__file__).parent
# Small enough for several chunks.
SMALL = {"spacy_rootmind.parsing.stream.CHUNK_RECORDS": 8}
# The places where `parse` writes its outputs, and spaCy its pipelines; see `inject.py`.
WRITERS = {"first": ".partial", "within": ("cli/parse.py",)}
SAVERS = {"first": "model-last", "within": ("spacy/language.py", "/shutil.py")}
FORMATS = {
    "conllu": ("out.conllu",),
    "jsonl": ("out.jsonl",),
    "tree": ("out.txt", "--to", "tree"),
    "docs": ("out.spacy",),
}


def contents(path):
    """All files of a file or folder, by name."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@dataclass
class Command:
    """A command that writes to a folder of its own, where it can be started with faults."""

    server: object
    folder: Path

    def start(self, *options, faults=()):
        """Start the command on a server; `arguments` are its module and its arguments."""
        faults = json.dumps({"set": SMALL, **dict(faults)})
        self.server.start("inject", faults, *self.arguments(), *options, cwd=HERE)

    def __call__(self, *options, **settings):
        """Run the command; returns its result."""
        self.start(*options, **settings)
        return self.server.wait()

    def n_moments(self, moments):
        """Count the moments of an uninterrupted run, which are the same each time."""
        count = self.folder / "count"
        result = self(faults={**moments, "count": str(count)})
        assert result.returncode == 0, result.stderr
        number = int(count.read_text())
        count.unlink()
        return number


@dataclass
class ParseRun(Command):
    """A command `parse`."""

    pipeline: Path = Path()
    source: Path = Path()
    form: str = "conllu"

    @property
    def output(self):
        return self.folder / FORMATS[self.form][0]

    def arguments(self):
        name, *others = FORMATS[self.form]
        output = ("-o", self.folder / name, *others)
        return ("spacy_rootmind", "parse", self.pipeline, self.source, *output)

    def __call__(self, *options, **settings):
        result = super().__call__(*options, **settings)
        assert b"Traceback" not in result.stderr, result.stderr.decode()
        assert b"Exception ignored" not in result.stderr, result.stderr.decode()
        return result

    def check_repeated(self, expected):
        """Check that an output is complete, and that the next run makes it if there is none."""
        if self.output.exists():
            assert contents(self.output) == expected
            return
        left = names_in(self.folder)
        assert set(left) <= {f"{self.output.name}.partial"}
        result = self(*(["--force"] if left else []))
        assert result.returncode == 0, result.stderr.decode()
        assert contents(self.output) == expected
        assert names_in(self.folder) == [self.output.name]


@dataclass
class TrainRun(Command):
    """A command `spacy train`."""

    config: Path = Path()

    @property
    def output(self):
        return self.folder / "out"

    def arguments(self):
        # The name of a log would be saved in the config.
        log = "--training.logger.output_file=null"
        return ("spacy", "train", self.config, "--output", self.output, log)

    def check_left(self):
        """Check that saved pipelines load and parse, or are refused; returns which did what."""
        found = {}
        for name in ("model-last", "model-best"):
            folder = self.output / name
            if not folder.exists():
                found[name] = "absent"
                continue
            try:
                nlp = spacy.load(folder)
            # spaCy raises different errors for different files.
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"
                continue
            assert_one_root_each(nlp("The cat slept. A dog came."))
            found[name] = "loaded"
        return found

    def check_repeated(self, expected):
        """Check that the same command gives what it would have given without a fault."""
        result = self()
        assert result.returncode == 0, result.stderr.decode()
        assert contents(self.output) == expected
