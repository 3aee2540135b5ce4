"""Trees drawn as text show the arcs that they were drawn from."""

import inspect
import random

import pytest
from reference import enumerate_trees

from spacy_rootmind.formats import drawn_tree as text_trees
from spacy_rootmind.formats.drawn_tree import align, display_width, draw_tree, printable

UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
ENDS = {
    " ": "",
    "─": [LEFT, RIGHT],
    "│": [UP, DOWN],
    "╭": [DOWN, RIGHT],
    "╰": [UP, RIGHT],
    "├": [UP, DOWN, RIGHT],
    "┬": [LEFT, DOWN, RIGHT],
    "┴": [LEFT, UP, RIGHT],
    "┼": [LEFT, UP, DOWN, RIGHT],
    "╪": [LEFT, UP, DOWN, RIGHT],
}
JOINTS = "┬┴┼"
BRANCHES = "╭├╰"


def read_tree(drawing):
    """Follow the lines of a drawing from each word to its head, as a reader does."""
    heads = []
    for word, row in enumerate(drawing):
        column = len(row) - 1
        # To the left, over crossings and past the joint of the word's own line.
        while column >= 0 and row[column] not in BRANCHES:
            assert row[column] in f"─╪{JOINTS}"
            column -= 1
        if column < 0:
            heads.append(-1)
            continue
        # Up and down the vertical line to its ends: one word on it has its joint there.
        line = [word]
        for step, (end, start) in ((-1, (UP, DOWN)), (1, (DOWN, UP))):
            place = word
            while end in ENDS[drawing[place][column]]:
                place += step
                assert start in ENDS[drawing[place][column]]
                line.append(place)
        [head] = [place for place in line if drawing[place][column] in JOINTS]
        heads.append(head)
    return heads


def check(heads):
    drawing = draw_tree(heads)
    assert len({len(row) for row in drawing}) == 1
    assert read_tree(drawing) == heads, "\n".join(["", *drawing])
    # Every end of a line meets another one.
    for i, row in enumerate(drawing):
        for j, char in enumerate(row):
            for down, right in ENDS[char]:
                if 0 <= j + right < len(row):
                    met = drawing[i + down][j + right]
                    assert (-down, -right) in ENDS[met]


@pytest.mark.parametrize("n", range(1, 6))
def test_all_small_trees(n):
    trees = enumerate_trees(n, single_root=True)
    assert len(trees) == n ** (n - 1)
    for tree in trees:
        check([head - 1 for head in tree[1:].tolist()])


def test_lanes_of_projective_trees_are_their_depth():
    """No wider than needed: words side by side share lanes."""
    heads = [1, -1, 1, 4, 2, 6, 2]
    assert len(draw_tree(heads)[0]) == 2 * (1 + 3)


def test_large_trees():
    rng = random.Random(0)
    for n, count in ((20, 10), (60, 5), (200, 1)):
        for _ in range(count):
            order = rng.sample(range(n), n)
            heads = [-1] * n
            for i in range(1, n):
                heads[order[i]] = rng.choice(order[:i])
            check(heads)


def test_example_of_the_module():
    [shown] = [part for part in inspect.getdoc(text_trees).split("\n\n") if "──┼" in part]
    words = ["Anna", "said", "she", "slept"]
    drawn = [f"{row} {word}" for row, word in zip(draw_tree([1, -1, 3, 1]), words, strict=True)]
    assert inspect.cleandoc(shown).splitlines() == inspect.cleandoc("\n".join(drawn)).splitlines()


def test_columns_are_aligned_as_terminals_show_them():
    rows = [["日本", "x"], ["e\u0301te\u0301", "y"], ["plain", ""]]
    assert align(rows) == ["日本   x", "e\u0301te\u0301    y", "plain"]
    assert [display_width(row[0]) for row in rows] == [4, 3, 5]


def test_control_characters_are_not_passed_on():
    assert printable("\x1b[31mred\u202e é") == r"\x1b[31mred\u202e é"
