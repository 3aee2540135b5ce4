"""Writing of dependency trees into Docs, and reading and comparison of their tokens.

spaCy's own routes (`Doc.from_array`, `token.head = ...`) hand subtree edges from dependents to
heads in a fixed number of sweeps, which falls short on strongly non-projective trees: `left_edge`,
`subtree` and `doc.sents` then come out wrong. Here every token passes its edges on once, after all
of its own dependents have, so any tree comes out right in O(n).
"""
from libc.stdint cimport int8_t, int32_t, uint64_t

import numpy as np

from spacy.attrs cimport IS_ALPHA, IS_SPACE
from spacy.lexeme cimport Lexeme
from spacy.parts_of_speech cimport ADV, PART
from spacy.structs cimport TokenC
from spacy.tokens.doc cimport Doc

cdef enum:
    MAX_FEATS = 4096


def set_trees(
        Doc doc, const int32_t[::1] heads not None, const uint64_t[::1] deps not None,
        const int32_t[::1] sentence_starts not None):
    """Set heads, labels, edges and sentence starts of all tokens.

    Parameters
    ----------
    doc
        The Doc to write to.
    heads : int32 of shape (len(doc),)
        Index of each token's head in the Doc; a root has its own.
    deps : uint64 of shape (len(doc),)
        Label hashes, already in the StringStore.
    sentence_starts : int32 of shape (n_sentences + 1,)
        First token of each sentence in ascending order, and len(doc).

    Raises
    ------
    ValueError
        Before anything is written, if a head lies outside its token's sentence or a sentence does
        not have exactly one tree.
    """
    cdef Py_ssize_t n = doc.length
    cdef Py_ssize_t s, i, place
    cdef TokenC* tokens = doc.c
    cdef TokenC* head
    cdef int32_t[::1] order = np.empty(n, dtype=np.int32)
    if heads.shape[0] != n or deps.shape[0] != n:
        raise ValueError(
            f"expected {n} heads and labels, one a token, "
            f"received {heads.shape[0]} and {deps.shape[0]}")
    if sentence_starts.shape[0] < 1 or sentence_starts[0] != 0 or (
            sentence_starts[sentence_starts.shape[0] - 1] != n):
        raise ValueError("expected sentence starts from 0 to the number of tokens")
    for s in range(1, sentence_starts.shape[0]):
        if sentence_starts[s] <= sentence_starts[s - 1]:
            raise ValueError("expected sentence starts in ascending order")
    _bottom_up(heads, sentence_starts, np.zeros(n, dtype=np.int32), order)
    for i in range(n):
        tokens[i].head = <int>(heads[i] - i)
        tokens[i].dep = deps[i]
        tokens[i].l_kids = tokens[i].r_kids = 0
        tokens[i].l_edge = tokens[i].r_edge = <int>i
        tokens[i].sent_start = -1
    for place in range(n):
        i = order[place]
        if heads[i] == i:
            continue
        head = &tokens[heads[i]]
        head.l_edge = min(head.l_edge, tokens[i].l_edge)
        head.r_edge = max(head.r_edge, tokens[i].r_edge)
        if i < heads[i]:
            head.l_kids += 1
        else:
            head.r_kids += 1
    for s in range(sentence_starts.shape[0] - 1):
        tokens[sentence_starts[s]].sent_start = 1


def join_trees(
        const Py_ssize_t[::1] starts not None, const Py_ssize_t[::1] words not None,
        const int32_t[::1] heads not None, const int32_t[::1] labels not None,
        int32_t space_label):
    """Convert the trees of sentences from words to tokens; returns heads and numbers of labels.

    Whitespace is attached to the word before it in its sentence, or else to the first word, with
    `space_label`. In a sentence without words, the first token is the root.

    Parameters
    ----------
    starts : intp array of shape (n_sentences + 1,)
        The first token of each sentence, and the number of tokens.
    words : intp array of shape (n_words,)
        The tokens that are words.
    heads, labels : int32 array of shape (n_words + n_sentences,)
        A row for the ROOT of each sentence and then one for each word: the place of its head in
        the sentence, 0 for ROOT, and the number of its label, 0 for the root's.
    """
    cdef Py_ssize_t s, token, first, word = 0, row = 0
    cdef Py_ssize_t n = starts[starts.shape[0] - 1]
    cdef int32_t above
    cdef int32_t[::1] token_heads = np.empty(n, dtype=np.int32)
    cdef int32_t[::1] token_labels = np.full(n, space_label, dtype=np.int32)
    for s in range(starts.shape[0] - 1):
        first = word
        above = <int32_t>starts[s]
        if word < words.shape[0] and words[word] < starts[s + 1]:
            above = <int32_t>words[word]
        else:
            token_labels[above] = 0
        row += 1
        for token in range(starts[s], starts[s + 1]):
            if word < words.shape[0] and words[word] == token:
                above = <int32_t>token
                token_heads[token] = <int32_t>words[first + heads[row] - 1] if heads[row] else above
                token_labels[token] = labels[row]
                word += 1
                row += 1
            else:
                token_heads[token] = above
    return token_heads.base, token_labels.base


