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
# Longest word or label that is drawn.
MAX_CHARS = 32

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    """Cut a long text, and replace the control characters that XML does not allow."""
    cut = text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
    return NOT_IN_XML.sub("\ufffd", cut)
