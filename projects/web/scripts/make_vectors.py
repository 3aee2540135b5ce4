"""Make static word vectors from a transformer: the mean of its contextual vectors of each word.

Static vectors from contextual ones are by Bommasani, Davis & Cardie (2020), Interpreting Pretrained
Contextualized Representations via Reductions to Static Embeddings (section 3: pooling over pieces
and over contexts by the mean). The vectors of a text's most frequent words are averaged over the
upper half of the transformer's layers, and reduced by principal components. Writes a blank pipeline
with vectors of normalized words (NORM), for `[initialize] vectors`.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.tokens import DocBin, Token
from spacy.util import minibatch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from wasabi import msg

from spacy_rootmind.pipeline.vectors import HalfPrecisionVectors

CONFIG = {
    "nlp": {"vectors": {"@vectors": "spacy_rootmind.HalfPrecisionVectors.v1", "attr": "NORM"}}
}
# Words that the transformer reads at once, and the most pieces of them.
WINDOW = 96
MAX_PIECES = 256
BATCH = 64
# Windows that are sorted by length, so that a batch needs little padding.
SORTED = 50 * BATCH


# --- text --------------------------------------------------------------------------------------


def read_windows(paths: Iterable[Path], nlp: Language) -> Iterator[list[Token]]:
    """Read texts, one document a line, or Docs (.spacy), as words that are encoded together."""
    for path in paths:
        if path.suffix == ".spacy":
            texts = [doc.text for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
        else:
            texts = path.read_text(encoding="utf8").splitlines()
        for doc in nlp.pipe(text for text in texts if text.strip()):
            words = [token for token in doc if not token.is_space]
            for start in range(0, len(words), WINDOW):
                yield words[start : start + WINDOW]


def choose_words(windows: Iterable[list[Token]], most: int, least: int) -> Counter[str]:
    """Count normalized words, and keep the most frequent that occur often enough."""
    counts = Counter(token.norm_ for window in windows for token in window)
    return Counter({word: n for word, n in counts.most_common(most) if n >= least})


# --- vectors -----------------------------------------------------------------------------------


def average_vectors(
    windows: Iterator[list[Token]],
    counts: Counter[str],
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
) -> np.ndarray:
    """Average the contextual vectors of each word over its occurrences, a row a word."""
    rows = {word: row for row, word in enumerate(counts)}
    sums = np.zeros((len(rows), model.config.hidden_size))
    found = np.zeros(len(rows))
    for group in minibatch(windows, SORTED):
        for batch in minibatch(sorted(group, key=len), BATCH):
            vectors, owners = encode(batch, tokenizer, model)
            words = [token.norm_ for window in batch for token in window]
            own = np.array([rows.get(words[owner], -1) for owner in owners], dtype=int)
            np.add.at(sums, own[own >= 0], vectors[own >= 0])
            np.add.at(found, own[own >= 0], 1)
    # Words whose pieces were all cut off have no vector of their own.
    return sums / np.maximum(found, 1)[:, None]


@torch.inference_mode()
def encode(
    batch: Iterable[list[Token]], tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel
) -> tuple[np.ndarray, np.ndarray]:
    """Encode windows of words: a vector per word, and its number among all words of the batch."""
    texts = [[token.text for token in window] for window in batch]
    pieces = tokenizer(
        texts,
        is_split_into_words=True,
        padding=True,
        truncation=True,
        max_length=min(MAX_PIECES, tokenizer.model_max_length),
        return_tensors="pt",
    )
    layers = model(**pieces, output_hidden_states=True).hidden_states
    hidden = torch.stack(layers[len(layers) // 2 :]).mean(0).numpy()
    starts = np.cumsum([0, *map(len, texts)])
    # The word of each piece; -1 for pieces of no word, such as padding.
    owners = np.array(
        [
            [-1 if word is None else starts[window] + word for word in pieces.word_ids(window)]
            for window in range(len(texts))
        ]
    )
    words, places, n_pieces = np.unique(
        owners[owners >= 0], return_inverse=True, return_counts=True
    )
    vectors = np.zeros((len(words), hidden.shape[-1]))
    np.add.at(vectors, places, hidden[owners >= 0])
    return vectors / n_pieces[:, None], words


def reduce_width(vectors: np.ndarray, counts: np.ndarray, width: int) -> np.ndarray:
    """Project vectors to their principal components, and scale them to a mean square of one.

    A word weighs as the square root of its count: between a word of the vocabulary and a word of
    the text.
    """
    weights = np.sqrt(counts)[:, None]
    centred = vectors - (weights * vectors).sum(0) / weights.sum()
    values, components = np.linalg.eigh((weights * centred).T @ centred)
    msg.info(f"{width} components have {values[-width:].sum() / values.sum():.1%} of the variance")
    reduced = centred @ components[:, ::-1][:, :width]
    return (reduced / np.sqrt(np.mean(reduced**2))).astype("float32")


def make_vectors(
    nlp: Language, encoder: str, paths: list[Path], width: int, most: int, least: int
) -> int:
    """Give a blank pipeline vectors of the most frequent words; returns their number."""
    # As within a sentence: byte-level tokenizers tell words after a space from others.
    tokenizer = AutoTokenizer.from_pretrained(encoder, add_prefix_space=True)
    model = AutoModel.from_pretrained(encoder)
    counts = choose_words(read_windows(paths, nlp), most, least)
    vectors = average_vectors(read_windows(paths, nlp), counts, tokenizer, model.eval())
    reduced = reduce_width(vectors, np.array([*counts.values()], dtype=float), width)
    nlp.vocab.vectors = HalfPrecisionVectors(
        strings=nlp.vocab.strings, data=reduced, keys=counts, attr="NORM", name="contextual_means"
    )
    return len(counts)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="name on the Hugging Face hub, or a folder")
    parser.add_argument("output", type=Path, help="folder of the pipeline with vectors")
    parser.add_argument("texts", type=Path, nargs="+", help="one document a line, or .spacy files")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--words", type=int, default=20_000, help="of the most frequent words")
    parser.add_argument("--least", type=int, default=2, help="occurrences of a word")
    parser.add_argument("--lang", default="en")
    options = parser.parse_args()
    nlp = spacy.blank(options.lang, config=CONFIG)
    n_words = make_vectors(
        nlp, options.encoder, options.texts, options.width, options.words, options.least
    )
    nlp.to_disk(options.output)
    msg.good(f"{options.output}: vectors of {n_words} words")


if __name__ == "__main__":
    main()
