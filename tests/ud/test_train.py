"""Training with several seeds: settings, and the choice of the best pipeline."""

import sys
from pathlib import Path

import pretrained
import pytest
import spacy
import srsly
import train
from convert import SYNTACTIC, WORDS
from gold_words import gold_words
from spacy.training import Corpus
from spacy.util import load_config
from train import BEST, CONFIG, NONCE_READER, READER


class Runs(list):
    """Stands for `spacy train`: seeds that were trained; pipelines are folders."""

    def __init__(self):
        self.scores = {0: 0.5, 1: 0.75, 2: 0.75}
        self.commands = []
        self.code = 0

    def __call__(self, command):
        assert command[1:4] == ["-m", "spacy", "train"]
        options = dict(zip(command[5::2], command[6::2], strict=True))
        seed = int(options["--system.seed"])
        self.append(seed)
        self.commands.append(options)
        best = Path(options["--output"]) / BEST
        best.mkdir(parents=True)
        pipeline = load_config(command[4])["nlp"]["pipeline"]
        meta = {"license": "", "performance": {"dep_las": self.scores[seed]}, "seed": seed}
        meta["pipeline"] = pipeline
        srsly.write_json(best / "meta.json", meta)
        return self.code


@pytest.fixture
def runs(monkeypatch):
    runs = Runs()
    monkeypatch.setattr(train, "run_training", runs)
    return runs


@pytest.fixture
def run(monkeypatch, corpora, tmp_path):
    """Runs the command on the corpus of orthographic words; returns the folder it writes to."""

    def run(*arguments, words="orthographic"):
        command = ["train.py", corpora / words, tmp_path / "run", *arguments]
        monkeypatch.setattr(sys, "argv", [str(argument) for argument in command])
        train.main()
        return tmp_path / "run"

    return run


def test_each_seed_is_trained_once(runs, run, capsys):
    run("--seeds", "0 1")
    assert runs == [0, 1]
    run("--seeds", "0 1 2")
    assert runs == [0, 1, 2]
    assert "Seed 0 is done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (3, r"failed \(exit code 3\), see above"),
        (-9, "ended by signal 9.* again from the start"),
    ],
)
def test_an_interrupted_training_is_repeated(code, says, runs, run, capsys):
    runs.code = code
    with pytest.raises(SystemExit, match=f"seed 0 {says}"):
        run("--seeds", "0 1")
    assert runs == [0]
    runs.code = 0
    folder = run("--seeds", "0 1")
    assert runs == [0, 0, 1]
    printed = " ".join(capsys.readouterr().out.split())
    assert "Seed 0 was not finished" in printed
    assert "is replaced, training from the start" in printed
    assert (folder / "seed-0" / "trained.json").is_file()


def test_best_seed_on_the_dev_set_is_kept(runs, run):
    folder = run("--seeds", "0,1,2")
    meta = srsly.read_json(folder / BEST / "meta.json")
    # The first of equals.
    assert meta["seed"] == 1
    assert meta["license"] == "CC0 1.0"
    # No pretrained encoder is among them.
    [source] = meta["sources"]
    assert (source["name"], source["license"]) == ("UD_Made-Up", "CC0 1.0")
    assert "root_mst, ud_tag_repair, mwt_expander trained on UD_Made-Up" in meta["description"]
    runs.scores[0] = 0.9
    folder = run("--seeds", "0,1,2", "--steps", "5")
    assert srsly.read_json(folder / BEST / "meta.json")["seed"] == 0


def test_settings_reach_spacy_train(runs, run, corpora, monkeypatch):
    monkeypatch.setattr(pretrained, "gpu_is_available", lambda: True)
    run("--steps", "50", "--overrides", "training.dropout=0.5 --nlp.batch_size=7", "--gpu-id", "2")
    [options] = runs.commands
    assert options["--training.max_steps"] == "50"
    assert options["--training.optimizer.learn_rate.total_steps"] == "50"
    # The last step is looked at too.
    assert options["--training.eval_frequency"] == "10"
    assert (options["--training.dropout"], options["--nlp.batch_size"]) == ("0.5", "7")
    assert options["--gpu-id"] == "2"
    assert options["--paths.dev"] == str(corpora / "orthographic" / "dev.spacy")


@pytest.mark.parametrize(
    ("arguments", "steps", "dropout"),
    [
        ([], 2000, 0.4),
        (["--steps", "50"], 50, 0.4),
        (["--overrides", "training.dropout=0.1"], 2000, 0.1),
    ],
)
def test_settings_follow_from_the_size_of_the_treebank(arguments, steps, dropout, runs, run):
    config = load_config(run(*arguments) / CONFIG)
    [options] = runs.commands
    # An epoch also has copies with other words, new ones each time.
    assert config["corpora"]["train"]["@readers"] == NONCE_READER
    assert config["training"]["max_epochs"] == -1
    assert options["--training.max_steps"] == str(steps)
    assert options["--training.optimizer.learn_rate.warmup_steps"] == str(steps // 10)
    assert options["--training.dropout"] == str(dropout)
    assert options["--training.batcher.size"] == "500"


def test_syntactic_words_are_read_as_they_are(corpora, runs, run):
    for words in WORDS:
        config = load_config(run(words=words) / CONFIG)
        for reader in (config["corpora"]["train"]["corpus"], config["corpora"]["dev"]):
            is_own = reader["@readers"] == READER
            assert is_own == (words == SYNTACTIC)
    assert spacy.registry.readers.get(READER) is gold_words
    nlp = spacy.blank("xx")
    path = corpora / "syntactic" / "train.spacy"
    own, plain = list(gold_words(path)(nlp)), list(Corpus(path)(nlp))
    for example in own:
        assert [t.text for t in example.predicted] == [t.text for t in example.reference]
        assert example.predicted.text == example.reference.text
        assert not example.predicted.has_annotation("DEP")
    assert len(own) == len(plain) == 6
    assert any(len(eg.predicted) != len(eg.reference) for eg in plain)
    sentences = list(gold_words(path, gold_preproc=True)(nlp))
    assert len(sentences) == 60
    assert len(list(gold_words(path, limit=2)(nlp))) == 2
