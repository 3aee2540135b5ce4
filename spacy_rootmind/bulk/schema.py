"""The columns of parsed corpora, version 2.

A version never changes: other columns, types or meanings get a new number. The number is in the
schema's metadata, under `METADATA_KEY`.

One row per sentence (`SENTENCES`):

- `id`: string. The id of the document.
- `sentence`: int32. Number of the sentence in the document, from 0.
- `start`, `end`: int64. The first character of the sentence in the document's text, and the one
  after the last.
- `tokens`: list of string, whitespace tokens included.
- `offsets`: list of int32. The first character of each token, counted from `start`.
- `spaces`: list of bool. Whether a space follows each token.
- `heads`: list of int32. The head of each token, counted from 0 within the sentence; the root is
  its own head.
- `deps`: list of string. The label of each token.
- `pos`, `tags`, `morphs`, `lemmas`: lists of string, or null where the pipeline does not set them.
- `words`: list of struct (`token` int32, `top` bool, `form`, `lemma`, `pos`, `tag`, `morph` and
  `dep` string, `head` and `head_place` int32). The words of multiword tokens, in order. `token` and
  `head` are numbered as `heads`, and `head_place` is the place of the head among the words of its
  token. The word with `top` is the topmost one, which the other columns describe.
- `head_probs`: list of float. The probability of each token's head, whatever its label.
- `log_prob`, `entropy`: double. Log probability of the tree, and entropy of the distribution over
  trees, in nats.
- `arcs`: list of struct (`token` int32, `head` int32, `dep` string, `prob` float). The probable
  labelled arcs, numbered as `heads`.
- `parses`: list of struct (`log_prob` double, `heads` list of int32, `deps` list of string). The
  alternative parses.
- `error`: string, `KIND: REASON`; null for sentences. A row with an error stands for a document
  that has no parse, or for the part from `start` to `end` of a long one; everything from `sentence`
  on is null. `ERROR_KINDS` lists the kinds.

`head_probs`, `log_prob` and `entropy` are null without confidence, `arcs` without a threshold and
`parses` without alternatives. A document without tokens is one row with `sentence` 0 and an empty
list in each column of lists.

One row per match of a pattern (`RELATION_ROWS`): `id` and `sentence` as above; `key`, that of the
pattern; `tokens`, the texts of the tokens, in the order of the pattern's nodes; `offsets`, list of
int64: the first character of each of them in the document's text; `prob` and `in_parse`.
"""

import pyarrow as pa

from spacy_rootmind.formats.records import INPUT, KILLED, PIPELINE

VERSION = 2
METADATA_KEY = b"spacy_rootmind.bulk.schema"
METADATA = {METADATA_KEY: str(VERSION).encode()}

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
# Matches of patterns, by their own columns.
RELATION_ROWS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("sentence", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("tokens", STRINGS),
        pa.field("offsets", pa.list_(pa.int64())),
        pa.field("prob", pa.float64()),
        pa.field("in_parse", pa.bool_()),
    ],
    metadata=METADATA,
)

ERROR_KINDS = {
    INPUT: "the document could not be read",
    PIPELINE: "the pipeline raised an error",
    KILLED: "the document killed the process that parsed it, each time",
}
