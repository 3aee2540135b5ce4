"""Pictures of parses: a few compared as a whole; arcs of others, read back from their lines."""

import re
import sys
import types
from functools import cache
from itertools import combinations, permutations
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
import spacy
from parsers import kbest, settable
from reference import random_projective_heads
from spacy.tokens import Doc

from spacy_rootmind import render
from spacy_rootmind.annotation.details import Alternatives, Confidence, ParseDetails
from spacy_rootmind.annotation.records import store_records

GOLDEN = Path(__file__).with_name("golden")
TEXT = "The cat  saw a dog that slept.\nShe said that it rained."
RED = "#d1242f"


# --- reading pictures --------------------------------------------------------------------------


class Drawn(NamedTuple):
    """An arc as drawn; a root is its own head."""

    head: str
    dep: str
    label: str


class Tree(NamedTuple):
    """A tree as drawn: its words, and the style of each arc."""

    words: list
    styles: dict

    def arcs(self, color=""):
        return {arc for arc, style in self.styles.items() if color in style}


def find(element, name):
    return [e for e in element.iter() if name in (e.get("class") or "").split()]


def numbers(element):
    return [float(n) for n in re.findall(r"-?[\d.]+", element.get("d"))]


def places_of(svg):
    return [float(word.get("x")) for word in find(svg, "displacy-word")]


def read(markup):
    """Read the captions and trees of SVGs, a pair for each SVG."""
    return [
        (
            [e.text for e in find(svg, "displacy-caption")],
            [read_tree(group) for group in find(svg, "displacy")],
        )
        for svg in ElementTree.fromstring(f"<all>{markup}</all>")
    ]


def read_tree(group):
    words, places = [word.text for word in find(group, "displacy-word")], places_of(group)
    parents = {child: parent for parent in group.iter() for child in parent}
    styles = {}
    for arrow in find(group, "displacy-arrow"):
        [line], [label], [point] = (
            find(arrow, f"displacy-{part}") for part in ("arc", "label", "arrowhead")
        )
        path = numbers(line)
        left, right, dep = (
            int(np.argmin([abs(x - place) for place in places]))
            for x in (path[0], path[-2], numbers(point)[0])
        )
        assert ("displacy-root" in arrow.get("class")) == (left == right)
        head = left + right - dep
        arc = Drawn(words[head], words[dep], "".join(label.itertext()))
        styles[arc] = parents[arrow].get("style") or ""
    return Tree(words, styles)


# --- Docs to draw ------------------------------------------------------------------------------


@cache
def vocab_of(lang):
    return spacy.blank(lang).vocab


def make_doc(words, heads, deps=None, parses=(), probs=None, lang="en", **rest):
    """Make a Doc of one sentence, with alternatives as pairs of heads and log probability.

    Labels that are not given are ROOT and x. An alternative has the Doc's labels where it has the
    Doc's heads; other labels are ROOT and dep. `probs` are the probabilities of the arcs.
    """
    deps = deps or ["ROOT" if i == h else "x" for i, h in enumerate(heads)]
    doc = Doc(vocab_of(lang), words=words, heads=heads, deps=deps, **rest)
    names, details = ("ROOT", "dep", *deps), {}
    own = np.arange(len(words), dtype=np.int32) + 2
    if parses:
        trees = np.array([tree for tree, _ in parses], dtype=np.int32)
        labels = np.where(trees == heads, own, trees != own - 2).astype(np.int32)
        log_probs = np.array([log_prob for _, log_prob in parses], dtype=float)
        details["alternatives"] = Alternatives(names, trees, labels, log_probs)
    if probs is not None:
        probs = np.array(probs, dtype=np.float32)
        details["confidence"] = Confidence(names, probs, -1.25, 2.5, own, probs)
    if details:
        tree, is_word = np.array(heads, np.int32), np.ones(len(doc), np.bool_)
        store_records(doc, [(0, len(doc), ParseDetails(tree, is_word, **details))])
    return doc


def chain(n, lang="en", **arcs):
    """A sentence in which each word depends on the one before; in an alternative, not all do."""
    heads = [max(i - 1, 0) for i in range(n)]
    other = [arcs.get(f"w{i}", head) for i, head in enumerate(heads)]
    parses = [(heads, -1.0), (other, -2.0)]
    return make_doc([f"w{i}" for i in range(n)], heads, parses=parses, lang=lang)


