"""Write the package of a trained English pipeline: small, scored, with licence and attribution.

Token vectors and the parser are stored in half precision, as word vectors are, and words of the
training corpora are left out of the vocabulary. The scores are measured with the pipeline as it is
stored.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
import srsly
from spacy.language import Language
from spacy.pipeline import EditTreeLemmatizer
from spacy.training import Corpus
from wasabi import msg

from spacy_rootmind import configure

PROJECT = Path(__file__).parent.parent
sys.path.insert(0, str(PROJECT.parent / "ud" / "scripts"))
import package  # noqa: E402
from official import official_scores  # noqa: E402
from package import PackageError  # noqa: E402

NAME = "en_rootmind_web_sm"
TREEBANK = "UD_English-EWT"
AUTHOR = "The spacy-rootmind developers"
SPACY = ">=3.8.0,<3.9.0"
FIGURES = {
    "tag_acc": "tags (XPOS)",
    "pos_acc": "parts of speech (UPOS)",
    "morph_acc": "morphological features",
    "lemma_acc": "lemmas",
    "dep_uas": "UAS",
    "dep_las": "LAS",
    "dep_las_conll18": "LAS as in CoNLL 2018",
    "dep_uem": "sentences with all heads right",
    "root_acc": "sentences with the right root",
    "root_violations": "sentences without exactly one root",
    "sents_f": "sentences found, F",
}
ENCODERS = [
    {
        "name": name,
        "url": f"https://huggingface.co/sentence-transformers/{name}",
        "license": "Apache License 2.0",
        "author": "The authors of sentence-transformers",
    }
    for name in ("all-MiniLM-L6-v2", "all-mpnet-base-v2")
]
# --- the pipeline ------------------------------------------------------------------------------


def store(trained: Path, folder: Path) -> Language:
    """Store a trained pipeline in little space, and return it as it is stored."""
    whole = package.store(spacy.load(trained), folder)
    srsly.write_json(folder / "vocab" / "strings.json", needed_strings(whole), indent=0)
    return spacy.load(folder)


def needed_strings(nlp: Language) -> list[str]:
    """List the strings of a pipeline without the other words of its training corpora.

    They are the strings of the tokenizer's rules, the labels, and the pieces of words that a
    lemmatizer replaces. Others enter the vocabulary with the texts that are parsed.
    """
    needed = set(spacy.blank(nlp.lang).vocab.strings)
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, EditTreeLemmatizer):
            trees = srsly.msgpack_loads(pipe.trees.to_bytes())["trees"]
            pieces = {tree.get(side, 0) for tree in trees for side in ("orig", "subst")} - {0}
            needed |= {nlp.vocab.strings[piece] for piece in pieces}
        else:
            needed |= set(getattr(pipe, "labels", ()))
    return sorted(needed)


def size_of(folder: Path) -> int:
    """Return the size of all files in a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# --- scores ------------------------------------------------------------------------------------


def score(nlp: Language, corpus: Path) -> dict[str, dict[str, Any]]:
    """Score a pipeline on text, and on gold tokens and sentences, as spaCy does."""
    on = {
        "text": nlp.evaluate(list(Corpus(corpus)(nlp))),
        "gold tokens": score_gold_tokens(nlp, corpus),
    }
    for scores in on.values():
        # That of this machine, whatever else it was doing.
        del scores["speed"]
    return on


def score_gold_tokens(nlp: Language, corpus: Path) -> dict[str, Any]:
    """Score a pipeline on gold tokens and sentences: each sentence is a Doc, and stays one."""
    parser: Any = nlp.get_pipe("root_mst")
    sentences = parser.settings.sentences
    configure(nlp, sentences="doc")
    try:
        return nlp.evaluate(list(Corpus(corpus, gold_preproc=True)(nlp)))
    finally:
        configure(nlp, sentences=sentences)


