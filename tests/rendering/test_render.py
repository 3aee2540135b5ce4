"""Pictures of parses. Arcs are read back from the ends of their lines."""

import re
import sys
import types
from functools import cache, partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
import spacy
from parsers import settable
from spacy import displacy
from spacy.tokens import Doc

import spacy_rootmind
from spacy_rootmind import render
from spacy_rootmind.annotation.details import Alternatives, ParseDetails
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.records import store_records
from spacy_rootmind.pipeline.alternatives import kbest

TEXT = "The cat  saw a dog that slept.\nShe said that it rained."
RED = "#d1242f"


# --- reading pictures --------------------------------------------------------------------------


class Drawn(NamedTuple):
    """An arc as drawn; a root is its own head."""

    head: str
    dep: str
    label: str


class Tree(NamedTuple):
    """A tree as drawn, and the style of its arcs."""

    words: list
    lines: list
    styles: dict
    element: ElementTree.Element

    def arcs(self, style=None):
        return {arc for arc in self.styles if style is None or style in self.styles[arc]}


def tag(element):
    return element.tag.rpartition("}")[2]


def find(element, name):
    return [e for e in element.iter() if name in (e.get("class") or "").split()]


def text_of(element):
    return "".join(element.itertext())


def numbers(element):
    return [float(n) for n in re.findall(r"-?[\d.]+", element.get("d"))]


def parse_svg(markup):
    """Read the captions and trees of SVGs, one SVG per sentence."""
    whole = ElementTree.fromstring(f"<all>{markup}</all>")
    return [(captions(svg), trees(svg)) for svg in whole]


def parse_one_svg(markup):
    [sentence] = parse_svg(markup)
    return sentence


def captions(svg):
    """Read captions, their lines joined."""
    return [" ".join(line.text for line in e) for e in find(svg, "displacy-caption")]


def trees(svg):
    parents = {child: parent for parent in svg.iter() for child in parent}
    groups = [parents[e] for e in svg.iter() if "displacy" in (e.get("class") or "").split()]
    return [read_tree(group) for group in groups]


def read_tree(group):
    words = find(group, "displacy-word")
    texts = [word.text for word in words]
    places = [float(word.get("x")) for word in words]

    def nearest(x):
        return int(np.argmin([abs(x - place) for place in places]))

    parents = {child: parent for parent in group.iter() for child in parent}
    styles = {}
    for arrow in find(group, "displacy-arrow"):
        [line], [label], [point] = (
            find(arrow, f"displacy-{part}") for part in ("arc", "label", "arrowhead")
        )
        path, at = numbers(line), numbers(point)[0]
        ends = {nearest(path[0]), nearest(path[-2])}
        dep = nearest(at)
        head = dep if len(ends) == 1 else (ends - {dep}).pop()
        assert ("displacy-root" in arrow.get("class")) == (len(ends) == 1)
        parent = parents[arrow]
        style = parent.get("style") if tag(parent) == "g" else None
        styles[Drawn(texts[head], texts[dep], text_of(label))] = style or ""
    lines = [[e.text or "" for e in find(group, f"displacy-{kind}")] for kind in ("tag", "lemma")]
    return Tree(texts, lines, styles, group)


def arcs_of_doc(sentence, with_probs):
    return {
        Drawn(
            token.head.text,
            token.text,
            f"{token.dep_} {token._.arc_prob:.2f}" if with_probs else token.dep_,
        )
        for token in sentence
        if not token.is_space
    }


def arcs_of_parse(sentence, parse):
    return {
        Drawn(sentence[int(head)].text, token.text, dep)
        for token, head, dep in zip(sentence, parse.heads, parse.deps, strict=True)
        if not token.is_space
    }


class Page(HTMLParser):
    """Checks that a page's tags match, and collects the attributes of all elements."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.attributes = [], {}
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attrs):
        self.attributes.setdefault(name, []).append(dict(attrs))
        if name != "meta":
            self.open.append(name)

    def handle_startendtag(self, name, attrs):
        pass

    def handle_endtag(self, name):
        assert self.open.pop() == name


# --- Docs to draw ------------------------------------------------------------------------------


@cache
def vocab_of(lang):
    return spacy.blank(lang).vocab


def make_doc(words, heads, deps, lang="en", **rest):
    return Doc(vocab_of(lang), words=words, heads=heads, deps=deps, **rest)


@pytest.fixture(scope="module")
def docs(unsure):
    """The same text with confidence and the five best parses, one of the two, and none."""
    with settable(unsure) as set_all:
        best = kbest(5)
        return types.SimpleNamespace(
            # The parse is the first of the five, which come before labels.
            kbest=set_all(decode="tree", confidence=True, alternatives=best)(TEXT),
            confident=set_all(confidence=True)(TEXT),
            plain=set_all()(TEXT),
        )


def with_parses(doc, trees, log_probs):
    """Give a Doc of one sentence alternatives by their heads.

    Where a head is that of the Doc, so is the label; others are ROOT and dep.
    """
    set_heads = [token.head.i for token in doc]
    names = ["ROOT", "dep", *(token.dep_ for token in doc)]
    labels = [
        [i + 2 if h == set_heads[i] else int(h != i) for i, h in enumerate(tree)] for tree in trees
    ]
    alternatives = Alternatives(
        np.array(trees, dtype=np.int32),
        np.array(labels, dtype=np.int32),
        np.array(log_probs, dtype=float),
        tuple(names),
    )
    details = ParseDetails(alternatives=alternatives, tree=np.array(set_heads, np.int32))
    store_records(doc, [(0, len(doc), details)])
    return doc


@pytest.fixture
def sampled():
    """Three words with four draws of three trees; the first is the Doc's own parse."""
    doc = make_doc(["a", "b", "c"], [0, 0, 1], ["ROOT", "dep", "dep"])
    drawn = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]]
    return with_parses(doc, drawn, np.log([0.5, 0.3, 0.1, 0.3]))


