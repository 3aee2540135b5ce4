"""Parsing of corpora of any size, as Arrow tables, on existing engines.

`ArrowParser` is a function from table to table for Ray Data, Spark and Dask (extra `[arrow]`).
`python -m spacy_rootmind bulk` runs it on dask.distributed.
"""

from spacy_rootmind.bulk.arrow_parser import ArrowParser
from spacy_rootmind.parsing.settings import ParserSettings

__all__ = ["ArrowParser", "ParserSettings"]