def read_tokens(list docs not None):
    """Read the tokens of Docs, one Doc after another.

    Returns uint64 rows, (3, n_tokens), of pos, morph and dep, and int8 rows, (5, n_tokens): whether
    a token has a label, is whitespace, is alphabetic, and is whitespace or has no word before it in
    its Doc; and `sent_start`.
    """
    cdef Doc doc
    cdef Py_ssize_t i, place = 0
    cdef const TokenC* token
    cdef bint is_space, has_word
    n_tokens = sum(map(len, docs))
    numbers, flags = np.empty((3, n_tokens), np.uint64), np.empty((5, n_tokens), np.int8)
    cdef uint64_t[:, ::1] columns = numbers
    cdef int8_t[:, ::1] marks = flags
    for doc in docs:
        has_word = False
        for i in range(doc.length):
            token = &doc.c[i]
            columns[0, place] = <uint64_t>token.pos
            columns[1, place] = token.morph
            columns[2, place] = token.dep
            is_space = Lexeme.c_check_flag(token.lex, IS_SPACE)
            marks[0, place] = token.dep != 0
            marks[1, place] = is_space
            marks[2, place] = Lexeme.c_check_flag(token.lex, IS_ALPHA)
            marks[3, place] = is_space or not has_word
            marks[4, place] = <int8_t>token.sent_start
            has_word = has_word or not is_space
            place += 1
    return numbers, flags


def read_words(
        list sentences not None, const int8_t[::1] number_of_pos not None, dict known not None,
        read_feats not None):
    """Read what rules of UD need of the words of sentences, as spacy_rootmind.guidelines.words.

    Parameters
    ----------
    sentences : list of (Doc, intp array)
        A Doc, and its tokens that are the words of a sentence.
    number_of_pos
        The number of each part of speech.
    known : dict
        What rules need of features, by their hash. Others are added, up to MAX_FEATS.
    read_feats : callable
        Reads it from features as in CoNLL-U: ExtPos, -1 without one, Polarity=Neg and Poss=Yes.
    """
    cdef Doc doc
    cdef Py_ssize_t i, place = 0
    cdef const Py_ssize_t[::1] tokens
    cdef const TokenC* token
    cdef int8_t external, negative, possessive
    if len(known) > MAX_FEATS:
        known.clear()
    found = np.zeros((5, sum([1 + len(tokens) for _, tokens in sentences])), dtype=np.int8)
    cdef int8_t[:, ::1] words = found
    for doc, tokens in sentences:
        for i in range(tokens.shape[0]):
            place += 1
            token = &doc.c[tokens[i]]
            feats = known.get(token.morph)
            if feats is None:
                feats = read_feats(doc.vocab.strings[token.morph] if token.morph else "")
                known[token.morph] = feats
            external, negative, possessive = feats
            words[0, place] = words[1, place] = number_of_pos[<int>token.pos]
            if external >= 0:
                words[1, place] = external
            words[2, place] = negative and (token.pos == PART or token.pos == ADV)
            words[3, place] = possessive
            # Between words that follow each other there is no token of whitespace.
            words[4, place] = token.spacy or (
                i + 1 < tokens.shape[0] and tokens[i + 1] - tokens[i] > 1)
        place += 1
    return found


cdef int _bottom_up(
        const int32_t[::1] heads, const int32_t[::1] sentence_starts,
        int32_t[::1] pending, int32_t[::1] order) except -1:
    """Order tokens so that each comes after all of its dependents; checks the trees on the way.

    `pending` counts each token's dependents that are not in the order yet, from 0 on.
    """
    cdef Py_ssize_t n = heads.shape[0]
    cdef Py_ssize_t n_ordered = 0
    cdef Py_ssize_t s, i, start, stop
    cdef int32_t node
    cdef int n_roots
    for s in range(sentence_starts.shape[0] - 1):
        start = sentence_starts[s]
        stop = sentence_starts[s + 1]
        n_roots = 0
        for i in range(start, stop):
            if heads[i] < start or heads[i] >= stop:
                raise ValueError(
                    f"token {i} has head {heads[i]}, outside its sentence {start}..{stop - 1}")
            if heads[i] == i:
                n_roots += 1
            else:
                pending[heads[i]] += 1
        if n_roots != 1:
            raise ValueError(
                f"sentence {start}..{stop - 1} has {n_roots} roots, expected exactly one")
        for i in range(start, stop):
            node = <int32_t>i
            while pending[node] == 0:
                pending[node] = -1
                order[n_ordered] = node
                n_ordered += 1
                if heads[node] == node:
                    break
                node = heads[node]
                pending[node] -= 1
    if n_ordered != n:
        raise ValueError(
            f"heads have a cycle: only {n_ordered} of {n} tokens have no cycle below them")
    return 0
