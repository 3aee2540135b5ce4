"""Convert a treebank to Docs of several sentences, and report the counts of its words.

Writes the Docs, treebank.json with a description of the conversion, and the test set as test.conllu
and, ten sentences a line, as test.txt.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import get_lang_class
from spacy.vocab import Vocab
from treebank import (
    SPLITS,
    Sentence,
    TreebankError,
    find_files,
    find_license,
    read_sentences,
    space_ends,
)
from wasabi import msg

from spacy_rootmind.annotation.words import OUTSIDE, Expansion, Word, write_expansions
from spacy_rootmind.formats.conllu_sentence import (
    DEPREL,
    EMPTY,
    FEATS,
    FORM,
    LEMMA,
    UPOS,
    XPOS,
    Token,
)
from spacy_rootmind.training.tokenizer import FittedTokenizer, fit_tokenizer, has_rules

SYNTACTIC, ORTHOGRAPHIC = WORDS = ("syntactic", "orthographic")
AUTO = "auto"
# spaCy's code for languages that it has no tokenizer for.
ANY = "xx"
# Language codes of Universal Dependencies whose spaCy code differs.
SPACY_CODES = {"no": "nb"}
# Sentences of a Doc, at most.
N_SENTS = 10
# Without a dev set, one of this many training sentences is held out; more of a tiny treebank.
HOLD_OUT, HOLD_OUT_TINY, TINY = 10, 5, 100
# Columns of CoNLL-U that Docs keep, besides the trees.
COLUMNS = {"LEMMA": LEMMA, "UPOS": UPOS, "XPOS": XPOS, "FEATS": FEATS}
# Columns of the words of a merged token, in the order of `Word`.
COLUMNS_OF_WORDS = (LEMMA, UPOS, XPOS, FEATS, DEPREL)


@dataclass
class Counts:
    """Counts of the conversion of a split."""

    sentences: int = 0
    non_projective: int = 0
    words: int = 0
    multiword: int = 0
    merged: int = 0
    written_apart: int = 0
    empty_nodes: int = 0
    other_text: int = 0


# --- language ----------------------------------------------------------------------------------


def choose_language(wanted: str, code: str) -> tuple[Language, str]:
    """Make a blank pipeline for a language, `auto` for the treebank's; return what to say of it."""
    own = code.split("_")[0]
    lang = SPACY_CODES.get(own, own) if wanted == AUTO else wanted
    try:
        get_lang_class(lang)
    except ImportError as error:
        if wanted != AUTO:
            raise TreebankError(f"spaCy does not know the language {lang!r}: {error}") from error
        reason = f"spaCy has no tokenizer rules for {own!r}: using those for any language, {ANY!r}"
        return spacy.blank(ANY), reason
    try:
        return spacy.blank(lang), f"language {lang!r}"
    except ImportError as error:
        raise TreebankError(
            f"spaCy's tokenizer for {lang!r} needs more: {error}\n"
            f"Install it, or use the tokenizer for any language with --vars.language {ANY}"
        ) from error


# --- words -------------------------------------------------------------------------------------


def fit(nlp: Language, sentences: list[Sentence], words: str = SYNTACTIC) -> FittedTokenizer:
    """Fit the tokenizer of a pipeline, in place.

    With syntactic words, to words that spell their token, and to other tokens; with orthographic
    words, to the tokens that `merged_tokens` makes.
    """
    texts = [words_in_text(own, merged_tokens(own, words, nlp)) for own in sentences]
    fitted = fit_tokenizer(nlp.tokenizer, texts)
    nlp.tokenizer = fitted.tokenizer
    return fitted


def words_in_text(sentence: Sentence, whole: set[int]) -> tuple[str, list[tuple[int, int]]]:
    """Return a sentence's text, and the offsets of words, or of tokens.

    A token is left whole if it is in `whole`, or its words do not spell it.
    """
    spans: list[tuple[int, int]] = []
    for i, (token, start) in enumerate(zip(sentence.tokens, sentence.starts, strict=True)):
        places = (None if i in whole else split_places(token, sentence)) or [0]
        spans += pairwise([*(start + place for place in places), start + len(token.form)])
    return sentence.text, spans


