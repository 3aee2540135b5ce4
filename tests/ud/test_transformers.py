"""The project over a tiny transformer with random weights."""

import json
import shutil
from pathlib import Path

import pytest
import spacy
import srsly
from commandline import assert_one_root_each
from ud_treebanks import run_project

MODEL = "components.root_mst.model"
SMALL = {
    f"{MODEL}.arc_width": 16,
    f"{MODEL}.label_width": 8,
    f"{MODEL}.refinements": 0,
    # Random weights need larger steps than those that were learnt.
    "training.optimizer.learn_rate.initial_rate": 0.001,
    "training.batcher.size": 200,
    "training.accumulate_gradient": 1,
}
# Windows of words, as small as the tiny encoder.
MODEL_OF_ENCODER = "components.transformer.model"
WINDOWS = {
    f"{MODEL_OF_ENCODER}.get_spans.window": 24,
    f"{MODEL_OF_ENCODER}.get_spans.stride": 18,
}
STEPS = 40


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """No process downloads anything, or uses several threads."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_whole_project_over_a_transformer(bert, checkout, made, tmp_path):
    pytest.importorskip("spacy_transformers")
    folder = Path(shutil.copytree(bert, tmp_path / "tiny"))
    printed = run_project(
        *(checkout, "all", made[0].name, made[0].parent),
        encoder="transformer",
        pretrained=folder,
        run="tiny",
        seeds="0",
        steps=STEPS,
        overrides=" ".join(f"{name}={value}" for name, value in {**SMALL, **WINDOWS}.items()),
    )
    # Long lines are wrapped.
    printed = " ".join(printed.split())
    # Requirements are checked before any work.
    assert (
        0 <= printed.index("all that is needed is there") < printed.index("en_made-ud-train.conllu")
    )
    assert f"encoder {folder}" in printed

    best = checkout / "training" / "UD_Made-Up" / "tiny" / "model-best"
    rate = spacy.util.load_config(best / "config.cfg")["training"]["optimizer"]["learn_rate"]
    assert (rate["total_steps"], rate["warmup_steps"]) == (STEPS, STEPS // 10)
    summary = json.loads(
        (checkout / "metrics" / "UD_Made-Up" / "tiny" / "summary.json").read_text("utf8")
    )
    for evaluation, uas, upos in (("gold", "dep_uas_all", "upos_f"), ("official", "UAS", "UPOS")):
        # After one step, this is about 0.26.
        assert summary[evaluation][uas]["mean"] > 0.35
        # The most frequent part of speech alone would be right less often.
        assert summary[evaluation][upos]["mean"] > 0.35
    assert summary["gold"]["root_violations"]["mean"] == 0.0
    conllu = checkout / "output" / "UD_Made-Up-tiny.conllu"
    rows = [line.split("\t") for line in conllu.read_text("utf8").splitlines() if "\t" in line]
    assert sum(row[0] == "1" for row in rows) == sum(row[6] == "0" for row in rows) > 2
    words = [row for row in rows if "-" not in row[0]]
    assert not {"_", "", "SPACE"} & {column for row in words for column in row[2:5]}

    # The package has the encoder in it, and knows what it was.
    package = shutil.copytree(checkout / "packages" / "en_made-1.2.3", tmp_path / "elsewhere")
    shutil.rmtree(folder)
    shutil.rmtree(best)
    meta = srsly.read_json(package / "meta.json")
    assert [source["name"] for source in meta["sources"]] == ["UD_Made-Up", folder.name]
    needs = {requirement.split(">")[0] for requirement in meta["requirements"]}
    assert needs >= {"spacy-rootmind", "spacy-transformers"}
    assert_one_root_each(spacy.load(package / "en_made" / "en_made-1.2.3")("She saw him."))