def official_figures(scores: dict[str, float]) -> str:
    """Make the table of the official scores for the package's README."""
    cells = [f"{100 * score:.2f}" for score in scores.values()]
    rows = [list(scores), ["---"] * len(scores), cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def figures(on: dict[str, dict[str, Any]]) -> str:
    """Make the table of spaCy's scores for the package's README."""
    lines = [f"| | {' | '.join(on)} |", "|---" * (len(on) + 1) + "|"]
    for name, title in FIGURES.items():
        values = [scores.get(name) for scores in on.values()]
        cells = ["" if value is None else f"{100 * value:.2f}" for value in values]
        if any(cells):
            lines.append(f"| {' | '.join([title, *cells])} |")
    return "\n".join(lines)


# --- the package -------------------------------------------------------------------------------


def describe(nlp: Language, scores: dict[str, Any], version: str, release: str) -> dict[str, Any]:
    """Make the package's meta.json."""
    source = {
        "name": f"Universal Dependencies English Web Treebank, release {release}",
        "url": f"https://github.com/UniversalDependencies/{TREEBANK}",
        "license": "CC BY-SA 4.0",
        "author": "The Board of Trustees of The Leland Stanford Junior University and others",
    }
    meta = {name: value for name, value in nlp.meta.items() if name != "spacy_git_version"}
    return {
        **meta,
        "name": NAME.partition("_")[2],
        "version": version,
        "description": "English pipeline for text from the web: one root per sentence, and the "
        "probability of each head (root_mst)",
        "author": AUTHOR,
        "license": "CC BY-SA 4.0",
        "sources": [source, *ENCODERS] if len(nlp.vocab.vectors) else [source],
        "spacy_version": SPACY,
        "performance": rounded(scores),
    }


def rounded(scores: Any) -> Any:
    """Round scores, of labels as well, to hundredths of a per cent: longer ones take space."""
    if isinstance(scores, dict):
        return {name: rounded(score) for name, score in scores.items()}
    return round(scores, 4) if isinstance(scores, float) else scores


def readme_of(meta: dict[str, Any], tables: dict[str, str], release: str, size: int) -> str:
    """Make the package's README, with its tables `official` and `figures`.

    A pipeline with word vectors comes from the workflow `further`, others from `all`.
    """
    text = (PROJECT / "package" / "README.md").read_text(encoding="utf8")
    n_vectors = meta["vectors"]["vectors"]
    made = PROJECT / "package" / f"made_from_{'teacher' if n_vectors else 'treebank'}.md"
    [needed] = [
        requirement.removeprefix("spacy-rootmind")
        for requirement in meta["requirements"]
        if requirement.startswith("spacy-rootmind")
    ]
    *others, last = [f"`{name}`" for name in meta["pipeline"]]
    return text.format(
        name=NAME,
        version=meta["version"],
        needed=needed,
        components=f"{', '.join(others)} and {last}" if others else last,
        megabytes=f"{size / 1e6:.2f}",
        **tables,
        release=release,
        made=made.read_text(encoding="utf8").strip().format(n_vectors=f"{n_vectors:,}"),
    )


def write_package(folder: Path, tables: dict[str, str], release: str, target: Path) -> None:
    """Make the package of a stored pipeline as `spacy package` does, in place of the old one."""
    shutil.copyfile(PROJECT / "package" / "LICENSE", folder / "LICENSE")
    with TemporaryDirectory() as output:
        command = [sys.executable, "-m", "spacy", "package", folder, output, "--build", "none"]
        subprocess.run(command, check=True)
        [made] = Path(output).iterdir()
        meta = srsly.read_json(made / "meta.json")
        data = made / NAME / f"{NAME}-{meta['version']}"
        # Installing it copies meta.json to both places, which must not change the checkout.
        for place in (made / NAME, data):
            shutil.copyfile(made / "meta.json", place / "meta.json")
        # spaCy's own, which is longer.
        (data / "README.md").unlink(missing_ok=True)
        readme = readme_of(meta, tables, release, size_of(data))
        for place in (made, data):
            (place / "README.md").write_text(readme, encoding="utf8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)


def data_of(package: Path) -> Path:
    """Return the folder of the pipeline in its package."""
    [folder] = (package / NAME).glob(f"{NAME}-*")
    return folder


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path, help="folder of the trained pipeline")
    parser.add_argument("corpus", type=Path, help="folder that convert.py wrote")
    parser.add_argument("package", type=Path, help="folder of the package, which is replaced")
    parser.add_argument("--version", required=True)
    parser.add_argument("--release", required=True, help="release of the treebank")
    args = parser.parse_args()
    try:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "pipeline"
            nlp = store(args.trained, folder)
            official = official_scores(nlp, args.corpus / "test.conllu")
            on = score(nlp, args.corpus / "test.spacy")
            meta = describe(nlp, {**on["text"], "conll18": official}, args.version, args.release)
            srsly.write_json(folder / "meta.json", meta)
            tables = {"official": official_figures(official), "figures": figures(on)}
            write_package(folder, tables, args.release, args.package)
    except PackageError as error:
        sys.exit(str(error))
    print(*tables.values(), sep="\n\n")
    msg.good(f"{args.package}: {size_of(data_of(args.package))} bytes")


if __name__ == "__main__":
    main()
