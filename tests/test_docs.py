"""What the documentation shows is what happens."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from conftest import ROOT
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc, DocBin
from spacy.util import registry
from thinc.api import Config

from spacy_rootmind import heads, probabilities, sampling, trees

README = (ROOT / "README.md").read_text(encoding="utf8")


def python_blocks():
    return re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("module", [trees, heads, probabilities, sampling])
def test_docstring_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("call", ["decode(scores", "arc_marginals(scores"])
def test_readme_array_example_prints_what_it_says(call, capsys):
    [block] = [b for b in python_blocks() if call in b]
    exec(compile(block, "README.md", "exec"), {})
    shown = re.findall(r"^print.*  # (.*)$", block, flags=re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.parametrize(("says", "lines"), [("root.text", 11), ("head_prob", 10 + 1 + 3 * 2)])
def test_readme_pipeline_example_runs(says, lines, trained, tmp_path, capsys):
    trained.to_disk(tmp_path / "model-best")
    [block] = [b for b in python_blocks() if "spacy.load" in b and says in b]
    code = block.replace("projects/quickstart/training/model-best", str(tmp_path / "model-best"))
    exec(compile(code, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_readme_pictures_are_drawn(trained, tmp_path, monkeypatch):
    trained.to_disk(tmp_path / "model-best")
    [block] = [b for b in python_blocks() if "render(" in b]
    code = block.replace("projects/quickstart/training/model-best", str(tmp_path / "model-best"))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    page = (tmp_path / "parses.html").read_text(encoding="utf8")
    assert page.count("Alternative ") == 2
    assert (tmp_path / "merged.svg").read_text(encoding="utf8").startswith("<svg")


def test_alternatives_page_runs(trained, tmp_path, capsys):
    trained.to_disk(tmp_path / "model-best")
    page = (ROOT / "docs" / "alternatives.md").read_text(encoding="utf8")
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE):
        code = block.replace(
            "projects/quickstart/training/model-best", str(tmp_path / "model-best")
        )
        exec(compile(code, "alternatives.md", "exec"), namespace)
    shown = capsys.readouterr().out.splitlines()
    exact, n_subjects, share = (
        float(re.search(pattern, "\n".join(shown), flags=re.MULTILINE)[1])
        for pattern in (r"of laughed: (\S+)$", r"expect in the sentence: (\S+)$", r"^(\S+) of 1000")
    )
    assert 0 <= exact <= n_subjects
    assert 0 <= share <= 1
    [bounds] = [line.split() for line in shown if line.startswith("between ")]
    [estimate] = [line.split()[1] for line in shown if line.startswith("about ")]
    assert float(bounds[1]) - 0.1 <= float(estimate) <= float(bounds[3]) + 0.1
    assert sum(line.startswith(("sure:", "possible:")) for line in shown) == 6


def test_readme_settings_are_those_of_the_architecture():
    from inspect import signature

    from spacy.util import registry

    table = README.split("| setting | meaning |")[1].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.strip().splitlines()]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    build = registry.architectures.get("spacy_rootmind.BiaffineParser.v1")
    assert named == set(signature(build).parameters) - {"nO"}


@pytest.mark.parametrize("heading", ["Quickstart", "Test"])
def test_readme_has_one_set_up_command_under(heading):
    section = re.search(
        rf"^#+ [^\n]*{heading}.*?```bash\n(.*?)```", README, re.DOTALL | re.MULTILINE
    )
    assert len(section.group(1).strip().splitlines()) == 1


def bash_blocks():
    return re.findall(r"^```bash\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_readme_training_commands_run(ud_folder, tmp_path):
    """As printed, on the first sentences of the treebank that they name, for two steps."""
    for part in ("train", "dev"):
        name = f"en_ewt-ud-{part}.conllu"
        text = (ud_folder / "UD_English-EWT" / name).read_text(encoding="utf8")
        (tmp_path / name).write_text("\n\n".join(text.split("\n\n")[:60]) + "\n\n", "utf8")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    blocks = [block for block in bash_blocks() if "spacy train configs/cpu.cfg" in block]
    assert len(blocks) == 2
    few = "--training.max_steps 2 --training.eval_frequency 1"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    for block in blocks:
        command = block.rstrip() + f" {few}\n"
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "training" / "model-best" / "config.cfg").is_file()


def test_readme_commands_run(trained, quickstart_docs, tmp_path):
    """As printed, in a folder that looks like a checkout after the quickstart."""
    quickstart = tmp_path / "projects" / "quickstart"
    (quickstart / "training").mkdir(parents=True)
    (quickstart / "corpus").mkdir()
    (quickstart / "assets").symlink_to(ROOT / "projects" / "quickstart" / "assets")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    trained.to_disk(quickstart / "training" / "model-best")
    for part in ("train", "dev"):
        docs = [Doc.from_docs(quickstart_docs[:10])]
        DocBin(docs=docs).to_disk(quickstart / "corpus" / f"en_quick-ud-{part}.spacy")
    [block] = [block for block in bash_blocks() if "spacy_rootmind parse" in block]
    paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
    result = subprocess.run(
        ["bash", "-ec", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    parsed = (tmp_path / "parsed.conllu").read_text(encoding="utf8")
    assert "HeadProb=" in parsed
    assert parsed.count("# parse_3 = ") > 10
    assert len((tmp_path / "parsed.jsonl").read_text(encoding="utf8").splitlines()) > 50
    assert "Labels of roots: root 700" in result.stdout
    assert "of the texts are in train as well" in result.stdout


def test_readme_config_blocks_resolve():
    blocks = re.findall(r"^```ini\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    # That over a transformer is tested where there are transformers.
    blocks = [block for block in blocks if "TransformerListener" not in block]
    assert len(blocks) == 2
    settings = Config().from_str("[components]\n\n" + blocks[0])
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    parser = nlp.add_pipe("root_mst", config={"model": settings["components"]["root_mst"]["model"]})
    assert parser.model.get_ref("tok2vec").name == "tok2vec-listener"
    shipped = Config().from_disk(ROOT / "configs" / "cpu.cfg", interpolate=False)
    shown = Config().from_str("[training]\n\n" + blocks[1], interpolate=False)
    merged = shipped.merge(shown).merge({"paths": {"train": "a.spacy", "dev": "b.spacy"}})
    found = registry.resolve(merged.interpolate()["training"], schema=ConfigSchemaTraining)
    assert callable(found["before_to_disk"])
