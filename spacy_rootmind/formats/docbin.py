"""Docs with their annotation, as `DocBin` saves them; one file in memory at a time."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from spacy.strings import StringStore
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_rootmind.compat import TRANSFORMER_OUTPUT, gc_unchanged
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.records import InputRecord, check_unchanged


def read_docs(file: str, content: bytes) -> Iterator[InputRecord]:
    """Read the Docs of a file, one record each.

    Raises InputError if the file is damaged, or no DocBin.
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
        return next(alone.get_docs(vocab))


class DocsOutput:
    """Docs in spaCy's format, which needs memory for all of them; as `registry.Output`."""

    def __init__(self) -> None:
        self._docs = DocBin(store_user_data=True)

    def prepare(self, doc: Doc, record: InputRecord) -> DocBin:
        """Serialize one Doc by itself, so that an error does not affect the others."""
        check_unchanged(doc, record)
        # Kilobytes per word that nothing reads again.
        user_data: dict[Any, Any] = doc.user_data
        user_data.pop(TRANSFORMER_OUTPUT, None)
        return DocBin(store_user_data=True, docs=[doc])

    def add(self, prepared: DocBin) -> bytes:
        """Keep a Doc."""
        self._docs.merge(prepared)
        return b""

    def end(self) -> bytes:
        """Return all Docs."""
        return self._docs.to_bytes()