SENTENCE = (
    "The committee that reviewed the proposals last week decided to postpone its final vote "
    "because several members had not yet received the new reports ."
)
HEADS = [1, 8, 3, 1, 5, 3, 7, 3, 8, 10, 8, 13, 13, 10, 20, 16, 20, 20, 20, 20, 10, 23, 23, 20, 8]
LABELS = (
    "det nsubj nsubj acl:relcl det obj amod obl:tmod ROOT mark xcomp nmod:poss amod obj mark amod "
    "nsubj aux advmod advmod advcl det amod obj punct"
)


def long_sentence(**rest):
    return make_doc(SENTENCE.split(), HEADS, LABELS.split(), probs=[0.8] * 25, **rest)


@pytest.fixture(scope="module")
def docs(unsure):
    """The same text with confidence and the five best parses, and with neither."""
    with settable(unsure) as set_all:
        return types.SimpleNamespace(
            # The parse is the first of the five, which come before labels.
            kbest=set_all(decode="tree", confidence=True, **kbest(5))(TEXT),
            plain=set_all()(TEXT),
        )


# --- whole pictures ----------------------------------------------------------------------------


def draws():
    """Four draws of three trees, the parse among them, with probabilities, tags and lemmas."""
    heads = [1, 1, 4, 4, 1]
    drawn = [(heads, -1.25), ([1, 1, 1, 4, 1], -1.5), ([4, 0, 4, 1, 4], -9.0)]
    return make_doc(
        ["She", "saw", "an", "odd", "telescope"],
        heads,
        ["nsubj", "ROOT", "det", "amod", "obj"],
        [drawn[0], drawn[1], drawn[2], drawn[1]],
        [0.99, 1.0, 0.5, 0.75, 0.625],
        tags=["PRP", "VBD", "DT", "JJ", "NN"],
    )


def hebrew():
    words, deps = ["הילדה", "קראה", "ספר", "טוב"], ["nsubj", "ROOT", "obj", "amod"]
    heads = [1, 1, 1, 2]
    return make_doc(words, heads, deps, [(heads, -0.1), ([1, 1, 1, 1], -2.0)], lang="he")


PICTURES = {"draws": draws, "long": lambda: chain(12, w1=10, w9=7), "right-to-left": hebrew}


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_pictures_are_the_golden_ones(name, tmp_path):
    path, golden = tmp_path / f"{name}.svg", GOLDEN / f"{name}.svg"
    path.write_text(render(PICTURES[name]()) + "\n", encoding="utf8")
    assert path.read_text(encoding="utf8") == golden.read_text(encoding="utf8"), (
        f"look at {path}: if it is as it should be, copy it to {golden}"
    )


# --- parses, probabilities and alternatives ----------------------------------------------------


def arcs_of_doc(sentence):
    return {
        Drawn(token.head.text, token.text, label_of(token))
        for token in sentence
        if not token.is_space
    }


def label_of(token):
    prob = token._.arc_prob
    return token.dep_ if prob is None else f"{token.dep_} {prob:.2f}"


@pytest.mark.parametrize("n", [None, 0, 2])
def test_parses_probabilities_and_alternatives_are_the_docs(docs, n):
    """With neither probabilities nor alternatives, those first drawn, and all."""
    doc = docs.plain if n is None else docs.kbest
    for most in (n or 0, n or 9):
        pictures = read(render(doc, max_alternatives=most))
        for (texts, drawn), sentence in zip(pictures, doc.sents, strict=True):
            assert drawn[0].words == [token.text for token in sentence if not token.is_space]
            assert drawn[0].arcs() == arcs_of_doc(sentence)
            if n is None:
                assert (texts, len(drawn), set(drawn[0].styles.values())) == ([], 1, {""})
                continue
            parses = sentence._.parses[: most + 1]
            assert len(texts) == len(drawn) == len(parses)
            assert f"ntropy {sentence._.parse_entropy:.2f} nats" in texts[0]
            assert (f"; {most} of 4 alternatives shown" in texts[0]) == (most < 4)
            for text, tree, parse in zip(texts, drawn, parses, strict=True):
                assert f"robability {np.exp(parse.log_prob):.3g} (log {parse.log_prob:.2f})" in text
                assert tree is drawn[0] or tree.arcs() == {
                    Drawn(sentence[int(head)].text, token.text, dep)
                    for token, head, dep in zip(sentence, parse.heads, parse.deps, strict=True)
                    if not token.is_space
                }


