"""Reading of treebanks in CoNLL-U, and errors."""

import pytest
from treebank import TreebankError, find_files, read_sentences, space_ends
from ud_treebanks import read_sentence, row


def word(number, form, head, label="dep", misc="_"):
    return "\t".join([str(number), form, *"_" * 4, str(head), label, "_", misc])


DU = [
    "# sent_id = 1",
    "# text = Il parle du chat.",
    word(1, "Il", 2, "nsubj"),
    word(2, "parle", 0, "root", "CorrectSpaceAfter=No"),
    row("2.1", "et"),
    row("3-4", "du"),
    word(3, "de", 5, "case", "SpaceAfter=No"),
    word(4, "le", 5, "det"),
    word(5, "chat", 2, "obl", "Gloss=cat|SpaceAfter=No"),
    word(6, ".", 2, "punct"),
]


def test_sentence_has_words_and_tokens():
    sentence = read_sentence(DU)
    assert [columns[1] for columns in sentence.words] == ["Il", "parle", "de", "le", "chat", "."]
    assert sentence.heads == [2, 0, 5, 5, 2, 2]
    tokens = [(t.form, t.spaced, t.first, t.stop) for t in sentence.tokens]
    assert tokens == [
        ("Il", True, 0, 1),
        ("parle", True, 1, 2),
        ("du", True, 2, 4),
        ("chat", False, 4, 5),
        (".", True, 5, 6),
    ]
    assert sentence.text == "Il parle du chat. "
    assert [sentence.text[s : s + 1] for s in sentence.starts] == ["I", "p", "d", "c", "."]
    assert sentence.stated_text == "Il parle du chat."
    assert sentence.n_empty == 1
    assert sentence.is_projective


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        # How lines are checked: tests/formats/test_readers.py.
        (["1 a _ _ _ _ 0 root _ _"], "10 columns"),
        ([word(1, "a", 0), word(2, "b", 0)], "one root"),
        ([word(1, "a", 2), word(2, "b", 1)], "one root"),
        ([word(1, "a", 0), word(2, "b", 3)], "one root"),
        ([word(1, "a", 0), word(2, "b", "_")], "one root"),
    ],
)
def test_invalid_sentences_raise(lines, says):
    with pytest.raises(TreebankError, match=rf"^a\.conllu:1: .*{says}"):
        read_sentence(lines)


def test_treebank_without_its_text_raises(tmp_path):
    path = tmp_path / "x_y-ud-train.conllu"
    lines = [word(1, "_", 0), word(2, "_", 1), word(3, ".", 1)]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf8")
    with pytest.raises(TreebankError, match="without its text"):
        read_sentences([path])


def write(folder, *names):
    for name in names:
        (folder / name).write_text("\n".join(DU) + "\n\n", encoding="utf8")


def test_a_folder_has_one_treebank(tmp_path):
    with pytest.raises(TreebankError, match="found none"):
        find_files(tmp_path)
    write(tmp_path, "en_a-ud-train.conllu", "en_b-ud-test.conllu")
    with pytest.raises(TreebankError, match="en_a, en_b"):
        find_files(tmp_path)


def sentence_of(forms, spaced):
    misc = ["_" if space else "SpaceAfter=No" for space in spaced]
    lines = [
        word(i, form, i - 1, misc=m) for i, (form, m) in enumerate(zip(forms, misc, strict=True), 1)
    ]
    return read_sentence(lines)


def test_a_space_follows_each_sentence_of_a_script_with_spaces():
    first = sentence_of(["One", "sentence", "."], [True, False, False])
    second = sentence_of(["One", "more", "of", "them"], [True, True, True, True])
    [ended, as_it_was] = space_ends({"train": [first, second]})["train"]
    assert ended.text == "One sentence. "
    assert as_it_was == second


def test_no_space_follows_a_sentence_of_a_script_without():
    sentences = {"train": [sentence_of(["我", "爱", "猫", "。"], [False] * 4)]}
    assert space_ends(sentences) == sentences
