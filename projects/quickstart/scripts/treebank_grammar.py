"""Grammar of the quickstart treebank: builds dependency trees directly, in UD v2 style.

A phrase is a run of tokens plus the token that heads it.  Relations are set on the tokens when
phrases are attached, independently of where the tokens end up in the sentence; that is why
displaced material (extraposition, wh-movement) needs no special machinery.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import treebank_lexicon as lex

T = TypeVar("T")


@dataclass(eq=False)
class Tok:
    form: str
    lemma: str
    upos: str
    feats: str = "_"
    head: Tok | None = None
    deprel: str = ""
    space: bool = True


@dataclass
class Phrase:
    toks: list[Tok]
    head: Tok


@dataclass
class NP:
    """A noun phrase with what agreement and pronouns need to know about it."""

    phrase: Phrase
    person: int = 3
    plural: bool = False
    gender: str = "n"
    noun: str = ""
    tail: Phrase | None = None  # a modifier kept aside, to be placed later in the clause


@dataclass(frozen=True)
class Verb:
    lemma: str
    s: str
    past: str
    part: str
    ing: str


@dataclass
class VP:
    """A verb with its dependents, not yet inflected; ``mid`` precedes the verb."""

    verb: Verb
    post: list[tuple[str, Phrase]] = field(default_factory=list)
    mid: list[tuple[str, Phrase]] = field(default_factory=list)
    passive: bool = False
    prep: Tok | None = None  # a stranded preposition, to be attached to its moved noun


# --- small builders ---------------------------------------------------------------------------


def leaf(form: str, upos: str, feats: str = "_", lemma: str = "") -> Phrase:
    tok = Tok(form, lemma or (form if upos == "PROPN" else form.lower()), upos, feats)
    return Phrase([tok], tok)


def attach(rel: str, child: Phrase, head: Tok) -> Phrase:
    child.head.head, child.head.deprel = head, rel
    return child


def join(head: Tok, *phrases: Phrase) -> Phrase:
    return Phrase([tok for phrase in phrases for tok in phrase.toks], head)


def prefix(rel: str, child: Phrase, phrase: Phrase) -> Phrase:
    return join(phrase.head, attach(rel, child, phrase.head), phrase)


def suffix(rel: str, child: Phrase, phrase: Phrase) -> Phrase:
    return join(phrase.head, phrase, attach(rel, child, phrase.head))


def punct(form: str) -> Phrase:
    return leaf(form, "PUNCT")


def comma_before(phrase: Phrase) -> Phrase:
    """UD: the comma that sets off a unit is attached to that unit."""
    return prefix("punct", punct(","), phrase)


def comma_after(phrase: Phrase) -> Phrase:
    return suffix("punct", punct(","), phrase)


def adverb(form: str, feats: str = "_") -> Phrase:
    return leaf(form, "ADV", feats)


def case(prep: str, phrase: Phrase) -> Phrase:
    if prep == "because of":
        marker = suffix("fixed", leaf("of", "ADP"), leaf("because", "ADP"))
    else:
        marker = leaf(prep, "ADP")
    return prefix("case", marker, phrase)


def mark(word: str, phrase: Phrase) -> Phrase:
    if word == "when":
        return prefix("advmod", adverb("when", "PronType=Int"), phrase)
    first = phrase.toks[0]
    if word == "that" and first.lemma == "that" and first.upos == "DET":
        first.form = first.lemma = "the"  # not "that that"
        first.feats = "Definite=Def|PronType=Art"
    return prefix("mark", leaf(word, "PART" if word == "to" else "SCONJ"), phrase)


# --- morphology -------------------------------------------------------------------------------

IRREGULAR = {
    entry.split()[0]: entry.split()[1:]
    for entry in lex.IRREGULAR_VERBS.replace("\n", ";").split(";")
    if entry
}
BE = {"pres": ("am", "are", "is", "are"), "past": ("was", "were", "was", "were")}


def s_form(word: str) -> str:
    if word in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[word]
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def make_verb(lemma: str) -> Verb:
    doubled = lemma + lemma[-1] if lemma in lex.DOUBLING.split() else lemma
    if lemma.endswith("e") and lemma not in ("be", "see"):
        past, ing = lemma + "d", lemma[:-1] + "ing"
    elif lemma.endswith("y") and lemma[-2] not in "aeou":
        past, ing = lemma[:-1] + "ied", lemma + "ing"
    else:
        past, ing = doubled + "ed", doubled + "ing"
    forms = IRREGULAR.get(lemma, [past, past])
    return Verb(lemma, s_form(lemma), forms[0], forms[-1], ing)


def plural_of(noun: str) -> str:
    return lex.PLURALS.get(noun) or s_form(noun)


def agreement(person: int, plural: bool) -> str:
    number = "Plur" if plural else "Sing"
    return f"Number={number}|Person={person}"


def inflect(verb: Verb, kind: str, subj: NP | None, upos: str = "VERB") -> Phrase:
    """One word of the verb group; ``kind`` is its place in the chain of auxiliaries."""
    subj = subj or NP(leaf("it", "PRON"))
    agr = agreement(subj.person, subj.plural)
    if kind in ("pres", "past"):
        tense = "Pres" if kind == "pres" else "Past"
        if verb.lemma == "be":
            form = BE[kind][3 if subj.plural else subj.person - 1]
        elif kind == "past":
            form = verb.past
        else:
            form = verb.s if subj.person == 3 and not subj.plural else verb.lemma
        feats = f"Mood=Ind|{agr}|Tense={tense}|VerbForm=Fin"
    else:
        form, feats = {
            "modal": (verb.lemma, "VerbForm=Fin"),
            "base": (verb.lemma, "VerbForm=Inf"),
            "imp": (verb.lemma, "Mood=Imp|VerbForm=Fin"),
            "part": (verb.part, "Tense=Past|VerbForm=Part"),
            "pass": (verb.part, "Tense=Past|VerbForm=Part|Voice=Pass"),
            "ing": (verb.ing, "Tense=Pres|VerbForm=Part"),
            "ger": (verb.ing, "VerbForm=Ger"),
        }[kind]
    return leaf(form, upos, feats, verb.lemma)


# --- lexicon access ---------------------------------------------------------------------------

GROUP_OF: dict[str, str] = {}
MEMBERS: dict[str, list[str]] = {}
MASS: set[str] = set()
for _group, _nouns in lex.NOUNS.items():
    for _noun in _nouns.split():
        GROUP_OF[_noun.lstrip("~")] = _group
        MEMBERS.setdefault(_group, []).append(_noun.lstrip("~"))
        if _noun.startswith("~"):
            MASS.add(_noun.lstrip("~"))


def expand(selection: str) -> list[str]:
    """The noun groups and ``@noun`` items behind a selection, in table order."""
    items: list[str] = []
    for item in selection.split():
        items += lex.GROUPS.get(item, item).split() if item != "person" else ["person"]
    return items


def covers(selection: str, noun: str) -> bool:
    """Whether a noun can fill the slot."""
    groups = [g for item in selection.split() for g in lex.GROUPS.get(item, item).split()]
    return f"@{noun}" in groups or GROUP_OF.get(noun) in groups


def table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in text.strip().split("\n")]


TRANSITIVE = table(lex.TRANSITIVE)
INTRANSITIVE = table(lex.INTRANSITIVE)
PREPOSITIONAL = table(lex.PREPOSITIONAL)
PARTICLE = table(lex.PARTICLE)
DITRANSITIVE = table(lex.DITRANSITIVE)

PRONOUNS = {
    "I": (1, False, "n", "me", "my"),
    "you": (2, False, "n", "you", "your"),
    "he": (3, False, "m", "him", "his"),
    "she": (3, False, "f", "her", "her"),
    "we": (1, True, "n", "us", "our"),
    "they": (3, True, "n", "them", "their"),
}


def pronoun(word: str, case_: str = "Nom") -> NP:
    person, plural, gender, obj, _ = PRONOUNS[word]
    mark_gender = {"m": "Gender=Masc|", "f": "Gender=Fem|", "n": ""}[gender]
    feats = f"Case={case_}|{mark_gender}{agreement(person, plural)}|PronType=Prs"
    return NP(leaf(word if case_ == "Nom" else obj, "PRON", feats, word), person, plural, gender)


def it() -> NP:
    return NP(leaf("it", "PRON", "Gender=Neut|Number=Sing|Person=3|PronType=Prs"))


def pronoun_for(np: NP) -> str:
    """The nominative pronoun that can take up ``np``; empty when its gender is open."""
    if np.person == 1:
        return "we" if np.plural else "I"
    if np.person == 2:
        return "you"
    return "they" if np.plural else {"m": "he", "f": "she"}.get(np.gender, "")


def possessive(word: str) -> Phrase:
    person, plural, *_, form = PRONOUNS[word]
    return leaf(form, "PRON", f"{agreement(person, plural)}|Poss=Yes|PronType=Prs", word)


# --- the grammar ------------------------------------------------------------------------------


class Grammar:
    """Random choices are drawn with ``random.Random.random`` alone.

    It is the one method whose sequence Python guarantees across versions.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def word(self, words: str) -> str:
        return self.pick(words.split())

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    # -- noun phrases --

    def name(self, full: bool = False) -> NP:
        female = self.chance(0.5)
        first = leaf(self.pick(lex.FEMALE if female else lex.MALE), "PROPN", "Number=Sing")
        if full:
            last = leaf(self.pick(lex.SURNAMES), "PROPN", "Number=Sing")
            first = suffix("flat", last, first)
        return NP(first, gender="f" if female else "m", noun="NAME")

    def city(self) -> NP:
        return NP(leaf(self.pick(lex.CITIES), "PROPN", "Number=Sing"), noun="CITY")

    def person(self, case_: str = "Nom", rich: int = 1) -> NP:
        """A person as subject or object: pronoun, name or noun."""
        roll = self._random()
        if roll < 0.24:
            return pronoun(self.pick(list(PRONOUNS)), case_)
        if roll < 0.50:
            return self.name(full=self.chance(0.2))
        if roll < 0.55 and rich:
            return self.coordinate(self.name(), self.name())
        if roll < 0.60 and rich:
            return self.apposition()
        return self.common(
            self.pick(MEMBERS[self.pick(["role", "role", "kin"])]), rich=rich, definite=True
        )

    def coordinate(self, first: NP, second: NP, word: str = "and") -> NP:
        linked = prefix("cc", leaf(word, "CCONJ"), second.phrase)
        phrase = suffix("conj", linked, first.phrase)
        if self.chance(0.12):
            phrase = prefix("cc:preconj", leaf("both", "CCONJ"), phrase)
        return NP(phrase, plural=True, noun=first.noun)

    def apposition(self) -> NP:
        name = self.name()
        if self.chance(0.5):
            noun = self.pick(["neighbor", "friend", "cousin", "teacher", "doctor"])
            inner = self.common(noun, det="my", rich=0, plural=False)
        else:
            roles = [r for r in MEMBERS["role"] if lex.GENDER.get(r, name.gender) == name.gender]
            inner = self.common(self.pick(roles), det="the", rich=0, plural=False)
        aside = comma_after(comma_before(inner.phrase))
        return NP(suffix("appos", aside, name.phrase), gender=name.gender, noun="NAME")

    def determiner(self, word: str, plural: bool) -> tuple[str, Phrase]:
        if word in ("my", "your", "his", "her", "our", "their"):
            owner = {form[-1]: key for key, form in PRONOUNS.items()}[word]
            return "nmod:poss", possessive(owner)
        number = "Plur" if plural else "Sing"
        feats = {
            "a": "Definite=Ind|PronType=Art",
            "the": "Definite=Def|PronType=Art",
            "this": f"Number={number}|PronType=Dem",
            "that": f"Number={number}|PronType=Dem",
            "every": "PronType=Tot",
            "each": "PronType=Tot",
            "which": "PronType=Int",
            "no": "PronType=Neg",
            "another": "PronType=Ind",
            "some": "PronType=Ind",
        }[word]
        form = {"this": "these", "that": "those"}.get(word, word) if plural else word
        return "det", leaf(form, "DET", feats, word)

    def choose_determiner(self, noun: str, plural: bool, definite: bool) -> str:
        if GROUP_OF[noun] == "kin":
            return self.word("my her his our their your")
        if noun in MASS and GROUP_OF[noun] != "meal":
            return self.word("the the some")
        if GROUP_OF[noun] in ("weather", "water"):
            return self.word("the the a")
        if definite and GROUP_OF[noun] in ("role", "room", "area", "water", "spot", "surface"):
            return self.word("the the the the the this that")
        if GROUP_OF[noun] == "meal" or (definite and self.chance(0.8)):
            return self.word("the the the the the the this that my our")
        if plural:
            return self.word("the the the this that some some")
        if self.chance(0.12):
            return self.word("every another this that")
        return self.word("the the the a a")

    def common(
        self,
        noun: str,
        det: str = "",
        rich: int = 1,
        plural: bool | None = None,
        owner: str = "",
        adjective: bool = True,
        definite: bool = False,
    ) -> NP:
        """A common-noun phrase; ``rich`` is how many levels of modifiers it may grow."""
        group = GROUP_OF[noun]
        if plural is None:
            plural = self.chance(0.25) and group not in ("weather", "area", "trait")
            plural = plural and (group != "kin" or noun in lex.COUNTABLE_KIN)
        plural = plural and noun not in MASS
        form = plural_of(noun) if plural else noun
        head = leaf(form, "NOUN", f"Number={'Plur' if plural else 'Sing'}", noun)
        phrase = self.premodify(noun, head, adjective)
        if rich and self.chance(0.42):
            phrase = self.postmodify(noun, phrase)
        phrase = self.determine(noun, phrase, plural, det, owner, rich, definite)
        return NP(phrase, plural=plural, gender=lex.GENDER.get(noun, "n"), noun=noun)

    def premodify(self, noun: str, phrase: Phrase, adjective: bool) -> Phrase:
        if noun in lex.COMPOUNDS and self.chance(0.45):
            extra = leaf(self.word(lex.COMPOUNDS[noun]), "NOUN", "Number=Sing")
            phrase = prefix("compound", extra, phrase)
        elif adjective and self.chance(0.3):
            adjectives = lex.ADJECTIVES.get(f"@{noun}") or lex.ADJECTIVES.get(GROUP_OF[noun])
            if adjectives:
                phrase = prefix("amod", self.adjective(self.word(adjectives)), phrase)
        return phrase

    def adjective(self, word: str) -> Phrase:
        if word in ("older", "younger"):
            return leaf(word, "ADJ", "Degree=Cmp", {"older": "old", "younger": "young"}[word])
        adj = leaf(word, "ADJ", "Degree=Pos")
        if self.chance(0.08) and word not in ("annual", "flat", "wooden", "broken", "local"):
            adj = prefix("advmod", adverb("very"), adj)
        return adj

    def postmodify(self, noun: str, phrase: Phrase) -> Phrase:
        table_ = lex.NOUN_MODIFIERS
        choices = table_.get(f"@{noun}") or table_.get(GROUP_OF[noun])
        if not choices:
            return phrase
        prep, _, selection = self.word(choices).partition(":")
        return suffix("nmod", case(prep, self.modifier_np(prep, selection).phrase), phrase)

    def modifier_np(self, prep: str, selection: str) -> NP:
        """The noun after a preposition: bare plural or mass after "of" and "about"."""
        if selection == "CITY":
            return self.city()
        if selection == "VEHICLE":
            return NP(leaf(self.word("train bus car ship"), "NOUN", "Number=Sing"))
        noun = self.noun_of(selection)
        if noun in MASS:
            return NP(leaf(noun, "NOUN", "Number=Sing"), noun=noun)
        bare = prep == "about" or GROUP_OF[noun] == "topping" or (prep, noun) in (
            ("of", "apple"), ("of", "pear"), ("of", "egg"), ("of", "potato"), ("of", "carrot"),
        )  # fmt: skip
        if bare and GROUP_OF[noun] not in ("weather", "person_group", "kin"):
            plural = leaf(plural_of(noun), "NOUN", "Number=Plur", noun)
            return NP(self.premodify(noun, plural, True), plural=True, noun=noun)
        det = "a" if prep == "with" else ""
        return self.common(noun, det=det, rich=0, plural=False)

    def noun_of(self, selection: str) -> str:
        item = self.pick([g for i in selection.split() for g in lex.GROUPS.get(i, i).split()])
        return item[1:] if item.startswith("@") else self.pick(MEMBERS[item])

    def determine(
        self,
        noun: str,
        phrase: Phrase,
        plural: bool,
        det: str,
        owner: str,
        rich: int,
        definite: bool,
    ) -> Phrase:
        ownable = GROUP_OF[noun] in ("clothing", "vehicle", "text", "kin", "animal", "gadget")
        if not det and ownable and owner and self.chance(0.35):
            det = PRONOUNS[owner][-1]
        if not det and ownable and rich and self.chance(0.12):
            return self.genitive(phrase)
        if not det and plural and noun not in MASS and self.chance(0.3):
            return self.quantify(phrase)
        det = det or self.choose_determiner(noun, plural, definite)
        if plural or noun in MASS:
            det = "some" if det in ("a", "another") else det
        elif det == "some":
            det = "a"
        if det == "a":
            return prefix("det", self.article(phrase.toks[0].form), phrase)
        rel, word = self.determiner(det, plural)
        phrase = prefix(rel, word, phrase)
        definite = ("the", "this", "my", "his", "her", "our", "their")
        if plural and det in definite and self.chance(0.05):
            phrase = prefix("det:predet", leaf("all", "DET", "PronType=Tot"), phrase)
        return phrase

    def article(self, following: str) -> Phrase:
        vowel = following[0] in "aeiou" and not following.startswith(("use", "uni", "one"))
        form = "an" if vowel or (following.startswith("hon") and following != "honey") else "a"
        return leaf(form, "DET", "Definite=Ind|PronType=Art", "a")

    def genitive(self, phrase: Phrase) -> Phrase:
        owner = self.name() if self.chance(0.5) else self.common(
            self.pick(MEMBERS["role"]), det="the", rich=0, plural=False, adjective=False
        )  # fmt: skip
        owner.phrase.toks[-1].space = False
        owner_phrase = suffix("case", leaf("'s", "PART"), owner.phrase)
        return prefix("nmod:poss", owner_phrase, phrase)

    def quantify(self, phrase: Phrase) -> Phrase:
        if self.chance(0.5):
            number = leaf(self.pick(lex.NUMBERS), "NUM", "NumType=Card")
            if self.chance(0.5) and number.head.form in ("ten", "twelve", "twenty"):
                number = prefix("advmod", adverb("almost"), number)
            return prefix("nummod", number, phrase)
        word = self.word("many several")
        return prefix("amod", leaf(word, "ADJ", "Degree=Pos"), phrase)

    def np(self, selection: str, case_: str = "Nom", rich: int = 1, owner: str = "") -> NP:
        """A phrase for an argument slot; persons may be pronouns and names."""
        item = self.pick(expand(selection))
        if item == "person":
            return self.person(case_, rich)
        if item == "CITY":
            return self.city()
        noun = item[1:] if item.startswith("@") else self.pick(MEMBERS[item])
        np = self.common(noun, rich=rich, owner=owner, definite=case_ == "Nom")
        if rich and self.chance(0.07) and not item.startswith("@"):
            other = self.pick([n for n in MEMBERS[GROUP_OF[noun]] if n != noun])
            word = "or" if case_ == "Acc" and self.chance(0.2) else "and"
            np = self.coordinate(np, self.common(other, rich=0), word)
        return np

    def object(self, selection: str, subj: NP, rich: int = 1) -> NP:
        """An object that is not the subject's own pronoun (that would need a reflexive)."""
        while True:
            found = self.np(selection, "Acc", rich, pronoun_for(subj))
            clash = found.noun == "" and (found.person, found.plural) == (subj.person, subj.plural)
            same = found.noun and found.noun == subj.noun and found.noun != "NAME"
            if not clash and not same and found.phrase.head.form != subj.phrase.head.form:
                return found

    # -- adjuncts --

    def pp(self, spec: str) -> Phrase:
        prep, _, selection = spec.partition(":")
        if selection in ("CITY", "VEHICLE"):
            return case(prep, self.modifier_np(prep, selection).phrase)
        noun = self.noun_of(selection)
        if noun in MASS and GROUP_OF[noun] == "meal":
            return case(prep, leaf(noun, "NOUN", "Number=Sing"))
        det = "" if prep == "for" else self.word("the the the the the the a")
        if GROUP_OF[noun] == "kin":
            det = ""
        return case(prep, self.common(noun, det=det, rich=0, plural=False).phrase)

    def time(self, tense: str) -> tuple[str, Phrase] | None:
        if tense in ("past", "pastprog"):
            return self.past_time()
        if tense in ("pres",):
            noun = self.word("morning evening summer week day winter")
            every = leaf("every", "DET", "PronType=Tot")
            return "obl:tmod", prefix("det", every, leaf(noun, "NOUN", "Number=Sing"))
        if tense == "prog":
            return "advmod", adverb("now")
        if tense in ("will", "must", "should", "can", "might"):
            if self.chance(0.4):
                return "obl:tmod", leaf(self.word("tomorrow today"), "NOUN", "Number=Sing")
            return self.adjective_time("next") if self.chance(0.5) else self.day()
        return None

    def past_time(self) -> tuple[str, Phrase]:
        roll = self._random()
        if roll < 0.25:
            return "obl:tmod", leaf("yesterday", "NOUN", "Number=Sing")
        if roll < 0.45:
            return self.adjective_time("last")
        if roll < 0.6:
            days = leaf(self.word("days weeks years"), "NOUN", "Number=Plur")
            days.head.lemma = days.head.form[:-1]
            number = leaf(self.word("two three four five"), "NUM", "NumType=Card")
            return "advmod", prefix("obl:npmod", prefix("nummod", number, days), adverb("ago"))
        if roll < 0.8:
            return self.day()
        noun = self.word("morning evening afternoon")
        the = leaf("the", "DET", "Definite=Def|PronType=Art")
        return "obl", case("in", prefix("det", the, leaf(noun, "NOUN", "Number=Sing")))

    def adjective_time(self, word: str) -> tuple[str, Phrase]:
        noun = leaf(self.word("week year month summer winter"), "NOUN", "Number=Sing")
        return "obl:tmod", prefix("amod", leaf(word, "ADJ", "Degree=Pos"), noun)

    def day(self) -> tuple[str, Phrase]:
        return "obl", case("on", leaf(self.pick(lex.DAYS), "PROPN", "Number=Sing"))

    def adjuncts(self, vp: VP, manner: str, places: str, tense: str, rich: int) -> None:
        """Add at most two adjuncts after the complements, and maybe one before the verb."""
        if rich and manner != "-" and self.chance(0.2):
            vp.post.append(("advmod", adverb(self.word(lex.MANNER[manner]))))
        elif places != "-" and self.chance(0.42 if rich else 0.2):
            vp.post.append(("obl", self.pp(self.word(places))))
        if rich and self.chance(0.22):
            found = self.time(tense)
            if found:
                vp.post.append(found)
        if rich and self.chance(0.12):
            word = {"pres": "often usually never always sometimes", "past": "never finally also"}
            if tense in word:
                vp.mid.append(("advmod", adverb(self.word(word[tense]))))
            elif tense in ("perf", "pastperf"):
                vp.mid.append(("advmod", adverb(self.word("already just never"))))

    # -- verb phrases --

    def frame(self, subj: NP) -> Callable[[NP, str, int], VP | None]:
        frames = [self.transitive] * 6 + [self.intransitive] * 3 + [self.prepositional] * 2
        frames += [self.particle] * 2
        if subj.noun in ("", "NAME") or covers("person", subj.noun):
            frames += [self.ditransitive] * 2
        return self.pick(frames)

    def vp(self, subj: NP, tense: str = "past", rich: int = 1) -> VP:
        """A verb phrase whose verb accepts the subject."""
        while True:
            made = self.frame(subj)(subj, tense, rich)
            if made:
                return made

    def row_for(self, rows: list[list[str]], subj: NP, column: int) -> list[str] | None:
        fitting = [row for row in rows if covers(row[column], subj.noun)]
        if subj.noun in ("", "NAME"):
            fitting = [row for row in rows if "person" in row[column].split()]
        return self.pick(fitting) if fitting else None

    def transitive(self, subj: NP, tense: str, rich: int) -> VP | None:
        row = self.row_for(TRANSITIVE, subj, 1)
        if not row:
            return None
        vp = VP(make_verb(row[0]))
        vp.post.append(("obj", self.object(row[2], subj, rich).phrase))
        self.adjuncts(vp, row[3], row[4], tense, rich)
        return vp

    def intransitive(self, subj: NP, tense: str, rich: int) -> VP | None:
        row = self.row_for(INTRANSITIVE, subj, 1)
        if not row:
            return None
        vp = VP(make_verb(row[0]))
        if row[0] in ("sit", "go", "travel") and row[3] != "-":
            vp.post.append(("obl", self.pp(self.word(row[3]))))
            self.adjuncts(vp, "-", "-", tense, rich)
        else:
            self.adjuncts(vp, row[2], row[3], tense, rich)
        return vp

    def prepositional(self, subj: NP, tense: str, rich: int) -> VP | None:
        row = self.row_for(PREPOSITIONAL, subj, 2)
        if not row:
            return None
        vp = VP(make_verb(row[0]))
        vp.post.append(("obl", case(row[1], self.object(row[3], subj, rich).phrase)))
        self.adjuncts(vp, "-", "-", tense, rich)
        return vp

    def particle(self, subj: NP, tense: str, rich: int) -> VP | None:
        row = self.row_for(PARTICLE, subj, 1)
        if not row:
            return None
        lemma, prt = row[0].split()
        vp = VP(make_verb(lemma), [("compound:prt", leaf(prt, "ADP"))])
        if row[2] != "-":
            obj = ("obj", self.object(row[2], subj, 0).phrase)
            vp.post.insert(0 if len(obj[1].toks) < 4 and self.chance(0.4) else 1, obj)
        self.adjuncts(vp, "-", "-", tense, rich)
        return vp

    def ditransitive(self, subj: NP, tense: str, rich: int) -> VP | None:
        lemma, things = self.pick(DITRANSITIVE)
        vp = VP(make_verb(lemma))
        receiver = self.object("person", subj, 0).phrase
        thing = self.np(things, "Acc", rich).phrase
        if self.chance(0.6):
            vp.post += [("iobj", receiver), ("obj", thing)]
        else:
            vp.post += [("obj", thing), ("obl", case("to", receiver))]
        self.adjuncts(vp, "-", "-", tense, rich)
        return vp

    # -- clauses --

    def tense(self, only: str = "") -> str:
        tense = self.word(only or "past past past past past pres pres will can must should perf"
                          " prog pastprog might pastperf")  # fmt: skip
        return tense

    def plain(self, tense: str, vp: VP, subj: NP) -> str:
        """Rule out tenses that do not suit the verb or the subject."""
        if vp.verb.lemma in ("belong", "depend"):
            return "past" if tense.startswith("past") else "pres"
        if vp.verb.lemma in lex.STATIVE:
            return {"prog": "pres", "pastprog": "past"}.get(tense, tense)
        if tense in ("must", "should") and subj.noun and not covers("person", subj.noun):
            return tense if subj.noun == "NAME" else "will"
        return tense

    def chain(
        self, verb: Verb, tense: str, subj: NP | None, passive: bool, support: bool
    ) -> list[Phrase]:
        """The inflected verb group, auxiliaries first, main verb last."""
        links: list[tuple[Verb, str]] = []
        kind = "past" if tense.startswith("past") else "pres"
        if tense in ("will", "can", "must", "should", "might", "would", "could"):
            links.append((Verb(tense, tense, tense, tense, tense), "modal"))
            kind = "base"
        if tense.endswith("perf"):
            links.append((make_verb("have"), kind))
            kind = "part"
        if tense.endswith("prog"):
            links.append((make_verb("be"), kind))
            kind = "ing"
        if passive:
            links.append((make_verb("be"), kind))
            kind = "pass"
        if support and not links and verb.lemma != "be":
            links.append((make_verb("do"), kind))
            kind = "base"
        words = [inflect(aux, how, subj, "AUX") for aux, how in links]
        return [*words, inflect(verb, kind, subj)]

    def negate(self, first: Phrase, contracted: bool) -> Phrase:
        """The negation that follows the first auxiliary; attached by the caller."""
        if (
            contracted
            and first.head.lemma not in ("will", "can", "might")
            and (first.head.form != "am")
        ):
            first.toks[-1].space = False
            return leaf("n't", "PART", "Polarity=Neg", "not")
        return leaf("not", "PART", "Polarity=Neg")

    def clause(
        self,
        subj: NP | None,
        vp: VP,
        tense: str,
        negative: bool = False,
        invert: bool = False,
        front: Sequence[tuple[str, Phrase]] = (),
        subj_rel: str = "",
        end: Sequence[tuple[str, Phrase]] = (),
    ) -> Phrase:
        """Spell out a finite clause; ``front`` and ``end`` hold displaced dependents."""
        support = invert or negative
        group = self.chain(vp.verb, tense, subj, vp.passive, support)
        main = group.pop()
        head = main.head
        for index, aux in enumerate(group):
            last = vp.passive and index == len(group) - 1
            attach("aux:pass" if last else "aux", aux, head)
        pre = [attach(rel, phrase, head) for rel, phrase in front]
        first, rest = group[:1], group[1:]
        if negative and first:
            contracted = invert or self.chance(0.45)
            first = [*first, attach("advmod", self.negate(first[0], contracted), head)]
        subject = []
        if subj:
            rel = subj_rel or ("nsubj:pass" if vp.passive else "nsubj")
            subject = [attach(rel, subj.phrase, head)]
        pre += first + subject if invert else subject + first
        pre += rest + [attach(rel, phrase, head) for rel, phrase in vp.mid]
        post = [attach(rel, phrase, head) for rel, phrase in (*vp.post, *end)]
        if subj and subj.tail:
            post.append(subj.tail)
        return join(head, *pre, main, *post)

    def bare(self, vp: VP, kind: str) -> Phrase:
        """A subjectless clause: infinitive, gerund, participle or imperative."""
        main = inflect(vp.verb, kind, None)
        pre = [attach(rel, phrase, main.head) for rel, phrase in vp.mid]
        post = [attach(rel, phrase, main.head) for rel, phrase in vp.post]
        return join(main.head, *pre, main, *post)

    def infinitive(self, vp: VP) -> Phrase:
        return mark("to", self.bare(vp, "base"))

    def passive(self, tense: str, rich: int = 1) -> tuple[NP, VP]:
        rows = [r for r in TRANSITIVE if r[0] not in ("enjoy", "wear", "visit", "lose", "hear")]
        row = self.pick(rows)
        agent = self.np(row[1], "Acc", 0)
        while True:
            subj = self.np(row[2], "Nom", rich)
            if subj.noun not in ("", agent.noun):
                break
        vp = VP(make_verb(row[0]), passive=True)
        if agent.noun and self.chance(0.5):
            vp.post.append(("obl:agent", case("by", agent.phrase)))
        places = [p for p in row[4].split() if p != "-" and not p.startswith(("for", "to"))]
        self.adjuncts(vp, "-", " ".join(places) or "-", tense, rich)
        return subj, vp

    def copula(
        self,
        subj: NP,
        predicate: Phrase,
        tense: str,
        negative: bool = False,
        invert: bool = False,
        front: bool = False,
        subj_rel: str = "nsubj",
    ) -> Phrase:
        """A copular clause, headed by its predicate; ``front`` puts the predicate first."""
        group = self.chain(make_verb("be"), tense, subj, False, False)
        group[-1].head.upos = "AUX"
        head = predicate.head
        for aux in group:
            attach("cop" if aux.head.lemma == "be" else "aux", aux, head)
        first, rest = group[:1], group[1:]
        if negative:
            neg = self.negate(first[0], invert or self.chance(0.4))
            first.append(attach("advmod", neg, head))
        subject = attach(subj_rel, subj.phrase, head)
        start = [*first, subject] if invert else [subject, *first]
        if front:
            return join(head, predicate, *start, *rest)
        return join(head, *start, *rest, predicate)

    def entity(self, rich: int = 1) -> NP:
        """A subject for a free choice of verb: mostly persons, some animals and things."""
        return self.np("person person person person animal vehicle", "Nom", rich)

    def simple(
        self, tense: str = "", rich: int = 1, negative: bool = False, subj: NP | None = None
    ) -> Phrase:
        subj = subj or self.entity(rich)
        tense = tense or self.tense()
        vp = self.vp(subj, tense, rich)
        if negative:
            vp.mid = []
        return self.clause(subj, vp, self.plain(tense, vp, subj), negative)

    def willing(self, make: Callable[[], VP | None]) -> VP:
        """A verb phrase that can be wished for, planned or commanded."""
        while True:
            vp = make()
            if vp and vp.verb.lemma not in lex.UNINTENDED:
                vp.mid = []
                return vp

    def asked(self) -> NP:
        """The subject of a question: not the speaker."""
        while True:
            subj = self.short_subject()
            if subj.person != 1:
                return subj

    # -- relative clauses --

    def relative(self, noun: str, plural: bool, tense: str = "past") -> Phrase:
        """A relative clause for the noun, not yet attached to it."""
        human = covers("person", noun)
        makers = [self.subject_relative, self.object_relative, self.object_relative]
        if human:
            makers = [self.subject_relative, self.subject_relative, self.whose_relative]
        elif GROUP_OF[noun] in ("area", "room", "spot") and self.chance(0.6):
            makers = [self.where_relative]
        elif GROUP_OF[noun] in ("event", "idea", "show", "weather"):
            makers = [self.subject_relative, self.object_relative]
        while True:
            made = self.pick(makers)(noun, plural, tense)
            if made:
                return made

    def relativizer(self, human: bool) -> Phrase:
        word = self.word("who who that" if human else "that that which")
        return leaf(word, "PRON", "PronType=Rel")

    def subject_relative(self, noun: str, plural: bool, tense: str) -> Phrase | None:
        subj = NP(self.relativizer(covers("person", noun)), plural=plural, noun=noun)
        for _ in range(20):
            maker = self.pick([self.transitive, self.intransitive, self.particle])
            vp = maker(subj, tense, 0)
            if vp and len(vp.post) <= 2:
                return self.clause(subj, vp, tense)
        if noun in ("plan", "letter") or GROUP_OF[noun] in lex.PREDICATES:
            word = self.word(lex.PREDICATES[GROUP_OF[noun]])
            return self.copula(subj, leaf(word, "ADJ", "Degree=Pos"), tense)
        return None

    def object_relative(self, noun: str, plural: bool, tense: str) -> Phrase | None:
        rows = [row for row in TRANSITIVE if covers(row[2], noun) and "person" in row[1]]
        if not rows:
            return None
        subj = self.short_subject()
        front = [("obj", self.relativizer(False))] if self.chance(0.6) else []
        return self.clause(subj, VP(make_verb(self.pick(rows)[0])), tense, front=front)

    def whose_relative(self, noun: str, plural: bool, tense: str) -> Phrase:
        owned = self.word("dog car brother sister bicycle daughter son horse")
        whose = leaf("whose", "PRON", "Poss=Yes|PronType=Rel")
        head = leaf(owned, "NOUN", "Number=Sing")
        subj = NP(prefix("nmod:poss", whose, head), noun=owned)
        while True:
            vp = self.intransitive(subj, tense, 0) or self.particle(subj, tense, 0)
            if vp:
                return self.clause(subj, vp, tense)

    def where_relative(self, noun: str, plural: bool, tense: str) -> Phrase:
        where = adverb("where", "PronType=Rel")
        subj = self.short_subject()
        verb = make_verb(self.word("live work meet stay" if subj.plural else "live work stay"))
        if GROUP_OF[noun] == "spot":
            verb = make_verb(self.word("work wait"))
        return self.clause(subj, VP(verb), tense, front=[("advmod", where)])

    def short_subject(self) -> NP:
        if self.chance(0.45):
            return pronoun(self.word("I he she we they"))
        if self.chance(0.5):
            return self.name()
        return self.common(self.pick(MEMBERS["role"]), det="the", rich=0, adjective=False)

    def stranded_relative(self, noun: str, tense: str = "past") -> Phrase | None:
        """ "that she lived in": the preposition is case of the moved relative pronoun."""
        fitting = [r for r in PREPOSITIONAL if covers(r[3], noun) and "person" in r[2]]
        if not fitting:
            return None
        row = self.pick(fitting)
        moved = self.relativizer(covers("person", noun))
        if moved.head.form == "who":
            moved.head.form = moved.head.lemma = "that"
        prep = attach("case", leaf(row[1], "ADP"), moved.head)
        clause = self.clause(
            self.short_subject(), VP(make_verb(row[0])), tense, front=[("obl", moved)]
        )
        return join(clause.head, clause, prep)

    def long_relative(self, noun: str) -> Phrase | None:
        """ "that Anna said she had read": extraction out of a complement clause."""
        rows = [row for row in TRANSITIVE if covers(row[2], noun) and "person" in row[1]]
        if not rows:
            return None
        outer = self.short_subject()
        inner = self.clause(
            self.corefer(outer), VP(make_verb(self.pick(rows)[0])), self.word("pastperf would")
        )
        moved = attach("obj", self.relativizer(False), inner.head)
        verb = make_verb(self.word("say think claim"))
        clause = self.clause(outer, VP(verb, [("ccomp", inner)]), "past")
        return join(clause.head, moved, clause)

    def corefer(self, np: NP) -> NP:
        word = pronoun_for(np)
        if word and self.chance(0.6):
            return pronoun(word)
        return pronoun(self.word("he she they"))