def split_places(token: Token, sentence: Sentence) -> list[int] | None:
    """Return the offsets of words in their token; None if they do not spell it."""
    forms = [word[FORM] for word in sentence.words[token.first : token.stop]]
    if "".join(forms) != token.form:
        return None
    return [len("".join(forms[:i])) for i in range(len(forms))]


def merged_tokens(sentence: Sentence, words: str, nlp: Language) -> set[int]:
    """Choose the multiword tokens that become one token of a Doc.

    With syntactic words, there are none. With orthographic words, these are all but those that
    the tokenizer splits at the same places, like English "don't": otherwise nothing would be learnt
    about their parts.
    """
    multiword = [i for i, token in enumerate(sentence.tokens) if token.stop - token.first > 1]
    if words == SYNTACTIC or not multiword:
        return set()
    spacy_starts = {token.idx for token in nlp.make_doc(sentence.text)}
    starts = sentence.starts
    merged = set()
    for i in multiword:
        places = split_places(sentence.tokens[i], sentence)
        if places is None or not spacy_starts.issuperset(starts[i] + place for place in places):
            merged.add(i)
    return merged


def convert_sentence(sentence: Sentence, merged: set[int], vocab: Vocab) -> Doc:
    """Make a Doc of a sentence, with the treebank's text.

    A merged token is annotated as its topmost word, and its words are stored with it. Words that do
    not spell their token are separated by spaces: "du" becomes "de le".
    """
    rows: list[list[str]] = []
    spaces: list[bool] = []
    # The word that each token of the Doc stands for, and the token that has each word.
    words: list[int] = []
    places: list[int] = []
    expansions: dict[int, Expansion] = {}
    for i, token in enumerate(sentence.tokens):
        own = range(token.first, token.stop)
        # A multiword token of one word may have another form than its word.
        if i in merged or len(own) == 1:
            top = min(own, key=partial(depth, sentence.heads))
            row = list(sentence.words[top])
            row[FORM] = token.form
            kept, new, is_apart = [top], [row], False
            if i in merged:
                expansions[len(words)] = expand(sentence, own, top)
            places += [len(words)] * len(own)
        else:
            kept, new = own, sentence.words[token.first : token.stop]
            is_apart = split_places(token, sentence) is None
            places += range(len(words), len(words) + len(own))
        words += kept
        rows += new
        spaces += [is_apart] * (len(kept) - 1) + [token.spaced]
    heads = [sentence.heads[word] for word in words]
    heads = [places[head - 1] if head else i for i, head in enumerate(heads)]
    doc = make_doc(rows, spaces, heads, vocab)
    write_expansions(doc, expansions)
    return doc


def expand(sentence: Sentence, own: range, top: int) -> Expansion:
    """Return the words of a multiword token; `own` has their places in the sentence."""
    words = []
    for i in own:
        row, head = sentence.words[i], sentence.heads[i] - 1
        if i == top:
            words.append(Word(row[FORM]))
            continue
        values = ["" if row[column] == EMPTY else row[column] for column in COLUMNS_OF_WORDS]
        place = head - own.start if head in own else OUTSIDE
        words.append(Word(row[FORM], *values, place))
    return Expansion(top - own.start, tuple(words))


def depth(heads: list[int], word: int) -> int:
    """Count the words above a word; heads are counted from 1, and 0 for the root."""
    above = 0
    while heads[word]:
        word = heads[word] - 1
        above += 1
    return above


