"""CoNLL-U: one record per sentence, and Docs with their probabilities and alternatives.

`HeadProb=` in MISC is the probability of a word's head, `ArcProb=` the one of head and label
together, and `Arcs=` the probable arcs to the word as HEAD:DEPREL:PROBABILITY, separated by commas;
in their labels, "|", "," and "%" are percent-encoded. The comments `# parse_log_prob =` and
`# parse_entropy =` have the log probability of the tree and the entropy in nats, `# parse_1 =`,
`# parse_2 =` ... the alternative parses: the log probability, then HEAD:DEPREL of each word. The
comment `# guideline_status =` is as `span._.guideline_status`.

The output passes level 2 of UD's validator if the pipeline has UD's parts of speech, features and
labels, and the input is valid.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from urllib.parse import quote

from spacy.tokens import Doc, Span, Token

from spacy_rootmind.annotation.extensions import SentenceDetails
from spacy_rootmind.annotation.words import WordNumbers, read_expansion
from spacy_rootmind.formats.conllu_sentence import (
    DEPREL,
    DEPS,
    EMPTY,
    EMPTY_NODE_ID,
    FEATS,
    HEAD,
    ID,
    LEMMA,
    MISC,
    UPOS,
    XPOS,
    ConlluError,
    Sentence,
    as_column,
    collapsed,
    escape_spaces,
    format_sentence,
    normalized,
    read_sentence,
    set_misc,
    sort_features,
    surface_text,
    words_and_spaces,
)
from spacy_rootmind.formats.jsonl import PROB_DIGITS, rounded
from spacy_rootmind.formats.lines import Line
from spacy_rootmind.formats.records import (
    WORD_FIELDS,
    Failure,
    InputRecord,
    InputRecords,
    check_unchanged,
)
from spacy_rootmind.formats.text import blocks

# The first line of CoNLL-U Plus, and the columns of plain CoNLL-U.
GLOBAL_COLUMNS = re.compile(rb"#\s*global\.columns\s*=\s*(.*)")
COLUMNS = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC"
OWN_COMMENT = re.compile(r"#\s*(parse_(log_prob|entropy|\d+)|guideline_status)\s*=")
NEWDOC = re.compile(r"#\s*newdoc\b")
RESERVED = re.compile(r"[\s/%]")
# Characters that would end a label within MISC; they are percent-encoded.
MISC_MARKS = re.compile(r"[|,%]")

Misc = dict[str, str | None]
"""Attributes of the column MISC; those that are None are removed."""


# --- reading --------------------------------------------------------------------------------------


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
    """Read sentences; an invalid line makes its sentence a failure at that line.

    Nothing is read of CoNLL-U Plus, whose ten columns may be others.
    """
    for block in blocks(lines):
        first = next(block)
        stated = GLOBAL_COLUMNS.match(first.data or b"")
        if stated and stated[1].split() != COLUMNS.encode().split():
            reason = f"expected CoNLL-U, found CoNLL-U Plus: convert it to {COLUMNS}"
            yield Failure(file, first.number, reason)
            return
        try:
            yield read_sentence(first.number, chain([first], block))
        except ConlluError as error:
            yield Failure(file, error.line, str(error))


# --- writing --------------------------------------------------------------------------------------


def write_conllu(doc: Doc, record: InputRecord) -> bytes:
    """Write the sentences of a Doc; whitespace tokens are not words in CoNLL-U."""
    if record.sentence is not None:
        return _write_conllu_sentence(doc, record, record.sentence).encode("utf8")
    check_unchanged(doc, record)
    text: list[str] = []
    spaces = _space_attributes(doc, record)
    for sentence in doc.sents:
        own = [token for token in sentence if not token.is_space]
        if not own:
            continue
        numbers = WordNumbers([read_expansion(token) for token in own])
        tree = _word_arcs(numbers, *numbered_tree(sentence, own))
        details = SentenceDetails.read(sentence, own)
        columns = _new_columns(own, numbers, _probabilities(details, own, numbers))
        rows = list(_rows(own, numbers, tree, columns, spaces))
        comments = _first_comments(record, len(text) + 1)
        comments.append(f"# text = {surface_text(rows)}")
        text.append(format_sentence(comments + _parse_comments(details, own, numbers), rows))
    return "".join(text).encode("utf8")


def _first_comments(record: InputRecord, number: int) -> list[str]:
    """Format the comments that mark the start of a text and name a sentence of it, from 1."""
    name = record.fields.get("id")
    if name is None or record.id != str(name):
        name = record.file_name if record.starts_file else None
    comments = [f"# sent_id = {sent_id(record, number)}"]
    if number == 1:
        comments.insert(0, "# newpar" if name is None else f"# newdoc id = {as_column(str(name))}")
    return comments


def sent_id(record: InputRecord, number: int) -> str:
    """Name a sentence after its document; UD reserves slashes, and allows no whitespace.

    They are percent-encoded, so that documents with different names have different sentences, as
    are names that are not in Unicode's normal form C, which UD wants.
    """
    name = record.id or "_"
    if normalized(name) == name:
        name = RESERVED.sub(lambda found: quote(found[0], safe=""), name)
    else:
        name = quote(name, safe="")
    return f"{name}-{number}"


def _rows(
    tokens: Sequence[Token],
    numbers: WordNumbers,
    tree: Sequence[tuple[int, str]],
    columns: Iterator[tuple[dict[int, str], Misc]],
    spaces: Iterator[Misc],
) -> Iterator[list[str]]:
    """Yield the rows of a sentence, given the columns of its words and what is around tokens."""
    for token, first, expansion in zip(tokens, numbers.first, numbers.words, strict=True):
        forms, around = [token.text], next(spaces)
        if expansion is not None:
            forms = [word.form for word in expansion.words]
            span = f"{first}-{first + len(forms) - 1}"
            yield [span, as_column(token.text), *[EMPTY] * 7, set_misc(EMPTY, around)]
            around = {}
        for number, form in enumerate(forms, start=first):
            head, dep = tree[number - 1]
            tags, misc = next(columns)
            row = [str(number), as_column(form), *[EMPTY] * 4, str(head), dep, EMPTY]
            for column, value in tags.items():
                row[column] = value
            yield [*row, set_misc(EMPTY, misc | around)]


def _tags(token: Token) -> dict[int, str]:
    """Return the columns that a pipeline has set, besides head and label."""
    tags = {}
    # The first part of a word that is written apart has the lemma of all.
    if token.lemma and token.dep_ != "goeswith":
        tags[LEMMA] = as_column(token.lemma_)
    if token.pos:
        tags[UPOS] = token.pos_
    if token.tag:
        tags[XPOS] = "_".join(as_column(token.tag_).split())
    if token.has_morph():
        tags[FEATS] = sort_features(str(token.morph)) or EMPTY
    return tags


def _space_attributes(doc: Doc, record: InputRecord) -> Iterator[Misc]:
    """Yield the whitespace around and inside each word as attributes in UDPipe's way.

    After the last word of a text, UD does not allow `SpaceAfter=No`: without an attribute, nothing
    follows.
    """
    text = doc.text
    ends = [at for token in doc if not token.is_space for at in (token.idx, token.idx + len(token))]
    if not ends:
        return
    places = pairwise([0, *ends, len(text)])
    before, *parts = record.with_line_ends(text[start:end] for start, end in places)
    before = record.before + before
    if record.words is not None and record.spaces is None:
        # spaCy puts a space after each token that was given alone.
        parts[-1] = parts[-1].removesuffix(" ")
    parts[-1] += record.after
    for i in range(0, len(parts), 2):
        word, after = parts[i : i + 2]
        default = " " if i + 2 < len(parts) else ""
        yield {
            "SpaceAfter": "No" if not after and default else None,
            "SpacesBefore": escape_spaces(before) if before else None,
            "SpacesAfter": escape_spaces(after) if after not in ("", default) else None,
            "SpacesInToken": escape_spaces(normalized(word)) if collapsed(word) != word else None,
        }
        before = ""


def numbered_tree(sentence: Span, words: Sequence[Token]) -> tuple[list[int], list[str]]:
    """Return the heads as numbered in CoNLL-U, and the labels."""
    number = {token.i: i for i, token in enumerate(words, start=1)}
    heads = []
    for token in words:
        head = 0 if token.head.i == token.i else number.get(token.head.i)
        if head is None:
            raise ValueError(
                f"the head of {token.text!r} is {token.head.text!r}, expected a word of the same "
                f"sentence {sentence.text[:40]!r}; disable components after the parser that change "
                f"its trees"
            )
        heads.append(head)
    if heads.count(0) != 1:
        raise ValueError(
            f"expected one root, found {heads.count(0)} in the sentence {sentence.text[:40]!r}"
        )
    return heads, [deprel(token.dep_) for token in words]


def _word_arcs(
    numbers: WordNumbers, heads: Sequence[int], deps: Sequence[str]
) -> list[tuple[int, str]]:
    """Return the heads and labels of all words, given a tree of the tokens."""
    return [(head, deprel(dep)) for head, dep in numbers.expand(heads, deps)]


def numbered_arcs(
    details: SentenceDetails, words: Sequence[Token]
) -> Iterator[tuple[int, int, str, float]]:
    """Yield the probable arcs as word and head, numbered as in CoNLL-U, label and probability."""
    number = {token.i: i for i, token in enumerate(words, start=1)}
    for arc in details.arcs or ():
        head = 0 if arc.head.i == arc.token.i else number[arc.head.i]
        yield number[arc.token.i], head, deprel(arc.dep), arc.prob


def numbered_parses(
    details: SentenceDetails, words: Sequence[Token]
) -> Iterator[tuple[float, list[int], list[str]]]:
    """Yield the alternatives as log probability, heads numbered as in CoNLL-U, and labels."""
    for parse in details.parses or ():
        places = [token.i - parse.span.start for token in words]
        number = {place: i for i, place in enumerate(places, start=1)}
        heads = parse.heads.tolist()
        numbers = [0 if heads[place] == place else number[heads[place]] for place in places]
        yield parse.log_prob, numbers, [deprel(parse.deps[place]) for place in places]


def deprel(label: str) -> str:
    """Convert a label to CoNLL-U, where spaCy's ROOT is root."""
    return "root" if label.lower() == "root" else as_column(label)


