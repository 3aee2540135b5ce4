"""The parser over spacy-curated-transformers: the config that ships, and what only it has."""

import pytest
import spacy
from listening import (
    MAX_PIECES,
    encoder_of,
    initialized,
    listener,
    losses_of,
    make_config,
    root_mst,
    unchanged,
    weights_of,
)
from parsers import arcs_of

from spacy_rootmind import replace_parser

pytest.importorskip("spacy_curated_transformers", reason="needs the extra [curated]")

# The package makes a number of an array of one.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)

PACKAGE = "spacy_curated_transformers"
TEXT = "The cat saw a dog. It slept."


# --- other encoders and listeners --------------------------------------------------------------


def test_roberta_is_learnt_over_with_its_pieces_from_their_files(gold, tmp_path):
    """Tokenizers of today name merges otherwise than HFPieceEncoderLoader.v1 reads them."""
    pytest.importorskip("transformers.models", reason="needs transformers")
    from encoders import write_roberta

    folder = write_roberta(tmp_path, [doc.text for doc in gold])
    config = make_config(PACKAGE, folder)
    model = config["components"]["transformer"]["model"]
    model["@architectures"] = "spacy-curated-transformers.RobertaTransformer.v1"
    model["piece_encoder"] = {"@architectures": "spacy-curated-transformers.ByteBpeEncoder.v1"}
    # RoBERTa counts positions from 2.
    model["max_position_embeddings"] = MAX_PIECES + 2
    config["initialize"]["components"]["transformer"]["piecer_loader"] = {
        "@model_loaders": "spacy-curated-transformers.ByteBpeLoader.v1",
        "vocab_path": str(tmp_path / "vocab.json"),
        "merges_path": str(tmp_path / "merges.txt"),
    }
    nlp, examples = initialized(config, gold)
    before = weights_of(encoder_of(nlp))
    losses = losses_of(nlp, examples[:4])
    assert losses[-1] < 0.8 * losses[0]
    assert not unchanged(before, encoder_of(nlp))


def test_parser_may_listen_to_all_layers(encoder, gold, tmp_path):
    heard = {
        **listener(PACKAGE),
        "@architectures": "spacy-curated-transformers.ScalarWeightingListener.v1",
        "weighting": {
            "@architectures": "spacy-curated-transformers.ScalarWeight.v1",
            "num_layers": 2,
        },
    }
    config = make_config(PACKAGE, encoder, {"root_mst": root_mst(heard)})
    config["components"]["transformer"]["all_layer_outputs"] = True
    nlp, examples = initialized(config, gold)
    losses = losses_of(nlp, examples[:4])
    assert losses[-1] < 0.8 * losses[0]
    nlp.to_disk(tmp_path)
    assert arcs_of(spacy.load(tmp_path)(TEXT)) == arcs_of(nlp(TEXT))


def test_a_replaced_parser_has_a_transformer_to_itself(encoder, gold, tmp_path):
    """Its config does not refer to the component that is gone."""
    width = "${components.transformer.model.hidden_width}"
    components = {"root_mst": root_mst(listener(PACKAGE, width=width))}
    nlp, examples = initialized(make_config(PACKAGE, encoder, components), gold)
    losses_of(nlp, examples[:4], steps=2)
    other = spacy.blank("xx")
    replace_parser(other, nlp)
    other.to_disk(tmp_path)
    assert arcs_of(spacy.load(tmp_path)(TEXT)) == arcs_of(nlp(TEXT))


# --- frozen encoders ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_replaced", [False, True])
def test_frozen_transformer_stays_as_it_is(is_replaced, encoder, gold):
    """So does a copy of the parser's own."""
    config = make_config(PACKAGE, encoder)
    config["components"]["transformer"]["frozen"] = True
    nlp, examples = initialized(config, gold)
    if is_replaced:
        nlp.replace_listeners("transformer", "root_mst", ["model.tok2vec"])
    encoder = encoder_of(nlp, "root_mst" if is_replaced else "transformer")
    before = weights_of(encoder)
    losses = losses_of(nlp, examples[:4])
    assert losses[-1] < 0.8 * losses[0]
    assert unchanged(before, encoder)
