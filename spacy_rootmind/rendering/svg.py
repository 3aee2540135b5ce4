"""Pictures of trees as SVG: words, arcs, captions, and their arrangement."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from spacy.tokens import Span

from spacy_rootmind.rendering.drawing import (
    MAX_WORD,
    Arc,
    Column,
    Drawing,
    draw_sentence,
    runs_rtl,
)
from spacy_rootmind.rendering.layout import (
    ARROW_WIDTH,
    LABEL_GAP,
    LABEL_SIZE,
    MARGIN,
    NUMBER_SIZE,
    TAG_SIZE,
    WORD_SIZE,
    Line,
    lay_out,
    place_columns,
)
from spacy_rootmind.rendering.text import clean, shorten, text_width

CAPTION_SIZE = 13.0
# How much wider captions are in DejaVu Sans, which many machines have instead of Arial.
WIDER_FONT = 1.1
CAPTION_HEIGHT = 25.0
# From the arcs to the base of a word, and from there to that of each tag or lemma.
WORD_HEIGHT, TAG_HEIGHT = 22.0, 17.0
# Browsers shrink a wide picture to the page, but no further than this part of its size,
# so that small letters stay legible; a picture that is still too wide is scrolled.
MIN_SCALE = 0.6
# Corners of arcs: width, height, and how far their control points are from the corner.
CORNER = 26.0
CURVE = 0.4
# Between a line and the label above it, and between the bases of label and number.
LABEL_DISTANCE = 4.0
NUMBER_BELOW = NUMBER_SIZE + 6.0

# The colour scheme is fixed, as are all colours: browsers that darken pages would otherwise turn
# letters white, but not the shapes behind them.
SVG = """
<svg xmlns="http://www.w3.org/2000/svg" xml:lang="{lang}" class="displacy-parses" width="{width}" \
height="{height}" viewBox="0 0 {width} {height}" style="{page_style}\
color-scheme: only light; color: {color}; font-family: {font}; font-size: {size}px; \
direction: ltr">{background}{content}</svg>
"""
# In pages alone: some renderers of SVG files take `height: auto` for a height of nothing.
PAGE_STYLE = "display: block; max-width: 100%; min-width: {min_width}px; height: auto; "
# Not a style: renderers of SVG files leave what no shape fills transparent.
BACKGROUND = """<rect width="{width}" height="{height}" fill="{bg}"/>"""
TREE = """
<g class="displacy" transform="translate(0,{y})">{content}</g>
"""
WORD = """
<text class="displacy-token" fill="currentColor" text-anchor="middle"{style}>{lines}</text>
"""
ARROW = """
<g class="displacy-arrow{kind}">
    <path class="displacy-arc" d="{path}" fill="none" stroke="currentColor" \
stroke-width="1.5px"{dashes}/>
    <path class="displacy-arrowhead" d="{head}" fill="currentColor"/>
    {grounds}
    <g class="displacy-label" fill="currentColor" text-anchor="middle">{label}</g>
</g>
"""
LABEL = """<text x="{x}" y="{y}" style="font-size: {size}px">{text}</text>"""
# Keeps lines that cross a label or number apart from its letters.
GROUND = """<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{bg}"/>"""
CAPTION = """
<text class="displacy-caption" fill="currentColor" text-anchor="{anchor}" \
style="font-size: {size}px" x="{x}" y="{y}">{text}</text>
"""


class Picture(NamedTuple):
    """SVG markup without the outermost element, and its size in pixels."""

    width: float
    height: float
    content: str


class Text(NamedTuple):
    """A label or a number: the middle of its base line, and the size of its font, in pixels."""

    text: str
    x: float
    y: float
    size: float


# --- sentences ---------------------------------------------------------------------------------


def sentence_svg(
    span: Span, settings: Mapping[str, Any], max_alternatives: int, *, in_page: bool
) -> str:
    """Draw a sentence as SVG; in a page, it shrinks with the page.

    Raises ValueError if a head lies outside the sentence.
    """
    drawings = draw_sentence(span, settings, max_alternatives)
    picture = draw_picture(drawings, settings, is_rtl=runs_rtl(span.vocab))
    return complete_svg(picture, settings, span.doc.lang_, in_page=in_page)


