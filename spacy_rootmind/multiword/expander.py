"""The component `mwt_expander`: the words of multiword tokens, such as "de" and "le" of "du".

It chooses a script for each token that some script fits, by the token's vector and by what training
has seen of the token. Nothing else in the Doc changes: `token._.words` has the words.
"""

# spaCy reads the annotations of factories at run time: no `from __future__ import annotations`.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer, set_dropout_rate, to_numpy

from spacy_rootmind.annotation.alignment import single_counterparts
from spacy_rootmind.annotation.extensions import register_extensions
from spacy_rootmind.annotation.words import (
    Expansion,
    read_expansion,
    write_expansions,
)
from spacy_rootmind.multiword.prior import NONE, Choices, Prior
from spacy_rootmind.multiword.script_scorer import ChosenTokens
from spacy_rootmind.multiword.scripts import Script, collect_scripts
from spacy_rootmind.multiword.valid_words import keep_guidelines
from spacy_rootmind.trees.conventions import MISSING

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


class Target(NamedTuple):
    """A token to learn from: its place in its Doc, its choices, and the right one among them."""

    place: int
    choices: Choices
    right: int


class MWTExpander(TrainablePipe):
    """Expand multiword tokens into their words."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "mwt_expander",
        *,
        scorer: Callable | None = None,
    ) -> None:
        super().__init__(vocab, model, name, labels=[], tokens={}, words={})
        self.scorer = scorer
        self._prior = Prior([], {}, {})
        register_extensions()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all scripts."""
        return tuple(self.cfg["labels"])

    @property
    def is_initialized(self) -> bool:
        """Whether `initialize` has been called: there may be no labels."""
        return bool(self.model.has_dim("nO"))

    @property
    def prior(self) -> Prior:
        """Probabilities of scripts by the token alone."""
        if self._prior.given is not self.cfg["tokens"]:
            scripts = [Script.from_label(label) for label in self.labels]
            self._prior = Prior(scripts, self.cfg["tokens"], self.cfg["words"])
        return self._prior

    # --- prediction --------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[dict[int, list[int]]]:
        """Rank the numbers of each Doc's multiword tokens, by their places, the best one first."""
        docs = list(docs)
        choices = [self._choices(doc) for doc in docs]
        found: list[dict[int, list[int]]] = [{} for _ in docs]
        chosen = [i for i, own in enumerate(choices) if own]
        if not chosen:
            return found
        places = [np.array(list(choices[i]), dtype=np.intp) for i in chosen]
        scores = self.model.predict(ChosenTokens([docs[i] for i in chosen], places))
        rows = iter(to_numpy(scores))
        for i in chosen:
            for place, own in choices[i].items():
                logits = next(rows)[own.numbers] + own.log_probs
                if own.numbers[np.argmax(logits)] != NONE:
                    found[i][place] = own.numbers[np.argsort(-logits, kind="stable")].tolist()
        return found

    def set_annotations(self, docs: Iterable[Doc], found: Sequence[dict[int, list[int]]]) -> None:
        """Store the words of the tokens, in place of earlier ones.

        If the best ones break UD's rules in a tree that keeps them, others are chosen.
        """
        docs = list(docs)
        starts = [*accumulate(map(len, docs), initial=0)]
        ranked = {
            start + place: (doc[place].text, numbers)
            for doc, start, own in zip(docs, starts[:-1], found, strict=True)
            for place, numbers in own.items()
        }

        def expand(place: int) -> Iterable[Expansion]:
            token, numbers = ranked[place]
            return (self.prior.expand(token, number) for number in numbers if number != NONE)

        best = {place: next(iter(expand(place))) for place in ranked}
        kept = keep_guidelines(docs, best, expand) if best else best
        for doc, start, own in zip(docs, starts[:-1], found, strict=True):
            places = [place for place in own if start + place in kept]
            write_expansions(doc, {place: kept[start + place] for place in places})

    def _choices(self, doc: Doc) -> dict[int, Choices]:
        """Find the choices of a Doc's tokens, by their place."""
        strings, prior = doc.vocab.strings, self.prior
        found = (prior.choices(strings[orth]) for orth in doc.to_array(ORTH).tolist())
        return {place: own for place, own in enumerate(found) if own is not None}

    def expand_into(self, text: str, words: Sequence[Mapping[str, str]]) -> Expansion | None:
        """Find the expansion of a token into given words; None if no script makes these words.

        Words have a form, and what else is given by the names of `Word`'s fields. Among several
        expansions, agreement with that counts first, then the probability by the token alone.
        """
        forms = [word["form"].lower() for word in words]
        found: list[tuple[tuple[int, float], Expansion]] = []
        for _, log_prob, expansion in self._possible(text):
            if forms == [word.form.lower() for word in expansion.words]:
                n_right, own = _with_given(expansion, words)
                found.append(((n_right, log_prob), own))
        return max(found, key=itemgetter(0), default=(0, None))[1]

    def _possible(self, text: str) -> Iterator[tuple[int, float, Expansion]]:
        """Yield the numbers of scripts that fit a token, with log probabilities and expansions."""
        choices = self.prior.choices(text)
        if choices is not None:
            log_probs = choices.log_probs.tolist()
            for number, log_prob in zip(choices.numbers.tolist(), log_probs, strict=True):
                if number != NONE:
                    yield number, log_prob, self.prior.expand(text, number)

    # --- training ----------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
    ) -> None:
        """Collect the scripts of the words that the references store, and size the layers."""
        validate_get_examples(get_examples, f"MWTExpander.initialize ({self.name})")
        self.cfg = self._collect(get_examples())
        if not self.labels:
            logger.warning(
                "[%s] found no words of multiword tokens in the examples, and will expand no "
                "token. References store them as user data: `DocBin(store_user_data=True)`",
                self.name,
            )
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
        numbers = (NONE if own is None else number_of[scripts[text, own]] for text, own in tokens)
        prior = Prior.from_corpus(known, zip((text for text, _ in tokens), numbers, strict=True))
        labels = [script.label for script in known]
        return {"labels": labels, "tokens": prior.tokens, "words": prior.words}

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
        targets = [self._targets(example) for example in examples]
        set_dropout_rate(self.model, drop)
        docs = [example.predicted for example in examples]
        places = [np.array([one.place for one in own], dtype=np.intp) for own in targets]
        # Without targets as well: a shared tok2vec learns once its last listener has a gradient.
        scores, backprop = self.model.begin_update(ChosenTokens(docs, places))
        loss, gradient = cross_entropy(to_numpy(scores), [one for own in targets for one in own])
        ops: Any = self.model.ops
        backprop(ops.asarray(gradient))
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    def _targets(self, example: Example) -> list[Target]:
        """List the tokens to learn from, which the reference has as well."""
        gold = single_counterparts(example.alignment.x2y)
        found = []
        for place in self._choices(example.predicted):
            if gold[place] == MISSING:
                continue
            text, token = example.predicted[place].text, example.reference[int(gold[place])]
            if token.text != text:
                continue
            expansion = read_expansion(token)
            number: int | None = NONE
            if expansion is not None:
                same = (number for number, _, own in self._possible(text) if own == expansion)
                number = next(same, None)
            # Without this occurrence.
            choices = None if number is None else self.prior.choices(text, number)
            if choices is not None and number in choices.numbers:
                found.append(Target(place, choices, choices.numbers.tolist().index(number)))
        return found


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


