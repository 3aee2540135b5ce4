"""Writers of CoNLL-U, JSONL and drawn trees, with the probabilities and alternatives of the Doc.

In CoNLL-U, `HeadProb=` in MISC is the probability of a word's head, and `Arcs=` the probable arcs
to the word as HEAD:DEPREL:PROBABILITY, separated by commas; in their labels, "|", "," and "%" are
percent-encoded. The comments `# parse_log_prob =` and `# parse_entropy =` have the log probability
of the tree and the entropy in nats, and `# parse_1 =`, `# parse_2 =` ... the alternative parses:
the log probability, then HEAD:DEPREL of each word.

In JSONL, tokens have "head_prob" and "arcs", and sentences "log_prob", "entropy" and "parses".
Heads are indices of tokens in the Doc, as in "tokens".

Drawn trees are for reading. After each word come its part of speech, its label, the probability of
its head, and after "or" the probable arcs from other heads.

If a component after the parser merged or split tokens, what no longer holds is left out.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.extensions import (
    get_arcs,
    get_entropy,
    get_head_probs,
    get_log_prob,
    get_parses,
)
from spacy_rootmind.cli import conllu
from spacy_rootmind.cli.conllu import EMPTY, as_column, set_misc
from spacy_rootmind.cli.input_records import InputRecord
from spacy_rootmind.cli.text_trees import align, draw_tree, printable

Writer = Callable[[Doc, InputRecord, int], bytes]
"""Formats a Doc, given its record and the number of sentences written before."""

OWN_COMMENT = re.compile(r"#\s*parse_(log_prob|entropy|\d+)\s*=")
PROB_DIGITS = 6
# Characters that would end a label within MISC; they are percent-encoded.
MISC_MARKS = re.compile(r"[|,%]")


# --- CoNLL-U -----------------------------------------------------------------------------------


def write_conllu(doc: Doc, record: InputRecord, n_before: int) -> bytes:
    """Write the sentences of a Doc; whitespace tokens are not words in CoNLL-U.

    Raises
    ------
    ValueError
        If the pipeline has changed the tokens of the record, or a sentence is not a tree.
    """
    if record.sentence is not None:
        return _write_conllu_sentence(doc, record, record.sentence, n_before).encode("utf8")
    check_unchanged(doc, record)
    text: list[str] = []
    words = [token for token in doc if not token.is_space]
    between = _spaces_between(doc, words)
    start = 0
    for sentence in doc.sents:
        own = [token for token in sentence if not token.is_space]
        if not own:
            continue
        heads, deps = _tree(sentence, own)
        head_probs, arcs = _head_probs(sentence, own), _arcs(sentence, own)
        rows = []
        for i, token in enumerate(own):
            spaces = _space_attributes(between, start + i, token.text)
            misc = set_misc(EMPTY, {"HeadProb": head_probs[i], "Arcs": arcs[i], **spaces})
            rows.append(_row(token, i + 1, heads[i], deps[i], misc))
        comments = _first_comments(record, n_before + len(text), is_first=not text)
        comments.append(f"# text = {_text(rows)}")
        text.append(conllu.format_sentence(comments + _parse_comments(sentence, own), rows))
        start += len(own)
    return "".join(text).encode("utf8")


def _first_comments(record: InputRecord, n_before: int, *, is_first: bool) -> list[str]:
    """Format the comments that mark the start of a text and number the sentence."""
    name = record.fields.get("id")
    named = isinstance(name, (str, int)) and as_column(str(name)) != EMPTY
    comments = []
    if is_first:
        comments.append(f"# newdoc id = {as_column(str(name))}" if named else "# newpar")
    return [*comments, f"# sent_id = {n_before + 1}"]


def _row(token: Token, number: int, head: str, dep: str, misc: str) -> list[str]:
    return [
        str(number),
        as_column(token.text),
        as_column(token.lemma_),
        token.pos_ or EMPTY,
        as_column(token.tag_),
        as_column(str(token.morph)),
        head,
        dep,
        EMPTY,
        misc,
    ]


def _text(rows: Sequence[Sequence[str]]) -> str:
    parts = []
    for row in rows:
        spaced = "SpaceAfter=No" not in row[conllu.MISC].split("|")
        parts.append(row[conllu.FORM] + " " * spaced)
    return "".join(parts).rstrip(" ")


def _spaces_between(doc: Doc, words: Sequence[Token]) -> list[str]:
    """List the whitespace before the first word, and after each."""
    if not words:
        return []
    text = doc.text
    ends = [0, *(token.idx + len(token) for token in words)]
    starts = [*(token.idx for token in words), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def _space_attributes(between: Sequence[str], word: int, text: str) -> dict[str, str | None]:
    """Return the whitespace around and inside a word as attributes in UDPipe's way."""
    after = between[word + 1]
    is_last = word + 2 == len(between)
    return {
        "SpaceAfter": "No" if not after and not is_last else None,
        "SpacesBefore": conllu.escape_spaces(between[0]) if word == 0 and between[0] else None,
        "SpacesAfter": conllu.escape_spaces(after) if after not in ("", " ") else None,
        "SpacesInToken": conllu.escape_spaces(text) if as_column(text) != text else None,
    }