def _probabilities(
    details: SentenceDetails, words: Sequence[Token], numbers: WordNumbers
) -> list[Misc]:
    """Format the probabilities of each word's head and arcs as attributes for MISC."""
    arcs: list[list[str]] = [[] for _ in words]
    for word, head, dep, prob in numbered_arcs(details, words):
        label = MISC_MARKS.sub(lambda mark: f"%{ord(mark[0]):02X}", dep)
        arcs[word - 1].append(f"{numbers.top[head]}:{label}:{decimals(prob)}")
    unknown = [None] * len(words)
    columns = (details.head_probs or unknown, details.arc_probs or unknown, arcs)
    return [
        {
            "HeadProb": None if head_prob is None else decimals(head_prob),
            "ArcProb": None if arc_prob is None else decimals(arc_prob),
            # A word may have no arc that is probable enough.
            "Arcs": ",".join(own) or None,
        }
        for head_prob, arc_prob, own in zip(*columns, strict=True)
    ]


def _parse_comments(
    details: SentenceDetails, words: Sequence[Token], numbers: WordNumbers
) -> list[str]:
    """Format what a sentence has besides its words' probabilities as comments."""
    values = {"log_prob": details.log_prob, "entropy": details.entropy}
    comments = [
        f"# parse_{key} = {decimals(value)}" for key, value in values.items() if value is not None
    ]
    if details.guideline_status is not None:
        comments.append(f"# guideline_status = {details.guideline_status}")
    for i, (log_prob, heads, deps) in enumerate(numbered_parses(details, words), start=1):
        arcs = " ".join(f"{head}:{dep}" for head, dep in _word_arcs(numbers, heads, deps))
        comments.append(f"# parse_{i} = {decimals(log_prob)} {arcs}")
    return comments


