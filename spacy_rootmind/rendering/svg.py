"""Pictures of trees as SVG: displaCy's drawings, captions and their layout."""

import math
import re
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from spacy_rootmind.compat import DependencyRenderer
from spacy_rootmind.rendering.drawing import Arc, Column, Drawing

# Pixels; displaCy exposes neither its font sizes nor the empty space above its arcs.
FONT_SIZE = 16.0
LABEL_SIZE = 0.8 * FONT_SIZE
CAPTION_SIZE = 14.0
LINE_HEIGHT = 20.0
MARGIN = 14.0
MIN_WIDTH = 600.0
MIN_RISE = 30.0
# By how much displaCy shortens a compact arc for each level above it.
COMPACT_STEP = 3.0
# Average width of a letter, as a fraction of the font size.
LETTER_WIDTH = 0.58
# Most letters of a word; longer ones are cut, since the longest sets the width of all columns.
MAX_WORD = 32
# Width of an arc in a merged picture whose share is 0, as a part of the usual one; 1 more for 1.
# Lines differ in width and not in opacity, so that those with a small share are as visible.
MIN_STROKE = 0.6
# Distance from a line to the base of a label on it.
ON_LINE = "0.35em"

NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

SVG = """
<svg xmlns="http://www.w3.org/2000/svg" xml:lang="{lang}" class="displacy-parses" width="{width}" \
height="{height}" style="display: block; max-width: none; height: {height}px; color: {color}; \
background: {bg}; font-family: {font}; font-size: {size}px; direction: ltr">{content}</svg>
"""
ROOT_ARROW = """
<g class="displacy-arrow displacy-root">
    <path class="displacy-arc" stroke-width="{stroke}px" d="M{x},{top} L{x},{bottom}" fill="none" \
stroke="currentColor"/>
    <text class="displacy-label" x="{x}" y="{label_y}" fill="currentColor" text-anchor="middle" \
style="font-size: 0.8em; letter-spacing: 1px">{label}</text>
    <path class="displacy-arrowhead" d="{head}" fill="currentColor"/>
</g>
"""
# A copy of the label in the background's colour, with thicker strokes.
OUTLINE = """
<text aria-hidden="true" dy="1.25em" style="font-size: 0.8em; letter-spacing: 1px">
    <textPath xlink:href="#arrow-{id}-{i}" startOffset="50%" stroke="{bg}" stroke-width="4px" \
stroke-linejoin="round" text-anchor="middle">{label}</textPath>
</text>
"""
# A gap in a line for the label on it.
GAP = """
<path d="M{left},{y} L{right},{y}" fill="none" stroke="{bg}" stroke-width="{height}px"/>
"""
CAPTION = """
<text class="displacy-caption" fill="currentColor" text-anchor="{anchor}" \
style="font-size: {size}px">{lines}</text>
"""


class Picture(NamedTuple):
    """SVG markup without the outermost element, and its size in pixels."""

    width: float
    height: float
    content: str


# --- trees -------------------------------------------------------------------------------------


class TreeRenderer(DependencyRenderer):
    """displaCy's renderer, with a style for each arc and one for all words.

    displaCy never receives the direction of a right-to-left text: it would draw arcs from right to
    left too, and browsers without SVG 2's attribute `side` would show their labels upside down.
    """

    arrow_stroke: float

    def __init__(self, options: dict[str, Any], *, is_rtl: bool) -> None:
        super().__init__(options)
        self.word_style = "direction: rtl" if is_rtl else ""
        # Distance from the middle of the last word to the right edge.
        self.right: float = options["offset_right"]
        self.arcs: list[dict[str, Any]] = []
        # Left end, right end and height of the arc that was drawn last.
        self.line: tuple[float, float, float] = (0, 0, 0)

    def render_svg(
        self, render_id: int | str, words: list[dict[str, Any]], arcs: list[dict[str, Any]]
    ) -> str:
        """Draw a tree; see `displacy_arc`."""
        self.arcs = arcs
        return super().render_svg(render_id, words, arcs)

    def render_word(self, text: str, tag: str, lemma: str | None, i: int) -> str:
        """Draw a word."""
        return styled(super().render_word(text, tag, lemma, i), self.word_style)

    def render_arrow(self, label: str, start: int, end: int, direction: str, i: int) -> str:
        """Draw an arc and an outline that separates its label from the lines it lies on."""
        arc = self.arcs[i]
        usual, self.arrow_stroke = self.arrow_stroke, arc["stroke"]
        arrow = super().render_arrow(label, start, end, direction, i)
        self.arrow_stroke = usual
        line, mark, rest = arrow.partition("<text")
        outline = OUTLINE.format(id=self.id, i=i, bg=self.bg, label=label)
        gap = self.render_gap(arc["gap"]) if self.compact else ""
        return styled(line + gap + outline + mark + rest, arc["style"])

    def render_gap(self, width: float) -> str:
        """Draw a gap in the middle of the arc that was drawn last, for a label on it."""
        left, right, y = self.line
        margin = max((right - left - width) / 2, self.arrow_stroke)
        ends = {"left": left + margin, "right": right - margin}
        return GAP.format(**ends, y=y, height=LABEL_SIZE, bg=self.bg)

    def get_arc(self, x_start: int, y: int, y_curve: int, x_end: int) -> str:
        """Draw the line of an arc."""
        self.line = (x_start, x_end, y_curve)
        return super().get_arc(x_start, y, y_curve, x_end)