def _tree(sentence: Span, words: Sequence[Token]) -> tuple[list[str], list[str]]:
    """Return the heads as numbered in CoNLL-U, and the labels."""
    number = {token.i: str(i) for i, token in enumerate(words, start=1)}
    heads = []
    for token in words:
        head = "0" if token.head.i == token.i else number.get(token.head.i)
        if head is None:
            raise ValueError(
                f"the head of {token.text!r} is {token.head.text!r}, expected a word of the same "
                f"sentence {sentence.text[:40]!r}; disable components after the parser that change "
                f"its trees"
            )
        heads.append(head)
    if heads.count("0") != 1:
        raise ValueError(
            f"expected one root, found {heads.count('0')} in the sentence {sentence.text[:40]!r}"
        )
    return heads, [deprel(token.dep_) for token in words]


def deprel(label: str) -> str:
    """Convert a label to CoNLL-U, where spaCy's ROOT is root."""
    return "root" if label.lower() == "root" else as_column(label)


def _head_probs(sentence: Span, words: Sequence[Token]) -> list[str | None]:
    """Format the probability of each word's head; None where it is unknown."""
    probs = get_head_probs(sentence)
    if probs is None:
        return [None] * len(words)
    own = (probs[token.i - sentence.start] for token in words)
    return [None if prob is None else decimals(prob) for prob in own]


def _arcs(sentence: Span, words: Sequence[Token]) -> list[str | None]:
    arcs = get_arcs(sentence)
    if arcs is None:
        return [None] * len(words)
    number = {token.i: i for i, token in enumerate(words, start=1)}
    parts: dict[int, list[str]] = {token.i: [] for token in words}
    for arc in arcs:
        head = 0 if arc.head == arc.token else number[arc.head.i]
        label = MISC_MARKS.sub(lambda mark: f"%{ord(mark[0]):02X}", deprel(arc.dep))
        parts[arc.token.i].append(f"{head}:{label}:{decimals(arc.prob)}")
    # A word may have no arc that is probable enough.
    return [",".join(own) or None for own in parts.values()]


def _parse_comments(sentence: Span, words: Sequence[Token]) -> list[str]:
    """Format the log probability, the entropy and the alternative parses as comments."""
    values = {"log_prob": get_log_prob(sentence), "entropy": get_entropy(sentence)}
    comments = [
        f"# parse_{key} = {decimals(value)}" for key, value in values.items() if value is not None
    ]
    for i, (heads, deps, log_prob) in enumerate(_numbered_parses(sentence, words), start=1):
        arcs = (f"{head}:{dep}" for head, dep in zip(heads, deps, strict=True))
        comments.append(f"# parse_{i} = {decimals(log_prob)} {' '.join(arcs)}")
    return comments


def _numbered_parses(
    sentence: Span, words: Sequence[Token]
) -> Iterator[tuple[list[int], list[str], float]]:
    """Yield the alternatives: heads as numbered in CoNLL-U, labels, and log probability."""
    positions = [token.i - sentence.start for token in words]
    number = {position: i for i, position in enumerate(positions, start=1)}
    for parse in get_parses(sentence) or ():
        heads = parse.heads.tolist()
        numbers = [0 if heads[j] == j else number[heads[j]] for j in positions]
        yield numbers, [deprel(parse.deps[j]) for j in positions], parse.log_prob


def decimals(value: float) -> str:
    """Format a number with a fixed number of digits, and without a minus sign for zero."""
    return f"{round(float(value), PROB_DIGITS) + 0.0:.{PROB_DIGITS}f}"


