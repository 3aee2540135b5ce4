"""Places of words and arcs in a picture of a tree, in pixels.

Words are as far apart as they and the labels of their arcs need. Arcs over the same gap between two
words are at different heights, shorter ones below, so that lines with a common end do not cross and
no label lies on another.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from spacy_rootmind.rendering.drawing import Arc, Column, Drawing
from spacy_rootmind.rendering.text import text_width

WORD_SIZE = 15.0
TAG_SIZE = 10.0
LABEL_SIZE = 12.0
NUMBER_SIZE = 11.0
MARGIN = 14.0
# Between two words, and on both sides of a label under its arc.
WORD_GAP, COMPACT_GAP = 10.0, 7.0
LABEL_GAP = 5.0
# Most arcs at the end of another that count for its length.
MOST_OTHERS = 4
# Width that each arc needs at the words that it connects.
PORT = 5.0
# Heights of arcs: the least distance between two, and what all together may have if it is more.
NUMBER_RISE = 12.0
MIN_STEP, MAX_STEP = 20.0, 36.0
COMPACT_STEP = 17.0
USUAL_RISE = 190.0


class Line(NamedTuple):
    """An arc with the places of its two ends and its distance above the words' upper edge.

    `head_x` and `dep_x` are the same for an arc from ROOT.
    """

    arc: Arc
    head_x: float
    dep_x: float
    rise: float


class Layout(NamedTuple):
    """The middles of columns and the lines of arcs; its width and the height of the arcs."""

    places: list[float]
    lines: list[Line]
    width: float
    height: float


def place_columns(
    drawings: Sequence[Drawing], settings: Mapping[str, Any]
) -> tuple[list[float], float]:
    """Place the columns that several drawings share; return their middles and the whole width."""
    columns = drawings[0].columns
    widths = [column_width(column, settings) for column in columns]
    for drawing in drawings:
        roots = [arc for arc in drawing.arcs if arc.head == arc.dep]
        for arc in roots:
            # One label has only arcs next to it, which are lower; several are at the same height.
            if len(roots) > 1 or len(columns) == 1:
                widths[arc.dep] = max(widths[arc.dep], root_label_width(arc))
        for column, n_arcs in enumerate(count_arcs(drawing)):
            widths[column] = max(widths[column], n_arcs * PORT)
    gap = COMPACT_GAP if settings["compact"] else WORD_GAP
    left = settings.get("offset_x", max(widths[0] / 2, overhang(drawings, 0)) + MARGIN)
    places = [left]
    needs = label_needs(drawings, settings)
    for column in range(1, len(columns)):
        place = places[-1] + (widths[column - 1] + widths[column]) / 2 + gap
        for start, need in needs.get(column, {}).items():
            place = max(place, places[start] + need)
        places.append(place)
    if "distance" in settings:
        places = [left + i * settings["distance"] for i in range(len(columns))]
    last = len(columns) - 1
    return places, places[-1] + max(widths[-1] / 2, overhang(drawings, last)) + MARGIN


def column_width(column: Column, settings: Mapping[str, Any]) -> float:
    """Estimate the width of a column's texts."""
    widths = [text_width(column.text, WORD_SIZE), text_width(column.tag, TAG_SIZE)]
    if settings["add_lemma"]:
        widths.append(text_width(column.lemma, TAG_SIZE))
    return max(widths)


def label_width(arc: Arc) -> float:
    """Estimate the width of an arc's label, which has its number below it."""
    # Labels that differ are bold.
    factor = 1.1 if arc.is_different else 1.0
    label, number = text_width(arc.label, LABEL_SIZE), text_width(arc.number, NUMBER_SIZE)
    return max(label, number) * factor


def root_label_width(arc: Arc) -> float:
    """Estimate the width of a label of an arc from ROOT, which has its number next to it."""
    return label_width(arc._replace(number="")) + text_width(f" {arc.number}", NUMBER_SIZE)


def overhang(drawings: Sequence[Drawing], column: int) -> float:
    """Return half the width of the widest label over an arc from ROOT to a column."""
    arcs = (arc for drawing in drawings for arc in drawing.arcs)
    widths = [root_label_width(arc) for arc in arcs if arc.head == arc.dep == column]
    return max(widths, default=0) / 2


def count_arcs(drawing: Drawing) -> list[int]:
    """Count the ends of arcs at each column."""
    counts = [0] * len(drawing.columns)
    for arc in drawing.arcs:
        for column in {arc.head, arc.dep}:
            counts[column] += 1
    return counts


