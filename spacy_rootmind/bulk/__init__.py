"""Parsing of corpora of any size, as Arrow tables, on existing engines.

`ArrowParser` is a function from table to table for Ray Data, Spark and Dask.
`python -m spacy_rootmind bulk` runs it on dask.distributed.
"""

try:
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        "spacy_rootmind.bulk needs pyarrow, which is not installed: install it, or this package "
        "with its extra [arrow]"
    ) from error

from spacy_rootmind.bulk.arrow_parser import ArrowParser
from spacy_rootmind.parsing.settings import ParserSettings

__all__ = ["ArrowParser", "ParserSettings"]
