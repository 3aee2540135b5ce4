"""`python -m spacy_rootmind parse`, as a whole."""

import errno
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
import spacy
from commandline import parse_options
from spacy.tokens import DocBin

from spacy_rootmind.cli.messages import CommandError
from spacy_rootmind.cli.parse import parse
from spacy_rootmind.formats.conllu import read_sentences
from spacy_rootmind.formats.lines import Line
from spacy_rootmind.formats.records import Failure
from spacy_rootmind.parsing.settings import ParserSettings

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX systems")

# A component that fails or sends a signal at certain words.
CODE = """
import os, signal
from spacy.language import Language

@Language.component("cli_test_drastic")
def drastic(doc):
    order = os.environ.get("CLI_TEST_ORDER")
    if order and any(token.text == "drastic" for token in doc):
        os.kill(os.getpid(), getattr(signal, order))
    if any(token.text == "unbearable" for token in doc):
        raise ValueError("cannot stand it")
    return doc
"""
WORDS = ["cat", "dog", "girl", "farmer", "letter", "window", "guest", "child"]


def write_texts(path, n, words=()):
    """Write `n` texts, some with a word that the component looks for."""
    lines = [f"The {WORDS[i % 8]} saw a {WORDS[i // 8 % 8]} {i}." for i in range(n)]
    for i, word in words:
        lines[i] = f"The {word} cat slept."
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    path = tmp_path_factory.mktemp("code") / "drastic.py"
    path.write_text(CODE, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def drastic(pipeline, code, tmp_path_factory):
    """The parser, and a component from a file of code."""
    spacy.util.import_file("cli_test_code", code)
    nlp = spacy.load(pipeline)
    nlp.add_pipe("cli_test_drastic")
    folder = tmp_path_factory.mktemp("drastic") / "model"
    nlp.to_disk(folder)
    return folder


def sentences_in(path):
    data = path.read_bytes() if isinstance(path, Path) else path
    lines = (Line(i, line) for i, line in enumerate(data.split(b"\n"), start=1))
    found = list(read_sentences("out", lines))
    assert not any(isinstance(sentence, Failure) for sentence in found)
    return found


def contents(path):
    """All files of an output, by name."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {file.name: file.read_bytes() for file in path.iterdir()}


# --- formats -----------------------------------------------------------------------------------


def test_text_to_conllu_on_stdout(pipeline, run):
    result = run("parse", pipeline, "-", input=b"The cat slept.\n\nIt rained.\n")
    assert result.returncode == 0, result.stderr
    found = sentences_in(result.stdout)
    assert [s.comment("text") for s in found] == ["The cat slept.", "It rained."]
    assert b"2 texts, 2 sentences, 7 words" in result.stderr
    result = run("parse", pipeline, "-", input=b"It rained.\n")
    assert b"1 text, 1 sentence, 3 words" in result.stderr


def test_several_files_of_several_formats(pipeline, tmp_path, dev_conllu):
    (tmp_path / "a.txt").write_text("The cat slept.\nIt rained.\n", encoding="utf8")
    (tmp_path / "b.jsonl").write_text('{"tokens": [["Stop", "!"]], "id": 3}\n', encoding="utf8")
    inputs = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl"), str(dev_conllu)]
    output = tmp_path / "out.jsonl"
    assert parse(parse_options(str(pipeline), inputs, str(output))) == 0
    docs = [json.loads(line) for line in output.read_text(encoding="utf8").splitlines()]
    assert [doc["text"] for doc in docs[:3]] == ["The cat slept.", "It rained.", "Stop ! "]
    assert docs[2]["id"] == 3
    assert [doc["sent_id"] for doc in docs[3:5]] == ["quick-dev-0001", "quick-dev-0002"]
    assert len(docs) == 3 + len(sentences_in(dev_conllu))


@pytest.mark.parametrize("name", ["out", "out.spacy"])
def test_docs_have_probabilities_and_alternatives(pipeline, tmp_path, name):
    (tmp_path / "a.txt").write_text("The cat slept.\nIt rained.\n", encoding="utf8")
    options = parse_options(
        str(pipeline),
        [str(tmp_path / "a.txt")],
        str(tmp_path / name),
        to_format="spacy",
        confidence=True,
        alternatives="sample",
        k=3,
    )
    assert parse(options) == 0
    path = tmp_path / name
    nlp = spacy.load(pipeline)
    part = path if path.is_file() else path / "part-00001.spacy"
    docs = list(DocBin().from_disk(part).get_docs(nlp.vocab))
    assert [doc.text for doc in docs] == ["The cat slept.", "It rained."]
    for doc in docs:
        [sentence] = doc.sents
        assert len(sentence._.parses) == 3
        assert sentence._.parse_entropy >= 0
        assert all(0 <= token._.head_prob <= 1 for token in doc)


@pytest.mark.parametrize("name", ["kbest", "sample", "sample-without-replacement"])
def test_alternatives_are_those_of_the_option(pipeline, tmp_path, name):
    (tmp_path / "a.txt").write_text("The cat that slept saw a dog.\n", encoding="utf8")

    def parses(output, **settings):
        inputs = [str(tmp_path / "a.txt")]
        path = str(tmp_path / output)
        # Samples of a confident parser may all be the same tree.
        flat = {"components.root_mst.temperature": 5.0}
        options = parse_options(
            str(pipeline), inputs, path, alternatives=name, overrides=flat, **settings
        )
        assert parse(options) == 0
        [sentence] = sentences_in(tmp_path / output)
        return [sentence.comment(f"parse_{i}") for i in range(1, 12)]

    first = parses("a.conllu", k=10, seed=1)
    assert None not in first[:10]
    assert first[10] is None
    assert parses("b.conllu", k=10, seed=1) == first
    assert (parses("c.conllu", k=10, seed=2) == first) is (name == "kbest")
    n_different = len(set(first[:10]))
    assert n_different == 10 if name != "sample" else n_different > 1


def test_labelled_alternatives_begin_with_the_parse(pipeline, tmp_path):
    (tmp_path / "a.txt").write_text("The cat that slept saw a dog.\n", encoding="utf8")

    def sentence_of(output, **settings):
        options = parse_options(
            str(pipeline), [str(tmp_path / "a.txt")], str(tmp_path / output), **settings
        )
        assert parse(options) == 0
        [sentence] = sentences_in(tmp_path / output)
        return sentence

    def parses_of(sentence):
        return [sentence.comment(f"parse_{i}").split(" ", 1) for i in range(1, 11)]

    # Where heads are clear, the ten best labelled trees share some of their trees.
    clear = {"components.root_mst.temperature": 0.1}
    asked = {"alternatives": "kbest", "k": 10, "overrides": clear}
    labelled = sentence_of("a.conllu", labelled=True, **asked)
    found = parses_of(labelled)
    assert found[0][1] == " ".join(f"{row[6]}:{row[7]}" for row in labelled.words)
    assert [float(p) for p, _ in found] == sorted((float(p) for p, _ in found), reverse=True)

    def count_trees(parses):
        return len({tuple(re.findall(r"(\d+):", tree)) for _, tree in parses})

    assert len({tree for _, tree in found}) == 10
    assert count_trees(found) < 10
    assert count_trees(parses_of(sentence_of("b.conllu", **asked))) == 10


def test_arcs_are_those_that_are_probable_enough(pipeline, tmp_path):
    (tmp_path / "a.txt").write_text("The cat that slept saw a dog.\n", encoding="utf8")
    found = []
    for name, least in [("a.spacy", 0.01), ("b.spacy", 0.6)]:
        options = parse_options(
            str(pipeline), [str(tmp_path / "a.txt")], str(tmp_path / name), arcs=least
        )
        assert parse(options) == 0
        [doc] = DocBin().from_disk(tmp_path / name).get_docs(spacy.blank("xx").vocab)
        found.append([(a.token.i, a.head.i, a.dep, a.prob) for a in doc[:]._.arcs])
    assert len(found[1]) < len(found[0])
    assert found[1] == [arc for arc in found[0] if arc[3] >= 0.6]


@pytest.mark.parametrize("least", [0.0, 1.5])
def test_arcs_need_a_probability(pipeline, tmp_path, least):
    options = parse_options(str(pipeline), ["-"], str(tmp_path / "a.jsonl"), arcs=least)
    with pytest.raises(CommandError, match="Cannot use --arcs"):
        parse(options)
    assert not list(tmp_path.iterdir())


def test_settings_of_the_pipeline_can_be_changed(pipeline, tmp_path, run):
    write_texts(tmp_path / "a.txt", 1)
    outputs = {}
    for temperature in ("1", "5"):
        result = run(
            *("parse", pipeline, tmp_path / "a.txt", "--confidence", "--quiet"),
            *("--set", f"components.root_mst.temperature={temperature}"),
        )
        assert result.returncode == 0, result.stderr
        assert result.stderr == b""
        [sentence] = sentences_in(result.stdout)
        outputs[temperature] = float(sentence.comment("parse_entropy"))
    assert outputs["5"] > outputs["1"]


def test_paragraphs(pipeline, tmp_path, run):
    result = run(
        "parse", pipeline, "-", "-p", "--to", "jsonl", input=b"The cat\nslept.\n\nIt rained.\n"
    )
    texts = [json.loads(line)["text"] for line in result.stdout.splitlines()]
    assert texts == ["The cat\nslept.", "It rained."]


def test_given_texts_are_drawn(pipeline, run):
    result = run("parse", pipeline, "--text", "The cat\nslept.", "--text", "It rained.")
    assert result.returncode == 0, result.stderr
    # Nothing but the trees, for a reader.
    assert result.stderr == b""
    drawn = result.stdout.decode()
    titles = re.findall(r"^[A-Z].*[.!]$", drawn, flags=re.MULTILINE)
    assert titles == ["The cat slept.", "It rained."]
    assert drawn.count("─ ") == 7
    assert drawn.count("Probability of the tree: ") == 2


def test_given_texts_in_other_formats(pipeline, tmp_path):
    texts = ["The cat slept.", "  ", "It rained."]
    for name in ("a.jsonl", "b.conllu", "c.spacy"):
        assert parse(parse_options(str(pipeline), [], str(tmp_path / name), texts)) == 0
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["The cat slept.", "It rained."]
    found = sentences_in(tmp_path / "b.conllu")
    assert [sentence.comment("text") for sentence in found] == ["The cat slept.", "It rained."]
    # Probabilities belong to drawn trees alone.
    assert "HeadProb" not in (tmp_path / "b.conllu").read_text(encoding="utf8")


def test_files_can_be_drawn(pipeline, tmp_path, run):
    write_texts(tmp_path / "a.txt", 2)
    drawn = {}
    for name, options in {"plain": ["--no-confidence"], "all": ["--arcs", "0.001"]}.items():
        output = tmp_path / name
        result = run("parse", pipeline, tmp_path / "a.txt", "--to", "tree", "-o", output, *options)
        assert result.returncode == 0, result.stderr
        drawn[name] = output.read_text(encoding="utf8")
    assert "%" not in drawn["plain"]
    assert drawn["all"].count("──┼─") == drawn["plain"].count("──┼─") >= 1
    assert drawn["all"].count(" or ") >= 1


def test_text_that_is_not_utf8_is_reported(pipeline, run):
    result = run("parse", pipeline, "--text", "It rained.", "--text", os.fsdecode(b"It r\xe4ined."))
    assert result.returncode == 1
    assert b"It rained." in result.stdout
    assert b"--text:2: expected UTF-8, found byte 0xe4 at 5" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected files to parse or --text, received neither"),
        (["a.txt", "--text", "It rained."], "expected files to parse or --text, received both"),
        (["--text", "It rained.", "-p"], "expected --from and --paragraphs with files"),
        (["--text", "It rained.", "-f", "jsonl"], "expected --from and --paragraphs with files"),
    ],
)
def test_texts_and_files_exclude_each_other(arguments, message, run):
    result = run("parse", "model", *arguments)
    assert result.returncode == 2
    assert message in result.stderr.decode()


def test_nothing_to_parse(pipeline, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n  \n", encoding="utf8")
    output = tmp_path / "out.conllu"
    assert parse(parse_options(str(pipeline), [str(tmp_path / "a.txt")], str(output))) == 0
    assert output.read_bytes() == b""
    assert "nothing to parse" in capsys.readouterr().err


# --- what goes wrong ---------------------------------------------------------------------------


def test_bad_records_are_reported_and_the_rest_is_parsed(drastic, code, tmp_path, run):
    source = tmp_path / "a.jsonl"
    lines = [
        b'{"text": "The cat slept."}',
        b'{"text": "The unbearable cat."}',
        b"{",
        b'{"text": "It r\xe4ined."}',
        b'{"text": "It rained."}',
    ]
    source.write_bytes(b"\n".join(lines))
    result = run("parse", drastic, source, "--code", code)
    assert result.returncode == 1
    found = sentences_in(result.stdout)
    assert [s.comment("text") for s in found] == ["The cat slept.", "It rained."]
    assert [s.comment("sent_id").rsplit(":")[-1] for s in found] == ["1-1", "5-1"]
    errors = result.stderr.decode().splitlines()
    assert errors[0] == f"{source}:2: cannot stand it"
    assert errors[1].startswith(f"{source}:3: ")
    assert errors[2].startswith(f"{source}:4: ")
    assert errors[-1].endswith("3 of 5 records failed")
    assert "Traceback" not in result.stderr.decode()


def test_strict_stops_at_the_first_bad_record(pipeline, tmp_path, capsys):
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "It rained."}\n{\n{"text": "It rained."}\n', encoding="utf8")
    output = tmp_path / "out.conllu"
    assert parse(parse_options(str(pipeline), [str(source)], str(output), strict=True)) == 1
    assert os.listdir(tmp_path) == ["a.jsonl"]
    assert "Stopped at a failed record: 1 of 2" in capsys.readouterr().err
    source.write_text('{"text": "It rained."}\n' * 3, encoding="utf8")
    options = parse_options(str(pipeline), [str(source)], str(output), strict=True)
    assert parse(options) == 0
    assert len(sentences_in(output)) == 3


def options_for(folder, tmp_path, **settings):
    source = write_texts(tmp_path / "a.txt", 3)
    return parse_options(
        **{
            "pipeline": str(folder),
            "inputs": [str(source)],
            "output": str(tmp_path / "out.conllu"),
            **settings,
        }
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pipeline": "no_such_pipeline"}, "Cannot load no_such_pipeline"),
        ({"overrides": {"components.root_mst.no_such": 1}}, "Cannot load"),
        ({"overrides": {"components.root_mst.temperature": -1}}, "Cannot load"),
        ({"inputs": ["no_such_file.txt"]}, "not found: no_such_file.txt"),
        ({"inputs": ["-", "-"]}, "at most once"),
        ({"output": "out.xyz"}, "Cannot tell the format of out.xyz"),
        ({"output": "-", "to_format": "spacy"}, "Cannot write Docs to a stream"),
        ({"output": "-", "force": True}, "Cannot use --force with a stream"),
        ({"code": "no_such_file.py"}, "Cannot import"),
        ({"gpu_id": 99}, "Cannot use GPU 99"),
    ],
)
def test_errors_come_before_anything_is_written(settings, reason, pipeline, tmp_path):
    with pytest.raises(CommandError, match=reason):
        parse(options_for(pipeline, tmp_path, **settings))
    assert os.listdir(tmp_path) == ["a.txt"]


@posix_only
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"output": "x" * 300 + ".conllu"}, "Cannot write x+.conllu: File name too long"),
        ({"output": "x" * 300, "to_format": "spacy"}, "Cannot write x+: File name too long"),
        # The name itself is allowed, but not that of the unfinished output.
        ({"output": "x" * 240 + ".conllu"}, "Cannot write x+.conllu: File name too long"),
        ({"output": "x/" * 3000 + "y.jsonl"}, "Cannot write .*: File name too long"),
        ({"inputs": ["x" * 300 + ".txt"]}, "Cannot read the input: cannot read x+.txt: File name"),
    ],
)
def test_names_that_are_too_long_are_errors_before_anything_is_written(
    settings, reason, pipeline, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match=reason):
        parse(options_for(pipeline, tmp_path, **settings))
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("components.root_mst.no_such", "root_mst.no_such: unexpected argument"),
        ("components.root_mst.model.no_such", "root_mst.model.no_such: unexpected argument"),
        ("components.no_such.temperature", "components.no_such.temperature: not a section value"),
        ("nlp.batch_size", "batch_size: Input should be a valid integer"),
    ],
)
def test_wrong_setting_is_named_in_one_line(setting, message, pipeline, tmp_path):
    with pytest.raises(CommandError) as caught:
        parse(options_for(pipeline, tmp_path, overrides={setting: "x"}))
    assert f"Cannot load {pipeline}: {message}" in caught.value.title
    assert "\n" not in caught.value.title
    assert "lstm_width" not in caught.value.title
    assert caught.value.text == ""


def test_pipeline_without_the_parser_raises(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "model")
    with pytest.raises(CommandError, match="no component root_mst") as caught:
        parse(options_for(tmp_path / "model", tmp_path))
    assert "sentencizer" in caught.value.text


def test_input_is_not_overwritten(pipeline, tmp_path):
    source = tmp_path / "a.conllu"
    source.write_text("x")
    options = options_for(pipeline, tmp_path, inputs=[str(source)], output=str(source), force=True)
    with pytest.raises(CommandError, match="both input and output"):
        parse(options)
    assert source.read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["parse"], 2),
        (["parse", "model"], 2),
        (["parse", "model", "-", "--no-such-option"], 2),
        (["parse", "model", "-", "--alternatives", "best"], 2),
        (["parse", "model", "-", "-k", "0"], 2),
        (["parse", "model", "-", "--n-process", "2"], 2),
        (["parse", "model", "-", "--resume"], 2),
        (["parse", "model", "-", "--set", "confidence=true"], 1),
        (["parse", "no_such_model", "-"], 1),
        (["parse", "model", "-", "--max-word-length", "0"], 2),
        (["parse", "model", "-", "--set", f"components.x={'[' * 50_000}"], 1),
        (["parse", "model", "-", "--output", "x" * 300], 1),
        (["parse", "x" * 300, "-"], 1),
        (["parse", "model", "-", "--code", "x" * 300], 1),
        (["parse", "model", "x" * 300 + ".txt"], 1),
        (["check", "x" * 300 + ".conllu"], 1),
        (["init-config", "x" * 300 + ".cfg"], 1),
    ],
)
def test_wrong_arguments_have_an_exit_code_and_no_traceback(arguments, code, run):
    result = run(*arguments)
    assert result.returncode == code
    assert result.stdout == b"" or code == 2
    assert b"Traceback" not in result.stderr


BULK = ["bulk", "model", "a.txt", "--output", "out"]


@pytest.mark.parametrize("command", [["parse", "model", "-"], BULK], ids=["parse", "bulk"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "3"], "expected --alternatives, such as kbest, with -k"),
        # Also with its default value.
        (["-k", "5"], "expected --alternatives, such as kbest, with -k"),
        (["--labelled"], "expected --alternatives, such as kbest, with --labelled"),
        (["--seed", "1"], "expected --alternatives sample or sample-without-replacement"),
        (["-a", "kbest", "--seed", "0"], "expected --alternatives sample or sample-without"),
        (["--progress", "-q"], "expected one of --progress and --quiet, received both"),
    ],
)
def test_options_without_effect_are_refused(command, options, message, run):
    result = run(*command, *options)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.decode().split())


def test_workers_of_a_scheduler_are_not_counted(run):
    result = run(*BULK, "--scheduler", "tcp://localhost:1", "-n", "2")
    assert result.returncode == 2
    assert b"expected --n-workers without --scheduler" in result.stderr


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.conllu", ["-p"], b"Cannot use --paragraphs with files of conllu"),
        ("a.jsonl", ["-p"], b"Cannot use --paragraphs with files of jsonl"),
        ("a.txt", ["-p", "-f", "conllu"], b"Cannot use --paragraphs with files of conllu"),
        ("a.conllu", ["--max-word-length", "9"], b"Cannot use --max-word-length with files of"),
        ("a.txt", ["--replace-tags"], b"Cannot use --replace-tags with files of text"),
        ("a.txt", ["--force"], b"Cannot use --force with a stream"),
    ],
)
def test_options_without_effect_on_the_files_are_refused(name, options, message, run, tmp_path):
    """Before the pipeline is loaded."""
    (tmp_path / name).write_text("It rained.\n", encoding="utf8")
    result = run("parse", "no_such_model", tmp_path / name, *options)
    assert result.returncode == 1
    assert result.stdout == b""
    assert message in result.stderr


def test_progress_of_texts_is_refused(run):
    result = run("parse", "no_such_model", "--text", "It rained.", "--progress")
    assert result.returncode == 1
    assert b"Cannot use --progress with --text" in result.stderr


def test_options_with_an_effect_are_taken(pipeline, run, tmp_path):
    for name in ("a.txt", "b.conllu"):
        (tmp_path / name).write_text("", encoding="utf8")
    files = [tmp_path / "a.txt", tmp_path / "b.conllu"]
    more = ["-p", "--max-word-length", "9", "-a", "sample", "-k", "2", "--seed", "1", "--labelled"]
    more.append("--replace-tags")
    output = tmp_path / "out.jsonl"
    assert run("parse", pipeline, *files, *more, "-o", output, "-F").returncode == 0
    assert output.read_bytes() == b""


@pytest.mark.parametrize(
    ("options", "tags"), [([], ["given", "X", "G", "A=B"]), (["--replace-tags"], ["cat", "NOUN"])]
)
def test_tags_are_kept_or_replaced(options, tags, web_pipeline, run, tmp_path):
    source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
    given = "1\tcats\tgiven\tX\tG\tA=B\t0\troot\t_\t_\n\n"
    source.write_text(given, encoding="utf8")
    assert run("parse", web_pipeline, source, "-o", target, *options).returncode == 0
    [row] = [line.split("\t") for line in target.read_text("utf8").splitlines() if line[:1] == "1"]
    assert row[2 : 2 + len(tags)] == tags
    assert ("A=B" in row) != bool(options)


def test_help_does_not_wait_for_spacy():
    program = (
        "import sys; from spacy_rootmind.cli.app import main\n"
        "sys.argv[1:] = ['parse', '--help']\n"
        "try:\n    main()\n"
        "except SystemExit as stop:\n    print(stop.code, 'spacy' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "--alternatives" in result.stdout
    assert result.stdout.splitlines()[-1] == "0 False"


# --- long runs of characters -------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_command_parses_nested_brackets(form, pipeline, tmp_path, capsys):
    lines = ["The cat slept.", "[" * 3000 + "]" * 3000, "It rained."]
    if form == "jsonl":
        lines = [json.dumps({"text": line}) for line in lines]
    source, target = tmp_path / "in.dat", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines), encoding="utf8")
    options = parse_options(str(pipeline), [str(source)], str(target), from_format=form)
    assert parse(options) == 0
    written = [json.loads(line) for line in target.read_text(encoding="utf8").splitlines()]
    assert [doc["text"] for doc in written][1] == "[" * 3000 + "]" * 3000
    assert len(written) == 3
    assert f"{source}:2: tokenized 6000 characters without whitespace" in capsys.readouterr().err


def test_limit_is_an_option(pipeline, tmp_path, run):
    source, target = tmp_path / "in.txt", tmp_path / "out.conllu"
    source.write_text("abcdef gh\n", encoding="utf8")
    done = run("parse", pipeline, source, "-o", target, "--max-word-length", "4")
    assert done.returncode == 0
    assert "tokenized 6 characters" in str(done.stderr)
    words = [line.split("\t")[1] for line in target.read_text().splitlines() if line[:1].isdigit()]
    assert words == ["abcd", "ef", "gh"]


# --- memory ------------------------------------------------------------------------------------


def new_words(path, n):
    path.write_text("".join(f"The wu{i}g saw a zi{i}b.\n" for i in range(n)), encoding="utf8")
    return path


@pytest.mark.workflow
@pytest.mark.parametrize("name", ["out.conllu", "out.jsonl", "out"])
def test_memory_does_not_grow_with_the_input(name, pipeline, tmp_path, monkeypatch):
    nlp = ParserSettings(str(pipeline)).load()
    monkeypatch.setattr(ParserSettings, "load", lambda settings: nlp)
    monkeypatch.setattr("spacy_rootmind.cli.parse.CHUNK_RECORDS", 16)
    monkeypatch.setattr("spacy_rootmind.cli.outputs.PART_DOCS", 16)
    peaks = []
    # The first time, things are made that stay. And where words are new, spaCy's tables grow, by
    # some 30 bytes each.
    for n in (48, 48, 480):
        source = new_words(tmp_path / "a.txt", 48)
        source.write_bytes(source.read_bytes() * (n // 48))
        options = parse_options(
            str(pipeline),
            [str(source)],
            str(tmp_path / str(len(peaks)) / name),
            to_format="spacy" if name == "out" else None,
        )
        gc.collect()
        tracemalloc.start()
        try:
            assert parse(options) == 0
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # 1000 bytes for each of 432 texts more; a Doc takes some thousands. Tables of other modules may
    # grow meanwhile.
    assert peaks[2] < peaks[1] + 432 * 1000


def test_vocabulary_does_not_grow_with_the_input(pipeline, tmp_path, monkeypatch):
    loaded = []

    def load(settings):
        loaded.append(real(settings))
        return loaded[-1]

    real = ParserSettings.load
    monkeypatch.setattr(ParserSettings, "load", load)
    monkeypatch.setattr("spacy_rootmind.cli.parse.CHUNK_RECORDS", 32)
    lengths = []
    for n in (32, 96):
        source = new_words(tmp_path / "a.txt", n)
        options = parse_options(str(pipeline), [str(source)], str(tmp_path / f"{n}.conllu"))
        assert parse(options) == 0
        vocab = loaded[-1].vocab
        lengths.append((len(vocab.strings), "wu5g" in vocab.strings))
    assert lengths[0] == lengths[1]
    assert not lengths[0][1]


# --- interrupted -------------------------------------------------------------------------------

FORMATS = {"out.conllu": [], "out.jsonl": [], "out": ["--to", "spacy"], "out.spacy": []}


@posix_only
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("out.conllu", "SIGTERM"),
        *(
            pytest.param(name, order, marks=pytest.mark.workflow)
            for name, order in [
                ("out.jsonl", "SIGINT"),
                ("out.conllu", "SIGKILL"),
                ("out", "SIGKILL"),
                ("out.spacy", "SIGTERM"),
            ]
        ),
    ],
)
def test_run_that_is_ended_by_a_signal_leaves_no_output(
    name, order, drastic, code, tmp_path, run, monkeypatch
):
    source = write_texts(tmp_path / "a.txt", 20, [(10, "drastic")])
    output = tmp_path / "results" / name
    command = ["parse", drastic, source, "-o", output, "--code", code, "-b", "4", *FORMATS[name]]
    monkeypatch.setenv("CLI_TEST_ORDER", order)
    result = run(*command)
    monkeypatch.delenv("CLI_TEST_ORDER")
    left = os.listdir(output.parent)
    if order == "SIGKILL":
        assert result.returncode == -signal.SIGKILL
        assert left == [f"{name}.partial"]
        refused = run(*command)
        assert refused.returncode == 1
        assert b"did not finish" in refused.stderr
        assert os.listdir(output.parent) == left
    else:
        assert result.returncode == 128 + getattr(signal, order)
        assert result.stderr.decode().startswith("Interrupted after ")
        assert len(result.stderr.splitlines()) == 1
        assert left == []
    again = run(*command, *(["--force"] if left else []))
    assert again.returncode == 0, again.stderr
    assert b"20 texts" in again.stderr
    assert os.listdir(output.parent) == [name]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_run_that_cannot_write_is_one_error_and_leaves_nothing(
    name, call, pipeline, tmp_path, monkeypatch, capsys
):
    source = write_texts(tmp_path / "a.txt", 5)
    output = tmp_path / "sub" / name
    options = parse_options(
        pipeline, [str(source)], str(output), to_format="spacy" if name == "out" else None
    )

    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(CommandError, match=r"Cannot write .*No space left"):
            parse(options)
    assert os.listdir(output.parent) == []
    assert parse(options) == 0
    assert os.listdir(output.parent) == [name]


@posix_only
def test_file_that_may_not_grow_is_one_error(pipeline, tmp_path, run):
    import resource

    source = write_texts(tmp_path / "a.txt", 50)
    output = tmp_path / "results" / "out.conllu"
    result = run(
        *("parse", pipeline, source, "-o", output),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert result.returncode == 1
    assert b"Cannot write" in result.stderr
    assert b"Traceback" not in result.stderr
    assert os.listdir(output.parent) == []


# --- streams -----------------------------------------------------------------------------------


@posix_only
def test_closed_stdout_ends_the_run_silently(pipeline, tmp_path):
    source = write_texts(tmp_path / "a.txt", 1000)
    command = [sys.executable, "-m", "spacy_rootmind", "parse", pipeline, source]
    command += ["-b", "16", "--quiet"]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"# newpar\n"
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=120) == 1
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_under_stdout_is_reported(pipeline, run):
    with open("/dev/full", "wb") as full:
        result = run(
            *("parse", pipeline, "-"),
            input=b"It rained.\n",
            capture_output=False,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert result.returncode == 1
    assert b"Cannot write stdout: No space left on device" in result.stderr
    assert b"Traceback" not in result.stderr


def test_progress_option_shows_a_bar(pipeline, tmp_path, capsys):
    source = write_texts(tmp_path / "a.txt", 5)
    for progress, shown in ((None, False), (True, True), (False, False)):
        options = parse_options(
            str(pipeline),
            [str(source)],
            str(tmp_path / "out.conllu"),
            progress=progress,
            force=True,
        )
        assert parse(options) == 0
        captured = capsys.readouterr()
        assert ("Parsing" in captured.err) is shown
        assert captured.out == ""
