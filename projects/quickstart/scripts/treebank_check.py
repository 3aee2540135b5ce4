"""Independent validity checks for the quickstart treebank.

Reads CoNLL-U text only; it shares no code with the grammar, so that a mistake in the grammar
cannot hide itself.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

UPOS = {
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
}

# Universal Dependencies v2 relations, with the subtypes this treebank uses.
DEPRELS = {
    "acl",
    "advcl",
    "advmod",
    "amod",
    "appos",
    "aux",
    "case",
    "cc",
    "ccomp",
    "clf",
    "compound",
    "conj",
    "cop",
    "csubj",
    "dep",
    "det",
    "discourse",
    "dislocated",
    "expl",
    "fixed",
    "flat",
    "goeswith",
    "iobj",
    "list",
    "mark",
    "nmod",
    "nsubj",
    "nummod",
    "obj",
    "obl",
    "orphan",
    "parataxis",
    "punct",
    "reparandum",
    "root",
    "vocative",
    "xcomp",
    "acl:relcl",
    "aux:pass",
    "cc:preconj",
    "compound:prt",
    "det:predet",
    "nmod:poss",
    "nsubj:pass",
    "obl:agent",
    "obl:npmod",
    "obl:tmod",
}

Row = list[str]


def read_sentences(text: str) -> Iterable[tuple[dict[str, str], list[Row]]]:
    """Yield (comments, rows) for each blank-line separated block."""
    for block in text.strip("\n").split("\n\n"):
        comments: dict[str, str] = {}
        rows: list[Row] = []
        for line in block.split("\n"):
            if line.startswith("#"):
                key, _, value = line[1:].partition("=")
                comments[key.strip()] = value.strip()
            else:
                rows.append(line.split("\t"))
        yield comments, rows


def heads_of(rows: list[Row]) -> list[int]:
    return [int(row[6]) for row in rows]


def is_tree(heads: list[int]) -> bool:
    """True when every token reaches 0 without a cycle (heads are already in range)."""
    for start in range(1, len(heads) + 1):
        seen = 0
        node = start
        while node:
            node = heads[node - 1]
            seen += 1
            if seen > len(heads):
                return False
    return True


def nonprojective_arcs(heads: list[int]) -> list[tuple[int, int]]:
    """Arcs (head, dependent) that span a token the head does not dominate."""
    found = []
    for dep, head in enumerate(heads, start=1):
        if head == 0:
            continue
        for between in range(min(head, dep) + 1, max(head, dep)):
            node = between
            while node not in (0, head):
                node = heads[node - 1]
            if node != head:
                found.append((head, dep))
                break
    return found


def detokenize(rows: list[Row]) -> str:
    pieces = [row[1] + ("" if "SpaceAfter=No" in row[9].split("|") else " ") for row in rows]
    return "".join(pieces).rstrip(" ")


def feats_ok(value: str) -> bool:
    """``_`` or Name=Value pairs, sorted by name and without repeats."""
    if value == "_":
        return True
    names = [pair.partition("=")[0] for pair in value.split("|")]
    complete = all("=" in pair and not pair.endswith("=") for pair in value.split("|"))
    return complete and names == sorted(set(names), key=str.lower)


def row_problems(row: Row, position: int, length: int) -> list[str]:
    if len(row) != 10 or not all(row):
        return [f"expected 10 non-empty columns, found {row}"]
    if not (row[0] == str(position) and row[6].isdigit() and int(row[6]) <= length):
        return [f"bad id or head in {row}"]
    problems = []
    if int(row[6]) == position:
        problems.append(f"token {position} heads itself")
    if row[3] not in UPOS:
        problems.append(f"unknown UPOS {row[3]}")
    if row[7] not in DEPRELS:
        problems.append(f"unknown relation {row[7]}")
    if (row[7] == "root") != (row[6] == "0"):
        problems.append(f"root relation and head 0 disagree at token {position}")
    if (row[7] == "punct") != (row[3] == "PUNCT"):
        problems.append(f"punct and PUNCT disagree at token {position}")
    if not feats_ok(row[5]):
        problems.append(f"bad FEATS {row[5]}")
    return problems


def punct_problems(rows: list[Row]) -> list[str]:
    """Punctuation is a leaf and never lies on a crossing arc of its own making."""
    heads = heads_of(rows)
    puncts = {index for index, row in enumerate(rows, start=1) if row[3] == "PUNCT"}
    problems = [f"punctuation {h} has a dependent" for h in heads if h in puncts]
    crossing = nonprojective_arcs(heads)
    problems += [f"punctuation {dep} is attached across" for _, dep in crossing if dep in puncts]
    bare = [index for index in range(1, len(rows) + 1) if index not in puncts]
    if crossing and len(rows) != len(bare):
        renumber = {old: new for new, old in enumerate(bare, start=1)} | {0: 0}
        without = [renumber[heads[old - 1]] for old in bare if heads[old - 1] not in puncts]
        if len(without) == len(bare) and not nonprojective_arcs(without):
            problems.append("only the punctuation makes the sentence non-projective")
    return problems


def sentence_problems(comments: dict[str, str], rows: list[Row]) -> list[str]:
    problems = []
    for position, row in enumerate(rows, start=1):
        problems += row_problems(row, position, len(rows))
    if problems:
        return problems
    heads = heads_of(rows)
    if heads.count(0) != 1:
        problems.append(f"{heads.count(0)} roots")
    if not is_tree(heads):
        return [*problems, "cycle"]
    if "sent_id" not in comments:
        problems.append("no sent_id")
    if comments.get("text") != detokenize(rows):
        problems.append("# text differs from the tokens")
    if not 3 <= len(rows) <= 20:
        problems.append(f"{len(rows)} tokens")
    return problems + punct_problems(rows)


def treebank_problems(files: dict[str, str], raw_input: list[str]) -> list[str]:
    """All problems of the splits (name -> text); ``raw_input`` must share no sentence."""
    problems = []
    seen: dict[str, str] = {}
    for name, text in files.items():
        if not text.endswith("\n\n"):
            problems.append(f"{name}: the last sentence lacks its blank line")
        for number, (comments, rows) in enumerate(read_sentences(text), start=1):
            where = f"{name}:{comments.get('sent_id', number)}"
            problems += [f"{where}: {problem}" for problem in sentence_problems(comments, rows)]
            for key in (comments.get("text", ""), comments.get("sent_id", "")):
                if key in seen:
                    problems.append(f"{where}: repeats {key!r} of {seen[key]}")
                seen[key] = where
    problems += [f"input: {line!r} is in {seen[line]}" for line in raw_input if line in seen]
    if len(set(raw_input)) != len(raw_input):
        problems.append("input: repeated line")
    return problems


def statistics(files: dict[str, str]) -> dict[str, dict[str, int]]:
    """Counts per split: sentences, words (all tokens), non-projective sentences."""
    table = {}
    for name, text in files.items():
        sentences = list(read_sentences(text))
        table[name] = {
            "sentences": len(sentences),
            "words": sum(len(rows) for _, rows in sentences),
            "nonprojective": sum(bool(nonprojective_arcs(heads_of(r))) for _, r in sentences),
        }
    return table


def label_counts(files: dict[str, str]) -> dict[str, int]:
    counts: collections.Counter[str] = collections.Counter()
    for text in files.values():
        for _, rows in read_sentences(text):
            counts.update(row[7] for row in rows)
    return dict(sorted(counts.items()))