# --- parses and probabilities ------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
def test_each_sentence_is_drawn_with_its_arcs(docs, compact):
    pictures = parse_svg(render(docs.plain, options={"compact": compact}))
    sentences = list(docs.plain.sents)
    assert len(pictures) == len(sentences) == 2
    for (texts, [tree]), sentence in zip(pictures, sentences, strict=True):
        assert texts == []
        assert tree.words == [token.text for token in sentence if not token.is_space]
        assert tree.arcs() == arcs_of_doc(sentence, with_probs=False)
        assert set(tree.styles.values()) == {""}


def test_arcs_carry_their_probabilities(docs):
    pictures = parse_svg(render(docs.confident))
    for ([text], [tree]), sentence in zip(pictures, docs.confident.sents, strict=True):
        assert tree.arcs() == arcs_of_doc(sentence, with_probs=True)
        log_prob = sentence._.parse_log_prob
        assert f"robability {np.exp(log_prob):.3g} (log {log_prob:.2f})" in text
        assert f"entropy {sentence._.parse_entropy:.2f} nats" in text


def test_probabilities_need_no_extensions(docs):
    from spacy.tokens import Span, Token

    before = render(docs.kbest)
    names = [(Token, "arc_prob"), *((Span, n) for n in ("parse_log_prob", "parse_entropy"))]
    names.append((Span, "parses"))
    for owner, name in names:
        owner.remove_extension(name)
    try:
        after = render(docs.kbest)
    finally:
        register_extensions()
    assert read_arcs(after) == read_arcs(before)


def read_arcs(markup):
    return [(texts, [tree.styles for tree in drawn]) for texts, drawn in parse_svg(markup)]


def test_one_sentence_or_several_docs(docs):
    first, second = read_arcs(render(docs.kbest))
    sentences = list(docs.kbest.sents)
    assert read_arcs(render(sentences[1])) == [second]
    assert read_arcs(render(docs.kbest[:])) == [first, second]
    assert read_arcs(render([sentences[1], docs.kbest])) == [second, first, second]


def test_labels_are_above_their_own_lines_and_numbers_below(docs):
    for svg in ElementTree.fromstring(f"<all>{render(docs.kbest)}</all>"):
        for tree in find(svg, "displacy"):
            for arrow in find(tree, "displacy-arrow"):
                [line], texts = find(arrow, "displacy-arc"), find(arrow, "displacy-label")[0]
                points = list(zip(*[iter(numbers(line))] * 2, strict=True))
                left, right, top = points[0][0], points[-1][0], min(y for _, y in points)
                label, *number = ((float(e.get("x")), float(e.get("y"))) for e in texts)
                assert top - 5 < label[1] < top
                if "displacy-root" in arrow.get("class") and number:
                    [(x, y)] = number
                    assert label[0] < left == right < x
                    assert y == label[1]
                    continue
                assert left - 0.1 <= label[0] <= right + 0.1
                assert all(top + 8 < y < top + 15 and x == label[0] for x, y in number)


def test_root_arrow_comes_from_above_all_arcs(docs):
    for _, [tree] in parse_svg(render(docs.plain)):
        [root] = find(tree.element, "displacy-root")
        [line] = find(root, "displacy-arc")
        x, top, end_x, bottom = numbers(line)
        assert x == end_x
        others = [numbers(e) for e in find(tree.element, "displacy-arc") if e is not line]
        assert all(top < min(points[1::2]) for points in others)
        assert {bottom, 0.0} == {end for _, start, *_, end in others for end in (start, end)}


# --- alternatives ------------------------------------------------------------------------------


def test_alternatives_are_drawn_below_the_parse(docs):
    pictures = parse_svg(render(docs.kbest))
    for (texts, drawn), sentence in zip(pictures, docs.kbest.sents, strict=True):
        parses = sentence._.parses
        assert len(texts) == len(drawn) == len(parses) == 5
        assert drawn[0].arcs() == arcs_of_doc(sentence, with_probs=True)
        for text, tree, parse in zip(texts[1:], drawn[1:], parses[1:], strict=True):
            assert tree.arcs() == arcs_of_parse(sentence, parse)
            assert f"probability {np.exp(parse.log_prob):.3g} (log {parse.log_prob:.2f})" in text


def test_max_alternatives(docs):
    for n in (0, 2):
        for texts, drawn in parse_svg(render(docs.kbest, max_alternatives=n)):
            assert len(texts) == len(drawn) == n + 1
            assert f"{n} of 4 alternatives shown" in texts[0]
    assert "shown" not in render(docs.kbest)


def test_captions_of_draws(sampled):
    texts, drawn = parse_one_svg(render(sampled, options={"highlight": "rebeccapurple"}))
    assert texts == [
        "Probability 0.5 (log -0.69); drawn 1 of 4 times",
        "Alternative 1: probability 0.3 (log -1.20); drawn 2 of 4 times; differs in dep(a, c)",
        "Alternative 2: probability 0.1 (log -2.30); drawn 1 of 4 times; "
        "differs in dep(b, a), ROOT(b)",
    ]
    assert [tree.arcs("color: rebeccapurple") for tree in drawn] == [
        set(),
        {Drawn("a", "c", "dep")},
        {Drawn("b", "a", "dep"), Drawn("b", "b", "ROOT")},
    ]


def test_one_word_is_certain():
    """And its probability is no negative zero."""
    doc = make_doc(["a"], [0], ["ROOT"])
    texts, [tree] = parse_one_svg(render(with_parses(doc, [[0]], [-1e-9])))
    assert texts == ["Probability 1 (log 0.00)"]
    assert tree.arcs() == {Drawn("a", "a", "ROOT")}


