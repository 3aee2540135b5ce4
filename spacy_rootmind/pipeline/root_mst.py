"""The pipeline component `root_mst`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.gold import GoldBatch, gold_boundaries
from spacy_rootmind.annotation.noun_chunks import NounChunks, adopt_noun_chunks, set_noun_chunks
from spacy_rootmind.annotation.sentences import TokenRow
from spacy_rootmind.annotation.writing import DocParse, annotate
from spacy_rootmind.network.architecture import (
    ParserGradient,
    ParserInput,
    ParserModel,
    ParserScores,
)
from spacy_rootmind.network.label_scorer import NULL_LABEL, add_label
from spacy_rootmind.network.listeners import listeners_in, require_vectors
from spacy_rootmind.pipeline import serialization
from spacy_rootmind.pipeline.inputs import Inputs
from spacy_rootmind.pipeline.label_inventory import choose_labels, count_lost_arcs
from spacy_rootmind.pipeline.prediction import PredictionContext, parse_docs
from spacy_rootmind.pipeline.settings import Settings
from spacy_rootmind.training.calibration import (
    collect_scores,
    fit_temperature,
    head_loss,
    label_loss,
)
from spacy_rootmind.training.objective import arcs_to_label, parser_loss, unscored_labels
from spacy_rootmind.trees.conventions import MISSING

# Examples from which the network's layers are sized.
INIT_SAMPLE = 10
# Docs that are scored at once to fit temperatures.
FIT_BATCH = 32


class RootMST(TrainablePipe):
    """Dependency parser that decodes arc scores to single-root trees.

    The sentence boundaries of a Doc are used, and others found (see `sentences`). Whitespace tokens
    are not scored: they attach to the word before them, or at the start of a sentence to its first
    word, and are never a head.

    Settings are read from `settings`, and changed by `spacy_rootmind.configure`, which also changes
    the config that is saved with the pipeline.

    Raises
    ------
    ValueError
        If a setting has a value that is not allowed, or the network is not that of a parser.
    """

    settings: Settings

    def __init__(
        self,
        vocab: Vocab,
        model: ParserModel,
        name: str = "root_mst",
        *,
        scorer: Callable | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        if not isinstance(model, Model) or not {"tok2vec", "trees"} <= set(model.ref_names):
            raise ValueError(
                f"expected model as a network of spacy_rootmind.BiaffineParser.v1 or "
                f"spacy_rootmind.LinearParser.v1, received {model!r:.80}"
            )
        self.vocab = vocab
        self.model = model
        self.inputs = Inputs()
        self.scorer = scorer
        self.use_settings(Settings(**settings))
        self._warned_of_labels: set[int] = set()
        set_noun_chunks(vocab)
        self.cfg: dict[str, Any] = serialization.initial_cfg()

    def __setstate__(self, state: Any) -> None:
        """Unpickle the component in a process in which no attributes are registered yet."""
        cast(Any, super()).__setstate__(state)
        self.use_settings(self.settings)

    # --- labels --------------------------------------------------------------------------------

    @property
    def root_label(self) -> str:
        """Label of the arc from ROOT, and of no other."""
        return self.cfg["root_label"]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, the root's first, then those that the network scores, in its order."""
        return (self.root_label, *self.cfg["labels"])

    @property
    def label_data(self) -> dict[str, Any]:
        """The labels as `spacy init labels` writes them and `initialize` reads them."""
        return {"root_label": self.root_label, "labels": list(self.cfg["labels"])}

    def add_label(self, label: str) -> int:
        """Add a label; returns 1 if it is new, else 0.

        A trained network keeps its weights, and gives the label to no arc before it is trained
        again.

        Raises
        ------
        ValueError
            If the label is not a non-empty string, or the guidelines are for other labels.
        """
        if not isinstance(label, str) or not label:
            raise ValueError(f"expected a label as a non-empty string, received {label!r}")
        if label in self.labels:
            return 0
        if self.is_initialized:
            if self.settings.guidelines is not None:
                self.settings.guidelines((*self.labels, label))
            add_label(self.model)
            self.vocab.strings.add(label)
        self.cfg["labels"].append(label)
        return 1

    def _store_labels(self) -> None:
        """Add the labels to the StringStore early, before any memory zone would drop them."""
        for label in self.labels:
            self.vocab.strings.add(label)

    @property
    def _label_layer(self) -> Any:
        return self.model.get_ref("labels")

    @property
    def is_initialized(self) -> bool:
        """Whether the network has a score for each label."""
        return bool(self._label_layer.has_dim("nO"))

    # --- settings ------------------------------------------------------------------------------

    def use_settings(self, settings: Settings) -> None:
        """Change the settings here, not in the config: they are not saved; see `configure`."""
        # First, as it fails if the user has attributes of the same names.
        if settings.finds_details or settings.guidelines is not None:
            register_extensions()
        self.settings = settings

    @property
    def temperature(self) -> float:
        """Divisor of the arc scores, as set, or else as fitted."""
        given = self.settings.temperature
        return self.cfg["temperature"] if given is None else given

    def _require_initialized(self) -> None:
        if not self.is_initialized:
            raise ValueError(
                f"the parser {self.name!r} is not initialized: train it (`nlp.initialize`, or "
                f"`spacy train`), or load a trained pipeline"
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
            Returns training examples. Some must have heads, unless labels are given or were added:
            a streamed corpus may start without.
        nlp
            The pipeline, whose components the network may listen to.
        labels : dict, optional
            `label_data` as `spacy init labels` writes it. By default, the labels of the examples;
            `annotation.reading.choose_root_label` then chooses the root's label from them. Without
            any, it is an added label that is spelled "root" in any case, or stays as it is.

        Raises
        ------
        ValueError
            If no example has heads and `labels` are not given, `labels` is not as described, or the
            guidelines are for other labels.
        """
        validate_get_examples(get_examples, "RootMST.initialize")
        examples = list(get_examples())
        root_label, names = choose_labels(examples, labels, self.root_label, self.cfg["labels"])
        self._warn_of_lost_arcs(examples, root_label)
        if self.settings.guidelines is not None:
            # Labels that these are not for are an error now, not at the first evaluation.
            self.settings.guidelines((root_label, *names))
        n_labels = self._label_layer.maybe_get_dim("nO")
        if n_labels not in (None, len(names)):
            raise ValueError(
                f"the network has {n_labels} labels besides the root's, and the data "
                f"has {len(names)}: add the pipe again, or pass the `label_data` that it was "
                f"initialized with"
            )
        sample = [eg.predicted for eg in examples if len(eg.predicted)][:INIT_SAMPLE]
        if not sample:
            raise ValueError(f"none of the {len(examples)} training examples has tokens to parse")
        self.cfg.update(serialization.initial_cfg(), root_label=root_label, labels=names)
        self.cfg["finds_boundaries"] = self._can_learn_boundaries(examples)
        self._store_labels()
        self._label_layer.set_dim("nO", len(names))
        if nlp is not None:
            self.inputs = Inputs(nlp)
        self.inputs.connect(self.model)
        self.model.initialize(X=sample)

    def _warn_of_lost_arcs(self, examples: Sequence[Example], root_label: str) -> None:
        """Warn of gold arcs that no tree has, or whose labels say something else."""
        lost = Counter[str]()
        for example in examples:
            lost += count_lost_arcs(example.reference, root_label)
        if lost:
            util.logger.warning(
                "[%s] some arcs of the training data cannot be learnt as they are: %s",
                self.name,
                ", ".join(f"{number} {reason}" for reason, number in lost.items()),
            )

    def _can_learn_boundaries(self, examples: Sequence[Example]) -> bool:
        """Tell whether a Doc has several sentences, from which boundaries can be learnt.

        If not, `update` watches for the first one.
        """
        if self.settings.sentences != "auto":
            return False
        is_annotated = False
        for example in examples:
            truths = gold_boundaries(example, self.root_label)
            if (truths == 1).any():
                return True
            is_annotated |= bool((truths != MISSING).any())
        if is_annotated:
            util.logger.warning(
                "[%s] every training Doc is one sentence, so sentence boundaries cannot be learnt: "
                "until training sees a Doc of several, a Doc without boundaries or blank lines "
                "will count as one sentence. To learn them, put several sentences in a Doc "
                "(`spacy convert -n 10`, gold_preproc = false).",
                self.name,
            )
        return False

    def _trains_boundaries(self, gold: GoldBatch) -> bool:
        """Tell whether training has seen a boundary inside a Doc, in this batch or before."""
        is_new = self.settings.sentences == "auto" and bool((gold.boundaries > 0.5).any())
        return self.cfg["finds_boundaries"] or is_new

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | Literal[False] | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch; adds the loss, summed over words, to `losses[self.name]`.

        A sentence with a teacher's tree distribution is learnt from that, whatever the objective;
        see `annotation.teacher_records.find_targets`.

        Words without a known head, or with a head in another sentence, are left out. With an
        objective over trees, so are heads that contradict a tree with one root: all on a cycle, and
        all root arcs of a sentence with several.

        Sentence boundaries are learnt from the first batch on in which one is inside a Doc.

        Without `sgd`, None or False, gradients add up and no step is taken.

        Raises
        ------
        ValueError
            If the network reads an attribute that no token of a Doc has.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "RootMST.update")
        if not any(len(eg.predicted) for eg in examples):
            return losses
        self._require_initialized()
        self.inputs.accept(examples[0].predicted.vocab)
        self.inputs.require_attributes(self.model, [eg.predicted for eg in examples])
        set_dropout_rate(self.model, drop)
        gold = self._align(examples)
        scores, backprop = self.model.begin_update(self._make_input(examples, gold))
        loss, gradient = self._loss(gold, scores)
        columns = self._label_columns()
        unscored = unscored_labels(gold, scores.trees, columns)
        self._warn_of_labels(examples, unscored)
        backprop(gradient)
        self.cfg["finds_boundaries"] = self._trains_boundaries(gold)
        if sgd is not None and sgd is not False:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Take a step; the layers above the token vectors at `learn_rate_factor` times the rate."""
        factor = self.settings.learn_rate_factor
        # A function that collects gradients, as in `nlp.rehearse`, has no rate to scale.
        faster: Any = sgd if factor == 1.0 else partial(sgd, lr_scale=factor)
        tok2vec, *upper_layers = self.model.layers
        tok2vec.finish_update(sgd)
        for layer in upper_layers:
            layer.finish_update(faster)

    def _align(self, examples: Sequence[Example], *, teachers: bool = True) -> GoldBatch:
        settings = self.settings
        return GoldBatch.from_examples(
            examples,
            self.root_label,
            settings.sentences,
            settings.max_sentence_length,
            teachers=teachers,
        )

    def _make_input(self, examples: Sequence[Example], gold: GoldBatch) -> ParserInput:
        """Make the network's input for aligned examples, with the arcs whose labels are trained."""
        docs = [eg.predicted for eg in examples]
        columns = self._label_columns()
        null_column = len(columns) if self._label_layer.attrs[NULL_LABEL] else None
        choose_arcs = arcs_to_label(gold, columns, null_column)
        return ParserInput(docs, gold.sentences, TokenRow(docs).words_of_docs(), choose_arcs)

    def _loss(self, gold: GoldBatch, scores: ParserScores) -> tuple[float, ParserGradient]:
        return parser_loss(
            gold,
            scores,
            self.settings.objective,
            self._trains_boundaries(gold),
            self.settings.margin,
        )

    def _label_columns(self) -> dict[int, int]:
        """Map the hash of each label to its column in the label scores."""
        strings = self.vocab.strings
        return {strings[label]: i for i, label in enumerate(self.cfg["labels"])}

    def _warn_of_labels(self, examples: Sequence[Example], labels: set[int]) -> None:
        """Warn once of each label that gold arcs have and the network does not score."""
        new = labels - self._warned_of_labels
        if not new:
            return
        self._warned_of_labels |= new
        strings: list[Any] = [example.reference.vocab.strings for example in examples]
        names = sorted({names[label] for label in new for names in strings if label in names})
        util.logger.warning(
            "[%s] the labels %s of training arcs are not learnt (the heads of these arcs are): "
            "the network scores %d others. To learn them, call `add_label` with each before "
            "training, or give `initialize` examples with these labels.",
            self.name,
            names,
            len(self.cfg["labels"]),
        )

    def fit_temperature(self, examples: Iterable[Example]) -> float:
        """Fit the temperature under which gold heads are the most probable, and use it.

        It is saved with the component, and used unless the config sets one. Label scores get a
        temperature of their own, under which gold labels are the most probable.

        With `projective`, only projective trees count.

        Parameters
        ----------
        examples
            Others than those trained on.
        """
        self._require_initialized()
        batches, label_batches = [], []
        for chunk in util.minibatch(examples, size=FIT_BATCH):
            if not any(len(eg.predicted) for eg in chunk):
                continue
            self.inputs.require_attributes(self.model, [eg.predicted for eg in chunk])
            # Temperatures are fitted to trees: a teacher's confidence says nothing about errors.
            gold = self._align(chunk, teachers=False)
            given = self._make_input(chunk, gold)._replace(choose_arcs=None)
            require_vectors(listeners_in(self.model), given.docs)
            trees = self.model.predict(given).trees
            heads, labels = collect_scores(self._label_layer, gold, trees, self._label_columns())
            batches += heads
            label_batches += labels
        of_heads = partial(head_loss, batches, projective=self.settings.projective)
        self.cfg["label_temperature"] = fit_temperature(partial(label_loss, label_batches))
        self.cfg["temperature"] = fit_temperature(of_heads)
        return self.cfg["temperature"]

    # --- prediction ----------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[DocParse]:
        """Parse Docs without changing them, in bounded memory."""
        self._require_initialized()
        context = PredictionContext(
            self.settings,
            self.labels,
            finds_boundaries=self.cfg["finds_boundaries"],
            temperature=self.temperature,
            label_temperature=self.cfg["label_temperature"],
        )
        docs = list(docs)
        self.inputs.require(self.model, docs, self.name)
        return parse_docs(self.model, docs, context)

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[DocParse]) -> None:
        """Set heads, labels and sentence boundaries of all tokens."""
        for doc, parse in zip(docs, scores, strict=True):
            annotate(doc, parse)
            # A Doc of another pipeline, or one that was made before the component, has another one.
            if not isinstance(cast(Any, doc).noun_chunks_iterator, NounChunks):
                adopt_noun_chunks(doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse a stream in batches; if a batch fails, its Docs are parsed one by one.

        A Doc that fails goes to the error handler; the others are yielded.
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

    # --- serialization -------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Save the component to bytes. Settings are in the config of the pipeline."""
        return serialization.save_bytes(self, exclude)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the component to a folder. Settings are in the config of the pipeline."""
        serialization.save_folder(self, util.ensure_path(path), exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "RootMST":
        """Load the component from the bytes of `to_bytes`; raises as `from_disk`."""
        serialization.load_bytes(self, bytes_data, exclude)
        self._store_labels()
        return self

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "RootMST":
        """Load the component from a folder that `to_disk` wrote.

        Raises
        ------
        ValueError
            If a file is missing or damaged, or does not fit the config or the other files. The
            component may then be half loaded.
        """
        serialization.load_folder(self, util.ensure_path(path), exclude)
        self._store_labels()
        return self
