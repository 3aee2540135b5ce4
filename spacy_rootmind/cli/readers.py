"""Readers of text, JSONL, CoNLL-U and Docs, which yield input records and failures lazily.

- text: one text per line, or one per paragraph (separated by empty lines), with its line ends;
- jsonl: one object per line, {"text": ...} or {"tokens": [...]}. Tokens are strings, or lists of
  strings, one list per sentence. With text and tokens, the tokens are found in the text. Of a Doc
  written by `Doc.to_json`, text, tokens and sentences are read. Other fields are kept;
- conllu: one Doc per sentence of the file;
- spacy: the Docs of a DocBin with their annotation, one file in memory at a time. Their number in
  the file stands for the line.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from spacy.strings import StringStore
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_rootmind.cli.conllu import ConlluError, Sentence, SentenceBuilder, words_and_spaces
from spacy_rootmind.cli.input_records import Failure, InputRecord
from spacy_rootmind.cli.inputs import MAX_LINE, STDIN, InputError, Inputs, Line, display_name
from spacy_rootmind.compat import gc_unchanged

InputRecords = Iterator[InputRecord | Failure]


def read_records(inputs: Inputs, form: str | None, paragraphs: bool = False) -> InputRecords:
    """Read the texts, then all files: in the given format, or each in the format of its suffix."""
    yield from read_texts("--text", inputs.given_texts())
    for name in inputs.names:
        own_form = form or input_format(name)
        if own_form == DOCS:
            yield from read_docs(display_name(name), inputs.content(name))
            continue
        reader = READERS[own_form]
        if paragraphs and reader is read_texts:
            reader = read_paragraphs
        yield from reader(display_name(name), inputs.lines(name))


def input_format(name: str) -> str:
    """Find the format of a file from its suffix; the standard input is text.

    Raises
    ------
    InputError
        If the suffix is not known.
    """
    suffix = ".txt" if name == STDIN else Path(name).suffix.lower()
    try:
        return SUFFIXES[suffix]
    except KeyError:
        raise InputError(
            f"cannot tell the format of {name} from its suffix: expected {', '.join(SUFFIXES)}, or "
            f"--from with one of {', '.join([*READERS, DOCS])}"
        ) from None


# --- text --------------------------------------------------------------------------------------


def read_texts(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per line; skip lines that are only whitespace."""
    for line in lines:
        try:
            text = line.decode()
        except ValueError as error:
            yield Failure(file, line.number, str(error))
            continue
        if text.strip():
            yield InputRecord(file, line.number, text=text)