def test_one_sentence_or_several_docs(docs):
    first, second = read(render(docs.kbest))
    sentence = list(docs.kbest.sents)[1]
    assert read(render(docs.kbest[:])) == [first, second]
    assert read(render([sentence, docs.kbest])) == [second, first, second]
    # A part of a sentence stands for the whole.
    assert read(render(docs.kbest[1 : sentence.start])) == [first]
    assert read(render(docs.kbest[1 : sentence.start + 1])) == [first, second]


@pytest.mark.parametrize(
    ("words", "heads", "parses", "expected"),
    [
        # No negative zero.
        (["a"], [0], [([0], -1e-9)], ["Probability 1 (log 0.00)"]),
        # The parse itself was not drawn.
        (
            [*"ab"],
            [1, 1],
            [([0, 0], -1.0)] * 2,
            ["Alternative 1: probability 0.368 (log -1.00)"],
        ),
    ],
)
def test_captions(words, heads, parses, expected):
    [(texts, drawn)] = read(render(make_doc(words, heads, parses=parses)))
    assert drawn[0].words == words
    assert len(texts) == len(expected)
    for text, part in zip(texts, expected, strict=True):
        assert part in text


# --- Docs that were changed --------------------------------------------------------------------


def test_heads_and_labels_set_by_hand_lose_their_probabilities():
    heads = [1, 1, 4, 4, 1]
    doc = make_doc([*"abcde"], heads, parses=[(heads, -1.0), ([1] * 5, -2.0)], probs=[0.8] * 5)
    doc[0].dep_ = "changed"
    [(_, [tree, before, *_])] = read(render(doc))
    assert [arc for arc in tree.arcs() if "0.80" not in arc.label] == [Drawn("b", "a", "changed")]
    # The tree with the label that it had is an alternative.
    assert before.arcs(RED) == {Drawn("b", "a", "x")}
    doc[3].head = doc[2]
    [(texts, drawn)] = read(render(doc))
    unknown = {arc for arc in drawn[0].arcs() if "0.80" not in arc.label}
    assert unknown == {Drawn("b", "a", "changed"), Drawn("c", "d", "x")}
    assert texts[0] == "Entropy 2.50 nats"
    # Both alternatives differ from the tree that it has now.
    assert len(drawn) == 3


# --- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doc", "arcs"),
    [
        # Arcs of whitespace are not drawn, nor missing heads and those outside of the sentence.
        (lambda: make_doc(["a", " ", "b", "\n"], [0, 0, 0, 2]), "a>a a>b"),
        (lambda: make_doc(["a", " ", "b", "\n"], [0, 0, 1, 2]), "a>a b"),
        (lambda: make_doc([*"abc"], [1, 1, None], ["x", "ROOT", None]), "b>a b>b c"),
    ],
)
def test_columns(doc, arcs):
    _, [tree, *_] = read(render(doc()))[0]
    expected = [arc.split(">") for arc in arcs.split()]
    assert tree.words == [words[-1] for words in expected]
    drawn = {(arc.head, arc.dep) for arc in tree.arcs()}
    assert drawn == {tuple(words) for words in expected if len(words) == 2}


@pytest.mark.parametrize("page", [False, True])
def test_markup_in_texts_is_escaped(page):
    words = ["<script>x()</script>", "&amp;", "</svg>", "'", "\x07"]
    deps = ["<script>R&", "<i>", "&", '"', "x"]
    tags = ["</text>", "&lt;", '"', "'", "\x00"]
    parses = [([0, 0, 1, 1, 1], -1.0)]
    markup = render(make_doc(words, [0] * 5, deps, parses, tags=tags), page=page)
    if page:
        assert "<script" not in markup
        markup = re.search(r"<svg.*</svg>", markup, re.DOTALL)[0]
    svg = ElementTree.fromstring(markup)
    names = {e.tag.rpartition("}")[2] for e in svg.iter()}
    assert names == {"svg", "g", "path", "rect", "text", "tspan"}
    [(_, [tree, _])] = read(markup)
    assert tree.words == [*words[:4], "\ufffd"]
    assert [e.text for e in find(svg, "displacy-tag")] == [*tags[:4], "\ufffd"]
    assert {arc.label for arc in tree.arcs()} == set(deps)


# --- room --------------------------------------------------------------------------------------