def make_doc(rows: list[list[str]], spaces: list[bool], heads: list[int], vocab: Vocab) -> Doc:
    """Make a Doc of the columns of its words; what the treebank does not annotate is missing."""
    columns = list(zip(*rows, strict=True))
    annotation = {
        name: ["" if value == EMPTY else value for value in columns[column]]
        for name, column in COLUMNS.items()
    }
    return Doc(
        vocab,
        words=columns[FORM],
        spaces=spaces,
        lemmas=annotation["LEMMA"],
        pos=annotation["UPOS"],
        tags=annotation["XPOS"],
        morphs=annotation["FEATS"],
        heads=heads,
        deps=["ROOT" if label == "root" else label for label in columns[DEPREL]],
    )


# --- Docs --------------------------------------------------------------------------------------


def make_docs(groups: Iterable[list[Doc]]) -> Iterator[Doc]:
    """Join Docs of single sentences to Docs of several."""
    for group in groups:
        doc = Doc.from_docs(group, ensure_whitespace=False)
        n_found = len(list(doc.sents))
        if n_found != len(group):
            msg.warn(
                f"spaCy finds {n_found} sentences in {len(group)} trees that start with "
                f"{doc[:8].text!r}: some of them are too non-projective for spaCy"
            )
        yield doc


def convert_split(
    sentences: list[Sentence], words: str, nlp: Language, by_paragraph: bool = False
) -> tuple[list[Doc], Counts]:
    """Convert one split to Docs of at most ten sentences, and count its words.

    With `by_paragraph`, a Doc ends with its paragraph too.
    """
    counts = Counts(sentences=len(sentences))
    vocab = Vocab()
    groups: list[list[Doc]] = []
    for sentence in sentences:
        merged = merged_tokens(sentence, words, nlp)
        multiword = [token for token in sentence.tokens if token.stop - token.first > 1]
        counts.words += len(sentence.words)
        counts.multiword += len(multiword)
        counts.merged += len(merged)
        if words == SYNTACTIC:
            counts.written_apart += sum(split_places(t, sentence) is None for t in multiword)
        counts.empty_nodes += sentence.n_empty
        counts.non_projective += not sentence.is_projective
        stated = sentence.stated_text
        counts.other_text += stated is not None and stated.split() != sentence.text.split()
        is_new = by_paragraph and sentence.starts_paragraph
        if not groups or is_new or len(groups[-1]) == N_SENTS:
            groups.append([])
        groups[-1].append(convert_sentence(sentence, merged, vocab))
    return list(make_docs(groups)), counts


# --- the command -------------------------------------------------------------------------------


def hold_out(train: list[Sentence]) -> tuple[list[Sentence], list[Sentence], int]:
    """Hold out every n-th training sentence as dev set; returns train, dev and n."""
    every = HOLD_OUT if len(train) >= TINY else HOLD_OUT_TINY
    paragraphs = list(accumulate(sentence.starts_paragraph for sentence in train))
    parts: tuple[list[Sentence], list[Sentence]] = ([], [])
    last = [-1, -1]
    for i, sentence in enumerate(train):
        is_dev = i % every == every - 1
        # The first of a paragraph may be in the other part.
        is_first = paragraphs[i] != last[is_dev]
        parts[is_dev].append(replace(sentence, starts_paragraph=is_first))
        last[is_dev] = paragraphs[i]
    return *parts, every


def annotated_shares(sentences: list[Sentence]) -> dict[str, float]:
    """Return the share of words that each column annotates."""
    words = [word for sentence in sentences for word in sentence.words]
    return {
        name: sum(word[column] != EMPTY for word in words) / len(words)
        for name, column in COLUMNS.items()
    }