def _write_conllu_sentence(
    doc: Doc, record: InputRecord, given: conllu.Sentence, n_before: int
) -> str:
    """Write a sentence of CoNLL-U as it was read, with the new heads and labels.

    Empty columns are filled with the annotation of the pipeline.
    """
    check_unchanged(doc, record)
    sentence = doc[:]
    words = list(doc)
    heads, deps = _tree(sentence, words)
    head_probs, arcs = _head_probs(sentence, words), _arcs(sentence, words)
    rows = [list(row) for row in given.rows]
    for i, place in enumerate(given.word_rows):
        row, token = rows[place], words[i]
        found = _row(token, i + 1, heads[i], deps[i], EMPTY)
        for column in (conllu.LEMMA, conllu.UPOS, conllu.XPOS, conllu.FEATS):
            if row[column] == EMPTY:
                row[column] = found[column]
        row[conllu.HEAD], row[conllu.DEPREL] = heads[i], deps[i]
        row[conllu.MISC] = set_misc(row[conllu.MISC], {"HeadProb": head_probs[i], "Arcs": arcs[i]})
    comments = [line for line in given.comments if not OWN_COMMENT.match(line)]
    if given.comment("sent_id") is None:
        comments.append(f"# sent_id = {n_before + 1}")
    if given.comment("text") is None:
        comments.append(f"# text = {conllu.surface_text(given)}")
    return conllu.format_sentence(comments + _parse_comments(sentence, words), rows)


def check_unchanged(doc: Doc, record: InputRecord) -> None:
    """Check that a Doc still has the given tokens and sentences.

    Raises
    ------
    ValueError
        If the pipeline has changed them.
    """
    if record.words is None:
        return
    if [token.text for token in doc] != record.words:
        raise ValueError(
            f"the pipeline has changed the tokens: expected the {len(record.words)} that were "
            f"given, found {len(doc)}; disable the component that merges or splits them"
        )
    if record.starts is None:
        return
    starts = [bool(token.is_sent_start) for token in doc]
    if starts != record.starts:
        raise ValueError(
            f"the pipeline has changed the sentences: expected the {sum(record.starts)} that were "
            f"given, found {sum(starts)}; disable the component that sets boundaries, or raise "
            f"the parser's max_sentence_length, beyond which it splits sentences"
        )


def restore_given_columns(doc: Doc, record: InputRecord) -> None:
    """Replace predicted annotation other than the tree with the columns of the CoNLL-U sentence.

    Values that spaCy cannot store are left out: parts of speech that are not universal, and
    features that are not pairs.
    """
    if record.sentence is None:
        return
    for token, row in zip(doc, record.sentence.words, strict=True):
        if row[conllu.LEMMA] != EMPTY:
            token.lemma_ = row[conllu.LEMMA]
        if row[conllu.UPOS] in PARTS_OF_SPEECH:
            token.pos_ = row[conllu.UPOS]
        if row[conllu.XPOS] != EMPTY:
            token.tag_ = row[conllu.XPOS]
        if all("=" in pair for pair in row[conllu.FEATS].split("|")):
            token.set_morph(row[conllu.FEATS])  # type: ignore[attr-defined]


# --- JSONL -------------------------------------------------------------------------------------


