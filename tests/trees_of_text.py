"""Docs whose trees are written next to their words."""

from spacy.tokens import Doc


def read_tree(vocab, text):
    """Make a Doc of lines of words, each `word/POS/label/head`; heads count from 1 in their line.

    A part of speech may be empty. A word of `_` stands for a line break.
    """
    words, tags, heads, deps = [], [], [], []
    for line in text.strip().splitlines():
        start = len(words)
        for i, item in enumerate(line.split()):
            word, tag, dep, head = item.rsplit("/", 3)
            words.append("\n" if word == "_" else word)
            tags.append(tag)
            deps.append(dep)
            heads.append(start + (int(head) - 1 if head != "0" else i))
    pos = tags if any(tags) else None
    return Doc(vocab, words=words, pos=pos, heads=heads, deps=deps)