def read_paragraphs(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one text per paragraph; lines that are only whitespace separate paragraphs."""
    for block in blocks(lines):
        parts: list[str] = []
        first = failure = None
        size = 0
        for line in block:
            first = first or line.number
            if failure is not None:
                continue
            try:
                parts.append(line.decode())
                size += len(parts[-1])
                if size > MAX_LINE:
                    raise ValueError(
                        f"expected a paragraph of at most {MAX_LINE} characters, found a longer one"
                    )
            except ValueError as error:
                parts.clear()
                failure = Failure(file, line.number, str(error))
        if first is not None:
            yield failure or InputRecord(file, first, text="\n".join(parts))


def blocks(lines: Iterable[Line]) -> Iterator[Iterator[Line]]:
    """Split lines at empty ones; each block must be read completely before the next."""
    stream = iter(lines)
    for line in stream:
        if not is_blank(line):
            yield chain([line], until_blank(stream))


def until_blank(lines: Iterator[Line]) -> Iterator[Line]:
    """Read up to and including an empty line."""
    for line in lines:
        if is_blank(line):
            return
        yield line


def is_blank(line: Line) -> bool:
    """Tell whether a line is only whitespace."""
    return line.data is not None and not line.data.strip()


# --- JSONL -------------------------------------------------------------------------------------


def read_jsonl(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one JSON object per line; skip empty lines."""
    for line in lines:
        if is_blank(line):
            continue
        try:
            yield json_record(file, line.number, line.decode())
        except ValueError as error:
            yield Failure(file, line.number, f"not a record: {error}")
        except RecursionError:
            reason = "not a record: expected fewer brackets within one another"
            yield Failure(file, line.number, reason)


def json_record(file: str, line: int, source: str) -> InputRecord:
    """Read a record.

    Raises
    ------
    ValueError
        If it is not a JSON object, has neither text nor tokens, or they do not fit together.
    """
    try:
        fields = json.loads(source, parse_constant=refuse_constant, parse_float=finite_float)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON, {error.msg} at character {error.pos + 1}") from error
    if not isinstance(fields, dict):
        raise ValueError(f'expected an object like {{"text": ...}}, found {source[:40]!r}')
    text, tokens = fields.get("text"), fields.get("tokens")
    if text is None and tokens is None:
        raise ValueError('expected a field "text" or "tokens", found neither')
    if text is not None and not isinstance(text, str):
        raise ValueError(f'expected "text" to be a string, found {json.dumps(text)[:40]}')
    record = InputRecord(file, line, text=text, fields=fields)
    if tokens is not None:
        words, record.starts = read_tokens(tokens, text, fields.get("sents"))
        record.words = words
        if text is not None:
            record.words, record.spaces, record.starts = find_words(text, words, record.starts)
    return record


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads but JSON does not have."""
    raise ValueError(f"invalid JSON, {name} is not a number of JSON; write null")


def finite_float(source: str) -> float:
    """Read a number, which must not be so large that it becomes infinite."""
    number = float(source)
    if math.isinf(number):
        raise ValueError(f"expected numbers up to 1.8e308, found {source[:40]}")
    return number


def read_tokens(tokens: Any, text: str | None, sents: Any) -> tuple[list[str], list[bool] | None]:
    """Read tokens in any of their forms; return the words, and sentence starts if given."""
    if not isinstance(tokens, list):
        raise ValueError(f'expected "tokens" to be a list, found {json.dumps(tokens)[:40]}')
    if tokens and all(isinstance(token, dict) for token in tokens):
        return [json_token(token, text) for token in tokens], json_starts(tokens, sents)
    starts: list[bool] | None = None
    words = tokens
    if tokens and all(isinstance(sentence, list) for sentence in tokens):
        words = [word for sentence in tokens for word in sentence]
        starts = [i == 0 for sentence in tokens for i in range(len(sentence))]
    for word in words:
        if not isinstance(word, str) or not word:
            raise ValueError(
                'expected "tokens" to be strings, or lists of strings for sentences, found '
                f"{json.dumps(word)[:40]}"
            )
    return words, starts


def json_token(token: dict[str, Any], text: str | None) -> str:
    """Read a token as `Doc.to_json` writes it."""
    start, end = token.get("start"), token.get("end")
    if text is None or type(start) is not int or type(end) is not int:
        raise ValueError(
            'expected "start" and "end" in each token, and "text" in the record, found '
            f"{json.dumps(token)[:40]}"
        )
    if not 0 <= start < end <= len(text):
        raise ValueError(
            f"expected a token within the {len(text)} characters of the text, found one from "
            f"{start} to {end}"
        )
    return text[start:end]


def json_starts(tokens: list[dict[str, Any]], sents: Any) -> list[bool] | None:
    """Read sentence starts as `Doc.to_json` writes them; None if there are none."""
    if sents is None:
        return None
    if not isinstance(sents, list) or not all(isinstance(sent, dict) for sent in sents):
        raise ValueError(
            f'expected "sents" to be a list of objects, found {json.dumps(sents)[:40]}'
        )
    places = [token["start"] for token in tokens]
    wrong = [sent for sent in sents if sent.get("start") not in places]
    if wrong:
        raise ValueError(
            f"expected sentences to start where tokens do, found {json.dumps(wrong[0])[:40]}"
        )
    starts = {sent["start"] for sent in sents}
    return [place in starts for place in places]


def find_words(
    text: str, words: list[str], starts: list[bool] | None
) -> tuple[list[str], list[bool], list[bool] | None]:
    """Find words in their text; whitespace between them becomes tokens, as in spaCy.

    Returns
    -------
    tokens, spaces, starts
        The tokens, whether a space follows each, and whether each starts a sentence.

    Raises
    ------
    ValueError
        If the words do not cover the text in order.
    """
    tokens: list[str] = []
    spaces: list[bool] = []
    flags: list[bool] = []
    place = 0
    for word, starts_sentence in zip(words, starts or [False] * len(words), strict=True):
        found = text.find(word, place)
        gap = text[place : max(found, place)]
        if found < 0 or gap.strip():
            raise ValueError(f"expected the token {word!r} in the text at character {place + 1}")
        # Whitespace belongs to the previous sentence, if there is one.
        leads = bool(gap) and not tokens
        if gap:
            tokens.append(gap)
            spaces.append(False)
            flags.append(leads)
        tokens.append(word)
        flags.append(starts_sentence and not leads)
        place = found + len(word)
        spaces.append(text[place : place + 1] == " ")
        place += spaces[-1]
    rest = text[place:]
    if rest.strip():
        raise ValueError(f"expected the text to end after the last token, found {rest[:40]!r}")
    if rest:
        tokens.append(rest)
        spaces.append(False)
        flags.append(False)
    return tokens, spaces, None if starts is None else flags


# --- CoNLL-U -----------------------------------------------------------------------------------


def read_conllu(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read CoNLL-U, one record per sentence."""
    for found in read_sentences(file, lines):
        if isinstance(found, Failure):
            yield found
            continue
        words, spaces = words_and_spaces(found)
        starts = [True] + [False] * (len(words) - 1)
        sent_id = found.comment("sent_id")
        fields = {} if sent_id is None else {"sent_id": sent_id}
        yield InputRecord(
            file,
            found.line,
            words=words,
            spaces=spaces,
            starts=starts,
            fields=fields,
            sentence=found,
        )


def read_sentences(file: str, lines: Iterable[Line]) -> Iterator[Sentence | Failure]:
    """Read sentences; an invalid line makes its sentence a failure at that line."""
    for block in blocks(lines):
        builder = SentenceBuilder()
        failure = None
        for line in block:
            if failure is not None:
                continue
            try:
                builder.add(line.number, line.decode())
            except ValueError as error:
                failure = Failure(file, line.number, str(error))
        try:
            yield failure or builder.finish()
        except ConlluError as error:
            yield Failure(file, error.line, str(error))


# --- Docs --------------------------------------------------------------------------------------


def read_docs(file: str, content: bytes) -> InputRecords:
    """Read the Docs of a file, one record each.

    Raises
    ------
    InputError
        If the file is damaged, or no DocBin.
    """
    try:
        with gc_unchanged():
            stored = DocBin().from_bytes(content)
        strings = StringStore(stored.strings)
        words = [[strings[orth] for orth in tokens[:, 0].tolist()] for tokens in stored.tokens]
    # A damaged file can make msgpack and spaCy raise nearly anything.
    except Exception as error:
        raise InputError(
            f"expected Docs as DocBin saves them in {file}, found something else or a damaged "
            f"file ({error})"
        ) from error
    for i, own in enumerate(words):
        load = partial(load_doc, stored, strings, i)
        yield InputRecord(file, i + 1, words=own, load_doc=load)


def load_doc(stored: DocBin, strings: StringStore, number: int, vocab: Vocab) -> Doc:
    """Load one of the Docs of a DocBin, and no strings but its own."""
    alone = DocBin(attrs=stored.attrs, store_user_data=True)
    of_doc = slice(number, number + 1)
    alone.tokens, alone.spaces = stored.tokens[of_doc], stored.spaces[of_doc]
    alone.cats, alone.flags = stored.cats[of_doc], stored.flags[of_doc]
    alone.span_groups, alone.user_data = stored.span_groups[of_doc], stored.user_data[of_doc]
    # Small numbers are values of other kinds, and names of spaCy's symbols at the same time.
    found = {strings[i] for i in np.unique(alone.tokens[0]).tolist() if i in strings}
    alone.strings = found & stored.strings
    with gc_unchanged():
        [doc] = alone.get_docs(vocab)
    return doc


DOCS = "spacy"
READERS: dict[str, Callable[[str, Iterable[Line]], InputRecords]] = {
    "text": read_texts,
    "jsonl": read_jsonl,
    "conllu": read_conllu,
}
SUFFIXES = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".spacy": DOCS,
}
