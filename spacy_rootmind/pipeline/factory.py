"""The factory `root_mst`: default config, and what each setting means."""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable

from spacy.language import Language
from thinc.api import Config, Model

from spacy_rootmind.annotation.line_starts import LineEnds
from spacy_rootmind.pipeline.root_mst import RootMST
from spacy_rootmind.pipeline.settings import Decode, Objective, Sentences, default_settings
from spacy_rootmind.pipeline.upstream import Upstream

DEFAULT_MODEL = Config().from_str("""
[model]
@architectures = "spacy_rootmind.BiaffineParser.v1"
lstm_width = 128
arc_width = 128
label_width = 64
refinements = 1
dropout = 0.33
boundary_width = 64
null_label = false
grad_factor = 0.4
label_rank = null
qrnn_width = 0
boundary_qrnn_width = 0
features = null

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


def make_root_mst(
    nlp: Language,
    name: str,
    model: Model,
    scorer: Callable | None,
    objective: Objective,
    margin: float,
    sentences: Sentences,
    boundary_threshold: float,
    blank_lines: bool,
    line_ends: LineEnds,
    max_sentence_length: int,
    decode: Decode,
    projective: bool,
    guidelines: Callable | None,
    constraints: Callable | None,
    temperature: float | None,
    confidence: bool,
    arc_threshold: float | None,
    alternatives: Callable | None,
    distribution_threshold: float | None,
    noun_chunks: str | Callable | None,
    learn_rate_factor: float,
) -> RootMST:
    """Create a graph-based dependency parser whose sentences have exactly one root each.

    Parameters
    ----------
    model : Model[ParserInput, ParserScores]
        Scores arcs and labels; see `spacy_rootmind.BiaffineParser.v1` and
        `spacy_rootmind.LinearParser.v1`.
    scorer
        The scoring method.
    objective : str
        Training objective of the arc scores: "tree_crf" (the gold tree among all trees with one
        root), "head_selection" (each word's gold head among all heads) or "perceptron" (the gold
        tree ahead of all others by a margin). See `spacy_rootmind.trees.losses`.
    margin : float
        With the objective "perceptron", by how much per wrong arc the gold tree's score has to be
        above that of any other tree. With 0, the perceptron's own rule, there is an update only
        where the best tree is wrong.
    sentences : str
        "auto" keeps boundaries from an earlier component or the user and predicts the others;
        "given" requires them; "doc" takes a Doc as one sentence.
    boundary_threshold : float
        A word starts a sentence if the probability that it does is above this. Lower it if the
        parser finds too few sentences on the dev set. With `sentences = "auto"`, sentences without
        a letter or digit are then joined to their neighbours.
    blank_lines : bool
        Whether a blank line ends a sentence, with `sentences = "auto"`, unless the Doc or the
        constraints say otherwise. Turn it off for double-spaced text.
    line_ends : bool or str
        Whether every line end ends a sentence in the same way, for text with a sentence or a title
        on each line. With "items", those do that come before an item of a list, a number, a heading
        with `#` or a quotation with `>`, and those of lines shorter than the text is wide.
    max_sentence_length : int
        A sentence with more words is split where a boundary is most likely. Time and memory grow
        with the square of a sentence's length.
    decode : str
        What the parse is: "tree" is the most probable tree, with the best label for each of its
        arcs, whatever the temperatures; "labelled_tree" is the most probable tree together with its
        labels, which is correct slightly more often with fitted temperatures.
    projective : bool
        Whether arcs must not cross, that from ROOT before the first word included: of trees,
        probabilities and alternatives. Training does not depend on it. Time grows
        with the cube of a sentence's length instead of its square. It does
        not go together with spans as `constraints`, nor with `distribution_threshold`.
    guidelines
        Rules that the parse keeps, which is then the most probable of the labelled trees that do:
        `spacy_rootmind.ud_guidelines.v1`, or a function as `spacy_rootmind.pipeline.guidelines`
        describes. Probabilities and alternatives are those of all trees. `span._.guideline_status`
        of a sentence is "not proven" if another such tree may be more probable, and "broken" if
        none was found under the constraints.
    constraints
        Arcs to force or forbid in each Doc, and spans to keep together:
        `spacy_rootmind.preset_heads.v1`, `spacy_rootmind.span_subtrees.v1`, or a function from a
        Doc to `spacy_rootmind.pipeline.constraints.Constraints`.
    temperature : float, optional
        Divisor of the arc scores before they become probabilities: above 1 for an overconfident
        parser. `decode` says whether the parse depends on it. By default the temperature fitted in
        training, see `spacy_rootmind.CalibrationCorpus.v1`, or else 1.
    confidence : bool
        Whether to find `token._.head_prob`, `token._.arc_prob`, `token._.sent_start_prob`,
        `span._.parse_log_prob` and `span._.parse_entropy`.
    arc_threshold : float, optional
        Least probability of the labelled arcs to keep, whichever trees they are in: `span._.arcs`
        of each sentence, `token._.arcs`. At most 1 / `arc_threshold` arcs per word.
    alternatives
        Makes `span._.parses` of each sentence: `spacy_rootmind.kbest.v1`,
        `spacy_rootmind.sample.v1` or `spacy_rootmind.sample_without_replacement.v1`.
    distribution_threshold : float, optional
        Stores the distribution over each sentence's trees in the Doc, for another parser to learn
        from: the arcs with at least this probability and those of the parse, with their weights and
        label probabilities. See `docs/distillation.md`.
    noun_chunks
        How `doc.noun_chunks` are found: "auto" by Universal Dependencies labels in Docs that have
        them, where spaCy has no function for the language or one for other labels; None as without
        this component; `spacy_rootmind.ud_noun_chunks.v1`, or another function from a Doc to the
        start, end and label of each chunk, in all Docs of the pipeline.
    learn_rate_factor : float
        Factor on the learning rate of the layers above the token vectors. A pretrained transformer
        needs a small rate; the new layers above it need a larger one. So may layers above token
        vectors that are shared with other components.

    Raises
    ------
    ValueError
        If a setting has a value that is not allowed.
    """
    parser = RootMST(
        nlp.vocab,
        model,
        name,
        scorer=scorer,
        objective=objective,
        margin=margin,
        sentences=sentences,
        boundary_threshold=boundary_threshold,
        blank_lines=blank_lines,
        line_ends=line_ends,
        max_sentence_length=max_sentence_length,
        decode=decode,
        projective=projective,
        guidelines=guidelines,
        constraints=constraints,
        temperature=temperature,
        confidence=confidence,
        arc_threshold=arc_threshold,
        alternatives=alternatives,
        distribution_threshold=distribution_threshold,
        noun_chunks=noun_chunks,
        learn_rate_factor=learn_rate_factor,
    )
    parser.upstream = Upstream(nlp)
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
