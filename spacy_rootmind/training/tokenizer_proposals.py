"""Rules that disagreements of a tokenizer with gold tokens suggest."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from spacy.tokenizer import Tokenizer

from spacy_rootmind.annotation.joining_tokenizer import Reading
from spacy_rootmind.training.tokenizer_rules import CASE, PREFIX, SUFFIX, WHOLE, Rule

# Start and end of each token.
Spans = tuple[tuple[int, int], ...]

# Least occurrences of a string for a special case, least number of different strings for a pattern,
# and least share of the places that a rule concerns in which it is right.
MIN_COUNT, MIN_STRINGS, MIN_SHARE = 2, 3, 0.75
# The same share for marks that are split without any example of the place.
MARK_SHARE = 0.95
# Strings of more changes between letters, digits and others than that are no pattern for others.
MAX_RUNS = 12
# Longer tokens, such as addresses, suggest no affixes.
MAX_TOKEN = 40


@dataclass
class Evidence:
    """Evidence for a rule in the training text: occurrences for and against it, strings for it."""

    right: int = 0
    wrong: int = 0
    strings: set[str] = field(default_factory=set)

    def suffices(self, n_strings: int) -> bool:
        """Tell whether a rule is right often enough, and that many strings ask for it."""
        enough = self.right >= MIN_COUNT and n_strings >= MIN_STRINGS
        return enough and self.right >= MIN_SHARE * (self.right + self.wrong)


class Characters:
    """Classes of characters as patterns: letters with their marks, digits, others by themselves.

    `re` has no class of combining marks, so those that occur in the texts are listed.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        characters = set().union(*texts)
        marks = sorted(c for c in characters if unicodedata.category(c).startswith("M"))
        plain = r"[^\W\d_]"
        self.letter = f"(?:{plain}|[{''.join(marks)}])" if marks else plain
        self.classes = {c: self._find(c) for c in characters}
        self._runs = re.compile(rf"({self.letter}+)|(\d+)|(.)\3*", re.DOTALL)

    def _find(self, character: str) -> str:
        if re.fullmatch(self.letter, character):
            return self.letter
        return r"\d" if re.fullmatch(r"\d", character) else re.escape(character)

    def is_other(self, character: str) -> bool:
        """Tell whether a character is neither a letter nor a digit."""
        return self.classes[character] not in (self.letter, r"\d")

    def runs(self, text: str) -> list[tuple[str, str]]:
        """Split a text into runs of letters, of digits, or of one other character, with classes."""
        return [(self.classes[match[0][0]], match[0]) for match in self._runs.finditer(text)]


class Chunks(NamedTuple):
    """The strings between spaces of a training text, and their tokens so far.

    `readings` counts the strings with their gold tokens, `predicted` has the tokenizer's tokens.
    """

    tokenizer: Tokenizer
    readings: Mapping[Reading, int]
    predicted: Mapping[str, Spans]
    characters: Characters


def common_bounds(a: Spans, b: Spans) -> list[int]:
    """Return the offsets at which tokens of both start or end."""
    bounds = [{offset for span in spans for offset in span} for spans in (a, b)]
    return sorted(bounds[0] & bounds[1])


# --- repeated characters -----------------------------------------------------------------------


def propose_runs(given: Chunks) -> list[Rule]:
    """Propose characters whose repetitions are one token, such as `!!!`."""
    joined: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    for (text, gold), count in given.readings.items():
        starts = {start for start, _ in gold}
        for match in re.finditer(r"([\W_])\1+", text):
            if match.span() in gold:
                joined[match[1]] += count
            elif starts.intersection(range(match.start() + 1, match.end())):
                apart[match[1]] += count
    rules = []
    for char in sorted(joined):
        if joined[char] >= max(MIN_COUNT, MIN_SHARE * (joined[char] + apart[char])):
            mark = re.escape(char)
            # The end of a string is searched for from all places: one that is inside a run would
            # look at the rest of it again.
            rules.append(Rule(PREFIX, f"{mark}{mark}+"))
            rules.append(Rule(SUFFIX, f"{mark}(?<!{mark}{mark}){mark}+"))
    return rules


# --- tokens that are kept together -------------------------------------------------------------


def propose_wholes(given: Chunks) -> list[Rule]:
    """Propose patterns of tokens that are split, the most general ones first.

    A string counts for all of its patterns; those that an accepted pattern covers count no more.
    """
    seen: defaultdict[str, Evidence] = defaultdict(Evidence)
    split: set[str] = set()
    for (text, gold), count in given.readings.items():
        starts, ends = ({span[i] for span in gold} for i in (0, 1))
        for start, end in cores(given.tokenizer, text):
            if start not in starts or end not in ends:
                continue
            core = text[start:end]
            if (start, end) not in gold:
                seen[core].wrong += count
                continue
            seen[core].right += count
            if (start, end) not in given.predicted[text]:
                split.add(core)
    by_pattern: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for core in seen:
        for pattern in patterns_of(core, given.characters):
            by_pattern[pattern].append(core)
    rules: list[Rule] = []
    covered: set[str] = set()
    for key in sorted(by_pattern):
        cores_left = [core for core in by_pattern[key] if core not in covered]
        total = Evidence(
            sum(seen[c].right for c in cores_left), sum(seen[c].wrong for c in cores_left)
        )
        if total.suffices(len(split.intersection(cores_left))):
            covered.update(cores_left)
            rules.append(Rule(WHOLE, key[1]))
    return rules