def test_25_words_with_probabilities_are_legible_without_scrolling():
    other = [8 if i == 20 else head for i, head in enumerate(HEADS)]
    doc = long_sentence(parses=[(HEADS, -1.0), (other, -2.0)], pos=["NOUN"] * 25)
    [svg] = re.findall("<svg.*</svg>", render(doc, page=True), re.DOTALL)
    svg = ElementTree.fromstring(svg)
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert svg.get("viewBox") == f"0 0 {width:g} {height:g}"
    style = dict(part.split(": ", 1) for part in svg.get("style").split("; "))
    assert (style["max-width"], style["height"]) == ("100%", "auto")
    # Words of 15 pixels have at least 9 in a notebook's cell or a page.
    assert 0.6 * width - 1 <= float(style["min-width"].removesuffix("px")) <= 840
    assert height < width


def test_labels_neither_overlap_nor_leave_their_arcs():
    boxes = []
    svg = ElementTree.fromstring(render(long_sentence()))
    for arrow in find(svg, "displacy-arrow"):
        path = numbers(find(arrow, "displacy-arc")[0])
        for text in find(arrow, "displacy-label")[0]:
            size = float(re.search(r"[\d.]+", text.get("style"))[0])
            x, y = float(text.get("x")), float(text.get("y"))
            # Most letters are half as wide as high, or less.
            half = len(text.text) * size * 0.5 / 2
            if "displacy-root" not in arrow.get("class"):
                assert path[0] < x - half < x + half < path[-2]
            boxes.append((x - half, x + half, y - 0.7 * size, y))
    assert len(boxes) == 2 * 25
    for (left, right, top, bottom), (a, b, above, below) in combinations(boxes, 2):
        assert right < a or b < left or bottom < above or below < top


@pytest.mark.parametrize("seed", range(3))
def test_arcs_of_projective_trees_do_not_cross(seed):
    tree = random_projective_heads(np.random.default_rng(seed), 18, True)[1:].tolist()
    heads = [i if head == 0 else head - 1 for i, head in enumerate(tree)]
    svg = ElementTree.fromstring(render(make_doc(["word"] * 18, heads)))
    paths = [numbers(e) for e in find(svg, "displacy-arc")]
    boxes = [(path[0], path[-2], min(path[1::2])) for path in paths if len(path) > 4]
    assert len(boxes) == 17
    # The arc from ROOT comes from above all others.
    [root_top] = [min(path[1::2]) for path in paths if len(path) == 4]
    assert all(root_top < top for _, _, top in boxes)
    for (left, right, top), (a, b, other_top) in permutations(boxes, 2):
        if a < left < b or a < right < b:
            assert a < left < right < b
            assert other_top < top


# --- output ------------------------------------------------------------------------------------


def test_page_has_a_figure_for_each_sentence(docs):
    markup = render(docs.kbest, page=True)
    assert markup.startswith("<!DOCTYPE html>")
    # Nothing that could occur twice in a page.
    assert not re.search(r"\b(id|href)=", markup)
    assert re.search(r'<head>\s*<meta charset="utf-8">', markup)
    assert '<html lang="xx">' in markup
    figures = re.findall(r"<figure.*?>(.*?)</figure>", markup, re.DOTALL)
    assert len(figures) == 2
    assert read("".join(figures)) == read(render(docs.kbest))
    markup = render(hebrew(), page=True)
    assert '<html lang="he">' in markup
    [body] = re.findall("<body.*?>", markup)
    assert "direction: rtl" in body
    assert "padding: 2rem 1rem" in body
    # The page's direction reverses neither captions nor labels.
    assert 'direction: ltr">' in re.findall("<svg.*?>", markup, re.DOTALL)[0]


@pytest.mark.parametrize("text", ["", " ", "\n \n"])
def test_nothing_to_draw(docs, unsure, text):
    doc = unsure(text)
    assert render(doc) == render([]) == render(doc[:0]) == render(docs.kbest[2:2]) == ""
    assert "<svg" not in render(doc, page=True)


def test_notebooks_get_pictures(docs, monkeypatch):
    expected, shown = read(render(docs.kbest, jupyter=False)), []
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = str, shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("spacy_rootmind.rendering.api.is_in_jupyter", lambda: True)
    assert render(docs.kbest) is None
    [markup] = shown
    span = re.fullmatch(r'<span class="tex2jax_ignore">(.*)</span>', markup, re.DOTALL)
    assert read(span[1]) == expected
    # It shrinks with the page.
    assert "max-width: 100%" in markup


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match=r"'Not parsed\.' is not parsed: expected heads"):
        render(spacy.blank("xx")("Not parsed."))
