"""The text that CoNLL-U was made from."""

import re

UNESCAPED = {"s": " ", "t": "\t", "r": "\r", "n": "\n", "p": "|", "\\": "\\"}


def unescape(spaces):
    return re.sub(
        r"\\(u[0-9A-F]{4}|.)",
        lambda found: UNESCAPED.get(found[1]) or chr(int(found[1][1:], 16)),
        spaces,
    )


def restore(conllu):
    """List the texts of each document; they begin where `# newdoc` or `# newpar` is."""
    documents = []
    space = ""
    for line in conllu.split("\n"):
        if line.startswith("# newdoc"):
            documents.append((line.partition(" id = ")[2], []))
        if line.startswith(("# newdoc", "# newpar")):
            documents[-1][1].append("")
            # A word's own space, which does not follow the last word of a text.
            space = ""
        if not line[:1].isdigit():
            continue
        form, misc = line.split("\t")[1::8]
        values = dict(part.split("=", 1) for part in misc.split("|") if part != "_")
        restored = unescape(values.get("SpacesBefore", "")) + unescape(
            values.get("SpacesInToken", form.replace("\\", "\\\\"))
        )
        after = unescape(values.get("SpacesAfter", ""))
        documents[-1][1][-1] += space + restored + after
        space = "" if after or values.get("SpaceAfter") == "No" else " "
    return documents