def read_treebank(folder: Path) -> tuple[str, dict[str, list[Sentence]], list[str]]:
    """Read the code and all splits of a treebank; remark on a dev set that is held out."""
    code, files = find_files(folder)
    for split in ("train", "test"):
        if not files[split]:
            raise TreebankError(
                f"{folder} has no {split} set ({code}-ud-{split}.conllu): choose a treebank that "
                f"has one"
            )
    splits = space_ends({split: read_sentences(files[split]) for split in SPLITS if files[split]})
    remarks = []
    if not files["dev"]:
        total = len(splits["train"])
        splits["train"], splits["dev"], every = hold_out(splits["train"])
        if not splits["dev"]:
            raise TreebankError(
                f"{folder} has no dev set, and {total} training sentences are too few to hold some "
                f"out; expected at least {HOLD_OUT_TINY}"
            )
        remarks.append(
            f"{code} has no dev set: sentence {every} of every {every} training sentences is held "
            f"out as dev set, {len(splits['dev'])} of {total}. The parser is not trained on them"
        )
    return code, splits, remarks


def convert(
    folder: Path,
    output: Path,
    words: str,
    language: str,
    by_paragraph: bool = False,
) -> None:
    """Convert a treebank; see the docstring of this module."""
    code, splits, remarks = read_treebank(folder)
    nlp, reason = choose_language(language, code)
    (msg.warn if nlp.lang == ANY and language == AUTO else msg.info)(reason)
    for remark in remarks:
        msg.warn(remark)
    is_fitted = has_rules(nlp.tokenizer)
    if is_fitted:
        msg.info(str(fit(nlp, splits["train"], words)))
    else:
        msg.warn(f"The tokenizer of {nlp.lang!r} has no rules that could be fitted")
    output.mkdir(parents=True, exist_ok=True)
    counts = {}
    for split in SPLITS:
        docs, counts[split] = convert_split(splits[split], words, nlp, by_paragraph)
        # The words of multiword tokens are user data.
        DocBin(docs=docs, store_user_data=True).to_disk(output / f"{split}.spacy")
    texts = [sentence.text for sentence in splits["test"]]
    lines = ["".join(texts[i : i + N_SENTS]).strip() for i in range(0, len(texts), N_SENTS)]
    (output / "test.txt").write_text("".join(f"{line}\n" for line in lines), "utf8")
    parts = [path.read_text("utf8") for path in find_files(folder)[1]["test"]]
    (output / "test.conllu").write_text("".join(parts), "utf8")
    report(counts, words)
    about = {
        "treebank": folder.name,
        "code": code,
        "license": find_license(folder),
        "lang": nlp.lang,
        "words": words,
        "is_fitted": is_fitted,
        "remarks": [reason, *remarks],
        "annotated": annotated_shares(splits["train"]),
        "counts": {split: asdict(count) for split, count in counts.items()},
    }
    srsly.write_json(output / "treebank.json", about)
    msg.good(f"{output}: words are {words}")


def report(counts: dict[str, Counts], words: str) -> None:
    """Print the counts of each split."""
    names = ["sentences", "non_projective", "words", "multiword", "empty_nodes", "other_text"]
    names.insert(4, "merged" if words == ORTHOGRAPHIC else "written_apart")
    texts = {
        "sentences": "sentences",
        "non_projective": "of them with crossing arcs",
        "words": "syntactic words",
        "multiword": "multiword tokens",
        "merged": "of them merged into one token",
        "written_apart": "of them not spelt by their words",
        "empty_nodes": "empty nodes, left out",
        "other_text": "sentences whose # text differs",
    }
    rows = [[texts[name], *(asdict(counts[split])[name] for split in SPLITS)] for name in names]
    aligns = ["l", *"r" * len(SPLITS)]
    msg.table(rows, header=["", *SPLITS], divider=True, aligns=aligns, max_col=60)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("treebank", type=Path, help="a folder with CoNLL-U files")
    parser.add_argument("output", type=Path, help="a folder to write to")
    parser.add_argument("--words", choices=WORDS, default=ORTHOGRAPHIC)
    parser.add_argument("--language", default=AUTO, help="spaCy's code; auto: the treebank's")
    parser.add_argument("--paragraphs", action="store_true", help="end Docs with paragraphs")
    args = parser.parse_args()
    try:
        convert(args.treebank, args.output, args.words, args.language, args.paragraphs)
    except TreebankError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
