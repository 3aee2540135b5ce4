"""Parts of input files: each document is read once, however the files are cut."""

import gzip

import pytest
import spacy
from spacy.tokens import DocBin

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: the extra [arrow]")
pytest.importorskip("fsspec", reason="needs fsspec: the extra [bulk]")
import fsspec
import pyarrow.parquet as pq

from spacy_rootmind.bulk.arrow_parser import ArrowParser
from spacy_rootmind.bulk.sources import END, Part, Source, cut_source, list_sources, read_part
from spacy_rootmind.formats.lines import InputError
from spacy_rootmind.formats.records import Failure

PARSER = ArrowParser("none")
LINES = ["One two.", "", "  ", "Three", "Ünï cödé.", "", "", "four five", "\tsix\r", "", "end"]
TEXT = "\n".join(LINES)
SENTENCE = "# sent_id = s{0}\n" + "".join(
    f"{i}\tw{i}\t_\t_\t_\t_\t0\t_\t_\t{misc}\n" for i, misc in ((1, "SpaceAfter=No"), (2, "_"))
)


def write(path, content):
    """Write a file, compressed as its suffix says; returns its name."""
    if path.suffix == ".gz":
        content = gzip.compress(content[:7]) + gzip.compress(content[7:])
    elif path.suffix == ".zst":
        content = b"".join(
            pa.compress(part, "zstd", asbytes=True) for part in (content[:7], content[7:])
        )
    path.write_bytes(content)
    return str(path)


def read_all(source, step):
    """Read all parts of a file that is cut into parts of `step` bytes, or bytes of Parquet."""
    found = []
    for i, (start, stop, size) in enumerate(cut_source(source, step, PARSER)):
        found += list(read_part(Part(i, source, start, stop, size), PARSER))
    return found


def assert_cuts_do_not_matter(source, expected, sizes=range(1, 40)):
    for step in [*sizes, 10_000]:
        found = read_all(source, step)
        assert [document.id for document in found] == [document.id for document in expected]
        assert found == expected, step
    assert len({document.id for document in expected}) == len(expected)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_are_read_once(suffix, tmp_path):
    name = write(tmp_path / f"a.txt{suffix}", TEXT.encode())
    [source] = list_sources([name])
    expected = read_all(source, 10_000)
    assert [document.text for document in expected] == [
        line.removesuffix("\r") for line in LINES if line.strip()
    ]
    assert expected[1].id == f"a.txt{suffix}:{TEXT.encode().index(b'Three')}"
    assert_cuts_do_not_matter(source, expected)


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("start", ["", "\n", "\ufeff"])
def test_paragraphs_are_read_once(start, end, tmp_path):
    name = write(tmp_path / "a.txt", (start + TEXT + end).encode())
    [source] = list_sources([name], "paragraphs")
    expected = read_all(source, 10_000)
    texts = ["One two.", "Three\nÜnï cödé.", "four five\n\tsix", "end"]
    assert [document.text for document in expected] == texts
    assert_cuts_do_not_matter(source, expected)


def test_sentences_of_conllu_are_read_once(tmp_path):
    content = (
        "\n".join(SENTENCE.format(i) for i in range(5)) + "\nbad line\n\n" + SENTENCE.format(9)
    )
    [source] = list_sources([write(tmp_path / "a.conllu", content.encode())])
    expected = read_all(source, 10_000)
    assert [not isinstance(document, Failure) for document in expected] == [True] * 5 + [
        False,
        True,
    ]
    assert [document.id for document in expected if not isinstance(document, Failure)] == [
        *(f"s{i}" for i in range(5)),
        "s9",
    ]
    assert expected[0].words == ["w1", "w2"]
    assert expected[0].spaces == [False, True]
    assert expected[0].starts == [True, False]
    assert expected[5].error.startswith("input: expected 10 columns")
    assert_cuts_do_not_matter(source, expected, range(1, 120, 7))


@pytest.mark.parametrize("group", [1, 7, 1000])
def test_rows_of_parquet_are_read_once(group, tmp_path):
    texts = [f"Text number {i}. " * (i % 5) for i in range(100)]
    path = tmp_path / "a.parquet"
    data = {"text": texts, "id": [f"d{i}" for i in range(100)], "other": [b"x" * 1000] * 100}
    pq.write_table(pa.table(data), path, row_group_size=group)
    [source] = list_sources([str(path)])
    expected = read_all(source, 1 << 30)
    assert [document.text for document in expected] == texts
    assert_cuts_do_not_matter(source, expected, (1, 100, 400, 1000))
    assert len(cut_source(source, 400, PARSER)) > 5
    pq.write_table(pa.table({"text": texts}), path, row_group_size=group)
    [source] = list_sources([str(path)])
    assert [document.id for document in read_all(source, 500)] == [
        f"a.parquet:{i}" for i in range(100)
    ]
    pq.write_table(pa.table({"body": texts}), path)
    with pytest.raises(InputError, match="expected a column 'text', found body, id"):
        cut_source(list_sources([str(path)])[0], 100, PARSER)


def test_files_of_folders_patterns_and_other_file_systems_are_found(tmp_path):
    for name in ("b.txt", "a.jsonl.gz", "sub/c.parquet", "notes.md", "_x.txt", ".part-1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = list_sources([str(tmp_path)])
    assert [(s.name, s.form, s.compression) for s in found] == [
        ("a.jsonl.gz", "jsonl", "gzip"),
        ("b.txt", "text", None),
        ("c.parquet", "parquet", None),
    ]
    assert [s.name for s in list_sources([f"{tmp_path}/*.txt"], "jsonl")]
    assert [s.form for s in list_sources([f"{tmp_path}/*.md"])] == ["paragraphs"]
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/bulk/a.txt", b"one\ntwo\n")
    [source] = list_sources(["memory://bulk"])
    assert source.url == "memory:///bulk/a.txt"
    assert [document.text for document in read_all(source, 3)] == ["one", "two"]
    fs.rm("/bulk", recursive=True)


def test_missing_and_unknown_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="found none"):
        list_sources([str(tmp_path / "a.txt")])
    (tmp_path / "a.docx").touch()
    with pytest.raises(InputError, match="cannot tell the format"):
        list_sources([str(tmp_path / "a.docx")])
    with pytest.raises(InputError, match="expected files of a known format"):
        list_sources([str(tmp_path)])
    with pytest.raises(InputError, match="cannot read nowhere://a"):
        list_sources(["nowhere://a"])


def test_files_that_are_read_from_their_beginning_are_one_part(tmp_path):
    name = write(tmp_path / "a.txt.gz", b"some text\n" * 1000)
    [source] = list_sources([name])
    assert cut_source(source, 1, PARSER) == [(0, END, source.size)]
    plain = Source(name, "", "text", None, 100, "")
    assert len(cut_source(plain, 1, PARSER)) == 100


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl.zst", "a.parquet", "a.spacy"])
def test_files_that_are_empty_or_damaged_are_one_part(name, tmp_path):
    (tmp_path / name).touch()
    source = list_sources([str(tmp_path / name)])[0]
    assert cut_source(source, 100, PARSER) == [(0, END, 0)]


def test_docs_are_read_once(tmp_path):
    nlp = spacy.blank("xx")
    texts = [f"Text number {i}. " * (i % 5) for i in range(40)]
    DocBin(docs=[nlp.make_doc(text) for text in texts]).to_disk(tmp_path / "a.spacy")
    [source] = list_sources([str(tmp_path)])
    expected = read_all(source, 100)
    assert [record.make_doc(nlp).text for record in expected] == texts
    assert [record.id for record in expected] == [f"a.spacy:{i + 1}" for i in range(40)]