def test_parse_that_was_never_drawn(sampled):
    doc = make_doc(["a", "b", "c"], [1, 1, 0], ["dep", "ROOT", "dep"])
    doc.user_data.update(sampled.user_data)
    texts, drawn = parse_one_svg(render(doc))
    assert texts[0].startswith("Alternative 1: probability 0.5")
    assert len(texts) == 3
    assert len(drawn) == 4


def test_captions_number_words_that_occur_twice():
    doc = make_doc(["no", ",", "no"], [0, 2, 0], ["ROOT", "dep", "dep"])
    texts, _ = parse_one_svg(render(with_parses(doc, [[0, 2, 0], [0, 0, 0]], [-1.0, -2.0])))
    assert texts[1].endswith("differs in dep(no-1, ,)")


def test_captions_list_a_limited_number_of_arcs():
    words = [f"w{i}" for i in range(12)]
    doc = make_doc(words, [0] * 12, ["ROOT"] + ["dep"] * 11)
    chain = [0, *range(11)]
    texts, [_, other] = parse_one_svg(render(with_parses(doc, [[0] * 12, chain], [-1.0, -2.0])))
    assert texts[1].count("dep(") == 8
    assert texts[1].endswith("and 2 more")
    assert len(other.arcs(RED)) == 10


def test_long_captions_are_broken_into_lines():
    words = [*"abcdefgh"]
    doc = make_doc(["two", "words"], [0, 0], ["ROOT", "a-very-long-label-" * 4])
    doc = with_parses(doc, [[0, 0], [1, 1]], [-1.0, -2.0])
    [(key, stored)] = doc.user_data.items()
    names = [" ".join(words * 3)] * len(stored["alternatives"]["label_names"])
    alternatives = {**stored["alternatives"], "label_names": names}
    doc.user_data[key] = {**stored, "alternatives": alternatives}
    svg = ElementTree.fromstring(render(doc, options={"distance": 50}))
    [text] = find(svg, "displacy-caption")[1:]
    assert len(text) > 1
    assert all(len(line.text) * 13 * 0.4 < float(svg.get("width")) for line in text)
    assert [float(line.get("y")) for line in text] == [18.0 * (i + 1) for i in range(len(text))]
    assert captions(svg)[1].count("a b c d e f g h") == 6


def test_labels_are_drawn_over_longer_arcs():
    doc = make_doc([*"abcde"], [2, 3, 2, 2, 2], [*"uvRxy"])
    svg = ElementTree.fromstring(render(doc))
    arrows = find(svg, "displacy-arrow")
    labels = [text_of(find(arrow, "displacy-label")[0]) for arrow in arrows]
    assert labels[0] == "R"
    assert labels[-1] == "x"
    tops = [min(numbers(find(arrow, "displacy-arc")[0])[1::2]) for arrow in arrows]
    assert tops == sorted(tops)
    for arrow in arrows:
        names = [e.get("class") or tag(e) for e in arrow]
        assert names[-2:] == ["rect", "displacy-label"]
        [ground] = [e for e in arrow if tag(e) == "rect"]
        assert ground.get("fill") == "#ffffff"


def test_captions_and_trees_do_not_overlap(docs):
    svg = ElementTree.fromstring(render(next(docs.kbest.sents), options={"compact": True}))
    end = 0.0
    [ground, *parts] = svg
    assert ground.get("fill") == "#ffffff"
    for number, part in enumerate(parts):
        y = float(re.fullmatch(r"translate\(0,([\d.]+)\)", part.get("transform"))[1])
        [inner] = part
        lines = [
            float(e.get("y")) for e in inner.iter() if tag(e) in ("text", "tspan") and e.get("y")
        ]
        if number % 2 == 0:
            assert inner.get("class") == "displacy-caption"
        else:
            y += float(re.fullmatch(r"translate\(0,(-?[\d.]+)\)", inner.get("transform"))[1])
        # From the upper edge of the first line to the base of the last.
        assert y + min(lines) - 12.8 >= end
        end = y + max(lines)
    assert number + 1 == 2 * 5
    assert end < float(svg.get("height"))


# --- long sentences ----------------------------------------------------------------------------


def chain(n):
    """A sentence in which each word depends on the one before."""
    heads = [max(i - 1, 0) for i in range(n)]
    return make_doc([f"w{i}" for i in range(n)], heads, ["ROOT", *["x"] * (n - 1)]), heads


def moved(heads, **arcs):
    """A tree in which some words, as in w9=4, have another head."""
    return [arcs.get(f"w{i}", head) for i, head in enumerate(heads)]


def test_alternatives_of_long_sentences_have_the_columns_that_differ():
    doc, heads = chain(40)
    others = [moved(heads, w35=32), moved(heads, w3=1, w38=36)]
    texts, drawn = parse_one_svg(render(with_parses(doc, [heads, *others], [-1.0, -2.0, -3.0])))
    assert len(drawn[0].words) == 40
    assert len(drawn[0].arcs()) == 40
    # The ends of the new arcs and of those that they replace; single words between them stay.
    assert drawn[1].words == ["…", "w32", "w33", "w34", "w35", "…"]
    assert drawn[1].arcs(RED) == {Drawn("w32", "w35", "dep")}
    assert drawn[1].arcs() - drawn[1].arcs(RED) == {
        Drawn("w32", "w33", "x"),
        Drawn("w33", "w34", "x"),
    }
    assert drawn[2].words == ["w0", "w1", "w2", "w3", "…", "w36", "w37", "w38", "w39"]
    assert drawn[2].arcs(RED) == {Drawn("w1", "w3", "dep"), Drawn("w36", "w38", "dep")}
    assert texts[2].endswith("differs in dep(w1, w3), dep(w36, w38)")
    # On the left, where the picture starts.
    for tree in drawn[1:]:
        assert max(float(word.get("x")) for word in find(tree.element, "displacy-word")) < 1500