def draw_picture(
    drawings: Sequence[Drawing], settings: Mapping[str, Any], *, is_rtl: bool
) -> Picture:
    """Draw the trees of a sentence one below the other, each under its caption.

    Words of trees with the same columns are exactly below each other. Only the first tree
    has tags and lemmas.
    """
    drawings = [prepare(drawing, is_rtl=is_rtl) for drawing in drawings]
    complete = [drawing for drawing in drawings if drawing.columns == drawings[0].columns]
    shared = place_columns(complete, settings)
    trees = []
    for number, drawing in enumerate(drawings):
        places, width = shared if drawing in complete else place_columns([drawing], settings)
        content, height = draw_tree(drawing, places, settings, is_rtl=is_rtl, is_first=number == 0)
        if drawing.caption:
            trees.append(draw_caption(drawing.caption, is_rtl=is_rtl))
        trees.append(Picture(width, height, content))
    return stack(trees, is_rtl=is_rtl)


def prepare(drawing: Drawing, *, is_rtl: bool) -> Drawing:
    """Cut long texts, remove what XML does not allow, and reverse columns from right to left."""

    def shown(text: str, size: float) -> str:
        return shorten(clean(text), size, MAX_WORD * size)

    columns = [Column(*(shown(text, WORD_SIZE) for text in column)) for column in drawing.columns]
    arcs = [arc._replace(label=shown(arc.label, LABEL_SIZE)) for arc in drawing.arcs]
    if is_rtl:
        last = len(columns) - 1
        arcs = [arc._replace(head=last - arc.head, dep=last - arc.dep) for arc in arcs]
        columns.reverse()
    return Drawing(drawing.caption, columns, arcs)


# --- trees -------------------------------------------------------------------------------------


def draw_tree(
    drawing: Drawing,
    places: list[float],
    settings: Mapping[str, Any],
    *,
    is_rtl: bool,
    is_first: bool,
) -> tuple[str, float]:
    """Draw a tree over its columns, and return its height as well.

    One that is not the first has neither tags nor lemmas.
    """
    rows = ["text"]
    small = ("lemma", "tag") if settings["add_lemma"] else ("tag",)
    if is_first:
        rows += [row for row in small if any(getattr(column, row) for column in drawing.columns)]
    lines = lay_out(drawing, places, is_first=is_first)
    height = max((line.rise for line in lines), default=0.0) + LABEL_SIZE + LABEL_GAP
    # Long arcs first: where arcs cross, the label of the lower one is drawn on top.
    lines.sort(key=lambda line: -line.rise)
    content = [draw_arrow(line, settings, fades=not is_first) for line in lines]
    baselines = {row: WORD_HEIGHT + number * TAG_HEIGHT for number, row in enumerate(rows)}
    for column, place in zip(drawing.columns, places, strict=True):
        content.append(draw_word(column, place, baselines, is_rtl=is_rtl))
    markup = TREE.format(y=px(height), content="".join(content))
    return markup, height + baselines[rows[-1]] + MARGIN


def draw_word(column: Column, place: float, baselines: Mapping[str, float], *, is_rtl: bool) -> str:
    """Draw a word, and its lemma and tag below it."""
    lines = []
    for row, y in baselines.items():
        name, size = row, f' style="font-size: {px(TAG_SIZE)}px"'
        if row == "text":
            name, size = "word", ""
        text = escape(getattr(column, row))
        lines.append(
            f'<tspan class="displacy-{name}" x="{px(place)}" y="{px(y)}"{size}>{text}</tspan>'
        )
    return WORD.format(style=' style="direction: rtl"' if is_rtl else "", lines="".join(lines))


def draw_arrow(line: Line, settings: Mapping[str, Any], *, fades: bool) -> str:
    """Draw an arc with its label and number.

    Arcs that differ from the parse's have another colour, dashes and bold labels; in alternatives,
    the others fade.
    """
    arc = line.arc
    # The line ends within the arrow's head.
    x, y = px(line.dep_x), px(-ARROW_WIDTH / 2)
    # displaCy leaves out the arc from ROOT: an arrow from above.
    path = f"M{x},{px(-line.rise)} L{x},{y}"
    texts = place_texts(arc, (line.head_x + line.dep_x) / 2, -line.rise - LABEL_DISTANCE)
    markup = ARROW.format(
        kind=" displacy-root" if arc.head == arc.dep else "",
        path=path if arc.head == arc.dep else arc_path(line),
        dashes=' stroke-dasharray="6 3"' if arc.is_different else "",
        head=f"M{x},2 L{px(line.dep_x - ARROW_WIDTH / 2)},{px(-ARROW_WIDTH)} "
        f"{px(line.dep_x + ARROW_WIDTH / 2)},{px(-ARROW_WIDTH)}",
        grounds="".join(draw_ground(text, settings["bg"]) for text in texts),
        label=" ".join(
            LABEL.format(x=px(text.x), y=px(text.y), size=px(text.size), text=escape(text.text))
            for text in texts
        ),
    )
    style = "opacity: 0.65" if fades else ""
    if arc.is_different:
        style = f"color: {settings['highlight']}; font-weight: bold"
    return f'<g style="{style}">{markup}</g>' if style else markup


