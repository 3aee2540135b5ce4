"""Places of words and arcs in a picture of a tree, in pixels.

Words are as far apart as they and the labels of their arcs need. Arcs over the same gap between two
words are at different heights, shorter ones below, so that lines with a common end do not cross and
no label lies on another.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from spacy_rootmind.rendering.drawing import Arc, Drawing
from spacy_rootmind.rendering.text import text_width

WORD_SIZE = 15.0
TAG_SIZE = 10.0
LABEL_SIZE = 12.0
NUMBER_SIZE = 11.0
MARGIN = 14.0
ARROW_WIDTH = 7.0
# Between two arcs at a word.
ARROW_SPACING = 8.0
# Between two words, and on both sides of a label under its arc.
WORD_GAP = 10.0
LABEL_GAP = 5.0
# Width that each arc needs at the words that it connects.
PORT = 5.0
# Heights of arcs: the least distance between two, and what all together may have if it is more.
NUMBER_RISE = 12.0
MIN_STEP, MAX_STEP = 20.0, 36.0
USUAL_RISE = 190.0


class Line(NamedTuple):
    """An arc with the places of its two ends and its distance above the words' upper edge.

    `head_x` and `dep_x` are the same for an arc from ROOT.
    """

    arc: Arc
    head_x: float
    dep_x: float
    rise: float


def place_columns(drawings: Sequence[Drawing]) -> tuple[list[float], float]:
    """Place the columns that several drawings share; return their middles and the whole width."""
    columns = drawings[0].columns
    widths = [max(text_width(text, WORD_SIZE), text_width(tag, TAG_SIZE)) for text, tag in columns]
    # The distances that labels need: for an arc's right end, that from its left end.
    needs: dict[int, dict[int, float]] = defaultdict(dict)
    for drawing in drawings:
        counts = count_arcs(drawing)
        for arc in drawing.arcs:
            start, end = sorted((arc.head, arc.dep))
            if start == end:
                widths[end] = max(widths[end], root_label_width(arc))
            else:
                need = arc_length(arc, counts)
                needs[end][start] = max(needs[end].get(start, 0), need)
        widths = [max(width, n * PORT) for width, n in zip(widths, counts, strict=True)]
    places = [widths[0] / 2 + MARGIN]
    for column in range(1, len(columns)):
        nearest = places[-1] + (widths[column - 1] + widths[column]) / 2 + WORD_GAP
        others = (places[start] + need for start, need in needs[column].items())
        places.append(max([nearest, *others]))
    return places, places[-1] + widths[-1] / 2 + MARGIN


def label_width(arc: Arc) -> float:
    """Estimate the width of an arc's label, which has its number below it."""
    # Labels that differ are bold.
    factor = 1.1 if arc.is_different else 1.0
    return factor * max(text_width(arc.label, LABEL_SIZE), text_width(arc.number, NUMBER_SIZE))


def root_label_width(arc: Arc) -> float:
    """Estimate the width of a label of an arc from ROOT, which has its number next to it."""
    return label_width(arc._replace(number="")) + text_width(f" {arc.number}", NUMBER_SIZE)


def count_arcs(drawing: Drawing) -> list[int]:
    """Count the ends of arcs at each column."""
    counts = [0] * len(drawing.columns)
    for arc in drawing.arcs:
        for column in {arc.head, arc.dep}:
            counts[column] += 1
    return counts


def arc_length(arc: Arc, counts: Sequence[int]) -> float:
    """Find the distance of an arc's ends that its label needs.

    An arc between neighbours ends outside of the others there, so that it is shorter.
    """
    length = label_width(arc) + 2 * LABEL_GAP
    if abs(arc.head - arc.dep) == 1:
        others = sum(counts[column] - 1 for column in arc[:2])
        length += others / 2 * ARROW_SPACING
    return length


def lay_out(drawing: Drawing, places: list[float], *, is_first: bool) -> list[Line]:
    """Place the lines of a drawing's arcs over its columns; those after the first are lower."""
    levels = arc_levels(drawing.arcs)
    n_levels = max(levels, default=0)
    numbers = NUMBER_RISE if any(arc.number for arc in drawing.arcs) else 0.0
    lowest, step = ARROW_WIDTH + 6 + numbers, MIN_STEP + numbers
    if is_first:
        step = max(step, min(MAX_STEP, USUAL_RISE / max(n_levels, 1)))
    above_all = lowest + (n_levels - 1) * step + LABEL_SIZE + LABEL_GAP if n_levels else lowest
    ends = arc_ends(drawing, levels, places)
    return [
        Line(arc, *own, lowest + (level - 1) * step if level else above_all)
        for arc, level, own in zip(drawing.arcs, levels, ends, strict=True)
    ]


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
    drawing: Drawing, levels: Sequence[int], places: Sequence[float]
) -> list[tuple[float, float]]:
    """Place the head and the dependent of each arc.

    Arcs end side by side at a word: first arcs to the left, then the arc from ROOT, then arcs to
    the right, the highest innermost. So arcs with a common end do not cross.
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
        # The width that is not nearer to the next column.
        neighbours = [*places[max(column - 1, 0) : column], *places[column + 1 : column + 2]]
        room = min((abs(place - places[column]) for place in neighbours), default=100.0) * 0.8
        spacing = min(ARROW_SPACING, room / max(len(meeting), 1))
        left = places[column] - (len(meeting) - 1) / 2 * spacing
        for number, (*_, i) in enumerate(sorted(meeting)):
            place_of[i, column] = left + number * spacing
    return [(place_of[i, arc.head], place_of[i, arc.dep]) for i, arc in enumerate(drawing.arcs)]
