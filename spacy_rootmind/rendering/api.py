"""The function `render`: pictures of parses, their probabilities and alternatives."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from spacy.tokens import Doc, Span
from spacy.util import is_in_jupyter
from spacy.vocab import Vocab

from spacy_rootmind.rendering.drawing import runs_rtl
from spacy_rootmind.rendering.svg import sentence_svg

# Browsers guess the encoding of a file that declares none.
PAGE = """
<!DOCTYPE html>
<html lang="{lang}">
    <head><meta charset="utf-8"><title>Parses</title></head>
    <body style="padding: 2rem 1rem; direction: {direction}">{content}</body>
</html>
"""
# As wide as the page; a very wide picture is scrolled by itself.
FIGURE = """
<figure style="margin: 0 0 3rem; overflow-x: auto">{content}</figure>
"""


def render(
    docs: Doc | Span | Iterable[Doc | Span],
    *,
    page: bool = False,
    jupyter: bool | None = None,
    max_alternatives: int = 5,
) -> str | None:
    """Draw the parse of each sentence, with probabilities and alternatives if the Doc has them.

    If the Doc was parsed with `confidence`, each arc has its label and the probability of both
    together. If it was parsed with `alternatives`, those that differ from the parse are drawn below
    it, in order and each tree once; the arcs that differ have another colour, dashes and bold
    labels. If a sentence has other tokens or boundaries than were parsed, its picture has the tree
    alone; if a token has another head, neither this head nor the tree has a probability.

    A picture is as wide as its words and labels need. In HTML and in a notebook it shrinks to the
    width of the page, to 60 percent of its size at least: about 25 words fit a notebook's cell.

    Parameters
    ----------
    docs : Doc, Span, or an iterable of them
        What to draw. Sentences that a Span is part of are drawn as a whole.
    page : bool
        Whether to return a complete HTML page instead of one SVG per sentence.
    jupyter : bool, optional
        Whether to show the picture in a notebook instead of returning it; None detects a notebook.
    max_alternatives : int
        Most alternatives to draw per sentence.

    Returns
    -------
    str or None
        SVG or HTML, to be written to a file as UTF-8; None if the picture was shown.

    Raises
    ------
    ValueError
        If a Doc is not parsed.
    """
    is_shown = is_in_jupyter() if jupyter is None else jupyter
    spans = list(find_sentences(docs))
    in_page = page or is_shown
    svgs = [sentence_svg(span, max_alternatives, in_page=in_page) for span in spans]
    markup = html_page(svgs, spans[0].vocab if spans else None) if page else "".join(svgs)
    if not is_shown:
        return markup.strip()
    show(markup.strip())
    return None


def find_sentences(docs: Doc | Span | Iterable[Doc | Span]) -> Iterator[Span]:
    """Yield the sentences to draw, without those that are only whitespace."""
    for item in [docs] if isinstance(docs, Doc | Span) else docs:
        if not item.doc.has_annotation("DEP"):
            raise ValueError(
                f"the Doc {item.doc.text[:40]!r} is not parsed: expected heads and labels, "
                f"received none; process it with a pipeline that has `root_mst` first"
            )
        # Missing in spaCy's declarations.
        sentences = item.sents if len(item) else ()  # type: ignore[union-attr]
        yield from (sent for sent in sentences if not all(token.is_space for token in sent))


def html_page(svgs: Sequence[str], vocab: Vocab | None) -> str:
    """Write a page in the language of a vocabulary, with one figure per sentence."""
    lang, is_rtl = ("", False) if vocab is None else (vocab.lang, runs_rtl(vocab))
    content = "".join(FIGURE.format(content=svg) for svg in svgs)
    return PAGE.format(lang=escape(lang), direction="rtl" if is_rtl else "ltr", content=content)


def show(markup: str) -> None:
    """Show a picture in a notebook, as displaCy does."""
    from IPython.display import HTML, display

    # The class prevents MathJax from reading dollar signs as formulas.
    display(HTML(f'<span class="tex2jax_ignore">{markup}</span>'))
