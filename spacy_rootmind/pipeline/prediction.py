"""Prediction in bounded memory: sentences, trees, labels and details of Docs.

Token vectors and boundaries are computed for a batch of Docs. Its sentences are then parsed in
batches of bounded size, however long a Doc is.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import (
    DEP,
    ENT_ID,
    ENT_IOB,
    ENT_KB_ID,
    ENT_TYPE,
    LEMMA,
    MORPH,
    NORM,
    POS,
    SENT_START,
    TAG,
)
from spacy.tokens import Doc

from spacy_rootmind.annotation.details import ParseDetails
from spacy_rootmind.annotation.line_starts import sentence_gaps, share_starts
from spacy_rootmind.annotation.reading import annotated_starts
from spacy_rootmind.annotation.sentences import (
    AT_LINE_END,
    CERTAIN,
    SURE,
    Starts,
    TokenRow,
    choose_starts,
    join_wordless,
    move_past_references,
    scored_tokens,
)
from spacy_rootmind.annotation.warn_once import WarnOnce
from spacy_rootmind.annotation.writing import DocParse, ParsedSentences, join_sentences
from spacy_rootmind.guidelines.constraints import CONSTRAINTS, DocConstraints, constraints_of
from spacy_rootmind.network.architecture import ParserModel, find_vectors, require_finite
from spacy_rootmind.network.boundaries import NOT_A_WORD, BoundaryInput
from spacy_rootmind.network.listeners import listeners_in
from spacy_rootmind.network.tree_scorer import TreeInput, TreeScores
from spacy_rootmind.network.types import Floats2d
from spacy_rootmind.pipeline.details import find_details, sigmoid
from spacy_rootmind.pipeline.sentence_parser import (
    PredictionContext,
    Sentence,
    find_trees,
    make_batch,
)
from spacy_rootmind.trees.conventions import ROOT_LABEL

# Tokens in a batch of Docs. A longer Doc is encoded in slices of this size ...
MAX_TOKENS = 4096
# ... with this many tokens of context on either side: more than spaCy's convolutions reach, and all
# that a recurrent layer over the words sees of the rest.
CONTEXT = 128
# Arc scores in a batch of sentences; a sentence with more is parsed alone. A word counts as at
# least MIN_SCORES scores, since its rows in all layers take memory too.
MAX_SCORES = 1 << 20
MIN_SCORES = 256

# Attributes of tokens that a slice of a Doc keeps; its heads may lie outside.
COPIED = [NORM, LEMMA, TAG, POS, MORPH, DEP, SENT_START, ENT_IOB, ENT_TYPE, ENT_KB_ID, ENT_ID]
# Values of ENT_IOB.
INSIDE_ENTITY, BEGINS_ENTITY = 1, 3

warn_of_split = WarnOnce(
    "A sentence of the Doc %r has more than %d words (max_sentence_length) and was split where "
    "boundaries are most likely."
)


def parse_docs(
    model: ParserModel, docs: Sequence[Doc], context: PredictionContext
) -> list[DocParse]:
    """Parse Docs without changing them."""
    parses: list[DocParse] = []
    for batch in _batches(docs, list(map(len, docs)), MAX_TOKENS):
        row = TokenRow(batch)
        vectors, log_odds = _encode(model, row)
        starts, sentences = plan_sentences(row, log_odds, context)
        trees = _parse_sentences(model, vectors, sentences, context)
        parses += join_sentences(row, starts, trees, context.labels)
    return parses


def _batches(items: Sequence[Any], costs: Sequence[int], most: int) -> list[list[Any]]:
    """Group neighbours up to a total cost; an item that costs more is alone in its group."""
    batches: list[list[Any]] = []
    total = 0
    for item, cost in zip(items, costs, strict=True):
        total += cost
        if not batches or total > most:
            batches.append([])
            total = cost
        batches[-1].append(item)
    return batches


def _parse_sentences(
    model: ParserModel,
    vectors: list[Floats2d],
    sentences: list[Sentence],
    context: PredictionContext,
) -> ParsedSentences:
    """Parse sentences in batches of bounded size, in order."""
    costs = [(m := len(sentence.words) + 1) * max(m, MIN_SCORES) for sentence in sentences]
    none = np.zeros(0, dtype=np.int32)
    parts = []
    if len(vectors) > 1:
        vectors = [np.concatenate(vectors)]
    for batch in _batches(sentences, costs, MAX_SCORES):
        given = TreeInput(vectors, [[each.rows for each in batch]])
        scores = model.get_ref("trees").predict(given)
        parts.append(parse_scored(model, scores, batch, context))
    if len(parts) == 1:
        return parts[0]
    heads, labels, details = zip(ParsedSentences(none, none, []), *parts, strict=True)
    chained = list(itertools.chain.from_iterable(details))
    return ParsedSentences(np.concatenate(heads), np.concatenate(labels), chained)


def parse_scored(
    model: ParserModel,
    scores: TreeScores,
    sentences: Sequence[Sentence],
    context: PredictionContext,
) -> ParsedSentences:
    """Find the best trees of sentences, their labels and the details, from their arc scores."""
    batch = make_batch(model, scores, sentences, context)
    parsed = find_trees(batch)
    details: Sequence[ParseDetails | None] = [None] * len(sentences)
    if context.settings.finds_details or any(parsed.status or ()):
        details = find_details(batch, parsed)
    return ParsedSentences(parsed.heads, parsed.labels, details)


# --- token vectors and boundaries --------------------------------------------------------------


def _encode(model: ParserModel, row: TokenRow) -> tuple[list[Floats2d], NDArray[np.floating]]:
    """Compute the vectors of all tokens, and their log-odds of starting a sentence."""
    if not row.n_tokens:
        return [], np.zeros(0)
    if row.n_tokens > MAX_TOKENS:
        return _encode_long(model, row)
    vectors, _ = find_vectors(model, row.docs, is_train=False)
    return vectors, _find_log_odds(model, vectors, row.words_of_docs())


def _encode_long(model: ParserModel, row: TokenRow) -> tuple[list[Floats2d], NDArray[np.floating]]:
    """Encode a long Doc in slices, since Thinc keeps the output of every layer until the last."""
    vectors, words = _long_vectors(model, row.docs[0]), row.words
    log_odds = []
    for start, stop, first, last in _slices(row.n_tokens):
        own = words[(first <= words) & (words < last)] - first
        odds = _find_log_odds(model, [vectors[first:last]], [own])
        log_odds.append(odds[start - first : stop - first].copy())
    return [vectors], np.concatenate(log_odds)


def _long_vectors(model: ParserModel, doc: Doc) -> Floats2d:
    """Compute the token vectors of a long Doc in slices.

    Vectors from another component, through a listener, are there already.
    """
    if listeners_in(model.get_ref("tok2vec")):
        return find_vectors(model, [doc], is_train=False)[0][0]
    parts = []
    for start, stop, first, last in _slices(len(doc)):
        piece = _copy_slice(doc, first, last)
        [seen] = find_vectors(model, [piece], is_train=False)[0]
        parts.append(seen[start - first : stop - first].copy())
    return np.concatenate(parts)


def _copy_slice(doc: Doc, first: int, last: int) -> Doc:
    """Copy a slice of a Doc with its attributes and tensor, which layers read.

    `Span.as_doc` also computes the slice's vector, by the user's hook where there is one.
    """
    tokens: Any = doc[first:last]
    piece = Doc(
        doc.vocab,
        words=[token.text for token in tokens],
        spaces=[bool(token.whitespace_) for token in tokens],
    )
    values = tokens.to_array(COPIED)
    # No entity starts inside.
    if values[0, COPIED.index(ENT_IOB)] == INSIDE_ENTITY:
        values[0, COPIED.index(ENT_IOB)] = BEGINS_ENTITY
    piece.from_array(COPIED, values)
    piece.tensor = doc.tensor[first:last]
    return piece


def _slices(n: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut n tokens into slices: the start and stop of each, without and with its context."""
    for start in range(0, n, MAX_TOKENS):
        stop = min(start + MAX_TOKENS, n)
        yield start, stop, max(start - CONTEXT, 0), min(stop + CONTEXT, n)