def test_a_root_that_differs_is_drawn_in_long_sentences():
    doc, heads = chain(20)
    other = moved(heads, w0=15, w15=15)
    _, [_, tree] = parse_one_svg(render(with_parses(doc, [heads, other], [-1.0, -2.0])))
    assert tree.words == ["w0", "…", "w14", "w15", "…"]
    assert tree.arcs(RED) == {Drawn("w15", "w15", "ROOT"), Drawn("w15", "w0", "dep")}


@pytest.mark.parametrize("n", [8, 9])
def test_short_sentences_and_single_parses_are_drawn_completely(n):
    doc, heads = chain(n)
    parses = with_parses(doc, [heads, moved(heads, w2=0)], [-1.0, -2.0])
    _, [_, tree] = parse_one_svg(render(parses))
    assert tree.words == ([f"w{i}" for i in range(n)] if n == 8 else ["w0", "w1", "w2", "…"])
    _, [tree] = parse_one_svg(render(with_parses(doc, [heads], [-1.0])))
    assert len(tree.words) == n


def test_long_sentences_from_right_to_left():
    doc, heads = chain(20)
    doc = make_doc([t.text for t in doc], heads, [t.dep_ for t in doc], lang="he")
    parses = with_parses(doc, [heads, moved(heads, w9=7)], [-1.0, -2.0])
    _, [_, tree] = parse_one_svg(render(parses))
    assert tree.words == ["…", "w9", "w8", "w7", "…"]
    assert tree.arcs(RED) == {Drawn("w7", "w9", "dep")}


# --- compact arcs ------------------------------------------------------------------------------


def test_compact_arcs_are_rectangular_and_lower():
    doc = make_doc([*"abcdefgh"], [0] * 8, ["ROOT", *["a:long:label"] * 7])
    heights = {}
    for compact in (False, True):
        svg = ElementTree.fromstring(render(doc, options={"compact": compact}))
        lines = [e.get("d") for e in find(svg, "displacy-arc")]
        assert [("C" in line) for line in lines] == [False] + [not compact] * 7
        tops = sorted(min(numbers(e)[1::2]) for e in find(svg, "displacy-arc"))
        heights[compact] = tops
        # Labels are not as high as the distance between two lines.
        assert min(b - a for a, b in pairwise(tops)) > 12
    assert heights[True][0] > heights[False][0]


# --- Docs that were changed --------------------------------------------------------------------


def test_sentences_with_merged_tokens_are_drawn_without_probabilities(docs):
    doc = docs.kbest.copy()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    first, second = parse_svg(render(doc))
    texts, [tree] = first
    assert texts == []
    assert tree.words[0] == "The cat"
    sentence = next(doc.sents)
    assert sentence[0]._.arc_prob is None
    assert tree.arcs() == {
        Drawn(token.head.text, token.text, label_with_prob(token))
        for token in sentence
        if not token.is_space
    }
    assert not any(re.search(r" [\d.]+$", arc.label) for arc in tree.arcs())
    # The sentence that was not changed.
    assert read_arcs(render(list(docs.kbest.sents)[1])) == [
        (second[0], [tree.styles for tree in second[1]])
    ]


def label_with_prob(token):
    prob = token._.arc_prob
    return token.dep_ if prob is None else f"{token.dep_} {prob:.2f}"


def test_a_head_set_by_hand_is_drawn_without_a_probability(docs):
    doc = docs.kbest.copy()
    sentence = list(doc.sents)[1]
    words = [token for token in sentence if not token.is_space]
    taken = {(i, h) for parse in sentence._.parses for i, h in enumerate(parse.heads.tolist())}
    token, head = next(
        (leaf, head)
        for leaf in words
        for head in words
        if leaf != head
        and not [*leaf.children]
        and (leaf.i - sentence.start, head.i - sentence.start) not in taken
    )
    token.head = head
    texts, drawn = parse_one_svg(render(sentence))
    assert Drawn(token.head.text, token.text, token.dep_) in drawn[0].arcs()
    assert len([arc for arc in drawn[0].arcs() if " " not in arc.label]) == 1
    assert texts[0] == f"Entropy {sentence._.parse_entropy:.2f} nats"
    # All five alternatives differ from the tree that it has now.
    assert len(drawn) == 6


def test_a_label_set_by_hand_is_drawn_with_the_probability_of_its_head(docs):
    doc = docs.kbest.copy()
    doc[0].dep_ = "changed"
    _, [tree, *_] = parse_one_svg(render(next(doc.sents)))
    [label] = [arc.label for arc in tree.arcs() if arc.label.startswith("changed")]
    assert label == f"changed {doc[0]._.head_prob:.2f} (head)"
    assert not any("(head)" in arc.label for arc in tree.arcs() if arc.label != label)


# --- words -------------------------------------------------------------------------------------


def test_whitespace_is_left_out(unsure):
    doc = unsure("  The cat\n\n saw  it .\n")
    assert sum(token.is_space for token in doc) == 4
    _, [tree, *_] = parse_one_svg(render(doc))
    assert tree.words == ["The", "cat", "saw", "it", "."]
    assert len(tree.arcs()) == 5


def test_whitespace_that_is_a_head_is_drawn():
    doc = make_doc(["go", " ", "home", " "], [0, 0, 1, 2], ["ROOT", "dep", "obj", ""])
    _, [tree] = parse_one_svg(render(doc))
    assert tree.words == ["go", "␣", "home"]
    assert tree.arcs() == {
        Drawn("go", "go", "ROOT"),
        Drawn("go", "␣", "dep"),
        Drawn("␣", "home", "obj"),
    }


def test_missing_heads_are_not_drawn():
    doc = make_doc(["a", "b", "c"], [1, 1, None], ["det", "ROOT", None])
    _, [tree] = parse_one_svg(render(doc))
    assert tree.words == ["a", "b", "c"]
    assert tree.arcs() == {Drawn("b", "a", "det"), Drawn("b", "b", "ROOT")}


