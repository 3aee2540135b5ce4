"""`python -m spacy_rootmind parse`, as a whole."""

import errno
import json
import os
import re
import signal
import subprocess
import sys

import pytest
import spacy
import typer
from commandline import parse_options, run_module, sentences_in

from spacy_rootmind.cli.app import app
from spacy_rootmind.cli.parse import parse
from spacy_rootmind.parsing.settings import ParserSettings, RunError

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


# --- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "lines", "texts", "report"),
    [
        (
            [],
            b"The cat.\n\nIt rained.\n",
            ["The cat.", "It rained."],
            b"2 documents, 2 sentences, 6 w",
        ),
        ([], b"It rained.\n", ["It rained."], b"1 document, 1 sentence, 3 words"),
        (
            ["-f", "paragraphs"],
            b"The cat\nslept.\n\nIt rained.\n",
            ["The cat\nslept.", "It rained."],
            b"2 documents",
        ),
    ],
)
def test_standard_input_to_standard_output(pipeline, run, options, lines, texts, report):
    result = run("parse", pipeline, "-", "--to", "jsonl", *options, input=lines)
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == texts
    assert report in result.stderr


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


@pytest.mark.parametrize("name", ["kbest", "sample"])
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

    first = parses("a.conllu", k=10)
    assert None not in first[:10]
    assert first[10] is None
    assert parses("b.conllu", k=10) == first
    n_different = len(set(first[:10]))
    assert n_different == 10 if name == "kbest" else n_different > 1


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


