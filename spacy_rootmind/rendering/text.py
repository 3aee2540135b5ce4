"""Widths of texts, estimated without a font, and texts that markup and pictures can hold."""

import re
import unicodedata
from collections.abc import Iterator

# Widths in thousandths of the font size, as in Arial, Helvetica and fonts with the same metrics.
LETTER_WIDTHS = {
    **dict.fromkeys("ijl'|", 222),
    **dict.fromkeys(" ft!,./:;[]\\I", 278),
    **dict.fromkeys('()-r`"^*{}', 389),
    **dict.fromkeys("cksvxyzJ", 500),
    **dict.fromkeys("ABEKPSVXY&", 667),
    **dict.fromkeys("FTZ", 611),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("mM", 833),
    **dict.fromkeys("%W@—…", 1000),
}
# Other characters by their category: capitals, letters and symbols of all scripts.
CATEGORY_WIDTHS = {"Lu": 720, "Lt": 720, "Lo": 640, "So": 1000, "Sm": 640, "Mc": 400}
FULL_WIDTH, EMOJI = 1000, 1300
# Hebrew and Arabic letters; and all other characters: digits, letters such as a, signs.
SEMITIC, OTHER = 480, 556
JOINER, EMOJI_STYLE = "\u200d", "\ufe0f"
SKIN_TONES = range(0x1F3FB, 0x1F400)
# Most characters of a sign that are drawn; accents can be piled up without an end.
MAX_SIGN = 12
# Fonts differ, and a reader may not have the one that was asked for.
RESERVE = 1.04

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Characters that change the direction of the text after them until another one ends it.
DIRECTION_CHANGES = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Unicode isolates: a word's direction does not affect the text around it.
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
RIGHT_TO_LEFT = ("R", "AL", "AN")
ELLIPSIS = "…"


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    return sum(width for _, width in clusters(text)) * size * RESERVE / 1000


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Split a text into what is drawn as one sign, roughly; yield each with its width."""
    cluster, width = "", 0
    for char in text:
        if cluster and continues(cluster, char):
            cluster += char
            width = max(width, EMOJI if char == EMOJI_STYLE else 0)
            continue
        if cluster:
            yield cluster, width
        cluster, width = char, char_width(char)
    if cluster:
        yield cluster, width


def continues(cluster: str, char: str) -> bool:
    """Return whether a character adds nothing to the width of the sign before it."""
    if ord(char) in SKIN_TONES or cluster[-1] == JOINER:
        return True
    return unicodedata.category(char) in ("Mn", "Me", "Cf")


def char_width(char: str) -> int:
    """Estimate the width of a character in thousandths of the font size."""
    if char in LETTER_WIDTHS:
        return LETTER_WIDTHS[char]
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf"):
        return 0
    if category == "So" and ord(char) > 0xFFFF:
        return EMOJI
    if unicodedata.east_asian_width(char) in "WF":
        return FULL_WIDTH
    if unicodedata.bidirectional(char) in RIGHT_TO_LEFT:
        return SEMITIC
    return CATEGORY_WIDTHS.get(category, OTHER)


def clean(text: str) -> str:
    """Replace the control characters that XML does not allow."""
    return NOT_IN_XML.sub("\ufffd", text)


def shorten(text: str, size: float, width: float) -> str:
    """Cut a text that is wider than a number of pixels, between two signs."""
    longest = width * 1000 / (size * RESERVE)
    kept: list[str] = []
    end = total = 0
    for sign, sign_width in clusters(text):
        total += sign_width
        if total > longest:
            return "".join(kept[:end]) + ELLIPSIS
        kept.append(sign[:MAX_SIGN])
        if total <= longest - char_width(ELLIPSIS):
            end = len(kept)
    return "".join(kept)


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