@pytest.mark.parametrize("path", [None, "out.html", "out.svg"])
def test_markup_in_texts_is_escaped(path, tmp_path):
    words = ["<script>x()</script>", "&amp;", "</svg>", "'", "\x07"]
    deps = ["<script>R&", "<i>", "&", '"', "x"]
    doc = make_doc(words, [0] * 5, deps, tags=["</text>", "&lt;", '"', "'", "\x00"])
    doc[0].lemma_ = "<script>"
    other = with_parses(doc, [[0, 0, 1, 1, 1]], [-1.0])
    options = {"fine_grained": True, "add_lemma": True, "font": '"Open Sans", serif'}
    target = tmp_path / (path or "unused")
    markup = render(other, options=options, path=None if path is None else target)
    if path is not None:
        markup = target.read_text(encoding="utf8")
    if path == "out.html":
        assert "script" not in Page(markup).attributes
        markup = re.search(r"<svg.*</svg>", markup, re.DOTALL)[0]
    svg = ElementTree.fromstring(markup)
    assert {tag(e) for e in svg.iter()} == {"svg", "g", "path", "rect", "text", "tspan"}
    assert 'font-family: "Open Sans", serif;' in svg.get("style")
    tree = trees(svg)[0]
    assert tree.words == [*words[:4], "\ufffd"]
    tags, lemmas = tree.lines
    assert tags == ["</text>", "&lt;", '"', "'", "\ufffd"]
    assert lemmas[0] == "<script>"
    assert {arc.label for arc in tree.arcs()} == set(deps)
    assert captions(svg)[-1].endswith("dep(&amp;, </svg>), dep(&amp;, '), dep(&amp;, \ufffd)")


def places_of(svg):
    return [float(word.get("x")) for word in find(svg, "displacy-word")]


def test_texts_fit_between_words():
    long = "x" * 30
    doc = make_doc(
        [long, long, "y" * 80, "z"], [1, 1, 1, 2], [*"abc", "very:long:label:indeed:it:is"]
    )
    svg = ElementTree.fromstring(render(doc))
    words, places = find(svg, "displacy-word"), places_of(svg)
    assert re.fullmatch("y{28,36}…", words[2].text)
    # An x is half as wide as the font size.
    assert places[0] >= 30 * 15 / 4
    assert places[1] - places[0] >= 30 * 7.5
    assert places[3] - places[2] >= 28 * 12 * 0.4
    assert places[-1] + 4 < float(svg.get("width")) <= places[-1] + 100


def distance(word, second="b", label="x", **options):
    """How far the first two of three words are apart."""
    doc = make_doc([word, second, "c"], [0, 0, 0], ["ROOT", label, "x"])
    first, second, _ = places_of(ElementTree.fromstring(render(doc, options=options)))
    return second - first


@pytest.mark.parametrize("compact", [False, True])
def test_words_and_labels_decide_how_far_words_are_apart(compact):
    of = partial(distance, compact=compact)
    assert 15 < of("a") < 40 < of("a" * 10) < 90
    # Letters of 12 pixels, half as wide as high.
    assert 30 * 6 <= of("a", label="x" * 30) <= 30 * 8


def test_wide_letters_take_more_room():
    assert distance("語" * 15, "語" * 15) >= 15 * 15 > distance("y" * 15, "y" * 15)
    assert distance("e\u0301" * 10, "e\u0301" * 10) == distance("e" * 10, "e" * 10)


SENTENCE = (
    "The committee that reviewed the proposals last week decided to postpone its final vote "
    "because several members had not yet received the new reports ."
)
HEADS = [1, 8, 3, 1, 5, 3, 7, 3, 8, 10, 8, 13, 13, 10, 20, 16, 20, 20, 20, 20, 10, 23, 23, 20, 8]
LABELS = (
    "det nsubj nsubj acl:relcl det obj amod obl:tmod ROOT mark xcomp nmod:poss amod obj mark amod "
    "nsubj aux advmod advmod advcl det amod obj punct"
)


def with_confidence(doc):
    probs = np.full(len(doc), 0.8, dtype=np.float32)
    confidence = {"head_probs": probs, "log_prob": -1.0, "entropy": 1.0}
    deps = [token.dep_ for token in doc]
    label_names = sorted(set(deps))
    labels = np.array([label_names.index(dep) for dep in deps], dtype=np.int32)
    of_labels = {"labels": labels, "arc_probs": probs, "label_names": label_names}
    details = {"confidence": confidence, "label_confidence": of_labels}
    for key, stored in doc.user_data.items():
        doc.user_data[key] = {**stored, **details}
    return doc


def test_25_words_with_probabilities_are_legible_without_scrolling():
    doc = make_doc(SENTENCE.split(), HEADS, LABELS.split(), pos=["NOUN"] * 25)
    doc = with_confidence(with_parses(doc, [HEADS, moved(HEADS, w20=8)], [-1.0, -2.0]))
    [svg] = re.findall("<svg.*</svg>", render(doc, page=True), re.DOTALL)
    svg = ElementTree.fromstring(svg)
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert svg.get("viewBox") == f"0 0 {width:g} {height:g}"
    style = dict(part.split(": ", 1) for part in svg.get("style").split("; "))
    assert (style["max-width"], style["height"]) == ("100%", "auto")
    # Words of 15 pixels have at least 9 in a notebook's cell or a page.
    least = float(style["min-width"].removesuffix("px"))
    assert 0.6 * width - 1 <= least <= 840
    assert height < width


