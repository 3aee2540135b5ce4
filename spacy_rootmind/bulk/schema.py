"""The columns of parsed corpora, version 2; docs/bulk.md describes them.

A version never changes: other columns, types or meanings get a new number. The number is in the
schema's metadata.
"""

import pyarrow as pa

VERSION = 2
METADATA = {b"spacy_rootmind.bulk.schema": str(VERSION).encode()}

STRINGS = pa.list_(pa.string())
INDICES = pa.list_(pa.int32())
ARC = pa.struct(
    [("token", pa.int32()), ("head", pa.int32()), ("dep", pa.string()), ("prob", pa.float32())]
)
WORD = pa.struct(
    [
        ("token", pa.int32()),
        ("top", pa.bool_()),
        *((name, pa.string()) for name in ("form", "lemma", "pos", "tag", "morph", "dep")),
        ("head", pa.int32()),
        ("head_place", pa.int32()),
    ]
)
PARSE = pa.struct([("log_prob", pa.float64()), ("heads", INDICES), ("deps", STRINGS)])

SENTENCES = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("sentence", pa.int32()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("tokens", STRINGS),
        pa.field("offsets", INDICES),
        pa.field("spaces", pa.list_(pa.bool_())),
        pa.field("heads", INDICES),
        pa.field("deps", STRINGS),
        pa.field("pos", STRINGS),
        pa.field("tags", STRINGS),
        pa.field("morphs", STRINGS),
        pa.field("lemmas", STRINGS),
        pa.field("words", pa.list_(WORD)),
        pa.field("head_probs", pa.list_(pa.float32())),
        pa.field("log_prob", pa.float64()),
        pa.field("entropy", pa.float64()),
        pa.field("arcs", pa.list_(ARC)),
        pa.field("parses", pa.list_(PARSE)),
        pa.field("error", pa.string()),
    ],
    metadata=METADATA,
)