def styled(markup: str, style: str) -> str:
    """Apply a CSS style to markup."""
    return f'<g style="{style}">{markup}</g>' if style else markup


def draw_picture(
    drawings: Sequence[Drawing], settings: Mapping[str, Any], *, is_rtl: bool
) -> Picture:
    """Draw the trees of a sentence one below the other, each under its caption."""
    drawings = [prepare(mirror(drawing) if is_rtl else drawing) for drawing in drawings]
    options = {**fit_spacing(drawings, settings), **settings}
    parts = []
    for drawing in drawings:
        renderer = TreeRenderer(options, is_rtl=is_rtl)
        tree = draw_tree(drawing, renderer, settings)
        if drawing.caption:
            width = max(tree.width, MIN_WIDTH)
            parts.append(draw_caption(clean(drawing.caption), width, is_rtl=is_rtl))
        parts.append(tree)
    return stack(parts, is_rtl=is_rtl)


def mirror(drawing: Drawing) -> Drawing:
    """Reverse the order of columns."""
    last = len(drawing.columns) - 1
    arcs = [arc._replace(head=last - arc.head, dep=last - arc.dep) for arc in drawing.arcs]
    return Drawing(drawing.caption, drawing.columns[::-1], arcs)


def prepare(drawing: Drawing) -> Drawing:
    """Cut long words, and remove what XML does not allow; displaCy escapes words alone."""
    columns = [
        Column(shorten(clean(text)), escape(clean(tag)), escape(clean(lemma)))
        for text, tag, lemma in drawing.columns
    ]
    return drawing._replace(columns=columns)


def fit_spacing(drawings: Sequence[Drawing], settings: Mapping[str, Any]) -> dict[str, float]:
    """Compute the distance between columns and the margins so that all texts fit."""
    is_compact = settings["compact"]
    distance = 150.0 if is_compact else 175.0
    left_end = right_end = 0.0
    for drawing in drawings:
        # A label bends with its curved arc, and needs more space than on a rectangular one.
        padding = 30.0 + count_levels(drawing) * COMPACT_STEP if is_compact else 55.0
        widths = [max(text_width(text, FONT_SIZE) for text in column) for column in drawing.columns]
        for arc in drawing.arcs:
            width = label_width(arc.label)
            if arc.head == arc.dep:
                widths[arc.dep] = max(widths[arc.dep], width)
            else:
                distance = max(distance, (width + padding) / abs(arc.head - arc.dep))
        for left, right in zip(widths, [*widths[1:], widths[-1]], strict=True):
            distance = max(distance, (left + right) / 2 + MARGIN)
        left_end, right_end = max(left_end, widths[0]), max(right_end, widths[-1])
    return {
        "distance": math.ceil(distance),
        "offset_x": max(50, math.ceil(left_end / 2 + MARGIN)),
        "offset_right": max(50, math.ceil(right_end / 2 + MARGIN)),
    }


def count_levels(drawing: Drawing) -> int:
    """Count the heights at which displaCy draws the arcs of a drawing."""
    ends = [(min(arc.head, arc.dep), max(arc.head, arc.dep)) for arc in drawing.arcs]
    arcs = [
        {"start": start, "end": end, "label": str(i)}
        for i, (start, end) in enumerate(ends)
        if start != end
    ]
    return max(DependencyRenderer().get_levels(arcs).values(), default=0)


def draw_tree(drawing: Drawing, renderer: TreeRenderer, settings: Mapping[str, Any]) -> Picture:
    """Draw a tree without the empty space of displaCy's picture."""
    highlight = settings["highlight"]
    words = [
        {"text": text, "tag": tag, "lemma": lemma if settings["add_lemma"] else None}
        for text, tag, lemma in drawing.columns
    ]
    # Long arcs first: where arcs cross, the label of the lower one is drawn on top.
    longest_first = sorted(drawing.arcs, key=lambda arc: -abs(arc.head - arc.dep))
    arcs = [displacy_arc(arc, renderer, highlight) for arc in longest_first if arc.head != arc.dep]
    svg = renderer.render_svg(uuid.uuid4().hex, words, arcs)
    rise = renderer.highest_level * renderer.distance * (1 / 6 if renderer.compact else 3 / 8)
    highest = renderer.offset_y - max(rise, MIN_RISE) - renderer.arrow_stroke
    roots = "".join(
        draw_root(arc, renderer, highest - MARGIN, highlight)
        for arc in drawing.arcs
        if arc.head == arc.dep
    )
    top = highest - 2 * MARGIN
    n_lines = sum(any(word[line] for word in words) for line in ("lemma", "tag"))
    bottom = renderer.offset_y + renderer.word_spacing + n_lines * 2 * FONT_SIZE + 2 * MARGIN
    content = f'<g transform="translate(0,{-top})">{roots}{svg}</g>'
    width = renderer.offset_x + (len(words) - 1) * renderer.distance + renderer.right
    return Picture(width, bottom - top, content)