@pytest.mark.parametrize("compact", [False, True])
def test_labels_neither_overlap_nor_leave_their_arcs(compact):
    doc = make_doc(SENTENCE.split(), HEADS, LABELS.split())
    doc = with_confidence(with_parses(doc, [HEADS], [-1.0]))
    boxes = []
    svg = ElementTree.fromstring(render(doc, options={"compact": compact}))
    for arrow in find(svg, "displacy-arrow"):
        path = numbers(find(arrow, "displacy-arc")[0])
        for text in find(arrow, "displacy-label")[0]:
            size = float(re.search(r"[\d.]+", text.get("style"))[0])
            x, y = float(text.get("x")), float(text.get("y"))
            # Most letters are half as wide as high, or less.
            half = len(text_of(text)) * size * 0.5 / 2
            if "displacy-root" not in arrow.get("class"):
                assert path[0] < x - half < x + half < path[-2]
            boxes.append((x - half, x + half, y - 0.7 * size, y))
    assert len(boxes) == 2 * 25
    for i, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[:i]:
            assert (
                right < other_left or other_right < left or bottom < other_top or other_bottom < top
            )


def random_projective_tree(rng, start, end, head, heads):
    """Give the words from `start` to `end` heads within them, one of them `head`."""
    if start == end:
        return
    root = int(rng.integers(start, end))
    heads[root] = root if head is None else head
    for left, right in ((start, root), (root + 1, end)):
        cuts = sorted({left, right, *rng.integers(left, right + 1, size=2).tolist()})
        for a, b in pairwise(cuts):
            random_projective_tree(rng, a, b, root, heads)


@pytest.mark.parametrize("seed", range(3))
def test_arcs_of_projective_trees_do_not_cross(seed):
    rng = np.random.default_rng(seed)
    heads = [0] * 18
    random_projective_tree(rng, 0, 18, None, heads)
    doc = make_doc(["word"] * 18, heads, ["ROOT" if i == h else "x" for i, h in enumerate(heads)])
    svg = ElementTree.fromstring(render(doc, options={"compact": True}))
    paths = [numbers(e) for e in find(svg, "displacy-arc")]
    boxes = [(path[0], path[-2], min(path[1::2])) for path in paths if len(path) > 4]
    assert len(boxes) == 17
    for left, right, top in boxes:
        for other_left, other_right, other_top in boxes:
            if other_left < left < other_right or other_left < right < other_right:
                assert other_left < left < right < other_right
                assert other_top < top


def test_alternatives_are_exactly_below_the_parse_and_less_prominent(sampled):
    svg = ElementTree.fromstring(render(sampled))
    found = find(svg, "displacy")
    assert len(found) == 3
    assert len({tuple(places_of(tree)) for tree in found}) == 1
    drawn = trees(svg)
    assert set(drawn[0].styles.values()) == {""}
    assert set(drawn[1].styles.values()) == {"opacity: 0.65", f"color: {RED}; font-weight: bold"}


def test_arcs_that_differ_can_be_told_without_colours(sampled):
    svg = ElementTree.fromstring(render(sampled))
    parents = {child: parent for parent in svg.iter() for child in parent}
    n_dashed = 0
    for arrow in find(svg, "displacy-arrow"):
        differs = RED in (parents[arrow].get("style") or "")
        [line] = find(arrow, "displacy-arc")
        assert (line.get("stroke-dasharray") is not None) == differs
        assert ("bold" in (parents[arrow].get("style") or "")) == differs
        n_dashed += differs
    assert n_dashed == 3


# --- from right to left ------------------------------------------------------------------------


def test_right_to_left(tmp_path):
    words = ["הילדה", "קראה", "ספר", "טוב"]
    doc = make_doc(words, [1, 1, 1, 2], ["nsubj", "ROOT", "obj", "amod"], lang="he")
    with_parses(doc, [[1, 1, 1, 2], [1, 1, 1, 1]], [-0.1, -2.0])
    texts, drawn = parse_one_svg(render(doc))
    for tree in drawn:
        assert tree.words == words[::-1]
        places = [float(word.get("x")) for word in find(tree.element, "displacy-word")]
        assert places == sorted(places)
        # Lines, and so labels, still run from left to right.
        for line in find(tree.element, "displacy-arc"):
            assert numbers(line)[0] <= numbers(line)[-2]
        assert 'side="right"' not in ElementTree.tostring(tree.element, encoding="unicode")
    assert drawn[0].arcs() == arcs_of_doc(doc, with_probs=False)
    assert texts[1].endswith(f"dep(\u2068{words[1]}\u2069, \u2068{words[3]}\u2069)")
    render(doc, path=tmp_path / "he.html")
    page = Page((tmp_path / "he.html").read_text(encoding="utf8"))
    assert page.attributes["html"] == [{"lang": "he"}]
    assert "direction: rtl" in page.attributes["body"][0]["style"]
    styles = [e["style"] for e in page.attributes["text"] if "direction" in e.get("style", "")]
    assert styles == ["direction: rtl"] * 2 * len(words)
    assert "padding: 2rem 1rem" in page.attributes["body"][0]["style"]
    # The page's direction reverses neither captions nor labels.
    assert page.attributes["svg"][0]["style"].endswith("direction: ltr")


def test_direction_of_single_words_does_not_spread():
    words = ["saw", "קראה", "\u202eevil", "\u2069x"]
    doc = with_parses(
        make_doc(words, [0] * 4, ["ROOT", *"abc"]), [[0] * 4, [1, 1, 1, 1]], [-1.0, -2.0]
    )
    texts, [tree, _] = parse_one_svg(render(doc))
    assert tree.words == words
    # In captions, the Hebrew word is isolated, and the others cannot turn the rest around.
    he = "\u2068קראה\u2069"
    assert texts[1].endswith(f"dep({he}, saw), ROOT({he}), dep({he}, evil), dep({he}, x)")


# --- options -----------------------------------------------------------------------------------


