"""Train UDPipe 1 on a treebank, with its default settings, and score it from raw text.

Usage: python benchmarks/udpipe.py TREEBANK [--out DIR]

TREEBANK is a folder with CoNLL-U files, such as UD_French-Sequoia. The test set's text is parsed
paragraph by paragraph and scored by the official scorer, as `projects/ud` does for pipelines. Needs
the packages ufal.udpipe and udtools. Writes NAME.udpipe, NAME.conllu and NAME.json, with processor
seconds of the training and the parse.
"""

import io
import sys
import time
from pathlib import Path

import srsly
import ufal.udpipe as udpipe
from lib.options import make_parser
from udtools import udeval

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "projects" / "ud" / "scripts"))
from official import NEEDED, paragraphs  # noqa: E402
from treebank import find_files  # noqa: E402


def read(paths: list[Path]) -> udpipe.Sentences:
    """Read the sentences of CoNLL-U files."""
    sentences = udpipe.Sentences()
    for path in paths:
        reader = udpipe.InputFormat.newConlluInputFormat()
        reader.setText(path.read_text("utf8"))
        sentence, error = udpipe.Sentence(), udpipe.ProcessingError()
        while reader.nextSentence(sentence, error):
            sentences.append(sentence)
            sentence = udpipe.Sentence()
        refuse(error)
    return sentences


def refuse(error: udpipe.ProcessingError) -> None:
    """Raise an error of UDPipe's."""
    if error.occurred():
        raise ValueError(error.message)


def train(train_files: list[Path], dev_files: list[Path], path: Path) -> float:
    """Train tokenizer, tagger and parser, and save the model; returns processor seconds."""
    start, error = time.process_time(), udpipe.ProcessingError()
    options = [udpipe.Trainer.DEFAULT] * 3
    model = udpipe.Trainer.train(
        "morphodita_parsito", read(train_files), read(dev_files), *options, error
    )
    refuse(error)
    path.write_bytes(bytes(model))
    return time.process_time() - start


def parse(path: Path, text: str) -> tuple[str, float]:
    """Parse a text to CoNLL-U; returns processor seconds as well."""
    model, error = udpipe.Model.load(str(path)), udpipe.ProcessingError()
    default = udpipe.Pipeline.DEFAULT
    pipeline = udpipe.Pipeline(model, "tokenize", default, default, "conllu")
    start = time.process_time()
    found = pipeline.process(text, error)
    refuse(error)
    return found, time.process_time() - start


def main() -> None:
    """Run the command."""
    parser = make_parser(__doc__)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    _, files = find_files(options.treebank)
    [test] = files["test"]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.treebank.name}.udpipe"
    seconds = train(files["train"], files["dev"], path)
    text = "\n\n".join(paragraph.strip() for paragraph in paragraphs(test, sys.maxsize))
    parsed, parse_seconds = parse(path, text + "\n")
    path.with_suffix(".conllu").write_text(parsed, "utf8")
    sides = (test.read_text("utf8"), parsed)
    scores = udeval.evaluate(*(udeval.load_conllu(io.StringIO(side), "", {}) for side in sides))
    record = {"train": seconds, "parse": parse_seconds, "bytes": path.stat().st_size}
    record |= {name: scores[name].f1 for name in NEEDED}
    srsly.write_json(path.with_suffix(".json"), record)
    print(srsly.json_dumps(record))


if __name__ == "__main__":
    main()
