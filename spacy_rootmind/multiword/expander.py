"""The component `mwt_expander`: the words of multiword tokens, such as "de" and "le" of "du".

It chooses a script for each token that some script fits, by the token's vector and by what training
has seen of the token. Nothing else in the Doc changes: `token._.words` has the words.
"""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer, set_dropout_rate, to_numpy

from spacy_rootmind.annotation.alignment import single_counterparts
from spacy_rootmind.multiword.doc_words import read_expansion, register_words, write_expansion
from spacy_rootmind.multiword.prior import NONE, Prior
from spacy_rootmind.multiword.script_scorer import ChosenTokens
from spacy_rootmind.multiword.scripts import Expansion, Script, collect_scripts

DEFAULT_MODEL = Config().from_str("""
[model]
@architectures = "spacy_rootmind.ScriptScorer.v1"

[model.tok2vec]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 96
depth = 4
embed_size = 2000
window_size = 1
maxout_pieces = 3
subword_features = true
""")["model"]
# Docs that the layers are sized by.
SAMPLE = 10


class Candidates(NamedTuple):
    """The tokens of a Doc that some script fits.

    Attributes
    ----------
    places : int array of shape (n,)
    numbers : list of list of int
        The scripts that fit each token.
    """

    places: NDArray[np.intp]
    numbers: list[list[int]]


class MWTExpander(TrainablePipe):
    """Expand multiword tokens into their words.

    Parameters
    ----------
    vocab, model, name, scorer
        As for any of spaCy's trainable components. The model is as of
        `spacy_rootmind.ScriptScorer.v1`.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "mwt_expander",
        *,
        scorer: Callable | None = None,
    ) -> None:
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], "tokens": {}}
        self._prior = Prior([])
        self._prior_of: tuple[Any, ...] = ()
        register_words()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all scripts."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> dict[str, Any]:
        """Scripts and counts of tokens, for `initialize.components.NAME.labels`."""
        return {"labels": list(self.labels), "tokens": self.cfg["tokens"]}

    @property
    def prior(self) -> Prior:
        """Probabilities of scripts by the token alone."""
        current = (self.cfg["labels"], self.cfg["tokens"])
        if not self._prior_of or any(
            a is not b for a, b in zip(current, self._prior_of, strict=True)
        ):
            tokens = {
                token: {int(number): count for number, count in counts.items()}
                for token, counts in self.cfg["tokens"].items()
            }
            self._prior = Prior([Script.from_label(label) for label in self.labels], tokens)
            self._prior_of = current
        return self._prior

    def add_label(self, label: str) -> int:
        """Refuse a new script: the words of a corpus decide which there are."""
        if label in self.labels:
            return 0
        raise ValueError(
            f"[{self.name}] expected scripts from `initialize`, received the label {label!r}"
        )

    # --- prediction --------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[dict[int, Expansion]]:
        """Choose the expansions of each Doc's tokens."""
        docs = list(docs)
        candidates = [self._candidates(doc) for doc in docs]
        found: list[dict[int, Expansion]] = [{} for _ in docs]
        with_some = [i for i, own in enumerate(candidates) if len(own.places)]
        if not with_some:
            return found
        chosen = ChosenTokens(
            [docs[i] for i in with_some], [candidates[i].places for i in with_some]
        )
        scores = iter(to_numpy(self.model.predict(chosen)))
        prior = self.prior
        for i in with_some:
            for place, numbers in zip(
                candidates[i].places.tolist(), candidates[i].numbers, strict=True
            ):
                own = next(scores)[[NONE, *numbers]]
                text = docs[i][place].text
                best = int(np.argmax(own + prior.log_probs(text, numbers)))
                if best:
                    found[i][place] = prior.scripts[numbers[best - 1] - 1].expand(text)
        return found

    def set_annotations(self, docs: Iterable[Doc], found: Sequence[dict[int, Expansion]]) -> None:
        """Store the words of the tokens."""
        for doc, expansions in zip(docs, found, strict=True):
            for place, expansion in expansions.items():
                write_expansion(doc[place], expansion)

    def _candidates(self, doc: Doc) -> Candidates:
        """Find the tokens that some script fits."""
        found = [(token.i, self.prior.candidates(token.text)) for token in doc]
        found = [(place, numbers) for place, numbers in found if numbers]
        places = np.array([place for place, _ in found], dtype=np.intp)
        return Candidates(places, [numbers for _, numbers in found])

    # --- training ----------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: dict[str, Any] | None = None,
    ) -> None:
        """Collect the scripts of the words that the references store, and size the layers.

        Parameters
        ----------
        get_examples : callable
        nlp : Language, optional
        labels : dict, optional
            What `init labels` has written, in place of a pass over the examples.
        """
        validate_get_examples(get_examples, f"MWTExpander.initialize ({self.name})")
        if labels is None:
            labels = self._collect(get_examples())
        self.cfg["labels"] = list(labels["labels"])
        self.cfg["tokens"] = labels["tokens"]
        for label in self.labels:
            Script.from_label(label)
        docs = [example.predicted for example in islice(get_examples(), SAMPLE)]
        self.model.set_dim("nO", len(self.labels) + 1)
        self.model.initialize(X=ChosenTokens(docs, [np.arange(len(doc)) for doc in docs]))

    def _collect(self, examples: Iterable[Example]) -> dict[str, Any]:
        """Collect the scripts and count the tokens of references."""
        tokens: list[tuple[str, Expansion | None]] = []
        for example in examples:
            tokens += [(token.text, read_expansion(token)) for token in example.reference]
        scripts = collect_scripts((text, own) for text, own in tokens if own is not None)
        known = sorted(set(scripts.values()), key=lambda script: script.label)
        number_of = {script: number for number, script in enumerate(known, start=1)}
        prior = Prior(known)
        prior.count(
            (text, NONE if own is None else number_of[scripts[text, own]]) for text, own in tokens
        )
        counts = {
            token: {str(number): count for number, count in sorted(own.items())}
            for token, own in sorted(prior.tokens.items())
        }
        return {"labels": [script.label for script in known], "tokens": counts}

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Train on the tokens that some script fits."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "MWTExpander.update")
        docs, places, wanted = [], [], []
        for example in examples:
            own = self._targets(example)
            docs.append(example.predicted)
            places.append(np.array([place for place, _, _ in own], dtype=np.intp))
            wanted += [(numbers, target) for _, numbers, target in own]
        if not wanted:
            return losses
        set_dropout_rate(self.model, drop)
        scores, backprop = self.model.begin_update(ChosenTokens(docs, places))
        texts = [
            doc[place].text for doc, own in zip(docs, places, strict=True) for place in own.tolist()
        ]
        loss, d_scores = self._loss(to_numpy(scores), texts, wanted)
        ops: Any = self.model.ops
        backprop(ops.asarray(d_scores))
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    def _targets(self, example: Example) -> list[tuple[int, list[int], int]]:
        """List the tokens to learn from: each with the scripts that fit, and its right number."""
        gold = single_counterparts(example.alignment.x2y)
        found = []
        own = self._candidates(example.predicted)
        for place, numbers in zip(own.places.tolist(), own.numbers, strict=True):
            counterpart = gold[place]
            if counterpart < 0:
                continue
            token = example.reference[counterpart]
            text = example.predicted[place].text
            expansion = read_expansion(token)
            if token.text != text:
                continue
            fitting = [n for n in numbers if self.prior.scripts[n - 1].expand(text) == expansion]
            if expansion is None or fitting:
                found.append((place, numbers, fitting[0] if fitting else NONE))
        return found

    def _loss(
        self, scores: NDArray[Any], texts: Sequence[str], wanted: Sequence[tuple[list[int], int]]
    ) -> tuple[float, NDArray[Any]]:
        """Find the cross entropy of the right scripts, and the gradient of the scores."""
        gradient = np.zeros_like(scores)
        loss = 0.0
        for i, (text, (numbers, target)) in enumerate(zip(texts, wanted, strict=True)):
            columns = [NONE, *numbers]
            logits = scores[i, columns] + self.prior.log_probs(text, numbers, target)
            logits -= logits.max()
            probs = np.exp(logits) / np.exp(logits).sum()
            right = columns.index(target)
            loss -= float(np.log(probs[right] + 1e-30))
            probs[right] -= 1.0
            gradient[i, columns] = probs
        return loss, gradient

    def get_loss(self, examples: Iterable[Example], scores: Any) -> tuple[float, Any]:
        """Refuse: the loss is over some tokens only; `update` finds it."""
        raise NotImplementedError(f"[{self.name}] the loss is found in `update`")