def displacy_arc(arc: Arc, renderer: TreeRenderer, highlight: str) -> dict[str, Any]:
    """Convert an arc to displaCy's format, with a style in CSS and two widths.

    displaCy computes an arc's height from its ends and label, so opposite arcs between two words
    need different labels: the class of the `tspan` makes them different. Compact arcs are so close
    that a label below its line would belong to the next one as well: it is put on its own.
    """
    direction = "left" if arc.dep < arc.head else "right"
    place = f' dy="{ON_LINE}"' if renderer.compact else ""
    return {
        "start": min(arc.head, arc.dep),
        "end": max(arc.head, arc.dep),
        "label": f'<tspan class="displacy-{direction}"{place}>{escape(clean(arc.label))}</tspan>',
        "dir": direction,
        "style": arc_style(arc, highlight),
        "stroke": arc_stroke(arc, renderer.arrow_stroke),
        "gap": label_width(arc.label) + LABEL_SIZE / 2,
    }


def arc_style(arc: Arc, highlight: str) -> str:
    """Return an arc's style in CSS; an empty string for displaCy's own style."""
    return f"color: {highlight}" if arc.is_different else ""


def arc_stroke(arc: Arc, usual: float) -> float:
    """Return the width of an arc's line: wider for a larger share of a merged picture."""
    return usual if arc.share is None else round(usual * (MIN_STROKE + arc.share), 2)


def draw_root(arc: Arc, renderer: TreeRenderer, label_y: float, highlight: str) -> str:
    """Draw the arc from ROOT, which displaCy leaves out, as an arrow from above."""
    x = renderer.offset_x + arc.dep * renderer.distance + renderer.arrow_spacing / 2
    bottom = renderer.offset_y
    markup = ROOT_ARROW.format(
        x=x,
        top=label_y + MARGIN / 2,
        bottom=bottom,
        label_y=label_y,
        stroke=arc_stroke(arc, renderer.arrow_stroke),
        label=escape(clean(arc.label)),
        head=renderer.get_arrowhead("right", x, bottom, x),
    )
    return styled(markup, arc_style(arc, highlight))


def draw_caption(text: str, width: float, *, is_rtl: bool) -> Picture:
    """Draw a caption, broken into lines."""
    x = width - MARGIN if is_rtl else MARGIN
    lines = wrap(text, CAPTION_SIZE, width - 2 * MARGIN)
    content = CAPTION.format(
        anchor="end" if is_rtl else "start",
        size=CAPTION_SIZE,
        lines="".join(
            f'<tspan x="{x}" y="{number * LINE_HEIGHT}">{escape(line)}</tspan>'
            for number, line in enumerate(lines, start=1)
        ),
    )
    return Picture(width, len(lines) * LINE_HEIGHT + MARGIN, content)


# --- pictures ----------------------------------------------------------------------------------


def stack(pictures: Sequence[Picture], *, is_rtl: bool) -> Picture:
    """Put pictures one below the other, aligned on the side where text starts."""
    width = max((picture.width for picture in pictures), default=0)
    height = 0.0
    parts = []
    for picture in pictures:
        x = width - picture.width if is_rtl else 0
        parts.append(f'<g transform="translate({x},{height})">{picture.content}</g>')
        height += picture.height
    return Picture(width, height, "".join(parts))


def complete_svg(picture: Picture, settings: Mapping[str, Any], lang: str) -> str:
    """Add the outermost element to a picture."""
    return SVG.format(
        **picture._asdict(),
        lang=escape(lang),
        size=FONT_SIZE,
        color=settings["color"],
        bg=settings["bg"],
        font=settings["font"],
    )


# --- text --------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Replace the control characters that XML does not allow."""
    return NOT_IN_XML.sub("\ufffd", text)


def shorten(text: str) -> str:
    """Cut a word that is longer than MAX_WORD."""
    return text if len(text) <= MAX_WORD else text[: MAX_WORD - 1] + "…"


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in pixels."""
    letters = 0.0
    for char in text:
        if not unicodedata.combining(char):
            letters += 1.0 if unicodedata.east_asian_width(char) in "WF" else LETTER_WIDTH
    return letters * size


def label_width(label: str) -> float:
    """Estimate the width of a label in pixels, with displaCy's letter spacing."""
    return text_width(label, LABEL_SIZE) + len(label)


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
