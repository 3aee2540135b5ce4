"""`python -m spacy_rootmind review`: the words whose head and label are least certain."""

from html.parser import HTMLParser

import pytest
import spacy
from commandline import misc, parse_options, sentences_in

from spacy_rootmind import configure
from spacy_rootmind.cli.errors import CommandError
from spacy_rootmind.cli.options import ReviewOptions
from spacy_rootmind.cli.parse import parse
from spacy_rootmind.parsing.settings import ParserSettings


def review(pipeline, inputs, output, arcs=None, **options):
    settings = ParserSettings(str(pipeline), arcs=arcs)
    options = ReviewOptions(settings, [str(path) for path in inputs], [], str(output), **options)
    assert parse(options) == 0
    return output.read_text("utf8")


@pytest.fixture(scope="module")
def probable(pipeline):
    """The parser, with the probabilities of all arcs."""
    nlp = spacy.load(pipeline)
    configure(nlp, confidence=True, arc_threshold=1e-3)
    return nlp


def make_doc(nlp, sentence):
    words = [row[1] for row in sentence.words]
    return nlp(
        spacy.tokens.Doc(nlp.vocab, words=words, sent_starts=[True] + [False] * (len(words) - 1))
    )


@pytest.mark.parametrize("n_words", [1, 7])
def test_least_probable_words_of_texts(pipeline, probable, tmp_path, n_words):
    texts = ["The cat saw a dog. A child slept.", "The farmer saw the letter in a window.", "Cats!"]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts), "utf8")
    expected = sorted((round(t._.arc_prob, 6), t.text) for text in texts for t in probable(text))
    review(pipeline, [path], tmp_path / "out.conllu", n_words=n_words)
    found = []
    for sentence in sentences_in(tmp_path / "out.conllu"):
        for word in map(int, sentence.comment("review").split()):
            row = sentence.words[word - 1]
            found.append((float(misc(row)["ArcProb"]), row[1]))
    assert len(found) == n_words
    assert [prob for prob, _ in sorted(found)] == pytest.approx(
        [prob for prob, _ in expected[:n_words]], abs=2e-5
    )
    # The sentence of the least probable word comes first.
    assert min(found)[0] == found[0][0]


def test_given_arcs_are_ranked_and_kept(pipeline, probable, dev_conllu, tmp_path):
    given = {sentence.comment("sent_id"): sentence for sentence in sentences_in(dev_conllu)}
    expected = []
    for sentence in given.values():
        for token, row in zip(make_doc(probable, sentence), sentence.words, strict=True):
            head = int(row[6]) - 1 if row[6] != "0" else token.i
            label = "ROOT" if row[6] == "0" else row[7]
            probs = [a.prob for a in token._.arcs if (a.head.i, a.dep) == (head, label)]
            expected.append(sum(probs))
    output = tmp_path / "out.conllu"
    review(pipeline, [dev_conllu], output, n_words=20, given_heads=True)
    found = []
    for sentence in sentences_in(output):
        original = given[sentence.comment("sent_id")].words
        assert [row[:8] for row in sentence.words] == [row[:8] for row in original]
        numbers = map(int, sentence.comment("review").split())
        found += [float(misc(sentence.words[number - 1])["ArcProb"]) for number in numbers]
    assert sorted(found) == pytest.approx(sorted(expected)[:20], abs=2e-5)
    # A corrected row goes back into the pipeline.
    sentence = sentences_in(output)[0]
    kept = tmp_path / "kept.conllu"
    assert parse(parse_options(pipeline, [str(output)], str(kept), keep_heads=True)) == 0
    [again, *_] = sentences_in(kept)
    assert [row[6:8] for row in again.words] == [row[6:8] for row in sentence.words]


def test_table_and_page_show_each_word(pipeline, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("The cat saw a <dog> & the farmer.\nA child slept.", "utf8")
    table = review(pipeline, [path], tmp_path / "table", to_format="table")
    header, *lines = table.splitlines()
    assert header.split()[:2] == ["prob", "word"]
    assert len(lines) > 5
    assert all("[" in line and " %" in line for line in lines)
    probs = [float(line.split()[0].removeprefix("<")) for line in lines]
    assert probs == sorted(probs)
    page = review(pipeline, [path], tmp_path / "page.html")
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: tags.append(tag)
    parser.feed(page)
    assert tags.count("svg") == tags.count("h3") == 2
    assert tags.count("b") == len(lines)
    assert "<dog" not in page


def test_nothing_to_review(pipeline, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("", "utf8")
    assert review(pipeline, [path], tmp_path / "out", to_format="table") == ""
    assert review(pipeline, [path], tmp_path / "out.conllu") == ""


def test_given_heads_need_conllu(pipeline, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("A child slept.", "utf8")
    options = ReviewOptions(ParserSettings(str(pipeline)), [str(path)], given_heads=True)
    with pytest.raises(CommandError, match="--given-heads with files of text"):
        parse(options)


def test_a_higher_threshold_of_arcs_hides_no_given_arc(pipeline, dev_conllu, tmp_path):
    tables = []
    for name, arcs in (("low", None), ("high", 0.9)):
        output = tmp_path / f"{name}.conllu"
        tables.append(review(pipeline, [dev_conllu], output, arcs, given_heads=True))
    assert tables[0] == tables[1]
