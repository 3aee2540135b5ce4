"""`spacy init fill-config` with `root_mst`, and a training with the config."""

import pytest
import spacy
from commandline import spacy_command
from spacy.util import load_config

pytestmark = pytest.mark.workflow

# As a user adds it to a config of their own.
BY_HAND = '\n[components.root_mst]\nfactory = "root_mst"\n'


def test_fill_config_adds_all_settings_and_the_config_trains(corpora, tmp_path):
    """A config from `spacy init config`, to which root_mst was added by hand."""
    path, filled = tmp_path / "base.cfg", tmp_path / "filled.cfg"
    spacy_command("init", "config", path, "--pipeline", "tagger", cwd=tmp_path)
    text = path.read_text(encoding="utf8").replace('"tagger"]', '"tagger", "root_mst"]')
    path.write_text(text + BY_HAND, encoding="utf8")
    spacy_command("init", "fill-config", path, filled, cwd=tmp_path)
    config = load_config(filled)
    assert config["nlp"]["pipeline"] == ["tok2vec", "tagger", "root_mst"]
    section = config["components"]["root_mst"]
    defaults = spacy.blank("en").get_factory_meta("root_mst").default_config
    assert set(section) == {"factory", *defaults}
    assert section["model"]["@architectures"] == "spacy_rootmind.BiaffineParser.v1"
    assert section["scorer"] == {"@scorers": "spacy_rootmind.parser_scorer.v1"}
    weights = config["training"]["score_weights"]
    # Shared with the tagger's, and in all 1.
    assert weights["dep_uas"] == weights["dep_las"] == 0.25
    assert "root_violations" in weights
    assert sum(weight or 0.0 for weight in weights.values()) == pytest.approx(1.0, abs=0.01)
    paths = [f"--paths.{name}={corpora / name}.spacy" for name in ("train", "dev")]
    spacy_command(
        *("train", filled, "--output", tmp_path, *paths, "--training.max_steps=2"), cwd=tmp_path
    )
    nlp = spacy.load(tmp_path / "model-last")
    assert nlp.pipe_names == ["tok2vec", "tagger", "root_mst"]
    assert nlp("The cat slept.").has_annotation("DEP")