def _find_log_odds(
    model: ParserModel, vectors: list[Floats2d], words: Sequence[NDArray[np.int64]]
) -> NDArray[np.floating]:
    log_odds = model.get_ref("boundaries").predict(BoundaryInput(vectors, words))
    require_finite(log_odds, "boundary")
    return log_odds


# --- sentences ---------------------------------------------------------------------------------


def plan_sentences(
    row: TokenRow, log_odds: NDArray[np.floating], context: PredictionContext
) -> tuple[Starts, list[Sentence]]:
    """Fix the sentences of Docs, from the network's log-odds that each token starts one.

    The starts are the first token of each sentence, and the number of all tokens.

    Raises ValueError if boundaries are required and missing, or the constraints cannot be met.
    """
    settings, docs = context.settings, row.docs
    stated = _stated_starts(row, context)
    log_odds = _share_starts(row, log_odds, stated)
    start_probs = _start_probs(row, log_odds, stated, context)
    predicted, is_sure = _network_log_odds(log_odds, context), log_odds >= SURE
    move_past_references(row, predicted)
    bound: NDArray[np.floating] = predicted + stated
    if settings.distribution_threshold is not None:
        # Students learn what is stated as certain.
        log_odds = log_odds + stated
    constraints = {}
    for number, doc in enumerate(docs):
        if settings.constraints is not None or CONSTRAINTS in doc.user_data:
            own, wanted = row.place(number), constraints_of(doc, settings.constraints)
            constraints[number] = DocConstraints.check(doc, wanted, context.labels)
            bound[own] = constraints[number].bind(doc, bound[own])
    bound = join_wordless(row, bound, is_sure)
    for number, made in constraints.items():
        own = row.place(number)
        bound[own] = made.join_rootless(docs[number], bound[own])
    starts, split = choose_starts(row, bound, settings.max_sentence_length)
    if len(split):
        doc = docs[row.numbers_at(split)[0]]
        warn_of_split(doc[:8].text, settings.max_sentence_length)
    for number, made in constraints.items():
        made.check_starts(docs[number], starts - row.bounds[number])
    sentences = []
    for number, rows in zip(row.numbers_at(starts[:-1]), scored_tokens(row, starts), strict=True):
        words = rows - row.bounds[number]
        probs = start_probs[number]
        sentences.append(
            Sentence(
                docs[number],
                words,
                rows,
                log_odds[rows],
                None if probs is None else probs[words],
                constraints[number].of_sentence(words) if number in constraints else None,
            )
        )
    return starts, sentences


