"""The function `render`: pictures of parses, their probabilities and alternatives."""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Span
from spacy.util import is_in_jupyter

from spacy_rootmind import compat
from spacy_rootmind.compat import TPL_PAGE, minify_html
from spacy_rootmind.rendering.drawing import draw_sentence, runs_rtl
from spacy_rootmind.rendering.svg import complete_svg, draw_picture, stack
from spacy_rootmind.rendering.text import clean

# Options that displaCy has as well, and the colour of arcs that the parse does not have.
DEFAULTS: dict[str, bool | str] = {
    "add_lemma": False,
    "fine_grained": False,
    "bg": "#ffffff",
    "color": "#000000",
    "font": "Arial, Helvetica, Liberation Sans, sans-serif",
    "highlight": "#d1242f",
}
# Like displaCy's, but as wide as the page; a very wide picture is scrolled by itself.
FIGURE = """
<figure style="margin: 0 0 3rem; overflow-x: auto">{content}</figure>
"""


def render(
    docs: Doc | Span | Iterable[Doc | Span],
    *,
    page: bool = False,
    minify: bool = False,
    jupyter: bool | None = None,
    options: Mapping[str, Any] | None = None,
    path: str | Path | None = None,
    max_alternatives: int = 5,
) -> str | None:
    """Draw the parse of each sentence, with probabilities and alternatives if the Doc has them.

    If the Doc was parsed with `confidence`, each arc has its label and the probability of both
    together, or if that is not known, of its head ("(head)"). If it was parsed with `alternatives`,
    those that differ from the parse are drawn below it, in order and each tree once; the arcs that
    differ have another colour, dashes and bold labels, and are listed in the caption.
    In a sentence of more than eight words, alternatives have only the words of arcs that differ,
    with "…" for the others. If a sentence has other tokens or boundaries than were parsed, its
    picture has the tree alone; if a token has another head, neither this head nor the tree has a
    probability.

    A picture is as wide as its words and labels need. In HTML and in a notebook it shrinks to the
    width of the page, to 60 percent of its size at least: about 25 words fit a notebook's cell.
    SVG that is returned or written keeps its size.

    Parameters
    ----------
    docs : Doc, Span, or an iterable of them
        What to draw. A Span must consist of whole sentences.
    page : bool
        Whether to return a complete HTML page instead of SVG. HTML files are always complete pages.
    minify : bool
        Whether to remove line breaks and indentation.
    jupyter : bool, optional
        Whether to show the picture in a notebook instead of returning it; None detects a notebook.
    options : dict, optional
        As for displaCy, `add_lemma`, `fine_grained`, `bg`, `color` and `font`. `highlight` is the
        colour of arcs that are not in the parse.
    path : str or Path, optional
        File to write instead of showing or returning the picture: an HTML page, or one SVG if the
        name ends with `.svg`.
    max_alternatives : int
        Most alternatives to draw per sentence.

    Returns
    -------
    str or None
        SVG or HTML; None if the picture was shown or written.

    Raises
    ------
    ValueError
        If a Doc is not parsed, a head lies outside its sentence, a Span is part of a sentence,
        or an argument is not as described.
    TypeError
        If `docs` is neither a Doc, a Span nor an iterable of them.
    OSError
        If the file cannot be written. An existing file is left unchanged.
    """
    settings = check_options(options or {})
    target = None if path is None else check_path(path, page=page)
    is_svg = target is not None and target.suffix.lower() == ".svg"
    is_page = page or (target is not None and not is_svg)
    is_shown = target is None and (is_in_jupyter() if jupyter is None else jupyter)
    if max_alternatives < 0:
        raise ValueError(f"expected max_alternatives of 0 or more, received {max_alternatives}")
    spans = list(find_sentences(docs))
    pictures = [
        draw_picture(
            draw_sentence(span, settings, max_alternatives), settings, is_rtl=runs_rtl(span)
        )
        for span in spans
    ]
    lang, is_rtl = (spans[0].doc.lang_, runs_rtl(spans[0])) if spans else ("", False)
    if is_svg:
        markup = complete_svg(stack(pictures, is_rtl=is_rtl), settings, lang, in_page=False)
    else:
        svgs = [
            complete_svg(picture, settings, span.doc.lang_, in_page=is_page or is_shown)
            for span, picture in zip(spans, pictures, strict=True)
        ]
        markup = html_page(svgs, lang, is_rtl=is_rtl) if is_page else "".join(svgs)
    markup = minify_html(markup) if minify else markup.strip()
    if target is None and compat.RENDER_WRAPPER is not None:
        markup = compat.RENDER_WRAPPER(markup)
    if target is not None:
        write(target, markup)
    elif is_shown:
        show(markup)
    else:
        return markup
    return None


