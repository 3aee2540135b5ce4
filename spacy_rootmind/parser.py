"""The pipeline component `root_mst`."""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer, set_dropout_rate

from spacy_rootmind.alternatives import register_extensions
from spacy_rootmind.annotate import SPACE_LABEL, DocParse, annotate, token_parse
from spacy_rootmind.beliefs import find_confidence, make_alternatives, token_records
from spacy_rootmind.gold import GoldBatch, count_labels, drop_contradictions
from spacy_rootmind.layers.types import Ints2d
from spacy_rootmind.loss import MISSING, OBJECTIVES
from spacy_rootmind.makers import Maker
from spacy_rootmind.models import ParserGradient, ParserInput, ParserModel, ParserScores
from spacy_rootmind.saved import FORMAT, check_weights, read_cfg, read_labels
from spacy_rootmind.sentences import Sentences, scored_tokens, sentence_starts
from spacy_rootmind.trees import decode

DEFAULT_CONFIG = """
[model]
@architectures = "spacy_rootmind.BiaffineParser.v1"
lstm_width = 128
arc_width = 128
label_width = 64
refinements = 1
dropout = 0.33

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

# Earlier rounds of refinement train at this weight, the last at 1.
EARLY_ROUND_WEIGHT = 0.5
# Labels count this much beside arcs: at 1, heads are learnt well before labels are.
LABEL_WEIGHT = 2.0
# Docs are parsed together up to so many tokens; a longer one is parsed alone.
MAX_TOKENS = 4096
# Examples to size the network by.
INIT_SAMPLE = 10


@Language.factory(
    "root_mst",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    default_config={
        "model": DEFAULT_MODEL,
        "objective": "head_selection",
        "temperature": 1.0,
        "confidence": False,
        "alternatives": None,
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
    temperature: float,
    confidence: bool,
    alternatives: Callable | None,
    scorer: Callable | None,
) -> "RootMST":
    """Create a graph-based dependency parser whose sentences have exactly one root each.

    Parameters
    ----------
    model : Model[ParserInput, ParserScores]
        Scores arcs and labels; see `spacy_rootmind.BiaffineParser.v1`.
    objective : str
        What arc scores are trained for: "head_selection" (each word's gold head among all heads),
        "tree_crf" (the gold tree among all trees with one root) or "perceptron" (to beat all other
        trees by a margin). See `spacy_rootmind.loss`.
    temperature : float
        What arc scores are divided by before they make probabilities: above 1 for a parser that is
        surer than right. The parse itself does not depend on it.
    confidence : bool
        Whether to find `token._.head_prob`, `span._.parse_log_prob` and `span._.parse_entropy`.
    alternatives
        Makes `span._.parses` of each sentence: `spacy_rootmind.kbest.v1`,
        `spacy_rootmind.sample.v1` or `spacy_rootmind.sample_without_replacement.v1`.
    scorer
        The scoring method.
    """
    return RootMST(
        nlp.vocab,
        model,
        name,
        objective=objective,
        temperature=temperature,
        confidence=confidence,
        alternatives=alternatives,
        scorer=scorer,
    )


class RootMST(TrainablePipe):
    """Dependency parser that decodes biaffine arc scores to single-root trees.

    Sentence boundaries already on a Doc are used; without any, the Doc counts as one sentence.
    Whitespace tokens are not scored: they attach to the word before them, or at the start of a
    sentence to the first word, and are never a head.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: ParserModel,
        name: str = "root_mst",
        *,
        objective: str = "head_selection",
        temperature: float = 1.0,
        confidence: bool = False,
        alternatives: Maker | None = None,
        scorer: Callable | None = None,
    ) -> None:
        if not 0 < temperature < float("inf"):
            raise ValueError(f"[{name}] expected a temperature above 0, received {temperature}")
        if confidence or alternatives is not None:
            register_extensions()
        if objective not in OBJECTIVES:
            raise ValueError(
                f"[{name}] unknown objective {objective!r}, expected one of {', '.join(OBJECTIVES)}"
            )
        self.objective = objective
        self.temperature = temperature
        self.confidence = confidence
        self.alternatives = alternatives
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"format": FORMAT, "root_label": "ROOT", "labels": []}

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

    def _require_initialized(self) -> None:
        if not self.model.get_ref("labels").has_dim("nO"):
            raise ValueError(
                f"[{self.name}] is not initialized: train it (`nlp.initialize`, or "
                f"`spacy train`), or load a pipeline that was"
            )

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
            Returns training examples. Heads must be annotated in some of them.
        nlp
            The pipeline; not needed.
        labels : dict or list of str, optional
            `label_data` as `spacy init labels` writes it, or a list of labels; in a list, the
            root's is the one spelled "root" in any case. By default, those of the examples, and
            the root's is the most frequent one on root arcs.

        Raises
        ------
        ValueError
            If no example has heads, or `labels` is not as described.
        """
        validate_get_examples(get_examples, "RootMST.initialize")
        examples = list(get_examples())
        roots, others = count_labels(examples)
        if not roots and not others:
            raise ValueError(
                f"[{self.name}] none of the {len(examples)} training examples has heads and "
                f"labels: annotate some, for instance by converting CoNLL-U with "
                f"`python -m spacy convert`"
            )
        most_frequent_root = max(sorted(roots), key=roots.__getitem__) if roots else "ROOT"
        if labels is None:
            root_label = most_frequent_root
            names = sorted({*others, *self.cfg["labels"]})
        else:
            given_root, names = read_labels(labels)
            root_label = given_root or most_frequent_root
            if not {root_label, *names} & {*roots, *others}:
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
        self._store_labels()
        label_layer.set_dim("nO", len(names))
        self.model.initialize(X=sample)

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
        gold = GoldBatch.from_examples(examples, self.root_label)
        docs = [eg.predicted for eg in examples]
        scores, backprop = self.model.begin_update(ParserInput(docs, gold.sentences))
        loss, gradient = self._loss(gold, scores)
        backprop(gradient)
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    def get_loss(
        self, examples: Iterable[Example], scores: ParserScores
    ) -> tuple[float, ParserGradient]:
        """Loss of scores that the network gave for these examples, and its gradient.

        The label scorer's own gradients are added up on the way.
        """
        examples = list(examples)
        validate_examples(examples, "RootMST.get_loss")
        return self._loss(GoldBatch.from_examples(examples, self.root_label), scores)

    def _loss(self, gold: GoldBatch, scores: ParserScores) -> tuple[float, ParserGradient]:
        ops = self.model.ops
        layout = scores.layout
        total = 0.0
        rounds: list[list[Any]] = [[] for _ in scores.rounds]
        # Heads counted within their sentence, and one row more, which padding refers to.
        roots = ops.to_numpy(layout.roots)[ops.to_numpy(layout.sentence_of_row)]
        local = np.where(gold.heads == MISSING, MISSING, gold.heads - roots)
        local = np.append(local, MISSING)
        for i, bucket in enumerate(layout.buckets):
            padded: Ints2d = local[ops.to_numpy(bucket.rows)]
            if self.objective != "head_selection":
                padded = drop_contradictions(padded, bucket.lengths)
            gold_heads = ops.asarray(padded)
            for step, arcs in enumerate(scores.rounds):
                weight = 1.0 if arcs is scores.arcs else EARLY_ROUND_WEIGHT
                loss, gradient = OBJECTIVES[self.objective](arcs[i], bucket, gold_heads)
                rounds[step].append(gradient * weight)
                total += loss * weight
        label_loss, d_rows = self._label_loss(gold, scores)
        return total + label_loss, ParserGradient(rounds, d_rows)

    def _label_loss(self, gold: GoldBatch, scores: ParserScores) -> tuple[float, Any]:
        """Cross entropy of the labels on gold arcs, those from ROOT aside."""
        ops = self.model.ops
        index = {self.vocab.strings[label]: i for i, label in enumerate(self.cfg["labels"])}
        truths = np.array([index.get(dep, MISSING) for dep in gold.deps.tolist()], dtype="i8")
        roots = ops.to_numpy(scores.layout.roots)
        deps = ((truths != MISSING) & ~np.isin(gold.heads, roots)).nonzero()[0]
        if not len(deps):
            return 0.0, None
        guesses, backprop = scores.begin_labels(deps, gold.heads[deps], is_train=True)
        probs = ops.softmax(guesses)
        each = ops.xp.arange(len(deps))
        truth = ops.asarray(truths[deps])
        loss = -float(ops.xp.log(probs[each, truth] + 1e-30).sum())
        probs[each, truth] -= 1.0
        return loss * LABEL_WEIGHT, backprop(probs * LABEL_WEIGHT)

    # --- prediction ----------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[DocParse]:
        """Parse Docs without changing them, so many at a time that memory stays bounded."""
        self._require_initialized()
        parses: list[DocParse] = []
        chunk: list[Doc] = []
        n_tokens = 0
        for doc in docs:
            if chunk and n_tokens + len(doc) > MAX_TOKENS:
                parses += self._predict_chunk(chunk)
                chunk, n_tokens = [], 0
            chunk.append(doc)
            n_tokens += len(doc)
        return parses + self._predict_chunk(chunk)

    def _predict_chunk(self, docs: list[Doc]) -> list[DocParse]:
        starts = [sentence_starts(doc) for doc in docs]
        sentences = [scored_tokens(doc, s) for doc, s in zip(docs, starts, strict=True)]
        if not any(map(len, docs)):
            return [DocParse(np.zeros(0, "i4"), [], s.astype("i4")) for s in starts]
        scores = self.model.predict(ParserInput(docs, sentences))
        heads, deps = self._decode(scores)
        parses = []
        row = 0
        records = iter(self._believe(scores, heads, docs, sentences))
        has_records = self.confidence or self.alternatives is not None
        for doc, doc_starts, doc_sentences in zip(docs, starts, sentences, strict=True):
            stop = row + sum(len(tokens) + 1 for tokens in doc_sentences)
            parse = token_parse(
                doc,
                doc_starts,
                doc_sentences,
                heads[row:stop] - row,
                deps[row:stop],
                self.root_label,
            )
            if has_records:
                known = token_records(
                    *(doc, doc_starts, doc_sentences, records),
                    *(self.cfg["labels"], self.root_label),
                )
                parse = parse._replace(records=known)
            parses.append(parse)
            row = stop
        return parses

    def _believe(
        self,
        scores: ParserScores,
        heads: NDArray[np.int64],
        docs: Sequence[Doc],
        sentences: Sequence[Sentences],
    ) -> list[dict[str, Any]]:
        """Find what is asked for beside the best tree, for each sentence."""
        records: list[dict[str, Any]] = [{} for _ in range(sum(map(len, sentences)))]
        parts = []
        if self.confidence:
            parts.append(find_confidence(scores, heads, self.temperature))
        if self.alternatives is not None:
            words = [
                [doc[i].text for i in tokens.tolist()]
                for doc, doc_sentences in zip(docs, sentences, strict=True)
                for tokens in doc_sentences
            ]
            parts.append(make_alternatives(scores, self.alternatives, words, self.temperature))
        for part in parts:
            for record, found in zip(records, part, strict=True):
                record.update(found)
        return records

    def _decode(self, scores: ParserScores) -> tuple[NDArray[np.int64], list[str]]:
        """Best tree of each sentence: flat row of each row's head, and its label."""
        ops = self.model.ops
        layout = scores.layout
        roots = ops.to_numpy(layout.roots)
        heads = np.full(layout.n_rows, MISSING, dtype=np.int64)
        for bucket, arcs in zip(layout.buckets, scores.arcs, strict=True):
            try:
                trees = decode(ops.to_numpy(arcs), bucket.lengths)
            except ValueError as error:
                raise ValueError(
                    f"[{self.name}] the network's arc scores are not finite: training diverged, "
                    f"or the saved weights are damaged"
                ) from error
            positions, rows = (ops.to_numpy(part) for part in bucket.inside)
            offsets = np.repeat(roots[bucket.sentences], bucket.lengths + 1)
            heads[rows] = trees.ravel()[positions] + offsets
        heads[roots] = MISSING
        names = [self.root_label] * layout.n_rows
        is_word = np.ones(layout.n_rows, dtype=bool)
        is_word[roots] = False
        deps = (is_word & ~np.isin(heads, roots)).nonzero()[0]
        if len(deps):
            guesses, _ = scores.begin_labels(deps, heads[deps], is_train=False)
            best = ops.to_numpy(guesses.argmax(axis=1)).tolist()
            for dep, label in zip(deps.tolist(), best, strict=True):
                names[dep] = self.cfg["labels"][label]
        return heads, names

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[DocParse]) -> None:
        """Set heads, labels and sentence boundaries of all tokens."""
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
            parts = {name: found[name] for name in ("cfg", "model") if name not in exclude}
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
            self.model.from_dict(weights)
        self.cfg.update(cfg)
        self._store_labels()

    def _cannot_load(self, source: object, error: Exception) -> str:
        return (
            f"[{self.name}] cannot load {source}: {error}. It is incomplete, or was saved with "
            f"another version or config; save it again, or load it with the config it was "
            f"trained with"
        )