def make_mwt_expander(
    nlp: Language, name: str, model: Model, scorer: Callable | None
) -> MWTExpander:
    """Create a component that expands multiword tokens into their words.

    `initialize` collects the words from references, which `projects/ud` writes.

    Parameters
    ----------
    model : Model[ChosenTokens, Floats2d]
        As of `spacy_rootmind.ScriptScorer.v1`.
    scorer : callable, optional
    """
    return MWTExpander(nlp.vocab, model, name, scorer=scorer)


Language.factory(
    "mwt_expander",
    assigns=["token._.words"],
    default_config={"model": DEFAULT_MODEL, "scorer": {"@scorers": "spacy_rootmind.mwt_scorer.v1"}},
    default_score_weights={"mwt_f": 1.0, "mwt_p": None, "mwt_r": None},
    func=make_mwt_expander,
)


def make_mwt_scorer() -> Callable[[Iterable[Example]], dict[str, Any]]:
    """Return the scoring function; see `score_words`."""
    return score_words


def score_words(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Score multiword tokens: `mwt_p`, `mwt_r` and `mwt_f`.

    A token counts as right if it has the same letters at the same place in the text, and the same
    forms of words. Without any multiword token, scores are None.
    """
    score = PRFScore()
    for example in examples:
        gold, found = (
            {
                (token.idx, token.text, tuple(word.form for word in expansion.words))
                for token in doc
                if (expansion := read_expansion(token)) is not None
            }
            for doc in (example.reference, example.predicted)
        )
        score.score_set(found, gold)
    if not len(score):
        return dict.fromkeys(("mwt_p", "mwt_r", "mwt_f"))
    return {"mwt_p": score.precision, "mwt_r": score.recall, "mwt_f": score.fscore}
