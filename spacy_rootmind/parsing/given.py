"""Annotation that is given with sentences of CoNLL-U, kept while components run.

Components see what is given, and do not change it. Their additions go with it: a word whose part of
speech is given gets features of that part of speech, a parse has the given arcs, and under
guidelines its labels go with the given tags.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from spacy.attrs import LEMMA as LEMMA_ATTRIBUTE
from spacy.attrs import MORPH, POS, TAG
from spacy.language import Language
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.pipeline import Morphologizer
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_rootmind.annotation.words import Expansion, write_expansions
from spacy_rootmind.formats.conllu_sentence import (
    EMPTY,
    FEATS,
    FORM,
    LEMMA,
    UPOS,
    XPOS,
    Arc,
    ConlluError,
    Sentence,
    read_arcs,
    tokens_of,
)
from spacy_rootmind.formats.records import (
    WORD_FIELDS,
    Failure,
    InputRecord,
    InputRecords,
    check_unchanged,
)
from spacy_rootmind.guidelines.constraints import CONSTRAINTS, Constraints
from spacy_rootmind.guidelines.ud import FIXED_TAGS
from spacy_rootmind.multiword.expander import MWTExpander
from spacy_rootmind.parsing.settings import ParserSettings

ANALYSIS = [POS, MORPH]
# The attributes of tokens for columns of CoNLL-U.
ATTRIBUTES: dict[int, int | str] = {LEMMA: LEMMA_ATTRIBUTE, UPOS: POS, XPOS: TAG, FEATS: MORPH}


def as_set(records: InputRecords, settings: ParserSettings) -> InputRecords:
    """Apply settings to records; a sentence whose heads are kept and make no tree is a failure."""
    for record in records:
        if settings.keep_heads and isinstance(record, InputRecord) and record.sentence is not None:
            try:
                record.arcs = read_arcs(record.sentence)
            except ConlluError as error:
                yield Failure(record.file, error.line, str(error), name=record.id)
                continue
        yield record


class Given:
    """The annotation that is given with the Doc of a record of CoNLL-U."""

    def __init__(self, doc: Doc, record: InputRecord, sentence: Sentence) -> None:
        self.record = record
        columns = sentence.given_columns
        # A row for each token, with the values of its topmost word.
        rows = iter(sentence.words)
        values = []
        for place in range(len(doc)):
            own = record.expansions.get(place)
            words = [next(rows) for _ in range(1 if own is None else len(own.words))]
            row = words[0 if own is None else own.top]
            values.append([as_value(doc.vocab, column, row[column]) for column in columns])
        table = np.array(values, dtype=np.uint64).reshape(len(doc), len(columns))
        # The values that are given, by attribute.
        self.values = dict(zip([ATTRIBUTES[column] for column in columns], table.T, strict=True))
        # Features that go with the given parts of speech, 0 where none have been found yet.
        self.features: Any = np.zeros(len(doc), dtype=np.uint64)
        if POS in self.values or MORPH in self.values:
            doc.user_data[FIXED_TAGS] = True
        if record.arcs is not None:
            doc.user_data[CONSTRAINTS] = as_constraints(record.arcs)
        self.restore(doc)

    def restore(self, doc: Doc) -> None:
        """Set what is given again, and the last features that go with it."""
        if len(doc) != len(self.features):
            check_unchanged(doc, self.record)
        if POS in self.values:
            tags, features = doc.to_array(ANALYSIS).T
            given = self.values[POS]
            self.features = np.where((tags == given) | (given == 0), features, self.features)
            doc.from_array([MORPH], self.features)
        if self.values:
            table: Any = np.stack([*self.values.values()], axis=1)
            doc.from_array([*self.values], table)
        write_expansions(doc, self.record.expansions)


def as_value(vocab: Vocab, column: int, value: str) -> int:
    """Convert a value of a column to what spaCy stores.

    Values that it cannot store count as none: parts of speech that are not universal, and features
    that are not pairs.
    """
    if column == UPOS:
        return PARTS_OF_SPEECH.get(value, 0)
    if column == FEATS:
        is_valid = all(pair.count("=") == 1 for pair in value.split("|"))
        return vocab.morphology.add(value if is_valid else "")
    return 0 if value == EMPTY else vocab.strings.add(value)


def as_constraints(arcs: list[Arc]) -> Constraints:
    """Convert arcs to constraints, in which the root is its own head and has no other label."""
    heads = [
        (i, arc.head - 1 if arc.head else i) for i, arc in enumerate(arcs) if arc.head is not None
    ]
    labels = [(i, arc.label) for i, arc in enumerate(arcs) if arc.label and arc.head != 0]
    return Constraints(forced=heads, labels=labels)


class Analyses:
    """The analyses that a morphologizer chooses from."""

    def __init__(self, tagger: Morphologizer) -> None:
        self.tagger = tagger
        tags, features = tagger.cfg["labels_pos"], tagger.cfg["labels_morph"]
        add = tagger.vocab.morphology.add
        # One row each, as `Doc.to_array(ANALYSIS)` has them.
        self.table = np.array(
            [(tags.get(label, 0), add(features.get(label, ""))) for label in tagger.labels],
            dtype=np.uint64,
        )

    def choose(self, doc: Doc, given: Given) -> None:
        """Set the most probable analyses that go with the given parts of speech or features."""
        scores = self.tagger.model.ops.to_numpy(self.tagger.model.predict([doc])[0])
        fits, found = np.ones(scores.shape, dtype=np.bool_), doc.to_array(ANALYSIS)
        for attribute, known in zip(ANALYSIS, self.table.T, strict=True):
            if attribute in given.values:
                wanted = given.values[attribute][:, None]
                # A morphologizer may have learnt features without parts of speech.
                fits &= (known == wanted) | (known == 0) | (wanted == 0)
        if POS in given.values:
            found[:, 0] = 0
        best = self.table[np.where(fits, scores, -np.inf).argmax(axis=1)]
        values: Any = np.where(fits.any(axis=1, keepdims=True), best, found)
        doc.from_array(ANALYSIS, values)


def join_words(nlp: Language, record: InputRecord, sentence: Sentence) -> None:
    """Join the given words of a multiword token if the pipeline's expander has a script for them.

    The pipeline has learnt such tokens whole, and the script says how their words depend on each
    other. The words of other tokens are tokens of the Doc.
    """
    expander = next((pipe for _, pipe in nlp.pipeline if isinstance(pipe, MWTExpander)), None)
    if expander is None:
        return
    columns = [(column, WORD_FIELDS[column]) for column in sentence.given_columns]
    words = [
        {"form": row[FORM]}
        | {name: "" if row[column] == EMPTY else row[column] for column, name in columns}
        for row in sentence.words
    ]
    tokens: list[tuple[str, bool]] = []
    expansions: dict[int, Expansion] = {}
    for token in tokens_of(sentence.rows):
        own = words[token.first : token.stop]
        expansion = expander.expand_into(token.form, own) if len(own) > 1 else None
        if expansion is None:
            tokens += [(word["form"], False) for word in own]
            tokens[-1] = (own[-1]["form"], token.spaced)
        else:
            expansions[len(tokens)] = expansion
            tokens.append((token.form, token.spaced))
    record.words, record.spaces = [list(column) for column in zip(*tokens, strict=True)]
    record.starts = [True] + [False] * (len(tokens) - 1)
    record.expansions = expansions


Context = tuple[int, Given | None]
"""The number of a record, and what is given with its Doc."""


def start_parse(nlp: Language, record: InputRecord) -> tuple[Doc, Given | None]:
    """Make the Doc of a record, with what is given."""
    if record.sentence is not None and record.arcs is None:
        join_words(nlp, record, record.sentence)
    doc = record.make_doc(nlp)
    return doc, None if record.sentence is None else Given(doc, record, record.sentence)


def run_pipeline(nlp: Language, docs: Iterable[tuple[Doc, Any]]) -> Iterable[tuple[Doc, Any]]:
    """Run all components on Docs with their contexts; what is given is restored after each.

    The context becomes None if a component replaces the Doc.
    """
    for name, component in nlp.pipeline:
        others = [other for other in nlp.pipe_names if other != name]
        docs = nlp.pipe(docs, as_tuples=True, disable=others)
        docs = _restored(docs, component)
    return docs


def _restored(docs: Iterable[tuple[Doc, Any]], component: Any) -> Iterator[tuple[Doc, Any]]:
    analyses = Analyses(component) if isinstance(component, Morphologizer) else None
    for doc, context in docs:
        given = context and context[1]
        if given is not None:
            if analyses and (POS in given.values) != (MORPH in given.values):
                analyses.choose(doc, given)
            given.restore(doc)
        yield doc, context


def finish_parse(
    doc: Doc, record: InputRecord, given: Given | None
) -> tuple[InputRecord, Doc] | Failure:
    """Check a parsed Doc, and leave nothing in it but what is given and predicted."""
    doc.user_data.pop(FIXED_TAGS, None)
    doc.user_data.pop(CONSTRAINTS, None)
    try:
        if given is not None:
            check_unchanged(doc, record)
    except ValueError as error:
        return record.failed(error)
    return record, doc