def place_texts(arc: Arc, x: float, y: float) -> list[Text]:
    """Place an arc's label above its line, and its number below it.

    The arc from ROOT has both above it, next to each other, as two texts: some renderers draw
    parts of one text over each other.
    """
    if not arc.number:
        return [Text(arc.label, x, y, LABEL_SIZE)]
    number_x, number_y = x, y + NUMBER_BELOW
    if arc.head == arc.dep:
        number_x, number_y = x + text_width(f"{arc.label} ", LABEL_SIZE) / 2, y
        x -= text_width(f" {arc.number}", NUMBER_SIZE) / 2
    return [Text(arc.label, x, y, LABEL_SIZE), Text(arc.number, number_x, number_y, NUMBER_SIZE)]


def draw_ground(text: Text, bg: str) -> str:
    """Draw the background of a text."""
    width = text_width(text.text, text.size)
    left, top = px(text.x - width / 2), px(text.y - 0.8 * text.size)
    return GROUND.format(x=left, y=top, width=px(width), height=px(text.size), bg=bg)


def arc_path(line: Line) -> str:
    """Return the path of an arc from its left end to its right end."""
    left, right = sorted((line.head_x, line.dep_x))
    top = -line.rise
    # The line ends within the arrow's head.
    ends = {left: 0.0, right: 0.0, line.dep_x: -ARROW_WIDTH / 2}
    width = min((right - left) / 2, CORNER)
    height = min(line.rise * 0.8, CORNER)
    low, control = px(top + height), px(top + height * CURVE)
    return (
        f"M{px(left)},{px(ends[left])} L{px(left)},{low} "
        f"C{px(left)},{control} {px(left + width * CURVE)},{px(top)} {px(left + width)},{px(top)} "
        f"L{px(right - width)},{px(top)} "
        f"C{px(right - width * CURVE)},{px(top)} {px(right)},{control} {px(right)},{low} "
        f"L{px(right)},{px(ends[right])}"
    )


# --- captions ----------------------------------------------------------------------------------


def draw_caption(text: str, *, is_rtl: bool) -> Picture:
    """Draw a caption."""
    width = text_width(text, CAPTION_SIZE) * WIDER_FONT + 2 * MARGIN
    content = CAPTION.format(
        anchor="end" if is_rtl else "start",
        size=px(CAPTION_SIZE),
        x=px(width - MARGIN if is_rtl else MARGIN),
        y=px(CAPTION_SIZE + LABEL_GAP),
        text=escape(text),
    )
    return Picture(width, CAPTION_HEIGHT, content)


# --- pictures ----------------------------------------------------------------------------------


def stack(pictures: Sequence[Picture], *, is_rtl: bool) -> Picture:
    """Put pictures one below the other, aligned on the side where text starts."""
    width = max((picture.width for picture in pictures), default=0)
    height = 0.0
    parts = []
    for picture in pictures:
        x = width - picture.width if is_rtl else 0
        parts.append(f'<g transform="translate({px(x)},{px(height)})">{picture.content}</g>')
        height += picture.height
    return Picture(width, height, "".join(parts))


def complete_svg(picture: Picture, settings: Mapping[str, Any], lang: str, *, in_page: bool) -> str:
    """Add the outermost element to a picture; in a page, it shrinks with the page."""
    width, height = math.ceil(picture.width), math.ceil(picture.height)
    return SVG.format(
        width=width,
        height=height,
        page_style=PAGE_STYLE.format(min_width=math.floor(width * MIN_SCALE)) if in_page else "",
        background=BACKGROUND.format(width=width, height=height, bg=settings["bg"]),
        content=picture.content,
        lang=escape(lang),
        size=px(WORD_SIZE),
        color=settings["color"],
        font=settings["font"],
    )


def px(value: float) -> str:
    """Write a number of pixels, rounded to tenths."""
    return f"{round(value, 1) + 0.0:g}"