def _network_log_odds(
    log_odds: NDArray[np.floating], context: PredictionContext
) -> NDArray[np.float64]:
    """Shift log-odds by the threshold, so that those above 0 are starts.

    With a threshold of 0 or 1, all words are starts or none, in the order of their log-odds.
    """
    if not context.finds_boundaries:
        return np.full(len(log_odds), -1.0)
    threshold, most = context.settings.boundary_threshold, AT_LINE_END / 4
    if 0.0 < threshold < 1.0:
        shift = math.log(threshold) - math.log1p(-threshold)
    else:
        shift = math.copysign(most, threshold - 0.5)
    return np.where(log_odds > NOT_A_WORD, log_odds - shift, NOT_A_WORD)


def _stated_starts(row: TokenRow, context: PredictionContext) -> NDArray[np.float64]:
    """Make log-odds of the boundaries that Docs and their lines state, 0 where they do not."""
    mode = context.settings.sentences
    if mode == "doc":
        return np.full(row.n_tokens, -CERTAIN)
    known = row.complete_marks(row.marks.copy())
    if row.has_label.any():
        known = annotated_starts(row, context.labels[ROOT_LABEL])
    if mode == "given":
        _require_boundaries(row.docs)
        known[known == 0] = -1
    stated = CERTAIN * known.astype(np.float64)
    if mode == "auto":
        settings = context.settings
        for doc, place in row.docs_with(row.is_space):
            own = known[place]
            for before, after in sentence_gaps(doc, settings.blank_lines, settings.line_ends):
                if not own[after] and not (own[before + 1 : after] == 1).any():
                    stated[place][after] = AT_LINE_END
    return stated


def _require_boundaries(docs: Sequence[Doc]) -> None:
    for doc in docs:
        if len(doc) > 1 and not doc.has_annotation("SENT_START"):
            raise ValueError(
                f"the Doc {doc.text[:40]!r} has no sentence boundaries, which sentences = "
                f'"given" requires: put a component that finds them before the parser (`senter`, '
                f'`sentencizer`), or set sentences = "auto"'
            )


def _share_starts(
    row: TokenRow, log_odds: NDArray[np.floating], stated: NDArray[np.float64]
) -> NDArray[np.floating]:
    """Share starts in the lines of each Doc that has any, since lines end in whitespace."""
    shared = log_odds.copy()
    for doc, own in row.docs_with(row.is_space):
        shared[own] = share_starts(doc, log_odds[own], stated[own])
    return shared


def _start_probs(
    row: TokenRow,
    log_odds: NDArray[np.floating],
    stated: NDArray[np.float64],
    context: PredictionContext,
) -> list[NDArray[np.float32] | None]:
    """Convert the network's log-odds in each Doc to probabilities, NaN where it states what holds.

    Lines state nothing here: the probability tells what the network makes of the words alone. None
    for Docs in which all is stated, or if the network has not learnt boundaries.
    """
    if not (context.settings.confidence and context.finds_boundaries):
        return [None] * len(row.docs)
    is_stated = np.abs(stated) >= CERTAIN
    # In double precision, so that small probabilities keep their digits.
    probs = np.where(is_stated, np.float32(np.nan), sigmoid(log_odds.astype(np.float64)))
    places = map(row.place, range(len(row.docs)))
    return [None if is_stated[own].all() else probs[own] for own in places]