# --- arguments ---------------------------------------------------------------------------------


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check options and fill in the defaults."""
    settings: dict[str, Any] = dict(DEFAULTS)
    for name, value in options.items():
        if name not in DEFAULTS:
            raise ValueError(
                f"expected options of a dependency picture, received {name!r}; the options are "
                f"{', '.join(sorted(DEFAULTS))}"
            )
        kind, expected = (
            (bool, "True or False") if isinstance(DEFAULTS[name], bool) else (str, "a string")
        )
        if not isinstance(value, kind):
            raise ValueError(f"expected {expected} for option {name!r}, received {value!r}")
        settings[name] = escape(clean(value)) if isinstance(value, str) else value
    return settings


def check_path(path: str | Path, *, page: bool) -> Path:
    """Check that a file's name ends with the suffix of a format that can be written."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (".html", ".htm", ".svg"):
        raise ValueError(
            f"expected a file name that ends with .html, .htm or .svg, received {str(path)!r}"
        )
    if suffix == ".svg" and page:
        raise ValueError(
            f"expected a file name that ends with .html for page=True, received {str(path)!r}; "
            f"rename the file or pass page=False"
        )
    return target


def find_sentences(docs: Doc | Span | Iterable[Doc | Span]) -> Iterator[Span]:
    """Yield the sentences to draw, without those that are only whitespace."""
    for item in [docs] if isinstance(docs, Doc | Span) else docs:
        if not isinstance(item, Doc | Span):
            raise TypeError(f"expected a Doc or a Span to draw, received {type(item).__name__}")
        doc = item.doc
        if not doc.has_annotation("DEP"):
            raise ValueError(
                f"the Doc {doc.text[:40]!r} is not parsed: expected heads and labels, received "
                f"none; process it with a pipeline that has `root_mst` first"
            )
        sentences = list(doc.sents) if len(item) else []
        if isinstance(item, Span) and sentences:
            sentences = [s for s in sentences if s.start < item.end and item.start < s.end]
            start, end = sentences[0].start, sentences[-1].end
            if (item.start, item.end) != (start, end):
                raise ValueError(
                    f"the Span {item.text[:40]!r} is part of a sentence: expected whole sentences, "
                    f"tokens {start} to {end - 1}, received {item.start} to {item.end - 1}; pass "
                    f"`span.sent`"
                )
        yield from (sent for sent in sentences if not all(token.is_space for token in sent))


# --- output ------------------------------------------------------------------------------------


def html_page(svgs: Sequence[str], lang: str, *, is_rtl: bool) -> str:
    """Write displaCy's page with one figure per sentence and the encoding declared."""
    content = "".join(FIGURE.format(content=svg) for svg in svgs)
    # Without the declaration, browsers guess a file's encoding.
    template = TPL_PAGE.replace("<head>", '<head>\n        <meta charset="utf-8">')
    # Wide pictures need the width of the page.
    template = template.replace("padding: 4rem 2rem", "padding: 2rem 1rem")
    return template.format(content=content, lang=escape(lang), dir="rtl" if is_rtl else "ltr")


def write(path: Path, markup: str) -> None:
    """Write a file completely, or not at all."""
    # No longer than most names, which may be as long as the system allows.
    partial = path.with_name(f".{uuid.uuid4().hex[:8]}")
    try:
        try:
            partial.write_text(markup, encoding="utf8")
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write the picture to {str(path)!r}: {error.strerror}; expected a file in an "
            f"existing folder with write permission",
        ) from error


def show(markup: str) -> None:
    """Show a picture in a notebook, as displaCy does."""
    from IPython.display import HTML, display

    # The class prevents MathJax from reading dollar signs as formulas.
    display(HTML(f'<span class="tex2jax_ignore">{markup}</span>'))
