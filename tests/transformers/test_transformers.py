"""The parser over spacy-transformers: the config that ships, and what only this package has."""

import sys

import pytest
import spacy
from conftest import ROOT, blocks
from listening import (
    encoder_of,
    initialized,
    losses_of,
    make_config,
    make_nlp,
    root_mst,
    transformer,
    unchanged,
    weights_of,
)
from parsers import arcs_of, gold_examples
from thinc.api import Adam, Config

pytest.importorskip("spacy_transformers", reason="needs the extra [transformers]")
sys.path.insert(0, str(ROOT / "projects" / "web" / "scripts"))
from training_callbacks import make_freeze_layers

PACKAGE = "spacy_transformers"
TEXT = "The cat saw a dog. It slept."


def test_page_shows_a_parser_that_listens_and_learns(encoder, gold):
    found = blocks("docs/transformers.md", "ini")
    [shown, *_] = [block for block in found if "TransformerListener" in block]
    shown = Config().from_str(shown.replace("[components.", "[components]\n\n[components.", 1))
    nlp, examples = initialized(make_config(PACKAGE, encoder, shown["components"]), gold[:4])
    before = weights_of(encoder_of(nlp))
    # The rate of spacy_rootmind/configs/transformer.cfg.
    optimizer = Adam(5e-5)
    losses = losses_of(nlp, examples, optimizer, steps=6)
    assert losses[-1] < losses[0]
    assert not unchanged(before, encoder_of(nlp))


def test_frozen_encoder_without_a_source_is_explained(encoder, gold):
    nlp = make_nlp(make_config(PACKAGE, encoder))
    examples = gold_examples(gold[:2], nlp)
    with (
        nlp.select_pipes(disable=["transformer"]),
        pytest.raises(ValueError, match="needs a `source`"),
    ):
        nlp.initialize(lambda: examples)


def test_layers_of_a_trained_pipeline_are_frozen_and_the_others_learn(encoder, gold, tmp_path):
    trained, examples = initialized(make_config(PACKAGE, encoder), gold[:4])
    losses_of(trained, examples, steps=3)
    trained.to_disk(tmp_path / "trained")
    nlp, examples = initialized(make_config(PACKAGE, encoder), gold[:4])
    make_freeze_layers(1, start_from=str(tmp_path / "trained"))(nlp)
    before = weights_of(encoder_of(nlp))
    assert unchanged(before, encoder_of(trained))
    losses_of(nlp, examples, steps=3)
    same = {
        name for name, value in weights_of(encoder_of(nlp)).items() if value.equal(before[name])
    }
    # No parser reads BERT's pooler.
    assert same == {name for name in before if not name.startswith("encoder.layer.1.")}
    for n_layers in (-1, 2):
        with pytest.raises(ValueError, match=rf"received {n_layers}; found 2 layers"):
            make_freeze_layers(n_layers)(nlp)


# --- a transformer that is the parser's own ----------------------------------------------------


def test_parser_may_have_a_transformer_of_its_own(encoder, gold, tmp_path, monkeypatch):
    model = transformer(PACKAGE, encoder)["model"]
    name = "spacy-transformers.Tok2VecTransformer.v3"
    own = {**model, "@architectures": name, "pooling": {"@layers": "reduce_mean.v1"}}
    config = make_config(PACKAGE, encoder, {"root_mst": root_mst(own)})
    del config["components"]["transformer"], config["initialize"]["components"]["transformer"]
    config["nlp"]["pipeline"] = ["root_mst"]
    nlp = make_nlp(config)
    examples = gold_examples(gold, nlp)
    optimizer = nlp.initialize(lambda: examples)
    before = weights_of(encoder_of(nlp, "root_mst"))
    losses = losses_of(nlp, examples[:4], optimizer)
    assert losses[-1] < 0.8 * losses[0]
    assert not unchanged(before, encoder_of(nlp, "root_mst"))
    docs = [nlp.make_doc(text) for text in ("", TEXT, " ")]
    assert [len(parse.heads) for parse in nlp.get_pipe("root_mst").predict(docs)] == [0, 9, 1]
    nlp.to_disk(tmp_path)
    assert arcs_of(spacy.load(tmp_path)(TEXT)) == arcs_of(nlp(TEXT))
    # A long Doc is looked at in slices, as its vectors come from nowhere else.
    monkeypatch.setattr("spacy_rootmind.pipeline.prediction.MAX_TOKENS", 30)
    doc = nlp(" ".join([TEXT] * 20))
    assert all(sum(token.head == token for token in sent) == 1 for sent in doc.sents)
