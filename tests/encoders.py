"""Tiny transformers with random weights, saved as any model from a hub is."""

import torch
from listening import MAX_PIECES, WIDTH
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizerFast,
)

SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    # So that a loss is a function of the weights.
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
# Few enough that many words fall into several pieces.
N_PIECES = 300


def write_bert(folder, sentences):
    """Write a BERT with the pieces of the given sentences; returns its folder as text."""
    pieces = BertWordPieceTokenizer(lowercase=False)
    pieces.train_from_iterator(sentences, vocab_size=N_PIECES, show_progress=False)
    pieces.save_model(str(folder))
    tokenizer = BertTokenizerFast.from_pretrained(
        folder, do_lower_case=False, model_max_length=MAX_PIECES
    )
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=MAX_PIECES, **SIZES)
    return write(folder, tokenizer, BertModel, config)


def write_roberta(folder, sentences):
    """Write a RoBERTa with the pieces of the given sentences; returns its folder as text."""
    pieces = ByteLevelBPETokenizer()
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces.train_from_iterator(
        sentences, vocab_size=N_PIECES + 256, special_tokens=marks, show_progress=False
    )
    pieces.save_model(str(folder))
    tokenizer = RobertaTokenizerFast.from_pretrained(folder, model_max_length=MAX_PIECES)
    # RoBERTa counts positions from 2.
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=MAX_PIECES + 2,
        type_vocab_size=1,
        **SIZES,
    )
    return write(folder, tokenizer, RobertaModel, config)


def write(folder, tokenizer, make, config):
    """Write a tokenizer and a model with random weights as `from_pretrained` reads them."""
    torch.manual_seed(0)
    tokenizer.save_pretrained(folder)
    make(config).save_pretrained(folder)
    return str(folder)