def cores(tokenizer: Tokenizer, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that spaCy compares with `token_match` while it takes affixes off."""
    start, end = 0, len(text)
    while start < end:
        core = text[start:end]
        yield start, end
        if core in tokenizer.rules or (tokenizer.token_match and tokenizer.token_match(core)):
            return
        prefix = tokenizer.find_prefix(core) or 0
        suffix = tokenizer.find_suffix(core[prefix:]) or 0
        if prefix + suffix == 0:
            return
        start, end = start + prefix, end - suffix


def patterns_of(text: str, characters: Characters) -> Iterator[tuple[int, str]]:
    """Yield patterns that a string of several runs has, with a rank: the most general ones first.

    Any numbers of letters and of digits; the same numbers of digits, and single letters; its first
    or last letters.
    """
    runs = characters.runs(text)
    if not 2 <= len(runs) <= MAX_RUNS:
        return
    general, lengths = [], []
    for class_, run in runs:
        several = class_ + ("{2,}" if len(run) > 1 else "")
        general.append(several if characters.is_other(run[0]) else f"{class_}+")
        lengths.append(rf"\d{{{len(run)}}}" if class_ == r"\d" else several)
    yield 0, "".join(general)
    yield 1, "".join(lengths)
    for i in (0, len(runs) - 1):
        if runs[i][0] == characters.letter:
            yield 2, "".join([*general[:i], re.escape(runs[i][1]), *general[i + 1 :]])


# --- tokens that are split ---------------------------------------------------------------------


def propose_affixes(given: Chunks) -> list[Rule]:
    """Propose prefixes and suffixes at which the treebank splits the tokenizer's tokens."""
    cuts: defaultdict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for (text, gold), count in given.readings.items():
        starts = sorted({start for start, _ in gold})
        for start, end in given.predicted[text]:
            if end - start <= MAX_TOKEN:
                inside = tuple(cut - start for cut in starts if start < cut < end)
                cuts[text[start:end]][inside] += count
    wanted = {
        key
        for token, readings in cuts.items()
        for reading in readings
        if reading
        for key, place in affixes_of(token, given.characters)
        if _is_cut(key[0], place, reading)
    }
    found: defaultdict[tuple[str, str], Evidence] = defaultdict(Evidence)
    for token, readings in cuts.items():
        for key, place in affixes_of(token, given.characters):
            if key not in wanted:
                continue
            for reading, count in readings.items():
                if _is_cut(key[0], place, reading):
                    found[key].right += count
                    found[key].strings.add(token)
                else:
                    found[key].wrong += count
    rules: list[Rule] = []
    covered: set[str] = set()
    for key in sorted(found):
        if found[key].suffices(len(found[key].strings - covered)):
            covered |= found[key].strings
            rules.append(Rule(*key))
    return rules


def _is_cut(kind: str, place: int, reading: tuple[int, ...]) -> bool:
    return bool(reading) and place == (reading[0] if kind == PREFIX else reading[-1])


def affixes_of(token: str, characters: Characters) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield all affixes of a token: kind and pattern, and where they are cut off.

    They are next to the class of a character, which the pattern has as well.
    """
    classes = [characters.classes[c] for c in token]
    for i in range(1, len(token)):
        before, after = re.escape(token[:i]), re.escape(token[i:])
        yield (SUFFIX, f"{after}(?<={classes[i - 1]}{after})"), i
        yield (PREFIX, f"{before}(?={classes[i]})"), i


# --- marks -------------------------------------------------------------------------------------


def propose_marks(given: Chunks) -> list[Rule]:
    """Propose to take marks off the start and the end of words, such as a dash before speech.

    A mark is a character other than letters and digits that the treebank makes a token by itself
    nearly always, so also at places of which the training text has no example.
    """
    seen: defaultdict[str, Evidence] = defaultdict(Evidence)
    for (text, gold), count in given.readings.items():
        for start, end in gold:
            token = text[start:end]
            for char in filter(given.characters.is_other, set(token)):
                if token == char:
                    seen[char].right += count
                    seen[char].strings.update({text} - {char})
                else:
                    seen[char].wrong += count
    letter = given.characters.letter
    rules = []
    for char, evidence in sorted(seen.items()):
        total = evidence.right + evidence.wrong
        if len(evidence.strings) >= MIN_STRINGS and evidence.right >= MARK_SHARE * total:
            mark = re.escape(char)
            if not given.tokenizer.find_prefix(f"{char}a"):
                rules.append(Rule(PREFIX, f"{mark}(?={letter})"))
            if not given.tokenizer.find_suffix(f"a{char}"):
                rules.append(Rule(SUFFIX, f"{mark}(?<={letter}{mark})"))
    return rules


# --- strings -----------------------------------------------------------------------------------


def propose_cases(given: Chunks) -> list[Rule]:
    """Propose special cases: strings whose tokens differ from the treebank's."""
    different: Counter[str] = Counter()
    for (text, gold), count in given.readings.items():
        bounds = common_bounds(gold, given.predicted[text])
        for start, end in pairwise(bounds):
            inside = [
                [span for span in spans if start <= span[0] < end]
                for spans in (gold, given.predicted[text])
            ]
            if inside[0] != inside[1]:
                different[text[start:end]] += count
    strings = {string for string, count in different.items() if count >= MIN_COUNT}
    longest = max(map(len, strings), default=0)
    readings: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for (text, gold), count in given.readings.items():
        bounds = common_bounds(gold, given.predicted[text])
        for i, start in enumerate(bounds):
            for end in bounds[i + 1 :]:
                if end - start > longest:
                    break
                if text[start:end] in strings:
                    spans = [span for span in gold if start <= span[0] < end]
                    parts = tuple(text[a:b] for a, b in spans)
                    readings[text[start:end]][parts] += count
    rules = []
    for string in sorted(strings):
        parts, count = min(readings[string].items(), key=lambda item: (-item[1], item[0]))
        if count >= max(MIN_COUNT, MIN_SHARE * readings[string].total()):
            rules.append(Rule(CASE, string, parts))
    return rules
