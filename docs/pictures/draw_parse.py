"""The README's picture; run this in a checkout, with its pipeline installed."""

from pathlib import Path

import spacy

import spacy_rootmind

settings = {
    "components.root_mst.confidence": True,
    "components.root_mst.alternatives": "kbest",
    "components.root_mst.n_alternatives": 3,
}
nlp = spacy.load("en_rootmind_web_sm", config=settings)
picture = spacy_rootmind.render(nlp("She saw the man with the telescope."), max_alternatives=1)
Path("docs/pictures/parse.svg").write_text(picture, encoding="utf8")
