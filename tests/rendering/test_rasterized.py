"""Pictures as other programs than browsers draw them, here CairoSVG."""

import io
from pathlib import Path

import numpy as np
import pytest
import spacy
from PIL import Image, ImageColor
from spacy.tokens import Doc

from spacy_rootmind import render
from spacy_rootmind.rendering import svg
from spacy_rootmind.rendering.drawing import draw_sentence
from spacy_rootmind.rendering.layout import MARGIN

# OSError: CairoSVG is there, but not the library that it is for.
cairosvg = pytest.importorskip(
    "cairosvg", reason="needs CairoSVG and libcairo", exc_type=(ImportError, OSError)
)

ROOT = Path(__file__).parents[2]


def rasterize(picture):
    """Draw a picture; return its pixels, of shape (height, width, 4)."""
    png = cairosvg.svg2png(bytestring=picture.encode())
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(int)


def share_of(pixels, color):
    """Find the share of pixels that have a colour."""
    return (pixels[..., :3] == ImageColor.getrgb(color)[:3]).all(axis=-1).mean()


def check_picture(picture):
    """Check that a picture is opaque, mostly its ground, and has writing on all of its height."""
    pixels = rasterize(picture)
    assert (pixels[..., 3] == 255).all()
    assert 0.7 < share_of(pixels, "#ffffff") < 0.99
    assert share_of(pixels, "#000000") > 0.002
    inked = (pixels[..., :3] != pixels[0, 0, :3]).any(axis=(1, 2))
    assert inked[: len(inked) // 3].any()
    assert inked[-len(inked) // 3 :].any()


@pytest.fixture(scope="module")
def doc():
    words, heads = ["She", "left", "."], [1, 1, 1]
    return Doc(spacy.blank("xx").vocab, words=words, heads=heads, deps=["nsubj", "root", "punct"])


def test_pictures_are_drawn_in_their_colours(doc):
    check_picture(render(doc))


def test_captions_end_within_the_picture(doc, monkeypatch):
    """In the font that is there, which need not be the one whose widths are assumed."""
    caption = "Alternative 2: probability 0.00266 (log -5.93)"
    drawing = draw_sentence(doc[:], 0)[0]._replace(caption=caption)
    monkeypatch.setattr(svg, "draw_sentence", lambda *args: [drawing])
    pixels = rasterize(render(doc))
    inked = np.flatnonzero((pixels[..., :3] != 255).any(axis=(0, 2)))
    width = pixels.shape[1]
    assert width / 2 < inked.max() < width - MARGIN / 2


def test_picture_of_the_readme_is_drawn():
    picture = (ROOT / "docs" / "pictures" / "parse.svg").read_text(encoding="utf8")
    check_picture(picture)
    # The arc in which the alternative differs.
    assert share_of(rasterize(picture), "#d1242f") > 0
