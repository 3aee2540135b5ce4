"""Train UDPipe 1 on a treebank with its default settings, and parse the text of the test set.

Usage: python benchmarks/udpipe.py TREEBANK OUTPUT

TREEBANK is a folder with CoNLL-U files, such as UD_French-Sequoia; the text is parsed paragraph by
paragraph. Writes OUTPUT.udpipe, OUTPUT.conllu, and OUTPUT.json with CPU seconds of both. Needs the
package ufal.udpipe. `breadth.py` runs this for many treebanks, and scores the parses.
"""

import sys
import time
from pathlib import Path

import srsly
import ufal.udpipe as udpipe

sys.path.insert(0, str(Path(__file__).parents[1] / "projects" / "ud" / "scripts"))
from official import paragraphs
from treebank import find_files


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


def main(treebank: Path, output: Path) -> None:
    """Train, save and parse."""
    _, files = find_files(treebank)
    [test] = files["test"]
    start, error = time.process_time(), udpipe.ProcessingError()
    options = [udpipe.Trainer.DEFAULT] * 3
    sets = read(files["train"]), read(files["dev"])
    saved = udpipe.Trainer.train("morphodita_parsito", *sets, *options, error)
    refuse(error)
    seconds = {"train": time.process_time() - start}
    output.with_suffix(".udpipe").write_bytes(bytes(saved))
    model, default = udpipe.Model.load(f"{output}.udpipe"), udpipe.Pipeline.DEFAULT
    pipeline = udpipe.Pipeline(model, "tokenize", default, default, "conllu")
    text = "\n\n".join(paragraph.strip() for paragraph in paragraphs(test, sys.maxsize))
    start = time.process_time()
    parsed = pipeline.process(text + "\n", error)
    refuse(error)
    seconds["parse"] = time.process_time() - start
    output.with_suffix(".conllu").write_text(parsed, "utf8")
    srsly.write_json(output.with_suffix(".json"), seconds)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