def decimals(value: float) -> str:
    """Format a number with a fixed number of digits."""
    return f"{rounded(value):.{PROB_DIGITS}f}"


def _write_conllu_sentence(doc: Doc, record: InputRecord, given: Sentence) -> str:
    """Write a sentence of CoNLL-U as it was read, with the new heads and labels.

    Columns without any value are filled with the tags of the pipeline. The enhanced graph, with its
    empty nodes, is left out: it belongs to the trees that were given, and UD allows it in all
    sentences of a file or in none.
    """
    check_unchanged(doc, record)
    tokens = list(doc)
    numbers = WordNumbers([record.expansions.get(i) for i in range(len(doc))])
    tree = _word_arcs(numbers, *numbered_tree(doc[:], tokens))
    details = SentenceDetails.read(doc[:], tokens)
    rows = [list(row) for row in given.rows]
    new = _new_columns(tokens, numbers, _probabilities(details, tokens, numbers))
    kept = given.given_columns
    for place, (head, dep), (tags, misc) in zip(given.word_rows, tree, new, strict=True):
        row = rows[place]
        for column, value in tags.items():
            if column not in kept:
                row[column] = value
        row[HEAD], row[DEPREL], row[DEPS] = str(head), dep, EMPTY
        row[MISC] = set_misc(row[MISC], misc)
    rows = [row for row in rows if not EMPTY_NODE_ID.fullmatch(row[ID])]
    comments = [line for line in given.comments if not OWN_COMMENT.match(line)]
    if record.starts_file and not any(NEWDOC.match(line) for line in comments):
        comments.insert(0, f"# newdoc id = {as_column(record.file_name or record.file)}")
    if given.comment("sent_id") is None:
        comments.append(f"# sent_id = {sent_id(record, 1)}")
    if given.comment("text") is None:
        comments.append(f"# text = {surface_text(given.rows)}")
    return format_sentence(comments + _parse_comments(details, tokens, numbers), rows)


def _new_columns(
    tokens: Sequence[Token], numbers: WordNumbers, probabilities: Sequence[Misc]
) -> Iterator[tuple[dict[int, str], Misc]]:
    """Yield the tags and probabilities of each word; its topmost word has a token's."""
    for token, expansion, own in zip(tokens, numbers.words, probabilities, strict=True):
        top = 0 if expansion is None else expansion.top
        for place, word in enumerate([None] if expansion is None else expansion.words):
            if word is None or place == top:
                yield _tags(token), own
            else:
                fields = WORD_FIELDS.items()
                tags = {column: as_column(getattr(word, name)) for column, name in fields}
                yield tags, dict.fromkeys(own)