def label_needs(
    drawings: Sequence[Drawing], settings: Mapping[str, Any]
) -> dict[int, dict[int, float]]:
    """Find the distances that labels need: for an arc's right end, that from its left end.

    An arc between neighbours ends outside of the others there, so that it is shorter.
    """
    needs: dict[int, dict[int, float]] = {}
    for drawing in drawings:
        counts = count_arcs(drawing)
        for arc in drawing.arcs:
            start, end = sorted((arc.head, arc.dep))
            if start != end:
                need = label_width(arc) + 2 * LABEL_GAP
                if end - start == 1:
                    others = min(counts[start] - 1, MOST_OTHERS) + min(counts[end] - 1, MOST_OTHERS)
                    need += others / 2 * settings["arrow_spacing"]
                places = needs.setdefault(end, {})
                places[start] = max(places.get(start, 0), need)
    return needs


def lay_out(
    drawing: Drawing,
    places: list[float],
    width: float,
    settings: Mapping[str, Any],
    *,
    is_first: bool,
) -> Layout:
    """Place the lines of a drawing's arcs over its columns; those after the first are lower."""
    levels = arc_levels(drawing.arcs)
    n_levels = max(levels, default=0)
    first, step = heights(drawing, n_levels if is_first else math.inf, settings)
    above_all = first + (n_levels - 1) * step + LABEL_SIZE + LABEL_GAP if n_levels else first
    lines = [
        Line(arc, *ends, first + (level - 1) * step if level else above_all)
        for arc, level, ends in zip(
            drawing.arcs, levels, arc_ends(drawing, levels, places, settings), strict=True
        )
    ]
    height = max((line.rise for line in lines), default=0.0) + LABEL_SIZE + LABEL_GAP
    return Layout(places, lines, width, height)


def heights(drawing: Drawing, n_levels: float, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Choose the height of the lowest arcs, and the distance to those above them."""
    numbers = NUMBER_RISE if any(arc.number for arc in drawing.arcs) else 0.0
    first = settings["arrow_width"] + 6 + numbers
    if settings["compact"]:
        return first, COMPACT_STEP + numbers
    return first, max(MIN_STEP + numbers, min(MAX_STEP, USUAL_RISE / max(n_levels, 1)))


def arc_levels(arcs: Sequence[Arc]) -> list[int]:
    """Return each arc's height as a number from 1; arcs from ROOT have 0."""
    highest = [0] * max((max(arc.head, arc.dep) for arc in arcs), default=0)
    levels = [0] * len(arcs)
    for i in sorted(range(len(arcs)), key=lambda i: abs(arcs[i].head - arcs[i].dep)):
        start, end = sorted((arcs[i].head, arcs[i].dep))
        if start != end:
            levels[i] = max(highest[start:end]) + 1
            highest[start:end] = [levels[i]] * (end - start)
    return levels


def arc_ends(
    drawing: Drawing, levels: Sequence[int], places: Sequence[float], settings: Mapping[str, Any]
) -> list[tuple[float, float]]:
    """Place the head and the dependent of each arc.

    Where arcs meet, they end side by side: those to the left, from ROOT, and those to the right,
    the highest innermost. Then arcs with a common end do not cross.
    """
    order: list[list[tuple[int, int, int]]] = [[] for _ in drawing.columns]
    for i, (arc, level) in enumerate(zip(drawing.arcs, levels, strict=True)):
        start, end = sorted((arc.head, arc.dep))
        if start == end:
            order[start].append((0, 0, i))
        else:
            order[start].append((1, -level, i))
            order[end].append((-1, level, i))
    place_of: dict[tuple[int, int], float] = {}
    for column, meeting in enumerate(order):
        spacing = min(settings["arrow_spacing"], room_at(places, column) / max(len(meeting), 1))
        left = places[column] - (len(meeting) - 1) / 2 * spacing
        for number, (*_, i) in enumerate(sorted(meeting)):
            place_of[i, column] = left + number * spacing
    return [(place_of[i, arc.head], place_of[i, arc.dep]) for i, arc in enumerate(drawing.arcs)]


def room_at(places: Sequence[float], column: int) -> float:
    """Return the width at a column that is not nearer to the next one."""
    neighbours = [*places[max(column - 1, 0) : column], *places[column + 1 : column + 2]]
    return min((abs(place - places[column]) for place in neighbours), default=100.0) * 0.8