def write_jsonl(doc: Doc, record: InputRecord, n_before: int) -> bytes:
    """Write a Doc as `Doc.to_json` does, after the other fields of its record.

    Raises
    ------
    ValueError
        If the pipeline has changed the tokens of the record.
    """
    check_unchanged(doc, record)
    restore_given_columns(doc, record)
    data: dict[str, Any] = {**record.fields, **doc.to_json()}
    for number, sentence in enumerate(doc.sents):
        _add_parse(data, number, sentence)
    try:
        # JSON has no NaN, which a damaged model may give: the record fails.
        return (json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n").encode("utf8")
    except UnicodeEncodeError:
        # Another field has a lone surrogate, which JSON can escape.
        return (json.dumps(data) + "\n").encode("utf8")


def _add_parse(data: dict[str, Any], number: int, sentence: Span) -> None:
    """Add probabilities, probable arcs and alternative parses of a sentence."""
    for key, value in (("log_prob", get_log_prob(sentence)), ("entropy", get_entropy(sentence))):
        if value is not None:
            data["sents"][number][key] = rounded(value)
    for i, prob in enumerate(get_head_probs(sentence) or (), start=sentence.start):
        if prob is not None:
            data["tokens"][i]["head_prob"] = rounded(prob)
    arcs = get_arcs(sentence)
    if arcs is not None:
        for token in sentence:
            data["tokens"][token.i]["arcs"] = []
        for arc in arcs:
            shown = {"head": arc.head.i, "dep": arc.dep, "prob": rounded(arc.prob)}
            data["tokens"][arc.token.i]["arcs"].append(shown)
    parses = get_parses(sentence)
    if parses is not None:
        data["sents"][number]["parses"] = [
            {
                "log_prob": rounded(parse.log_prob),
                "heads": (parse.heads + sentence.start).tolist(),
                "deps": parse.deps,
            }
            for parse in parses
        ]


def rounded(value: float) -> float:
    """Round to the number of digits in CoNLL-U."""
    return round(float(value), PROB_DIGITS) + 0.0


# --- drawn trees -------------------------------------------------------------------------------


def write_tree(doc: Doc, record: InputRecord, n_before: int) -> bytes:
    """Draw the sentences of a Doc as text; whitespace tokens are not words, as in CoNLL-U.

    Raises
    ------
    ValueError
        If the pipeline has changed the tokens of the record, or a sentence is not a tree.
    """
    check_unchanged(doc, record)
    restore_given_columns(doc, record)
    drawn = []
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if words:
            drawn.append(_draw_sentence(sentence, words) + "\n")
    return "".join(drawn).encode("utf8")


def _draw_sentence(sentence: Span, words: Sequence[Token]) -> str:
    """Draw a sentence: its text, its tree, the probability of the tree, and alternatives."""
    heads, deps = _tree(sentence, words)
    numbers = [int(head) for head in heads]
    lines = [printable(as_column(sentence.text)), ""]
    lines += _draw_words(words, numbers, deps, _probabilities(sentence, words))
    log_prob = get_log_prob(sentence)
    if log_prob is not None:
        lines += ["", f"Probability of the tree: {percent(math.exp(log_prob))}"]
    for other_numbers, other_deps, log_prob in _numbered_parses(sentence, words):
        if (other_numbers, other_deps) != (numbers, deps):
            lines += ["", f"Alternative: {percent(math.exp(log_prob))}", ""]
            lines += _draw_words(words, other_numbers, other_deps, [""] * len(words))
    return "".join(f"{line}\n" for line in lines)


def _draw_words(
    words: Sequence[Token], heads: Sequence[int], deps: Sequence[str], details: Sequence[str]
) -> list[str]:
    """Draw a tree, with heads counted from 1 and 0 above the root, and details of each word."""
    drawing = draw_tree([head - 1 for head in heads])
    columns = [
        [f"{line} {_shown(token)}" for line, token in zip(drawing, words, strict=True)],
        [token.pos_ for token in words],
        deps,
        details,
    ]
    return align(list(zip(*(column for column in columns if any(column)), strict=True)))


def _shown(token: Token) -> str:
    return printable(as_column(token.text))


def _probabilities(sentence: Span, words: Sequence[Token]) -> list[str]:
    """Format the probability of each word's head, and the probable arcs from other heads."""
    probs = get_head_probs(sentence)
    heads = [None if probs is None else probs[token.i - sentence.start] for token in words]
    others: dict[int, list[str]] = {token.i: [] for token in words}
    for arc in get_arcs(sentence) or ():
        if arc.head != arc.token.head:
            head = "" if arc.head == arc.token else f"{_shown(arc.head)} "
            others[arc.token.i].append(f"{head}{deprel(arc.dep)} {percent(arc.prob)}")
    cells = []
    for token, prob in zip(words, heads, strict=True):
        shown = "" if prob is None else f"{percent(prob):>7}"
        rest = ", ".join(others[token.i])
        cells.append(f"{shown}  or {rest}" if rest else shown)
    return cells


def percent(prob: float) -> str:
    """Format a probability for reading; that of a long sentence's tree is not shown as zero."""
    return "< 0.1 %" if 0 < prob < 0.0005 else f"{100 * prob:.1f} %"


WRITERS: dict[str, Writer] = {"conllu": write_conllu, "jsonl": write_jsonl, "tree": write_tree}
