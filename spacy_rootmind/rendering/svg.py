"""Pictures of trees as SVG: words, arcs, captions, and their arrangement."""

import math
from html import escape
from typing import NamedTuple

from spacy.tokens import Span

from spacy_rootmind.rendering.drawing import Arc, Column, Drawing, draw_sentence, runs_rtl
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
from spacy_rootmind.rendering.text import clean, text_width

CAPTION_SIZE = 13.0
# How much wider captions are in DejaVu Sans, which many machines have instead of Arial.
WIDER_FONT = 1.1
CAPTION_HEIGHT = 25.0
# From the arcs to the base of a word, and from there to that of its tag.
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

# The colour of arcs that the parse does not have.
HIGHLIGHT = "#d1242f"
# The colour scheme is fixed, as are all colours: browsers that darken pages would otherwise turn
# letters white, but not the shapes behind them. The background is not a style: renderers of SVG
# files leave what no shape fills transparent.
SVG = """
<svg xmlns="http://www.w3.org/2000/svg" xml:lang="{lang}" class="displacy-parses" width="{width}" \
height="{height}" viewBox="0 0 {width} {height}" style="{page_style}\
color-scheme: only light; color: #000000; \
font-family: Arial, Helvetica, Liberation Sans, sans-serif; font-size: {size}px; \
direction: ltr"><rect width="{width}" height="{height}" fill="#ffffff"/>{content}</svg>
"""
# In pages alone: some renderers of SVG files take `height: auto` for a height of nothing.
PAGE_STYLE = "display: block; max-width: 100%; min-width: {min_width}px; height: auto; "
TREE = """
<g class="displacy" transform="translate(0,{y})">{content}</g>
"""
WORD = """
<text class="displacy-token" fill="currentColor" text-anchor="middle"{style}>\
<tspan class="displacy-word" x="{x}" y="{y}">{text}</tspan>{tag}</text>
"""
TAG = f"""<tspan class="displacy-tag" x="{{x}}" y="{WORD_HEIGHT + TAG_HEIGHT:g}" \
style="font-size: {TAG_SIZE:g}px">{{text}}</tspan>"""
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
GROUND = """<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#ffffff"/>"""
CAPTION = """
<text class="displacy-caption" fill="currentColor" text-anchor="{anchor}" \
style="font-size: {size}px" x="{x}" y="{y}">{text}</text>
"""


class Text(NamedTuple):
    """A label or a number: the middle of its base line, and the size of its font, in pixels."""

    text: str
    x: float
    y: float
    size: float


# --- sentences ---------------------------------------------------------------------------------


def sentence_svg(span: Span, max_alternatives: int, *, in_page: bool) -> str:
    """Draw a sentence as SVG: its trees one below the other, each under its caption.

    Words are exactly below each other. Only the first tree has tags. In a page, the picture shrinks
    with the page.
    """
    is_rtl = runs_rtl(span.vocab)
    drawings = [prepare(each, is_rtl=is_rtl) for each in draw_sentence(span, max_alternatives)]
    places, tree_width = place_columns(drawings)
    captions = [text_width(each.caption, CAPTION_SIZE) for each in drawings if each.caption]
    widths = [tree_width, *(width * WIDER_FONT + 2 * MARGIN for width in captions)]
    width, height, parts = math.ceil(max(widths)), 0.0, []
    # Everything is aligned on the side where text starts.
    for number, drawing in enumerate(drawings):
        if drawing.caption:
            caption = CAPTION.format(
                anchor="end" if is_rtl else "start",
                size=px(CAPTION_SIZE),
                x=px(max(widths) - MARGIN if is_rtl else MARGIN),
                y=px(height + CAPTION_SIZE + LABEL_GAP),
                text=escape(drawing.caption),
            )
            parts.append(caption)
            height += CAPTION_HEIGHT
        left = max(widths) - tree_width if is_rtl else 0.0
        tree, tree_height = draw_tree(drawing, places, is_rtl=is_rtl, is_first=number == 0)
        parts.append(f'<g transform="translate({px(left)},{px(height)})">{tree}</g>')
        height += tree_height
    return SVG.format(
        width=width,
        height=math.ceil(height),
        page_style=PAGE_STYLE.format(min_width=math.floor(width * MIN_SCALE)) if in_page else "",
        content="".join(parts),
        lang=escape(span.doc.lang_),
        size=px(WORD_SIZE),
    )


def prepare(drawing: Drawing, *, is_rtl: bool) -> Drawing:
    """Cut long texts, remove what XML does not allow, and reverse columns from right to left."""
    columns = [Column(*map(clean, column)) for column in drawing.columns]
    arcs = [arc._replace(label=clean(arc.label)) for arc in drawing.arcs]
    if is_rtl:
        last = len(columns) - 1
        arcs = [arc._replace(head=last - arc.head, dep=last - arc.dep) for arc in arcs]
        columns.reverse()
    return Drawing(drawing.caption, columns, arcs)


# --- trees -------------------------------------------------------------------------------------


def draw_tree(
    drawing: Drawing, places: list[float], *, is_rtl: bool, is_first: bool
) -> tuple[str, float]:
    """Draw a tree over its columns, and return its height as well.

    One that is not the first has no tags.
    """
    has_tags = is_first and any(column.tag for column in drawing.columns)
    lines = lay_out(drawing, places, is_first=is_first)
    height = max((line.rise for line in lines), default=0.0) + LABEL_SIZE + LABEL_GAP
    # Long arcs first: where arcs cross, the label of the lower one is drawn on top.
    lines.sort(key=lambda line: -line.rise)
    content = [draw_arrow(line, fades=not is_first) for line in lines]
    for column, place in zip(drawing.columns, places, strict=True):
        content.append(
            WORD.format(
                style=' style="direction: rtl"' if is_rtl else "",
                x=px(place),
                y=px(WORD_HEIGHT),
                text=escape(column.text),
                tag=TAG.format(x=px(place), text=escape(column.tag)) if has_tags else "",
            )
        )
    markup = TREE.format(y=px(height), content="".join(content))
    return markup, height + WORD_HEIGHT + has_tags * TAG_HEIGHT + MARGIN


def draw_arrow(line: Line, *, fades: bool) -> str:
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
        grounds="".join(map(draw_ground, texts)),
        label=" ".join(
            LABEL.format(x=px(text.x), y=px(text.y), size=px(text.size), text=escape(text.text))
            for text in texts
        ),
    )
    style = "opacity: 0.65" if fades else ""
    if arc.is_different:
        style = f"color: {HIGHLIGHT}; font-weight: bold"
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


def draw_ground(text: Text) -> str:
    """Draw the background of a text."""
    width = text_width(text.text, text.size)
    left, top = px(text.x - width / 2), px(text.y - 0.8 * text.size)
    return GROUND.format(x=left, y=top, width=px(width), height=px(text.size))


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


def px(value: float) -> str:
    """Write a number of pixels, rounded to tenths."""
    return f"{round(value, 1) + 0.0:g}"
