"""The project over a tiny transformer with random weights, by either package."""

import json
import shutil
from pathlib import Path

import pytest
import spacy
import srsly
from commandline import assert_one_root_each
from pretrained import KINDS
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
# Windows of words and of pieces, as small as the tiny encoder.
WINDOWS = {
    "transformer": {"get_spans.window": 24, "get_spans.stride": 18},
    "curated": {"with_spans.window": 48, "with_spans.stride": 36},
}
STEPS = 40

# spacy-curated-transformers makes a number of an array of one.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array with ndim:DeprecationWarning"
)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    """No process downloads anything, or uses several threads."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def downloaded(bert, tmp_path, monkeypatch):
    """The tiny BERT as a downloaded model of the hub; returns folder and name."""
    folder = tmp_path / "hub" / "models--somebody--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40, encoding="utf8")
    shutil.copytree(bert, folder / "snapshots" / ("0" * 40))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder, "somebody/tiny"


@pytest.fixture(params=["transformer", pytest.param("curated", marks=pytest.mark.slow)])
def encoder(request, bert, tmp_path):
    """A config, and a pretrained encoder for it: its folder, and its name."""
    pytest.importorskip(KINDS[request.param].package.replace("-", "_"))
    if request.param == "curated":
        return request.param, *request.getfixturevalue("downloaded")
    folder = Path(shutil.copytree(bert, tmp_path / "tiny"))
    return request.param, folder, str(folder)


def test_whole_project_over_a_transformer(encoder, checkout, made, tmp_path):
    config, folder, name = encoder
    windows = {f"components.transformer.model.{k}": v for k, v in WINDOWS[config].items()}
    printed = run_project(
        *(checkout, "all", made[0].name, made[0].parent),
        encoder=config,
        pretrained=name,
        run=f"tiny-{config}",
        seeds="0",
        steps=STEPS,
        overrides=" ".join(f"{name}={value}" for name, value in {**SMALL, **windows}.items()),
    )
    # Long lines are wrapped.
    printed = " ".join(printed.split())
    # Requirements are checked before any work.
    assert (
        0 <= printed.index("all that is needed is there") < printed.index("en_made-ud-train.conllu")
    )
    assert f"encoder {name}" in printed

    best = checkout / "training" / "UD_Made-Up" / f"tiny-{config}" / "model-best"
    rate = spacy.util.load_config(best / "config.cfg")["training"]["optimizer"]["learn_rate"]
    assert (rate["total_steps"], rate["warmup_steps"]) == (STEPS, STEPS // 10)
    summary = json.loads(
        (checkout / "metrics" / "UD_Made-Up" / f"tiny-{config}" / "summary.json").read_text("utf8")
    )
    for evaluation, uas, upos in (("gold", "dep_uas_all", "upos_f"), ("official", "UAS", "UPOS")):
        # After one step, this is about 0.26.
        assert summary[evaluation][uas]["mean"] > 0.35
        # The most frequent part of speech alone would be right less often.
        assert summary[evaluation][upos]["mean"] > 0.35
    assert summary["gold"]["root_violations"]["mean"] == 0.0
    conllu = checkout / "output" / f"UD_Made-Up-tiny-{config}.conllu"
    rows = [line.split("\t") for line in conllu.read_text("utf8").splitlines() if "\t" in line]
    assert sum(row[0] == "1" for row in rows) == sum(row[6] == "0" for row in rows) > 2
    words = [row for row in rows if "-" not in row[0]]
    assert not {"_", "", "SPACE"} & {column for row in words for column in row[2:5]}

    # The package has the encoder in it, and knows what it was.
    package = shutil.copytree(checkout / "packages" / "en_made-1.2.3", tmp_path / "elsewhere")
    shutil.rmtree(folder)
    shutil.rmtree(best)
    meta = srsly.read_json(package / "meta.json")
    known_as = folder.name if name == str(folder) else name
    assert [source["name"] for source in meta["sources"]] == ["UD_Made-Up", known_as]
    needs = {requirement.split(">")[0] for requirement in meta["requirements"]}
    assert needs >= {"spacy-rootmind", KINDS[config].package}
    assert_one_root_each(spacy.load(package / "en_made" / "en_made-1.2.3")("She saw him."))
