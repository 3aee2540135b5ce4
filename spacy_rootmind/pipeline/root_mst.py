"""The pipeline component `root_mst`."""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer, set_dropout_rate

from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.gold import (
    GoldBatch,
    count_labels,
    gold_boundaries,
)
from spacy_rootmind.annotation.reading import choose_root_label
from spacy_rootmind.annotation.writing import SPACE_LABEL, DocParse, annotate
from spacy_rootmind.network.architecture import (
    ParserGradient,
    ParserInput,
    ParserModel,
    ParserScores,
    require_finite,
)
from spacy_rootmind.network.dropout import RATE
from spacy_rootmind.pipeline.alternatives import Maker
from spacy_rootmind.pipeline.constraints import Constrain
from spacy_rootmind.pipeline.prediction import DECODE, SENTENCES, Settings, parse_docs
from spacy_rootmind.pipeline.serialization import FORMAT, check_weights, read_cfg, read_labels
from spacy_rootmind.training.calibration import (
    Labelled,
    Scored,
    fit_label_temperature,
    fit_temperature,
)
from spacy_rootmind.training.losses import OBJECTIVES
from spacy_rootmind.training.objective import gold_heads, labelled_words, parser_loss
from spacy_rootmind.trees.errors import NoTreeError

DEFAULT_CONFIG = """
[model]
@architectures = "spacy_rootmind.BiaffineParser.v1"
lstm_width = 128
arc_width = 128
label_width = 64
refinements = 1
dropout = 0.33
boundary_width = 64
null_label = false

[model.tok2vec]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 96
depth = 4
embed_size = 2000
window_size = 1
maxout_pieces = 3
subword_features = true
"""
DEFAULT_MODEL = Config().from_str(DEFAULT_CONFIG)["model"]

# Examples to size the network by.
INIT_SAMPLE = 10


@Language.factory(
    "root_mst",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    default_config={
        "model": DEFAULT_MODEL,
        "objective": "tree_crf",
        "sentences": "auto",
        "max_sentence_length": 512,
        "decode": "tree",
        "constraints": None,
        "temperature": None,
        "confidence": False,
        "arc_threshold": None,
        "alternatives": None,
        "learn_rate_factor": 1.0,
        "scorer": {"@scorers": "spacy_rootmind.parser_scorer.v1"},
    },
    default_score_weights={
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
    },
)
def make_root_mst(
    nlp: Language,
    name: str,
    model: Model,
    objective: str,
    sentences: str,
    max_sentence_length: int,
    decode: str,
    constraints: Callable | None,
    temperature: float | None,
    confidence: bool,
    arc_threshold: float | None,
    alternatives: Callable | None,
    learn_rate_factor: float,
    scorer: Callable | None,
) -> "RootMST":
    """Create a graph-based dependency parser whose sentences have exactly one root each.

    Parameters
    ----------
    model : Model[ParserInput, ParserScores]
        Scores arcs and labels; see `spacy_rootmind.BiaffineParser.v1`.
    objective : str
        What arc scores are trained for: "tree_crf" (the gold tree among all trees with one root),
        "head_selection" (each word's gold head among all heads) or "perceptron" (to beat all other
        trees by a margin). See `spacy_rootmind.training.losses`.
    sentences : str
        "auto": boundaries that are known, from an earlier component or the user, are kept, and the
        parser finds the others. "given": they must be known. "doc": a Doc is one sentence.
    max_sentence_length : int
        A sentence of more words is split where a boundary is most likely. Time and memory grow
        with the square of a sentence's length.
    decode : str
        What the parse is: "tree" is the most probable tree, with the best label for each of its
        arcs, whatever the temperatures are; "labelled_tree" the tree that is the most probable
        together with its labels, by fitted temperatures right a little more often.
    constraints
        Arcs to force or forbid in each Doc, and spans to keep together:
        `spacy_rootmind.preset_heads.v1`, `spacy_rootmind.span_subtrees.v1`, or a function from a
        Doc to `spacy_rootmind.pipeline.constraints.Constraints`.
    temperature : float, optional
        What arc scores are divided by before they make probabilities: above 1 for a parser that is
        surer than right. The parse depends on it as `decode` says. By default the one fitted in
        training, see `spacy_rootmind.fit_temperature.v1`, or else 1.
    confidence : bool
        Whether to find `token._.head_prob`, `span._.parse_log_prob` and `span._.parse_entropy`.
    arc_threshold : float, optional
        Keep all labelled arcs of at least this probability, whichever tree they are in:
        `span._.arcs` of each sentence, `token._.arcs`. At most 1 / `arc_threshold` for each word.
    alternatives
        Makes `span._.parses` of each sentence: `spacy_rootmind.kbest.v1`,
        `spacy_rootmind.sample.v1` or `spacy_rootmind.sample_without_replacement.v1`.
    learn_rate_factor : float
        How many times faster than the optimizer says the layers above the token vectors learn.
        A pretrained transformer below them wants a small rate, and they, new as they are, a
        larger one.
    scorer
        The scoring method.
    """
    return RootMST(
        nlp.vocab,
        model,
        name,
        objective=objective,
        sentences=sentences,
        max_sentence_length=max_sentence_length,
        decode=decode,
        constraints=constraints,
        temperature=temperature,
        confidence=confidence,
        arc_threshold=arc_threshold,
        alternatives=alternatives,
        learn_rate_factor=learn_rate_factor,
        scorer=scorer,
    )


