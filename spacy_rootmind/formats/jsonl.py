"""JSONL: one object per line, {"text": ...} or {"tokens": [...]}, and Docs as `Doc.to_json` does.

Tokens are strings, or lists of strings, one list per sentence. Other fields are kept.

Written tokens have "head_prob", "arc_prob" and "arcs", and sentences "log_prob", "entropy",
"guideline_status" and "parses". Multiword tokens have "words", with the fields of
`token._.words`. Heads are indices of tokens in the Doc, as in "tokens".
"""

import json
from collections.abc import Iterable
from typing import Any

from spacy.tokens import Doc, Span

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.annotation.words import get_words, has_expansions
from spacy_rootmind.formats.lines import Line
from spacy_rootmind.formats.records import Failure, InputRecord, InputRecords, check_unchanged
from spacy_rootmind.formats.text import is_blank

# Decimals of the numbers that are written.
PROB_DIGITS = 6

# --- reading --------------------------------------------------------------------------------------


def read_jsonl(file: str, lines: Iterable[Line]) -> InputRecords:
    """Read one JSON object per line; skip empty lines."""
    for line in lines:
        if is_blank(line):
            continue
        try:
            source = line.decode()
            fields = json.loads(source)
            if not isinstance(fields, dict):
                raise ValueError(f'expected an object like {{"text": ...}}, found {source[:40]!r}')
            texts = fields.get("text"), fields.get("tokens")
            yield make_record(file, line.number, *texts, fields)
        except (ValueError, RecursionError) as error:
            yield Failure(file, line.number, f"not a record: {error}")


def make_record(
    file: str, line: int, text: Any, tokens: Any, fields: dict[str, Any]
) -> InputRecord:
    """Make a record of a text, or of tokens in both forms.

    Raises ValueError if there is neither, or both.
    """
    if (text is None) == (tokens is None):
        found = "neither" if text is None else "both"
        raise ValueError(f'expected a field "text" or "tokens", found {found}')
    if text is not None and not isinstance(text, str):
        raise ValueError(f'expected "text" to be a string, found {str(text)[:40]}')
    record = InputRecord(file, line, text=text, fields=fields)
    if tokens is not None:
        record.words, record.starts = read_tokens(tokens)
    return record


def read_tokens(tokens: Any) -> tuple[list[str], list[bool] | None]:
    """Read tokens in both forms; return the words, and sentence starts if given."""
    if not isinstance(tokens, list):
        raise ValueError(f'expected "tokens" to be a list, found {str(tokens)[:40]}')
    starts: list[bool] | None = None
    words = tokens
    if tokens and all(isinstance(sentence, list) for sentence in tokens):
        words = [word for sentence in tokens for word in sentence]
        starts = [i == 0 for sentence in tokens for i in range(len(sentence))]
    for word in words:
        if not isinstance(word, str) or not word:
            raise ValueError(
                'expected "tokens" to be strings, or lists of strings for sentences, found '
                f"{word!r:.40}"
            )
    return words, starts


# --- writing --------------------------------------------------------------------------------------


def write_jsonl(doc: Doc, record: InputRecord) -> bytes:
    """Write a Doc as `Doc.to_json` does, after the other fields of its record."""
    check_unchanged(doc, record)
    data: dict[str, Any] = {**record.fields, **doc.to_json()}
    for number, sentence in enumerate(doc.sents):
        _add_parse(data, number, sentence)
    if has_expansions(doc):
        _add_words(data, doc)
    try:
        # JSON has no NaN, which a damaged model may give: the record fails.
        return (json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n").encode("utf8")
    except UnicodeEncodeError:
        # Another field has a lone surrogate, which JSON can escape.
        return (json.dumps(data) + "\n").encode("utf8")


def _add_parse(data: dict[str, Any], number: int, sentence: Span) -> None:
    """Add probabilities, probable arcs and alternative parses of a sentence."""
    details = SentenceDetails.read(sentence, list(sentence))
    for key, value in (("log_prob", details.log_prob), ("entropy", details.entropy)):
        if value is not None:
            data["sents"][number][key] = rounded(value)
    if details.guideline_status is not None:
        data["sents"][number]["guideline_status"] = details.guideline_status
    tokens = data["tokens"][sentence.start : sentence.end]
    for key, probs in (("head_prob", details.head_probs), ("arc_prob", details.arc_probs)):
        for token, prob in zip(tokens, probs or (), strict=False):
            if prob is not None:
                token[key] = rounded(prob)
    if details.arcs is not None:
        for token in tokens:
            token["arcs"] = []
        for arc in details.arcs:
            shown = {"head": arc.head.i, "dep": arc.dep, "prob": rounded(arc.prob)}
            data["tokens"][arc.token.i]["arcs"].append(shown)
    if details.parses is not None:
        data["sents"][number]["parses"] = [
            {
                "log_prob": rounded(parse.log_prob),
                "heads": (parse.heads + sentence.start).tolist(),
                "deps": parse.deps,
            }
            for parse in details.parses
        ]


def _add_words(data: dict[str, Any], doc: Doc) -> None:
    """Add the words of multiword tokens."""
    for token in doc:
        if words := get_words(token):
            data["tokens"][token.i]["words"] = [
                {**word._asdict(), "head": word.head.i} for word in words
            ]


def rounded(value: float) -> float:
    """Round to the digits that are written, without a minus sign for zero."""
    return round(float(value), PROB_DIGITS) + 0.0
