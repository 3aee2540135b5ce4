"""Explanations of labels: UD's subtypes next to spaCy's own."""

import spacy
from parsers import make_nlp
from spacy.glossary import GLOSSARY

from spacy_rootmind.annotation.glossary import SUBTYPES, explain_subtypes


def test_labels_of_the_shipped_pipeline_are_explained(web_pipeline):
    labels = spacy.load(web_pipeline).get_pipe("root_mst").labels
    assert {label: spacy.explain(label) for label in labels if not spacy.explain(label)} == {}
    assert spacy.explain("nsubj:pass") == "passive nominal subject"


def test_what_is_explained_already_stays(monkeypatch):
    for label in SUBTYPES:
        monkeypatch.delitem(GLOSSARY, label, raising=False)
    before = dict(GLOSSARY)
    monkeypatch.setitem(GLOSSARY, "obl:tmod", "when it happens")
    make_nlp()
    assert {**SUBTYPES, **before, "obl:tmod": "when it happens"} == GLOSSARY
    explain_subtypes()
    assert spacy.explain("obl:tmod") == "when it happens"
    assert spacy.explain("nsubj") == before["nsubj"]
