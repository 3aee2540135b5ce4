"""Widths of texts, estimated without a font, and texts that markup and pictures can hold."""

import re
import unicodedata

# Widths in thousandths of the font size, as in Arial, Helvetica and fonts with the same metrics;
# for other characters by category. Digits, letters such as a, and signs have the last width.
WIDTHS = {
    **dict.fromkeys(" ijltf|'!,./:;[]\\I", 278),
    **dict.fromkeys('()-r`"^*{}', 389),
    **dict.fromkeys("cksvxyzJ", 500),
    **dict.fromkeys("mMwW%@—…", 900),
}
CATEGORY_WIDTHS = {
    **dict.fromkeys(("Mn", "Me", "Cf"), 0),
    **dict.fromkeys(("Lu", "Lt", "Lo", "Sm"), 700),
    "So": 1300,
}
WIDE, OTHER = 1000, 556
# Fonts differ, and a reader may not have the one that was asked for.
RESERVE = 1.04
# Accents, which have no width, can be piled up without an end.
MAX_CHARS = 100

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Characters that change the direction of the text after them until another one ends it.
DIRECTION_CHANGES = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Unicode isolates: a word's direction does not affect the text around it.
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
RIGHT_TO_LEFT = ("R", "AL", "AN")
ELLIPSIS = "…"


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    return sum(map(char_width, text)) * size * RESERVE / 1000


def char_width(char: str) -> int:
    """Estimate the width of a character in thousandths of the font size."""
    if char in WIDTHS:
        return WIDTHS[char]
    category = unicodedata.category(char)
    if category == "Lo" and unicodedata.east_asian_width(char) in "WF":
        return WIDE
    return CATEGORY_WIDTHS.get(category, OTHER)


def clean(text: str) -> str:
    """Replace the control characters that XML does not allow."""
    return NOT_IN_XML.sub("\ufffd", text)


def shorten(text: str, size: float, width: float) -> str:
    """Cut a text that is wider than a number of pixels."""
    kept = text[:MAX_CHARS]
    if text_width(kept, size) <= width:
        return kept
    while kept and text_width(kept + ELLIPSIS, size) > width:
        kept = kept[:-1]
    return kept + ELLIPSIS


def isolate(text: str, *, is_rtl: bool = False) -> str:
    """Keep a word's direction from changing that of the sentence that quotes the word."""
    plain = DIRECTION_CHANGES.sub("", text)
    if is_rtl or any(unicodedata.bidirectional(char) in RIGHT_TO_LEFT for char in plain):
        return f"{ISOLATE}{plain}{END_ISOLATE}"
    return plain


def wrap(text: str, size: float, width: float) -> list[str]:
    """Break a text into lines at spaces."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