def test_nothing_to_parse(pipeline, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n  \n", encoding="utf8")
    output = tmp_path / "out.conllu"
    assert parse(parse_options(str(pipeline), [str(tmp_path / "a.txt")], str(output))) == 0
    assert output.read_bytes() == b""
    assert "Wrote 0 documents" in capsys.readouterr().err


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


@pytest.mark.parametrize("name", ["out.conllu", "out.jsonl", "out.spacy"])
def test_nothing_is_written_if_all_records_fail(name, pipeline, tmp_path):
    source, output = tmp_path / "a.jsonl", tmp_path / name
    source.write_text("{\n[]\n", encoding="utf8")
    with pytest.raises(RunError, match="Nothing was written: 2 of 2 records failed"):
        parse(parse_options(str(pipeline), [str(source)], str(output)))
    assert os.listdir(tmp_path) == ["a.jsonl"]
    # An earlier output stays.
    output.write_text("old", encoding="utf8")
    with pytest.raises(RunError, match="Nothing was written"):
        parse(parse_options(str(pipeline), [str(source)], str(output), force=True))
    assert output.read_text(encoding="utf8") == "old"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A pipeline without the parser."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path_factory.mktemp("other") / "model")
    return tmp_path_factory.getbasetemp() / "other0" / "model"


PARSE, BULK, TEXT = "parse {pipeline} ", "bulk model a.txt --output out ", "--text It_rained. "
SET = "parse {pipeline} a.txt -o out.conllu --set "
LONG = "x" * 300


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("parse", 2, ""),
        ("parse model", 2, "expected files to parse or --text, received neither"),
        ("parse model a.txt " + TEXT, 2, "files to parse or --text, received both"),
        ("parse model - --alternatives best", 2, "'best' is not one of kbest"),
        (BULK + "-n 0", 2, "'--n-workers'"),
        # Pipelines and their settings.
        ("parse no_such_model -", 1, "Cannot load no_such_model"),
        ("parse {other} a.txt", 1, "no component root_mst"),
        (SET + "confidence=true", 1, "confidence=true"),
        (SET + "components.root_mst.temperature=-1", 1, "Cannot load {pipeline}"),
        (SET + "components.root_mst.x=1", 1, "{pipeline}: root_mst.x: unexpected argument"),
        (SET + "components.root_mst.model.x=1", 1, ": root_mst.model.x: unexpected argument"),
        (SET + "nlp.batch_size=x", 1, "batch_size: Input should be a valid integer"),
        ("parse model - --code no_such_file.py", 1, "Cannot import"),
        (PARSE + "a.txt --gpu-id 99", 1, "Cannot use GPU 99"),
        (PARSE + "a.txt --arcs 1.5", 1, "Cannot use --arcs"),
        # Files.
        (PARSE + "no_such_file.txt", 1, "not found: no_such_file.txt"),
        (PARSE + "a.txt -o out.xyz", 1, "Cannot tell the format of out.xyz"),
        (PARSE + "a.conllu -F -o a.conllu", 1, "a.conllu is both input and output"),
        # An unfinished output, which --force replaces.
        (PARSE + "b.jsonl.partial -f text -F -o b.jsonl", 1, "partial is both input and output"),
        (PARSE + f"a.txt -o {LONG}.conllu", 1, "x.conllu: File name too long"),
        # The name itself is allowed, but not that of the unfinished output.
        (PARSE + f"a.txt -o {'x' * 245}.conllu", 1, "x.conllu: File name too long"),
        (PARSE + f"a.txt -o {'x/' * 3000}y.jsonl", 1, "File name too long"),
        (f"init-config {LONG}.cfg", 1, "x.cfg"),
    ],
    ids=lambda each: each[:60] if isinstance(each, str) else None,
)
def test_errors_come_before_anything_is_written(
    arguments, code, message, pipeline, other, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = ["a.conllu", "a.jsonl", "a.md", "a.txt", "b.jsonl.partial"]
    for name in names:
        (tmp_path / name).write_text("It rained.\n", encoding="utf8")
    result = run(*(each.format(pipeline=pipeline, other=other) for each in arguments.split()))
    assert result.returncode == code
    # Without a command's arguments, its help.
    assert result.stdout == b"" or not message
    assert message.format(pipeline=pipeline) in " ".join(result.stderr.decode().split())
    assert sorted(os.listdir(tmp_path)) == names
    assert {(tmp_path / name).read_text() for name in names} == {"It rained.\n"}


def test_heads_are_kept_and_texts_may_be_sentences(web_pipeline, run, tmp_path):
    source, target, text = (tmp_path / name for name in ("in.conllu", "out.conllu", "in.txt"))
    one = ["--set", "components.root_mst.sentences=doc"]
    rows = [f"{i}\t{word}\t_\t_\t_\t_\t_\t_\t_\t_" for i, word in enumerate(["Go", "home"], 1)]
    rows[0] = rows[0].replace("_\t_\t_\t_\t_\t_\t_", "_\t_\t_\t_\t2\tdiscourse\t_", 1)
    cycle = ["1\ta\t_\t_\t_\t_\t1\tdep\t_\t_"]
    source.write_text("\n".join([*rows, "", *cycle, ""]), encoding="utf8")
    result = run("parse", web_pipeline, source, "-o", target, "--keep-heads")
    assert result.returncode == 1
    assert f"{source}:4: expected no cycle" in result.stderr.decode()
    [sentence] = sentences_in(target)
    assert [row[6:8] for row in sentence.words] == [["2", "discourse"], ["0", "root"]]
    text.write_text("It rained. She slept.\nHe sat.\n", encoding="utf8")
    result = run("parse", web_pipeline, text, "--quiet", *one)
    assert result.stderr == b""
    assert [len(sentence.words) for sentence in sentences_in(result.stdout)] == [6, 3]


def test_every_option_has_a_help():
    for name, command in typer.main.get_command(app).commands.items():
        for option in command.params:
            assert option.name == "help" or option.help, (name, option.name)


# --- memory ------------------------------------------------------------------------------------


def new_words(path, n):
    path.write_text("".join(f"The wu{i}g saw a zi{i}b.\n" for i in range(n)), encoding="utf8")
    return path


def test_vocabulary_does_not_grow_with_the_input(pipeline, tmp_path, monkeypatch):
    loaded = []

    def load(settings):
        loaded.append(real(settings))
        return loaded[-1]

    real = ParserSettings.load
    monkeypatch.setattr(ParserSettings, "load", load)
    monkeypatch.setattr("spacy_rootmind.parsing.stream.CHUNK_RECORDS", 32)
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


@posix_only
def test_run_that_is_ended_by_a_signal_leaves_no_output(drastic, code, tmp_path):
    """Other signals, at any moment and for all formats: `tests/faults`."""
    source = write_texts(tmp_path / "a.txt", 20, [(10, "drastic")])
    output = tmp_path / "results" / "out.conllu"
    command = ["parse", drastic, source, "-o", output, "--code", code]
    command += ["--set", "nlp.batch_size=4"]
    result = run_module("spacy_rootmind", *command, cwd=tmp_path, CLI_TEST_ORDER="SIGTERM")
    assert result.returncode == 128 + signal.SIGTERM
    assert result.stderr.decode().startswith("Interrupted: ")
    assert len(result.stderr.splitlines()) == 1
    assert os.listdir(output.parent) == []


@pytest.mark.parametrize("name", ["out.conllu", "out.spacy"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_run_that_cannot_write_is_one_error_and_leaves_nothing(
    name, call, pipeline, tmp_path, monkeypatch, capsys
):
    source = write_texts(tmp_path / "a.txt", 5)
    output = tmp_path / "sub" / name
    options = parse_options(pipeline, [str(source)], str(output))

    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(RunError, match=r"Cannot write .*No space left"):
            parse(options)
    assert os.listdir(output.parent) == []
    assert parse(options) == 0
    assert os.listdir(output.parent) == [name]


# --- streams -----------------------------------------------------------------------------------


@posix_only
def test_closed_stdout_ends_the_run_silently(pipeline, tmp_path):
    source = write_texts(tmp_path / "a.txt", 1000)
    command = [sys.executable, "-m", "spacy_rootmind", "parse", pipeline, source]
    command += ["--set", "nlp.batch_size=16", "--quiet"]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"# newdoc id = a.txt\n"
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=120) == 1
    assert b"Traceback" not in errors
    assert b"BrokenPipe" not in errors


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_under_stdout_is_reported(pipeline, tmp_path):
    # By an interpreter of its own, which writes the rest of a buffer when it ends.
    command = [sys.executable, "-m", "spacy_rootmind", "parse", pipeline, "--text", "It rained."]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr.decode() == "Cannot write stdout: No space left on device\n"


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


def test_long_runs_are_cut_and_told_of(pipeline, tmp_path, capsys):
    lines = ["The cat slept.", "[" * 3000 + "]" * 3000, f"It {'b' * 1001} {'d' * 1300} rained."]
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines), encoding="utf8")
    assert parse(parse_options(str(pipeline), [str(source)], str(target))) == 0
    written = [json.loads(line) for line in target.read_text(encoding="utf8").splitlines()]
    assert [doc["text"] for doc in written] == lines
    warnings = " ".join(capsys.readouterr().err.split())
    for line, size in ((2, 6000), (3, 2301)):
        expected = f"{source}:{line}: tokenized {size} characters"
        assert f"{expected} without whitespace in pieces" in warnings