def test_style_options_work_as_in_displacy():
    style = {
        "compact": True,
        "color": "white",
        "bg": "#09a3d5",
        "font": "Source Sans Pro",
        "distance": 333,
        "offset_x": 77,
        "arrow_stroke": 3,
        "arrow_width": 9,
        "arrow_spacing": 13,
        "word_spacing": 60,
    }
    doc = make_doc(["a", "b", "c"], [0, 0, 0], ["ROOT", "x", "y"])
    ours = ElementTree.fromstring(render(doc, options=style))
    theirs = ElementTree.fromstring(displacy.render(doc, options=style, jupyter=False))
    assert places_of(ours) == places_of(theirs) == [77, 410, 743]
    # Or browsers that darken pages leave white letters on a white ground.
    assert "color-scheme: only light" in ours.get("style")
    for name in ("color: white", "font-family: Source Sans Pro"):
        assert name in ours.get("style")
        assert name in theirs.get("style")
    ground = ours[0]
    assert ground.attrib == {
        "width": ours.get("width"),
        "height": ours.get("height"),
        "fill": "#09a3d5",
    }
    assert "background: #09a3d5" in theirs.get("style")
    for svg in (ours, theirs):
        assert {e.get("stroke-width") for e in find(svg, "displacy-arc")} == {"3px"}
    heads = [numbers(e) for e in find(ours, "displacy-arrowhead")]
    assert {round(points[4] - points[2], 1) for points in heads} == {9.0}
    assert {float(word.get("y")) for word in find(ours, "displacy-word")} == {60}
    # Three arcs end at the first word.
    ends = sorted(numbers(e)[0] for e in find(ours, "displacy-arc"))
    assert ends == [64, 77, 90]


def test_tags_and_lemmas():
    doc = make_doc(["a", "b"], [0, 0], ["ROOT", "x"], tags=["T1", "T2"], pos=["NOUN", "VERB"])
    for token in doc:
        token.lemma_ = token.text.upper()
    assert parse_one_svg(render(doc))[1][0].lines == [["NOUN", "VERB"], []]
    options = {"fine_grained": True, "add_lemma": True}
    assert parse_one_svg(render(doc, options=options))[1][0].lines == [["T1", "T2"], ["A", "B"]]


def punctuated():
    words = ["«", "(", "Go", ",", "dog", "!", ")", "He", ".", "x"]
    heads = [2, 2, 2, 4, 2, 2, 2, 2, 7, 8]
    deps = ["punct", "punct", "ROOT", "punct", "vocative", "punct", "punct", "nsubj", "punct", "y"]
    spaces = [False, False, False, True, False, False, True, False, True, False]
    return make_doc(words, heads, deps, spaces=spaces)


def test_punctuation_is_collapsed_on_request_only():
    doc = punctuated()
    _, [tree] = parse_one_svg(render(doc))
    assert tree.arcs() == arcs_of_doc(doc, with_probs=False)
    _, [tree] = parse_one_svg(render(doc, options={"collapse_punct": True}))
    # Opening marks have no word before them, and the full stop has a dependent.
    assert tree.words == ["«", "(", "Go,", "dog!)", "He", ".", "x"]
    assert tree.arcs() == {
        Drawn("Go,", "Go,", "ROOT"),
        Drawn("Go,", "«", "punct"),
        Drawn("Go,", "(", "punct"),
        Drawn("Go,", "dog!)", "vocative"),
        Drawn("Go,", "He", "nsubj"),
        Drawn("He", ".", "punct"),
        Drawn(".", "x", "y"),
    }


def test_punctuation_that_is_a_head_in_an_alternative_stays():
    spaces = [False, True, False]
    doc = make_doc(["go", "!", "now"], [0, 0, 0], ["ROOT", "dep", "dep"], spaces=spaces)
    options = {"collapse_punct": True}
    with_parses(doc, [[0, 0, 0], [0, 0, 1]], [-1.0, -2.0])
    _, drawn = parse_one_svg(render(doc, options=options))
    assert [tree.words for tree in drawn] == [["go", "!", "now"]] * 2
    _, drawn = parse_one_svg(render(doc, options=options, max_alternatives=0))
    assert [tree.words for tree in drawn] == [["go!", "now"]]


def phrases():
    return make_doc(
        ["The", "big", "cat", "saw", "a", "dog"],
        [2, 2, 3, 3, 5, 3],
        ["det", "amod", "nsubj", "ROOT", "det", "dobj"],
        pos=["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN"],
    )


def test_noun_phrases_are_collapsed():
    _, [tree] = parse_one_svg(render(phrases(), options={"collapse_phrases": True}))
    assert tree.words == ["The big cat", "saw", "a dog"]
    assert tree.lines[0] == ["NOUN", "VERB", "NOUN"]
    assert tree.arcs() == {
        Drawn("saw", "The big cat", "nsubj"),
        Drawn("saw", "saw", "ROOT"),
        Drawn("saw", "a dog", "dobj"),
    }


def test_noun_phrases_that_an_alternative_breaks_stay():
    broken = with_parses(phrases(), [[2, 3, 3, 3, 5, 3]], [-2.0])
    _, [tree, other] = parse_one_svg(render(broken, options={"collapse_phrases": True}))
    assert tree.words == other.words == ["The", "big", "cat", "saw", "a dog"]
    assert Drawn("saw", "big", "dep") in other.arcs()


# --- output ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.html", "out.HTM"])
def test_page_has_a_figure_for_each_sentence(docs, tmp_path, name):
    path = tmp_path / name
    assert render(docs.kbest, path=str(path), jupyter=True) is None
    assert list(tmp_path.iterdir()) == [path]
    markup = path.read_bytes().decode("utf8")
    assert markup == render(docs.kbest, page=True)
    assert markup.startswith("<!DOCTYPE html>")
    # Nothing that could occur twice in a page.
    assert not re.search(r"\b(id|href)=", markup)
    page = Page(markup)
    assert page.attributes["meta"] == [{"charset": "utf-8"}]
    assert len(page.attributes["figure"]) == 2
    assert page.attributes["html"] == [{"lang": "xx"}]
    svgs = "".join(re.findall(r"<figure.*?>(.*?)</figure>", markup, re.DOTALL))
    assert read_arcs(svgs) == read_arcs(render(docs.kbest))


