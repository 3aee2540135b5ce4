"""Explanations of Universal Dependencies' subtypes of relations, for `spacy.explain`."""

from spacy_rootmind.compat import GLOSSARY

# After the pages of the relations at universaldependencies.org; spaCy explains relations without a
# subtype.
SUBTYPES = {
    "acl:relcl": "relative clause modifier",
    "advcl:relcl": "relative clause that modifies a clause",
    "advmod:emph": "emphasizing word, intensifier",
    "advmod:lmod": "locative adverbial modifier",
    "aux:pass": "passive auxiliary",
    "cc:preconj": "preconjunct",
    "compound:lvc": "light verb construction",
    "compound:prt": "phrasal verb particle",
    "compound:redup": "reduplicated compound",
    "compound:svc": "serial verb compound",
    "csubj:outer": "clausal subject of an outer clause",
    "csubj:pass": "clausal passive subject",
    "det:numgov": "pronominal quantifier governing the case of the noun",
    "det:nummod": "pronominal quantifier agreeing in case with the noun",
    "det:poss": "possessive determiner",
    "det:predet": "predeterminer",
    "expl:impers": "impersonal expletive",
    "expl:pass": "reflexive pronoun in a reflexive passive",
    "expl:pv": "reflexive clitic of an inherently reflexive verb",
    "flat:foreign": "foreign words",
    "flat:name": "name",
    "nmod:desc": "title or description next to a name",
    "nmod:npmod": "noun phrase as modifier of a nominal",
    "nmod:poss": "possessive nominal modifier",
    "nmod:tmod": "temporal modifier of a nominal",
    "nmod:unmarked": "nominal modifier without a case marker",
    "nsubj:outer": "nominal subject of an outer clause",
    "nsubj:pass": "passive nominal subject",
    "nummod:gov": "numeric modifier governing the case of the noun",
    "obl:agent": "agent of a passive",
    "obl:arg": "oblique argument",
    "obl:lmod": "locative modifier",
    "obl:npmod": "noun phrase as adverbial modifier",
    "obl:tmod": "temporal modifier",
    "obl:unmarked": "oblique nominal without a case marker",
}


def explain_subtypes() -> None:
    """Add what spaCy's glossary lacks; leave what it has, or what a user has added."""
    for label, explanation in SUBTYPES.items():
        GLOSSARY.setdefault(label, explanation)