def _with_given(expansion: Expansion, words: Sequence[Mapping[str, Any]]) -> tuple[int, Expansion]:
    """Write what is given into an expansion; also count how much of it was there before."""
    n_right, new = 0, []
    for place, (word, given) in enumerate(zip(expansion.words, words, strict=True)):
        # The topmost word has all but its form from the token.
        own = {"form": given["form"]} if place == expansion.top else given
        n_right += sum(getattr(word, name) == value for name, value in own.items())
        new.append(word._replace(**own))
    return n_right, expansion._replace(words=tuple(new))


def cross_entropy(scores: NDArray[Any], targets: Sequence[Target]) -> tuple[float, NDArray[Any]]:
    """Find the cross entropy of the right choices, summed over tokens, and its gradient.

    Scores are of shape (n_tokens, n_scripts + 1).
    """
    gradient = np.zeros_like(scores)
    loss = 0.0
    for row, own, d_row in zip(scores, targets, gradient, strict=True):
        logits = row[own.choices.numbers] + own.choices.log_probs
        log_probs = logits - np.logaddexp.reduce(logits)
        loss -= float(log_probs[own.right])
        probs = np.exp(log_probs)
        probs[own.right] -= 1.0
        d_row[own.choices.numbers] = probs
    return loss, gradient


Language.factory(
    "mwt_expander",
    assigns=["token._.words"],
    default_config={"model": DEFAULT_MODEL, "scorer": {"@scorers": "spacy_rootmind.mwt_scorer.v1"}},
    default_score_weights={"mwt_acc": 1.0, "mwt_p": None, "mwt_r": None, "mwt_f": None},
    func=make_mwt_expander,
)


def make_mwt_scorer() -> Callable[[Iterable[Example]], dict[str, Any]]:
    """Return the scoring function; see `score_words`."""
    return score_words


def score_words(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Score multiword tokens: `mwt_p`, `mwt_r` and `mwt_f`; and `mwt_acc`, of all tokens.

    A token counts as right if it has the same letters at the same place in the text, and the same
    forms of words. `mwt_acc` is the share of tokens that are not wrong, gold and predicted ones
    at the same place counted once, so that a few multiword tokens do not decide which pipeline is
    the best. Without any of them, scores are None.
    """
    n_gold = n_found = n_right = n_wrong = n_tokens = 0
    for example in examples:
        gold, found = (
            {
                (token.idx, token.text, tuple(word.form for word in expansion.words))
                for token in doc
                if (expansion := read_expansion(token)) is not None
            }
            for doc in (example.reference, example.predicted)
        )
        n_gold, n_found = n_gold + len(gold), n_found + len(found)
        n_right += len(gold & found)
        n_wrong += len({place for place, *_ in gold ^ found})
        n_tokens += len({t.idx for doc in (example.reference, example.predicted) for t in doc})
    if not n_gold + n_found:
        return dict.fromkeys(("mwt_acc", "mwt_p", "mwt_r", "mwt_f"))
    return {
        "mwt_acc": 1 - n_wrong / n_tokens,
        "mwt_p": n_right / max(n_found, 1),
        "mwt_r": n_right / max(n_gold, 1),
        "mwt_f": 2 * n_right / (n_gold + n_found),
    }
