"""The factory `root_mst` and its default config."""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable
from typing import Any

from spacy.language import Language
from thinc.api import Config, Model

from spacy_rootmind.parameters import with_fields
from spacy_rootmind.pipeline.inputs import Inputs
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import Settings, default_settings

DEFAULT_MODEL = Config().from_str("""
[model]
@architectures = "spacy_rootmind.BiaffineParser.v1"

[model.tok2vec]
@architectures = "spacy.Tok2Vec.v2"

[model.tok2vec.embed]
@architectures = "spacy.MultiHashEmbed.v2"
width = 96
attrs = ["NORM", "PREFIX", "SUFFIX", "SHAPE"]
rows = [5000, 1000, 2500, 2500]
include_static_vectors = false

[model.tok2vec.encode]
@architectures = "spacy.MaxoutWindowEncoder.v2"
width = 96
depth = 4
window_size = 1
maxout_pieces = 3
""")["model"]

# None leaves a score out of the weighted score that chooses the best checkpoint.
SCORE_WEIGHTS = {
    "dep_uas": 0.5,
    "dep_las": 0.5,
    "dep_las_per_type": None,
    "sents_p": None,
    "sents_r": None,
    "sents_f": 0.0,
    "dep_ls": None,
    "dep_uem": None,
    "dep_lem": None,
    "dep_uas_all": None,
    "dep_las_all": None,
    "dep_las_conll18": None,
    "root_acc": None,
    "root_violations": None,
}


@with_fields(Settings)
def make_root_mst(
    nlp: Language, name: str, model: Model, scorer: Callable | None, **settings: Any
) -> RootMST:
    """Create a graph-based dependency parser whose sentences have exactly one root each.

    Parameters
    ----------
    model : Model[ParserInput, ParserScores]
        Scores arcs and labels; see `spacy_rootmind.BiaffineParser.v1` and
        `spacy_rootmind.LinearParser.v1`.
    scorer
        The scoring method.
    **settings
        The fields of `Settings`, with its types and defaults.

    Raises
    ------
    ValueError
        If a setting has a value that is not allowed.
    """
    parser = RootMST(nlp.vocab, model, name, scorer=scorer, **settings)
    parser.inputs = Inputs(nlp)
    return parser


Language.factory(
    "root_mst",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    default_config={
        "model": DEFAULT_MODEL,
        **default_settings(),
        "scorer": {"@scorers": "spacy_rootmind.parser_scorer.v1"},
    },
    default_score_weights=SCORE_WEIGHTS,
    func=make_root_mst,
)