def test_minify(docs):
    short, long = render(docs.kbest, minify=True), render(docs.kbest)
    assert "\n" not in short
    assert "\n" in long
    assert read_arcs(short) == read_arcs(long)


def test_svg_file_stacks_all_sentences(docs, tmp_path):
    path = tmp_path / "out.svg"
    assert render(docs.kbest, path=path) is None
    svg = ElementTree.parse(path).getroot()
    assert tag(svg) == "svg"
    apart = parse_svg(render(docs.kbest))
    assert captions(svg) == [text for texts, _ in apart for text in texts]
    assert [t.styles for t in trees(svg)] == [t.styles for _, drawn in apart for t in drawn]
    heights = [
        float(part.get("height"))
        for part in ElementTree.fromstring(f"<all>{render(docs.kbest)}</all>")
    ]
    assert float(svg.get("height")) == pytest.approx(sum(heights))
    shifts = [re.search(r",([\d.]+)\)", part.get("transform"))[1] for part in svg[1:]]
    assert [float(shift) for shift in shifts] == pytest.approx([0, heights[0]])


@pytest.mark.parametrize("text", ["", " ", "\n \n"])
def test_nothing_to_draw(docs, unsure, text, tmp_path):
    doc = unsure(text)
    assert render(doc) == ""
    assert "svg" not in Page(render(doc, page=True)).attributes
    render(doc, path=tmp_path / "out.svg")
    assert find(ElementTree.parse(tmp_path / "out.svg").getroot(), "displacy") == []
    assert render([]) == ""
    assert render(doc[:0]) == render(docs.kbest[2:2]) == ""


@pytest.mark.parametrize("name", ["missing/out.html", "folder.svg"])
def test_file_in_a_missing_folder_or_over_a_folder(docs, tmp_path, name):
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(OSError, match=f"cannot write the picture to .*{name}.*expected a file"):
        render(docs.kbest, path=tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.svg"]


def test_failed_write_leaves_the_file_unchanged(docs, tmp_path, monkeypatch):
    path = tmp_path / "out.svg"
    path.write_text("before")
    write_text = Path.write_text

    def full(self, text, **kwargs):
        write_text(self, text[:50], **kwargs)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left") as caught:
        render(docs.kbest, path=path)
    assert caught.value.errno == 28
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def shown(monkeypatch):
    """The pictures that a notebook displays."""
    found = []
    module = types.ModuleType("IPython.display")
    module.HTML = str
    module.display = found.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return found


def test_notebooks_show_pictures(docs, shown, monkeypatch):
    assert render(docs.kbest, jupyter=True) is None
    monkeypatch.setattr("spacy_rootmind.rendering.api.is_in_jupyter", lambda: True)
    assert render(docs.kbest) is None
    assert len(shown) == 2
    for markup in shown:
        span = re.fullmatch(r'<span class="tex2jax_ignore">(.*)</span>', markup, re.DOTALL)
        assert read_arcs(span[1]) == read_arcs(render(docs.kbest, jupyter=False))
    assert len(shown) == 2


def test_displacys_wrapper_is_called(docs, monkeypatch):
    monkeypatch.setattr(displacy, "RENDER_WRAPPER", lambda markup: f"<div>{markup}</div>")
    assert re.fullmatch(r"<div><svg.*</svg>\s*</div>", render(docs.kbest), re.DOTALL)


# --- errors ------------------------------------------------------------------------------------


def test_docs_and_spans_that_cannot_be_drawn(docs):
    doc = spacy.blank("xx")("Not parsed.")
    for item in (doc, doc[:2], [doc]):
        with pytest.raises(ValueError, match=r"'Not parsed\.' is not parsed: expected heads"):
            render(item)
    end = next(docs.kbest.sents).end
    for start, stop in ((1, 3), (0, end + 1), (1, len(docs.kbest))):
        with pytest.raises(ValueError, match=r"part of a sentence: expected whole sentences"):
            render(docs.kbest[start:stop])
    for item in ("text", [1], [["x"]]):
        with pytest.raises(TypeError, match="expected a Doc or a Span to draw, received"):
            render(item)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"options": {"colour": "red"}}, "received 'colour'; the options are .*color"),
        ({"options": {"ents": ["ORG"]}}, "options of a dependency picture, received 'ents'"),
        ({"options": {"compact": "yes"}}, "True or False for option 'compact', received 'yes'"),
        ({"options": {"bg": 3}}, "expected a string for option 'bg', received 3"),
        ({"options": {"distance": "wide"}}, "number of pixels.* 'distance', received 'wide'"),
        ({"options": {"distance": -1}}, "expected a number of pixels"),
        ({"options": {"offset_x": float("nan")}}, "expected a number of pixels"),
        ({"options": {"word_spacing": True}}, "expected a number of pixels"),
        ({"path": "out.png"}, r"expected a file name that ends with \.html"),
        ({"path": "out"}, r"expected a file name that ends with \.html"),
        ({"path": "out.svg", "page": True}, r"ends with \.html for page=True, received"),
        ({"max_alternatives": -1}, "expected max_alternatives of 0 or more, received -1"),
    ],
)
def test_wrong_arguments(docs, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=says):
        render(docs.kbest, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_heads_outside_the_sentence():
    doc = make_doc(["a", "b", "c", "d"], [2, 1, 2, 1], ["x", "ROOT", "ROOT", "x"])
    assert [len(sentence) for sentence in doc.sents] != [4]
    with pytest.raises(ValueError, match=r"has head \d, outside its sentence: expected"):
        render(doc)


# --- import ------------------------------------------------------------------------------------


def test_render_is_imported_from_the_package():
    from spacy_rootmind.rendering import api

    assert spacy_rootmind.render is api.render
    assert "render" in dir(spacy_rootmind)
    assert set(spacy_rootmind.__all__) <= set(dir(spacy_rootmind))
    with pytest.raises(AttributeError, match="'spacy_rootmind' has no attribute 'draw'"):
        _ = spacy_rootmind.draw
