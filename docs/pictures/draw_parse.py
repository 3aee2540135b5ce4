"""The README's picture; run this in a checkout, with its pipeline installed."""

import spacy

import spacy_rootmind

settings = {
    "components.root_mst.confidence": True,
    "components.root_mst.alternatives": {"@misc": "spacy_rootmind.kbest.v1", "k": 3},
}
nlp = spacy.load("en_rootmind_web_sm", config=settings)
spacy_rootmind.render(
    nlp("She saw the man with the telescope."),
    path="docs/pictures/parse.svg",
    max_alternatives=1,
)