class RootMST(TrainablePipe):
    """Dependency parser that decodes biaffine arc scores to single-root trees.

    Sentence boundaries already on a Doc are used, and others found (see `sentences`). Whitespace
    tokens are not scored: they attach to the word before them, or at the start of a sentence to the
    first word, and are never a head.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: ParserModel,
        name: str = "root_mst",
        *,
        objective: str = "tree_crf",
        sentences: str = "auto",
        max_sentence_length: int = 512,
        decode: str = "tree",
        constraints: Constrain | None = None,
        temperature: float | None = None,
        confidence: bool = False,
        arc_threshold: float | None = None,
        alternatives: Maker | None = None,
        learn_rate_factor: float = 1.0,
        scorer: Callable | None = None,
    ) -> None:
        if sentences not in SENTENCES:
            raise ValueError(
                f"[{name}] expected sentences to be one of {', '.join(SENTENCES)}, "
                f"received {sentences!r}"
            )
        if max_sentence_length < 1:
            raise ValueError(
                f"[{name}] expected max_sentence_length of at least 1, "
                f"received {max_sentence_length}"
            )
        if not 0 < learn_rate_factor < float("inf"):
            raise ValueError(
                f"[{name}] expected a learn_rate_factor above 0, received {learn_rate_factor}"
            )
        if objective not in OBJECTIVES:
            raise ValueError(
                f"[{name}] unknown objective {objective!r}, expected one of {', '.join(OBJECTIVES)}"
            )
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.objective = objective
        self.sentences = sentences
        self.max_sentence_length = max_sentence_length
        self.decode = decode
        self.constraints = constraints
        self.temperature = temperature
        self.confidence = confidence
        self.arc_threshold = arc_threshold
        self.alternatives = alternatives
        self.learn_rate_factor = learn_rate_factor
        self._told_of_splits = False
        self.cfg: dict[str, Any] = {
            "format": FORMAT,
            "root_label": "ROOT",
            "labels": [],
            "finds_boundaries": True,
            "temperature": 1.0,
            "label_temperature": 1.0,
        }

    # --- labels --------------------------------------------------------------------------------

    @property
    def root_label(self) -> str:
        """Label of the arc from ROOT, and of no other."""
        return self.cfg["root_label"]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels: the root's, then those that the network scores, in its order."""
        return (self.root_label, *self.cfg["labels"])

    @property
    def label_data(self) -> dict[str, Any]:
        """What `spacy init labels` writes and `initialize` takes back."""
        return {"root_label": self.root_label, "labels": list(self.cfg["labels"])}

    def add_label(self, label: str) -> int:
        """Add a label before the network is initialized; returns 1 if it is new, else 0."""
        if not isinstance(label, str) or not label:
            raise ValueError(f"expected a label as a non-empty string, received {label!r}")
        if label in self.labels:
            return 0
        if self.model.get_ref("labels").has_dim("nO"):
            raise ValueError(
                f"[{self.name}] cannot add label {label!r}: the network already has "
                f"{len(self.cfg['labels'])} labels; initialize it anew with all of them"
            )
        self.cfg["labels"].append(label)
        return 1

    def _store_labels(self) -> None:
        """Add the labels to the StringStore early, before any memory zone would drop them."""
        for label in self.labels:
            self.vocab.strings.add(label)

    # --- settings ------------------------------------------------------------------------------

    @property
    def temperature(self) -> float:
        """What arc scores are divided by before they make probabilities."""
        return self.cfg["temperature"] if self._temperature is None else self._temperature

    @temperature.setter
    def temperature(self, temperature: float | None) -> None:
        if temperature is not None and not 0 < temperature < float("inf"):
            raise ValueError(
                f"[{self.name}] expected a temperature above 0, received {temperature}"
            )
        self._temperature = temperature

    @property
    def decode(self) -> str:
        """What the parse is: the best tree, or the best tree together with its labels."""
        return self._decode

    @decode.setter
    def decode(self, kind: str) -> None:
        if kind not in DECODE:
            raise ValueError(
                f"[{self.name}] expected decode to be one of {', '.join(DECODE)}, received {kind!r}"
            )
        self._decode = kind

    @property
    def arc_threshold(self) -> float | None:
        """Least probability of arcs that are kept; None for none."""
        return self._arc_threshold

    @arc_threshold.setter
    def arc_threshold(self, probability: float | None) -> None:
        if probability is not None and not 0 < probability <= 1:
            raise ValueError(
                f"[{self.name}] expected an arc_threshold above 0 and at most 1, as it is a "
                f"probability, received {probability}"
            )
        _register_if(probability is not None)
        self._arc_threshold = probability

    @property
    def confidence(self) -> bool:
        """Whether to find how probable heads and trees are."""
        return self._confidence

    @confidence.setter
    def confidence(self, wanted: bool) -> None:
        _register_if(wanted)
        self._confidence = wanted

    @property
    def alternatives(self) -> Maker | None:
        """What makes alternative parses; None for none."""
        return self._alternatives

    @alternatives.setter
    def alternatives(self, maker: Maker | None) -> None:
        _register_if(maker is not None)
        self._alternatives = maker

    def _require_initialized(self) -> None:
        if not self.model.get_ref("labels").has_dim("nO"):
            raise ValueError(
                f"[{self.name}] is not initialized: train it (`nlp.initialize`, or "
                f"`spacy train`), or load a pipeline that was"
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say in errors which component they come from."""
        try:
            yield
        except ValueError as error:
            kind = NoTreeError if isinstance(error, NoTreeError) else ValueError
            raise kind(f"[{self.name}] {error}") from error

    # --- training ------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Any | None = None,
    ) -> None:
        """Fix the labels and size the network.

        Parameters
        ----------
        get_examples
            Returns training examples. Heads must be annotated in some of them, unless `labels` are
            given: a streamed corpus may start without.
        nlp
            The pipeline; not needed.
        labels : dict or list of str, optional
            `label_data` as `spacy init labels` writes it, or a list of labels; in a list, the
            root's is the one spelled "root" in any case. By default, those of the examples; the
            root's is the most frequent one on root arcs that is spelled so, or else of all there.

        Raises
        ------
        ValueError
            If no example has heads and `labels` are not given, or `labels` is not as described.
        """
        validate_get_examples(get_examples, "RootMST.initialize")
        examples = list(get_examples())
        roots, others = count_labels(examples)
        has_trees = bool(roots or others)
        if labels is None and not has_trees:
            raise ValueError(
                f"[{self.name}] none of the {len(examples)} training examples has heads and "
                f"labels: annotate some, for instance by converting CoNLL-U with "
                f"`python -m spacy convert`"
            )
        likely_root = choose_root_label(roots)
        if labels is None:
            root_label = likely_root
            names = sorted({*others, *self.cfg["labels"]})
        else:
            given_root, names = read_labels(labels)
            root_label = given_root or likely_root
            if has_trees and not {root_label, *names} & {*roots, *others}:
                raise ValueError(
                    f"[{self.name}] none of the given labels {[root_label, *names]} occurs in the "
                    f"training examples, which have {sorted({*roots, *others})}"
                )
        # The network needs a label to score, even where all sentences have one word.
        names = [label for label in names if label != root_label] or [SPACE_LABEL]
        label_layer = self.model.get_ref("labels")
        n_labels = label_layer.maybe_get_dim("nO")
        if n_labels not in (None, len(names)):
            raise ValueError(
                f"[{self.name}] the network is made for {n_labels} labels besides the root's, and "
                f"the data has {len(names)}: add the pipe anew, or pass the `label_data` that it "
                f"was initialized with"
            )
        sample = [eg.predicted for eg in examples if len(eg.predicted)][:INIT_SAMPLE]
        if not sample:
            raise ValueError(
                f"[{self.name}] none of the {len(examples)} training examples has tokens to parse"
            )
        self.cfg["root_label"] = root_label
        self.cfg["labels"] = names
        self.cfg["finds_boundaries"] = self._can_learn_boundaries(examples)
        self.cfg["temperature"] = self.cfg["label_temperature"] = 1.0
        self._store_labels()
        label_layer.set_dim("nO", len(names))
        self.model.initialize(X=sample)

    def _can_learn_boundaries(self, examples: Sequence[Example]) -> bool:
        """Tell whether some Doc has several sentences, to learn from where they start."""
        if self.sentences != "auto":
            return False
        found = any((gold_boundaries(eg, self.root_label) == 1).any() for eg in examples)
        if not found:
            util.logger.warning(
                "[%s] every training Doc is one sentence, so where sentences start cannot be "
                "learnt: without boundaries, Docs will count as one sentence each. To learn it, "
                "put several sentences in a Doc (`spacy convert -n 10`, gold_preproc = false).",
                self.name,
            )
        return found

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch; returns the losses, summed over words, under this component's name.

        Words without a known head, or whose head lies in another sentence, are left out. With an
        objective over trees, so are heads that contradict a tree with one root: all on a cycle, and
        all root arcs of a sentence that has several.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "RootMST.update")
        if not any(len(eg.predicted) for eg in examples):
            return losses
        self._require_initialized()
        set_dropout_rate(self.model, drop)
        gold = self._align(examples)
        docs = [eg.predicted for eg in examples]
        scores, backprop = self.model.begin_update(ParserInput(docs, gold.sentences))
        loss, gradient = self._loss(gold, scores)
        backprop(gradient)
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Take a step; the layers above the token vectors at `learn_rate_factor` times the rate."""
        faster: Any = partial(sgd, lr_scale=self.learn_rate_factor)
        tok2vec, *own = self.model.layers
        tok2vec.finish_update(sgd)
        for layer in own:
            layer.finish_update(faster)

    def get_loss(
        self, examples: Iterable[Example], scores: ParserScores
    ) -> tuple[float, ParserGradient]:
        """Loss of scores that the network gave for these examples, and its gradient.

        The label scorer's own gradients are added up on the way.
        """
        examples = list(examples)
        validate_examples(examples, "RootMST.get_loss")
        return self._loss(self._align(examples), scores)

    def _align(self, examples: list[Example]) -> GoldBatch:
        return GoldBatch.from_examples(
            examples, self.root_label, self.sentences, self.max_sentence_length
        )

    def _loss(self, gold: GoldBatch, scores: ParserScores) -> tuple[float, ParserGradient]:
        with self._named():
            return parser_loss(
                self.model.ops,
                gold,
                scores,
                self.objective,
                self._label_numbers(),
                self.cfg["finds_boundaries"],
            )

    def _label_numbers(self) -> dict[int, int]:
        """Map the hash of each label that the network scores to its number."""
        strings = self.vocab.strings
        return {strings[label]: i for i, label in enumerate(self.cfg["labels"])}

    def fit_temperature(self, examples: Iterable[Example]) -> float:
        """Find the temperature under which gold heads are most probable, and use it from now on.

        It is saved with the component, and counts where the config sets none. Label scores get a
        temperature of their own, under which gold labels are most probable.

        Parameters
        ----------
        examples
            Not those trained on.
        """
        self._require_initialized()
        batches: list[Scored] = []
        label_batches: list[Labelled] = []
        ops, numbers = self.model.ops, self._label_numbers()
        for chunk in util.minibatch(examples, size=32):
            gold = self._align(chunk)
            docs = [eg.predicted for eg in chunk]
            if not any(map(len, docs)):
                continue
            trees = self.model.predict(ParserInput(docs, gold.sentences)).trees
            for arcs, bucket, heads in zip(
                trees.arcs, trees.layout.buckets, gold_heads(ops, gold, trees), strict=True
            ):
                with self._named():
                    require_finite(ops.xp, arcs, "arc")
                batches.append((ops.to_numpy(arcs), bucket.lengths, heads))
            deps, labels = labelled_words(ops, gold, trees, numbers)
            for start, scores in trees.label_scores(deps, gold.heads[deps]):
                label_batches.append((ops.to_numpy(scores), labels[start : start + len(scores)]))
        self.cfg["label_temperature"] = fit_label_temperature(label_batches)
        self.cfg["temperature"] = fit_temperature(batches)
        return self.cfg["temperature"]

    # --- prediction ----------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[DocParse]:
        """Parse Docs without changing them, so many at a time that memory stays bounded."""
        self._require_initialized()
        with self._named():
            return parse_docs(self.model, list(docs), self._settings())

    def _settings(self) -> Settings:
        return Settings(
            root_label=self.root_label,
            labels=self.cfg["labels"],
            sentences=self.sentences,
            finds_boundaries=self.cfg["finds_boundaries"],
            max_sentence_length=self.max_sentence_length,
            decode=self.decode,
            constraints=self.constraints,
            temperature=self.temperature,
            label_temperature=self.cfg["label_temperature"],
            confidence=self.confidence,
            arc_threshold=self.arc_threshold,
            alternatives=self.alternatives,
            on_split=self._tell_of_split,
        )

    def _tell_of_split(self, doc: Doc, n_split: int) -> None:
        """Log once that a sentence was too long."""
        if not self._told_of_splits:
            self._told_of_splits = True
            util.logger.warning(
                "[%s] a sentence of the Doc %r has more than %d words (max_sentence_length) and "
                "was split where boundaries are most likely. This is said once.",
                self.name,
                doc[:8].text,
                self.max_sentence_length,
            )

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[DocParse]) -> None:
        """Set heads, labels and sentence boundaries of all tokens."""
        # Here too: a component that was unpickled in another process has set none of its settings.
        finds_more = self.confidence or self.arc_threshold is not None
        _register_if(finds_more or self.alternatives is not None)
        for doc, parse in zip(docs, scores, strict=True):
            annotate(doc, parse)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse a stream in batches; where a batch fails, its Docs are tried one by one.

        A Doc that fails goes to the error handler, and the others come through.
        """
        error_handler = self.get_error_handler()
        for docs in util.minibatch(stream, size=batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception:
                for doc in docs:
                    try:
                        self.set_annotations([doc], self.predict([doc]))
                    except Exception as error:
                        error_handler(self.name, self, [doc], error)
                    else:
                        yield doc
            else:
                yield from docs

    # --- serialisation -------------------------------------------------------------------------

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "RootMST":
        """Load the component from what `to_bytes` gave; see `from_disk` for errors."""
        source = "the given bytes"
        try:
            found = srsly.msgpack_loads(bytes_data)
            wanted = [name for name in ("cfg", "model") if name not in exclude]
            if wanted and not any(name in found for name in wanted):
                raise ValueError(f"expected {' and '.join(wanted)}, received {sorted(found)}")
            # What `to_bytes` was told to leave out stays as it is, as with spaCy's own components.
            parts = {name: found[name] for name in wanted if name in found}
            vocab = None if "vocab" in exclude else found.get("vocab")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(self._cannot_load(source, error)) from error
        weights, cfg = self._check(parts, source)
        if vocab is not None:
            try:
                self.vocab.from_bytes(vocab, exclude=exclude)
            except ValueError as error:
                raise ValueError(self._cannot_load(source, error)) from error
        self._take(weights, cfg)
        return self

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "RootMST":
        """Load the component from a folder that `to_disk` wrote.

        Raises
        ------
        ValueError
            If a file is missing, truncated, or of another version. The component is unchanged.
        """
        folder = util.ensure_path(path)
        parts: dict[str, bytes] = {}
        for name in ("cfg", "model"):
            if name not in exclude:
                try:
                    parts[name] = (folder / name).read_bytes()
                except OSError as error:
                    raise ValueError(self._cannot_load(folder / name, error)) from error
        weights, cfg = self._check(parts, folder)
        if "vocab" not in exclude:
            try:
                self.vocab.from_disk(folder / "vocab", exclude=exclude)
            except (OSError, ValueError) as error:
                raise ValueError(self._cannot_load(folder / "vocab", error)) from error
        self._take(weights, cfg)
        return self

    def _check(self, parts: dict[str, bytes], source: object) -> tuple[Any, dict[str, Any]]:
        """Read weights and settings, and check them before anything is taken over."""
        weights, cfg = None, self.cfg
        try:
            if "cfg" in parts:
                cfg = read_cfg(parts["cfg"])
            if "model" in parts:
                weights = srsly.msgpack_loads(parts["model"])
                check_weights(self.model, weights, len(cfg["labels"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(self._cannot_load(source, error)) from error
        return weights, cfg

    def _take(self, weights: Any, cfg: dict[str, Any]) -> None:
        if weights is not None:
            # Rates are the config's, which may say another now.
            rates = [(node, node.attrs[RATE]) for node in self.model.walk() if RATE in node.attrs]
            self.model.from_dict(weights)
            for node, rate in rates:
                node.attrs[RATE] = rate
        self.cfg.update(cfg)
        self._store_labels()

    def _cannot_load(self, source: object, error: Exception) -> str:
        return (
            f"[{self.name}] cannot load {source}: {error}. It is incomplete, or was saved with "
            f"another version or config; save it again, or load it with the config it was "
            f"trained with"
        )


def _register_if(is_wanted: bool) -> None:
    """Register the attributes of what a component is asked for, also where it is asked later."""
    if is_wanted:
        register_extensions()
