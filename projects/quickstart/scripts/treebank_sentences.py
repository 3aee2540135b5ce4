"""Sentence patterns of the quickstart treebank, on top of the grammar's phrases and clauses."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import treebank_lexicon as lex
from treebank_grammar import (
    GROUP_OF,
    MASS,
    MEMBERS,
    NP,
    PREPOSITIONAL,
    TRANSITIVE,
    VP,
    Grammar,
    Phrase,
    Tok,
    adverb,
    attach,
    case,
    comma_after,
    comma_before,
    covers,
    it,
    join,
    leaf,
    make_verb,
    mark,
    prefix,
    pronoun,
    punct,
    suffix,
)

Made = tuple[Phrase, str]  # a sentence without its final mark, and that mark


class Sentences(Grammar):
    """Each method below makes one kind of sentence; ``PATTERNS`` weighs them."""

    # -- one clause --

    def statement(self) -> Made:
        clause = self.simple()
        if self.chance(0.08):
            word = leaf(self.word("yes well oh no"), "INTJ")
            clause = prefix("discourse", comma_after(word), clause)
        return clause, "!" if self.chance(0.05) else "."

    def negated(self) -> Made:
        tense = self.tense(only="past past pres will should perf pastprog")
        return self.simple(tense, 1, negative=True), "."

    def fronted(self) -> Made:
        """A time or place phrase before the clause."""
        clause = self.clause_without_time()
        if self.chance(0.5):
            rel, phrase = self.past_time()
        else:
            places = ["in:room", "at:spot", "near:water", "in:CITY", "in:area", "after:event"]
            rel, phrase = "obl", self.pp(self.pick(places))
        if self.chance(0.6):
            phrase = comma_after(phrase)
        return prefix(rel, phrase, clause), "."

    def clause_without_time(self, tense: str = "past", rich: int = 0) -> Phrase:
        return self.simple(tense, rich)

    def passive_statement(self) -> Made:
        tense = self.tense(only="past past past pres will should must perf")
        subj, vp = self.passive(tense)
        negative = self.chance(0.15)
        if negative:
            vp.mid = []
        return self.clause(subj, vp, tense, negative), "."

    def copular(self) -> Made:
        tense = self.word("past past pres pres pres will should")
        maker = self.pick([self.quality, self.quality, self.role_noun, self.location])
        subj, predicate = maker()
        return self.copula(subj, predicate, tense, negative=self.chance(0.2)), "."

    def quality(self) -> tuple[NP, Phrase]:
        """Subject and adjectival predicate."""
        group = self.pick(list(lex.PREDICATES))
        subj = self.np(group)
        adj = leaf(self.word(lex.PREDICATES[group]), "ADJ", "Degree=Pos")
        graded = adj.head.form not in ("asleep", "lost", "closed", "open", "broken", "delicious")
        if graded and self.chance(0.35):
            adj = prefix("advmod", adverb(self.word("very too quite so rather")), adj)
        elif group == "person" and self.chance(0.25):
            other = self.word("hungry tired cold proud nervous happy".replace(adj.head.form, ""))
            linked = prefix("cc", leaf("and", "CCONJ"), leaf(other, "ADJ", "Degree=Pos"))
            adj = suffix("conj", linked, adj)
        return subj, adj

    def comparison(self) -> Made:
        """ "older than": the standard of comparison depends on the adjective."""
        group = self.pick(["role", "animal", "room", "building", "water", "text", "clothing"])
        adjectives = [a for a in lex.ADJECTIVES[group].split() if a in lex.COMPARATIVES]
        word = self.pick(adjectives)
        adj = leaf(lex.COMPARATIVES[word], "ADJ", "Degree=Cmp", word)
        first, second = self.two_nouns(group)
        than = case("than", self.common(second, det=self.word("the that"), rich=0).phrase)
        if self.chance(0.3):
            adj = prefix("advmod", adverb("much"), adj)
        subj = self.common(first, det=self.word("the this"), rich=0)
        return self.copula(subj, suffix("obl", than, adj), self.word("past pres pres")), "."

    def two_nouns(self, group: str) -> tuple[str, str]:
        first = self.pick(MEMBERS[group])
        return first, self.pick([noun for noun in MEMBERS[group] if noun != first])

    def role_noun(self) -> tuple[NP, Phrase]:
        noun = self.pick(MEMBERS["role"][:16])
        while True:
            subj = self.person("Nom", 0)
            if subj.noun != noun and not (subj.plural and subj.noun == "NAME"):
                break
        plural = subj.plural
        det = "the" if plural else self.word("a a the")
        return subj, self.common(noun, det=det, rich=0, plural=plural).phrase

    def location(self) -> tuple[NP, Phrase]:
        subj = self.np("animal thing vehicle person", rich=0)
        if covers("thing", subj.noun):
            spec = self.pick(["in:@drawer", "on:@table", "on:@shelf", "under:@bed", "in:@cellar"])
        else:
            spec = self.pick(["in:area", "near:water", "at:spot", "in:@yard", "behind:@barn"])
        return subj, self.pp(spec)

    def linking(self) -> Made:
        """ "seems tired": the adjective is an open complement."""
        subj = self.person()
        vp = VP(make_verb(self.word("seem look feel become stay")))
        words = "calm silent" if vp.verb.lemma == "stay" else lex.PREDICATES["person"]
        word = self.word(words.replace("late", "").replace("ready", ""))
        vp.post.append(("xcomp", leaf(word, "ADJ", "Degree=Pos")))
        tense = self.word("past past pres")
        if tense == "past" and self.chance(0.4):
            vp.post.append(("obl", self.pp(self.word("after:event after:meal at:event"))))
        return self.clause(subj, vp, tense, negative=self.chance(0.15)), "."

    def object_predicate(self) -> Made:
        subj = self.person()
        if self.chance(0.5):
            vp = VP(make_verb("paint"))
            obj = self.object("@fence @door @wall @gate @chair @boat", subj, 0)
            word = self.pick(lex.COLORS)
        else:
            subj = self.np("event text show idea", rich=1)
            vp = VP(make_verb("make"))
            obj = self.object("person", subj, 0)
            word = self.pick(lex.OBJECT_PREDICATES)
        vp.post += [("obj", obj.phrase), ("xcomp", leaf(word, "ADJ", "Degree=Pos"))]
        return self.clause(subj, vp, "past"), "."

    def existential(self) -> Made:
        tense = self.word("past pres pres")
        spec, noun = self.pick(
            [("in:area", "animal"), ("on:@table", "dish"), ("in:room", "furniture"),
             ("near:water", "building"), ("in:container", "tool"), ("at:spot", "role"),
             ("on:surface", "role"), ("in:@cellar", "container"), ("on:@shelf", "text")]
        )  # fmt: skip
        det = self.word("a a no another")
        subj = self.common(self.noun_of(noun), det=det, plural=False if det != "no" else None)
        if det == "a" and self.chance(0.35):
            subj = self.common(self.noun_of(noun), plural=True, rich=0, det="some")
        there = NP(leaf("there", "PRON"), plural=subj.plural)
        vp = VP(make_verb("be"), [("nsubj", subj.phrase), ("obl", self.pp(spec))])
        invert = self.chance(0.2) and det != "no"
        if not invert:
            return self.clause(there, vp, tense, subj_rel="expl"), "."
        clause = self.clause(None, vp, tense)
        verb = clause.head
        verb.form = {"past": ("was", "were"), "pres": ("is", "are")}[tense][subj.plural]
        if subj.plural:
            verb.feats = verb.feats.replace("Number=Sing", "Number=Plur")
        word = attach("expl", there.phrase, verb)
        return Phrase([verb, *word.toks, *clause.toks[1:]], verb), "?"

    # -- questions and commands --

    def yes_no(self) -> Made:
        tense = self.tense(only="past past past pres will can should perf prog")
        subj = self.entity(0)
        if self.chance(0.25):
            subj, predicate = self.quality()
            return self.copula(subj, predicate, self.word("past pres"), invert=True), "?"
        vp = self.vp(subj, tense, self.pick([0, 1]))
        vp.mid = []
        tense = self.plain(tense, vp, subj)
        return self.clause(subj, vp, tense, negative=self.chance(0.15), invert=True), "?"

    def who_question(self) -> Made:
        who = NP(leaf("who", "PRON", "PronType=Int"))
        tense = self.tense(only="past past past will perf")
        vp = self.vp(who, tense, self.pick([0, 1]))
        return self.clause(who, vp, self.plain(tense, vp, who)), "?"

    def object_question(self) -> Made:
        rows = [r for r in TRANSITIVE if "person" in r[1].split()]
        row = self.pick([r for r in rows if r[0] not in lex.UNINTENDED])
        subj = self.asked()
        vp = VP(make_verb(row[0]))
        places = [p for p in row[4].split() if p != "-" and not p.startswith("for")]
        self.adjuncts(vp, "-", " ".join(places) or "-", "past", 0)
        vp.mid = []
        tense = self.tense(only="past past will should")
        front = ("obj", self.wh_object(row[2]))
        return self.clause(subj, vp, tense, invert=True, front=[front]), "?"

    def wh_object(self, selection: str) -> Phrase:
        if "person" in selection.split():
            return leaf("who", "PRON", "PronType=Int")
        if self.chance(0.3):
            return leaf("what", "PRON", "PronType=Int")
        noun = self.noun_of(selection)
        if noun in MASS or GROUP_OF[noun] in ("weather", "water"):
            return leaf("what", "PRON", "PronType=Int")
        if self.chance(0.3):
            countable = plural_or_none(self, noun)
            if countable:
                many = leaf("many", "ADJ", "Degree=Pos")
                how = prefix("advmod", adverb("how", "PronType=Int"), many)
                return prefix("amod", how, countable)
        return self.common(noun, det="which", rich=0, plural=None, adjective=False).phrase

    def adverb_question(self) -> Made:
        tense = self.tense(only="past past past pres will")
        subj = self.person("Nom", 0)
        word = self.word("where when why")
        vp = self.willing(lambda: self.vp(subj, "none", 0))
        # The wh-word asks for the place or time, so the clause must not already name it.
        vp.post = [d for d in vp.post if d[0] not in ("advmod", "obl:tmod")]
        if word == "where":
            row = self.pick([r for r in TRANSITIVE if "person" in r[1].split()][:24])
            subj = self.short_subject()
            vp = VP(make_verb(row[0]), [("obj", self.object(row[2], subj, 0).phrase)])
        vp.mid = []
        front = [("advmod", adverb(word, "PronType=Int"))]
        return self.clause(subj, vp, self.plain(tense, vp, subj), invert=True, front=front), "?"

    def copular_question(self) -> Made:
        tense = self.word("past pres pres")
        if self.chance(0.5):
            where = adverb("where", "PronType=Int")
            subj = self.np("thing vehicle animal kin room", rich=1)
            return self.copula(subj, where, tense, invert=True, front=True), "?"
        group = self.pick(["building", "water", "animal", "event", "clothing"])
        words = {"building": "old high", "water": "deep cold", "animal": "old large",
                 "event": "long important", "clothing": "expensive warm"}  # fmt: skip
        adj = leaf(self.word(words[group]), "ADJ", "Degree=Pos")
        how = prefix("advmod", adverb("how", "PronType=Int"), adj)
        noun = self.pick(MEMBERS[group])
        subj = self.common(noun, det=self.word("the this that"), rich=1, adjective=False)
        return self.copula(subj, how, tense, invert=True, front=True), "?"

    def imperative(self) -> Made:
        you = pronoun("you")
        makers = [self.transitive, self.particle, self.ditransitive, self.prepositional]
        vp = self.willing(lambda: self.pick(makers)(you, "must", 0))
        clause = self.bare(vp, "imp")
        if self.chance(0.25):
            neg = leaf("not", "PART", "Polarity=Neg")
            if self.chance(0.5):
                neg = leaf("n't", "PART", "Polarity=Neg", "not")
            do = leaf("do", "AUX", "Mood=Imp|VerbForm=Fin")
            do.head.space = neg.head.form == "not"
            clause.head.feats = "VerbForm=Inf"
            clause = prefix("aux", do, prefix("advmod", neg, clause))
        return self.address(clause), "!" if self.chance(0.15) else "."

    def address(self, clause: Phrase) -> Phrase:
        if any(tok.upos == "PROPN" for tok in clause.toks):
            return clause  # the person addressed is not also spoken about
        roll = self._random()
        if roll < 0.25:
            return prefix("discourse", leaf("please", "INTJ"), clause)
        if roll < 0.45:
            return prefix("vocative", comma_after(self.name().phrase), clause)
        if roll < 0.6:
            return suffix("vocative", comma_before(self.name().phrase), clause)
        return clause

    # -- several clauses --

    def compound(self) -> Made:
        """Two full clauses."""
        first, second = self.pair(*["past"] * 2 if self.chance(0.75) else ["pres"] * 2)
        if self.chance(0.15):
            second = self.comma_join(";", second)
        else:
            word = leaf(self.word("and and but so"), "CCONJ")
            second = prefix("cc", word, second)
            second = comma_before(second) if self.chance(0.8) else second
        rel = "parataxis" if second.toks[0].form == ";" else "conj"
        return suffix(rel, second, first), "."

    def pair(self, tense: str, other: str) -> tuple[Phrase, Phrase]:
        """Two clauses that mostly speak of the same people."""
        subj = self.person("Nom", 0) if self.chance(0.8) else self.entity(0)
        first = self.simple(tense, 0, subj=subj)
        second = self.corefer(subj) if self.chance(0.6) else self.entity(0)
        return first, self.simple(other, 0, subj=second)

    def comma_join(self, form: str, phrase: Phrase) -> Phrase:
        return prefix("punct", punct(form), phrase)

    def shared_subject(self) -> Made:
        """Two verb phrases with one subject."""
        subj = self.np("person person person @dog @cat @fox @horse")
        vp = self.vp(subj, "past", 0)
        second = self.vp(subj, "past", 0)
        vp.mid = []
        while second.verb.lemma == vp.verb.lemma:
            second = self.vp(subj, "past", 0)
        other = join_verb(self, second, subj)
        clause = self.clause(subj, vp, "past")
        if self.chance(0.15):
            third = self.vp(subj, "past", 0)
            if third.verb.lemma not in (vp.verb.lemma, second.verb.lemma):
                middle = join_verb(self, third, subj)
                clause = suffix("conj", comma_before(middle), clause)
                other = prefix("cc", leaf("and", "CCONJ"), other)
                return suffix("conj", comma_before(other), clause), "."
        other = prefix("cc", leaf(self.word("and and but or and"), "CCONJ"), other)
        if other.toks[0].form == "or":
            other.toks[0].form = other.toks[0].lemma = "and"
        return suffix("conj", other, clause), "."

    def gapping(self) -> Made:
        """ "Anna ordered tea and Tom coffee": the second verb is left out."""
        row = self.pick([r for r in TRANSITIVE if r[0] in ("order", "buy", "paint", "draw", "eat")])
        first, second = self.name(), self.name()
        if first.phrase.head.form == second.phrase.head.form:
            return self.gapping()
        items = [self.object(row[2], first, 0) for _ in range(2)]
        if items[0].noun == items[1].noun or items[0].plural != items[1].plural:
            return self.gapping()
        vp = VP(make_verb(row[0]), [("obj", items[0].phrase)])
        rest = suffix("orphan", items[1].phrase, second.phrase)
        rest = prefix("cc", leaf("and", "CCONJ"), rest)
        return suffix("conj", rest, self.clause(first, vp, "past")), "."

    def reported(self) -> Made:
        """A finite complement clause."""
        subj = self.person("Nom", 1)
        tense = self.word("past past past pres")
        if tense == "past":
            inner_tense = self.word("past pastperf would")
        else:
            inner_tense = self.word("pres will past")
        inner = self.inner_clause(subj, inner_tense)
        verb = make_verb(self.pick(lex.SAY_VERBS))
        vp = VP(verb)
        if self.chance(0.8):
            inner = mark("that", inner)
        if self.chance(0.15):
            vp.verb = make_verb("tell")
            vp.post.append(("obj", self.object("person", subj, 0).phrase))
        vp.post.append(("ccomp", inner))
        negative = verb.lemma in ("say", "think", "know", "believe") and self.chance(0.15)
        return self.clause(subj, vp, tense, negative), "."

    def inner_clause(self, outer: NP, tense: str) -> Phrase:
        subj = self.corefer(outer) if self.chance(0.5) else self.entity(0)
        vp = self.vp(subj, "none", 0)
        return self.clause(subj, vp, self.plain(tense, vp, subj))

    def indirect_question(self) -> Made:
        subj = self.person("Nom", 0)
        inner_subj = self.entity(0)
        vp = self.vp(inner_subj, "none", 0)
        word = self.word("whether if why when")
        vp.post = [d for d in vp.post if d[0] != "obl:tmod"]
        inner = self.clause(inner_subj, vp, self.word("past pastperf would"))
        if word in ("whether", "if"):
            inner = mark(word, inner)
        else:
            inner = prefix("advmod", adverb(word, "PronType=Int"), inner)
        outer = VP(make_verb(self.pick(lex.ASK_VERBS)), [("ccomp", inner)])
        return self.clause(subj, outer, "past", negative=outer.verb.lemma == "know"), "."

    def open_complement(self) -> Made:
        subj = self.person()
        inner = self.willing(lambda: self.vp(subj, "none", 1))
        tense = self.tense(only="past past pres pres will")
        if self.chance(0.7):
            outer = VP(make_verb(self.pick(lex.TO_VERBS)), [("xcomp", self.infinitive(inner))])
        else:
            outer = VP(make_verb(self.pick(lex.ING_VERBS)), [("xcomp", self.bare(inner, "ger"))])
        negative = self.chance(0.12)
        return self.clause(subj, outer, tense, negative), "."

    def object_control(self) -> Made:
        subj = self.person()
        obj = self.object("person", subj, 0)
        inner = self.willing(lambda: self.vp(obj, "none", 0))
        if self.chance(0.2):
            phrase, verb = self.bare(inner, "base"), self.word("let make")
        else:
            phrase, verb = self.infinitive(inner), self.pick(lex.CONTROL_VERBS)
        outer = VP(make_verb(verb), [("obj", obj.phrase), ("xcomp", phrase)])
        return self.clause(subj, outer, self.word("past past pres will")), "."

    def adverbial(self) -> Made:
        """A finite adverbial clause, before or after the main clause."""
        word = self.pick([*lex.SUBORDINATORS, "when", "when", "if", "if"])
        if word == "if":
            sub, main = self.pair("pres", self.word("will will should must can"))
        else:
            sub, main = self.pair("past", "past")
            if word == "while":
                sub = self.ongoing()
        if word == "because" and self.chance(0.4):
            sub = self.copula(*self.feeling(), "past")
        sub = mark(word, sub)
        if self.chance(0.4) and word not in ("until",):
            return prefix("advcl", comma_after(sub), main), "."
        return suffix("advcl", sub, main), "."

    def ongoing(self) -> Phrase:
        subj = self.person("Nom", 0)
        vp = self.intransitive(subj, "pastprog", 0)
        if vp is None or vp.verb.lemma in ("disappear", "arrive", "leave", "nod", "jump"):
            return self.ongoing()
        return self.clause(subj, vp, "pastprog")

    def feeling(self) -> tuple[NP, Phrase]:
        word = self.word(lex.PREDICATES["person"].replace("ready", ""))
        return self.short_subject(), leaf(word, "ADJ", "Degree=Pos")

    def purpose(self) -> Made:
        """Infinitive or participial adverbial clauses without a subject of their own."""
        subj = self.person()
        roll = self._random()
        if roll < 0.4:
            return self.errand(subj), "."
        main = self.clause(subj, self.willing(lambda: self.vp(subj, "none", 0)), "past")
        inner = self.willing(lambda: self.vp(subj, "none", 0))
        if roll < 0.7:
            word = self.word("without before after")
            return suffix("advcl", mark(word, self.bare(inner, "ger")), main), "."
        sub = mark(self.word("before after"), self.bare(inner, "ger"))
        return prefix("advcl", comma_after(sub), main), "."

    def errand(self, subj: NP) -> Phrase:
        """ "went to the market to buy a coat"."""
        motion, place = self.pick(
            [("go", "to:spot"), ("travel", "to:CITY"), ("return", "to:area"), ("go", "to:room")]
        )
        main = self.clause(subj, VP(make_verb(motion), [("obl", self.pp(place))]), "past")
        row = self.pick([r for r in TRANSITIVE if r[0] in lex.PURPOSES and "person" in r[1]])
        inner = VP(make_verb(row[0]), [("obj", self.object(row[2], subj, 0).phrase)])
        return suffix("advcl", self.infinitive(inner), main)

    def report_aside(self) -> Made:
        """ "The shop is closed, Anna said."""
        main = self.simple(self.word("past pres will"), 0)
        verb = VP(make_verb(self.word("say say think claim explain")))
        subj = self.name() if self.chance(0.6) else self.common(
            self.pick(MEMBERS["role"]), det="the", rich=0, plural=False
        )  # fmt: skip
        aside = self.clause(subj, verb, "past")
        return suffix("parataxis", comma_before(aside), main), "."

    def clausal_subject(self) -> Made:
        inner = mark("that", self.simple("past", 0))
        if self.chance(0.35):
            vp = VP(make_verb(self.word("surprise annoy delight")))
            vp.post.append(("obj", self.np("person", "Acc", 0).phrase))
            return self.clause(NP(inner), vp, "past", subj_rel="csubj"), "."
        dummy = it()
        if self.chance(0.5):
            verb = VP(make_verb(self.word("surprise annoy delight")))
            verb.post.append(("obj", self.np("person", "Acc", 0).phrase))
            verb.post.append(("csubj", inner))
            return self.clause(dummy, verb, "past", subj_rel="expl"), "."
        word = leaf(self.word("easy difficult hard important useful"), "ADJ", "Degree=Pos")
        you = pronoun("you")
        makers = [self.transitive, self.prepositional, self.particle]
        inner = self.infinitive(self.willing(lambda: self.pick(makers)(you, "none", 0)))
        clause = self.copula(dummy, word, self.word("past pres pres"), subj_rel="expl")
        return suffix("csubj", inner, clause), "."

    def reason(self) -> Made:
        roll = self._random()
        if roll < 0.4:
            subj = self.np("event", rich=0)
            vp = VP(make_verb("cancel"), passive=True)
        elif roll < 0.7:
            subj, vp = self.np("vehicle", rich=0), VP(make_verb("arrive"))
            vp.post.append(("advmod", adverb("late")))
        else:
            subj = self.person("Nom", 0)
            vp = VP(make_verb("wait"), [("obl", self.pp("in:room"))])
        main = self.clause(subj, vp, "past")
        noun = self.word("storm rain snow flood wind")
        spec = case("because of", self.common(noun, det="the", rich=0).phrase)
        return suffix("obl", spec, main), "."

    # -- modified noun phrases --

    def with_relative(self) -> Made:
        """A relative or participial clause right after its noun."""
        noun = self.noun_of("role role animal text vehicle art thing building event room area")
        plural = self.chance(0.2)
        np = self.common(noun, det=self.word("the the the a that"), rich=0, plural=plural)
        if self.chance(0.3):
            modified = self.participle(np)
        else:
            modified = suffix("acl:relcl", self.relative(noun, plural), np.phrase)
        np = NP(modified, plural=plural, gender=np.gender, noun=noun)
        return self.use_np(np), "."

    def participle(self, np: NP) -> Phrase:
        """ "sleeping under the tree" or "written by the mayor"."""
        places = {"animal": "under:@tree", "role": "near:opening", "vehicle": "at:spot"}
        group = GROUP_OF[np.noun]
        if group in places:
            verbs = {"animal": "sleep hide", "role": "wait stand sit", "vehicle": "wait stand"}
            vp = VP(make_verb(self.word(verbs[group])), [("obl", self.pp(places[group]))])
            return suffix("acl", self.bare(vp, "ing"), np.phrase)
        skipped = ("lose", "enjoy", "see", "visit", "hear", "wear", "choose", "admire", "attend")
        rows = [r for r in TRANSITIVE if covers(r[2], np.noun) and r[0] not in skipped]
        rows = [r for r in rows if "animal" not in r[1]]
        if not rows:
            return suffix("acl:relcl", self.relative(np.noun, np.plural), np.phrase)
        row = self.pick(rows)
        agent = self.person_agent()
        vp = VP(make_verb(row[0]), [("obl:agent", case("by", agent.phrase))])
        return suffix("acl", self.bare(vp, "pass"), np.phrase)

    def person_agent(self) -> NP:
        if self.chance(0.5):
            return self.name()
        return self.common(self.pick(MEMBERS["role"]), det=self.word("the a"), rich=0, plural=False)

    def use_np(self, np: NP) -> Phrase:
        """A clause around a ready noun phrase, as subject or object."""
        if GROUP_OF[np.noun] in ("role", "animal", "vehicle") and self.chance(0.6):
            vp = self.vp(np, "past", 0)
            return self.clause(np, vp, "past")
        if GROUP_OF[np.noun] in lex.PREDICATES and self.chance(0.35):
            word = self.word(lex.PREDICATES[GROUP_OF[np.noun]])
            return self.copula(np, leaf(word, "ADJ", "Degree=Pos"), self.word("past pres"))
        used = [tok.lemma for tok in np.phrase.toks]
        rows = [r for r in TRANSITIVE if covers(r[2], np.noun) and "person" in r[1].split()]
        rows = [r for r in rows if r[0] not in used]
        verb = self.pick(rows)[0] if rows else "remember"
        while True:
            subj = self.person("Nom", 0)
            if subj.noun != np.noun:
                return self.clause(subj, VP(make_verb(verb), [("obj", np.phrase)]), "past")

    def superlative(self) -> Made:
        group = self.pick(["role", "animal", "building", "vehicle", "text"])
        words = [a for a in lex.ADJECTIVES[group].split() if a in lex.SUPERLATIVES]
        word = self.pick(words)
        noun = self.pick(MEMBERS[group])
        best = leaf(lex.SUPERLATIVES[word], "ADJ", "Degree=Sup", word)
        head = prefix("amod", best, leaf(noun, "NOUN", "Number=Sing"))
        the = leaf("the", "DET", "Definite=Def|PronType=Art")
        places = {"role": "in:@village in:CITY in:@school", "animal": "in:@village in:@park",
                  "text": "in:@library in:@school"}  # fmt: skip
        place = self.pp(self.word(places.get(group, "in:@village in:@city in:CITY")))
        head = suffix("nmod", place, prefix("det", the, head))
        if self.chance(0.4) or group == "text":
            return self.use_np(NP(head, noun=noun)), "."
        subj = self.name() if group == "role" else self.common(
            noun, det="this", rich=0, adjective=False, plural=False
        )  # fmt: skip
        if subj.noun == noun:
            subj = NP(leaf("this", "PRON", "Number=Sing|PronType=Dem"))
        return self.copula(subj, head, self.word("past pres")), "."

    # -- crossing dependencies --

    def extraposed_relative(self) -> Made:
        """ "A letter arrived yesterday that surprised the teacher."""
        noun, verbs = self.pick(
            [("role", "arrive appear leave"), ("vehicle", "arrive stop"), ("animal", "appear"),
             ("text", "appear arrive"), ("role", "come"), ("show", "start")]
        )  # fmt: skip
        np = self.common(self.noun_of(noun), det=self.word("a a another some"), rich=0)
        np = NP(np.phrase, plural=np.plural, noun=np.noun)
        vp = VP(make_verb(self.word(verbs)))
        while True:
            relative = self.relative(np.noun, np.plural)
            # Away from its noun a relative clause needs its pronoun.
            overt = relative.toks[0].feats.endswith("PronType=Rel")
            if overt and relative.head.lemma != vp.verb.lemma:
                break
        np.tail = attach("acl:relcl", relative, np.phrase.head)
        if vp.verb.lemma == "come":
            vp.post.append(("compound:prt", leaf("in", "ADP")))
        if self.chance(0.7):
            vp.post.append(self.past_time())
        if GROUP_OF[np.noun] == "text" and self.chance(0.3):
            vp = VP(make_verb(self.word("publish find read")), vp.post, passive=True)
        return self.clause(np, vp, "past"), "."

    def extraposed_phrase(self) -> Made:
        """ "A review appeared of the new book."""
        head, prep, about, verbs = self.pick(
            [("review", "of", "text show", "appear"), ("photo", "of", "animal kin", "arrive"),
             ("report", "about", "weather event", "appear"), ("map", "of", "area", "appear"),
             ("story", "about", "animal kin", "appear"),
             ("recipe", "for", "@soup @pie @cake", "appear"),
             ("article", "about", "weather show CITY", "appear")]
        )  # fmt: skip
        noun = leaf(head, "NOUN", "Number=Sing")
        if self.chance(0.35):
            adj = leaf(self.word("long short new strange"), "ADJ", "Degree=Pos")
            noun = prefix("amod", adj, noun)
        article = self.article(noun.toks[0].form)
        np = NP(prefix("det", article, noun), noun="letter")
        selection = self.word(about)
        inner = self.city() if selection == "CITY" else self.common(
            self.noun_of(selection), det="" if selection == "kin" else "the", rich=0
        )  # fmt: skip
        np.tail = attach("nmod", case(prep, inner.phrase), np.phrase.head)
        vp = VP(make_verb(verbs), [self.past_time()] if self.chance(0.5) else [])
        return self.clause(np, vp, "past"), "."

    def extraposed_content(self) -> Made:
        """ "A rumor spread that the bakery would close."""
        noun, verb = self.pick([("rumor", "spread"), ("hope", "grow"), ("warning", "appear"),
                                ("rumor", "start")])  # fmt: skip
        np = self.common(noun, det="a" if noun != "hope" else "the", rich=0, plural=False)
        inner = mark(
            "that", self.simple(self.word("would would pastperf") if noun != "hope" else "would", 0)
        )
        np.tail = attach("acl", inner, np.phrase.head)
        vp = VP(make_verb(verb), [self.past_time()] if self.chance(0.4) else [])
        return self.clause(np, vp, "past"), "."

    def long_question(self) -> Made:
        """ "Which book did Anna say that she had read?"""
        row = self.pick([r for r in TRANSITIVE if "person" in r[1].split()])
        outer = self.asked()
        if self.chance(0.2):
            who = NP(leaf("who", "PRON", "PronType=Int"))
            inner_vp = VP(make_verb(row[0]), [("obj", self.np(row[2], "Acc", 0).phrase)])
            inner = self.clause(None, inner_vp, "past")
            moved = attach("nsubj", who.phrase, inner.head)
        else:
            tense = self.word("pastperf would")
            inner = self.clause(self.corefer(outer), VP(make_verb(row[0])), tense)
            moved = attach("obj", self.wh_object(row[2]), inner.head)
            if self.chance(0.5):
                inner = mark("that", inner)
        verb = make_verb(self.word("say think believe claim"))
        clause = self.clause(outer, VP(verb, [("ccomp", inner)]), "past", invert=True)
        return join(clause.head, moved, clause), "?"

    def control_question(self) -> Made:
        """ "What did she want to buy?": extraction out of an open complement."""
        rows = [r for r in TRANSITIVE if "person" in r[1].split()]
        row = self.pick([r for r in rows if r[0] not in lex.UNINTENDED])
        subj = self.asked()
        inner = self.infinitive(VP(make_verb(row[0])))
        moved = attach("obj", self.wh_object(row[2]), inner.head)
        verb = make_verb(self.word("want try hope plan decide promise need"))
        outer = VP(verb, [("xcomp", inner)])
        tense = self.word("past past pres")
        clause = self.clause(subj, outer, tense, invert=True)
        return join(clause.head, moved, clause), "?"

    def stranding(self) -> Made:
        """ "Which city did Anna say she came from?"""
        row = self.pick([r for r in PREPOSITIONAL if r[2] in ("person", "role")])
        selection = self.word(row[3])
        if selection == "person":
            moved = leaf("who", "PRON", "PronType=Int")
        elif selection == "CITY":
            which = leaf("which", "DET", "PronType=Int")
            moved = prefix("det", which, leaf("city", "NOUN", "Number=Sing"))
        elif selection in ("food", "weather"):
            moved = leaf("what", "PRON", "PronType=Int")
        else:
            moved = self.common(
                self.noun_of(selection), det="which", rich=0, plural=False, adjective=False
            ).phrase
        prep = attach("case", leaf(row[1], "ADP"), moved.head)
        subj = self.asked()
        if self.chance(0.45):
            front = [("obl", moved)]
            tense = "past" if row[0] in lex.STATIVE else self.word("past past will pastprog")
            clause = self.clause(subj, VP(make_verb(row[0])), tense, invert=True, front=front)
            return join(clause.head, clause, prep), "?"
        inner = self.clause(self.corefer(subj), VP(make_verb(row[0])), self.word("pastperf past"))
        attach("obl", moved, inner.head)
        verb = VP(make_verb(self.word("say think believe claim")), [("ccomp", inner)])
        clause = self.clause(subj, verb, "past", invert=True)
        return join(clause.head, moved, clause, prep), "?"

    def stranded_in_relative(self) -> Made:
        noun = self.noun_of("@bench @village @cabin event idea art role @bus animal")
        relative = self.stranded_relative(noun)
        if relative is None:
            return self.stranded_in_relative()
        return self.around(noun, relative), "."

    def long_in_relative(self) -> Made:
        noun = self.noun_of("text art thing dish furniture vehicle")
        relative = self.long_relative(noun)
        if relative is None:
            return self.long_in_relative()
        return self.around(noun, relative), "."

    def around(self, noun: str, relative: Phrase) -> Phrase:
        np = self.common(noun, det="the", rich=0, plural=False)
        return self.use_np(NP(suffix("acl:relcl", relative, np.phrase), noun=noun))

    def split_comparison(self) -> Made:
        """ "Anna is a better cook than her brother."""
        subj = self.name()
        noun = self.word("cook singer driver painter writer student teacher")
        fitting = {"driver": "good fast", "student": "good clever", "teacher": "good kind",
                   "writer": "good funny"}  # fmt: skip
        word = self.word(fitting.get(noun, "good"))
        adj = leaf(lex.COMPARATIVES[word], "ADJ", "Degree=Cmp", word)
        det = self.article(adj.head.form)
        head = prefix("det", det, prefix("amod", adj, leaf(noun, "NOUN", "Number=Sing")))
        if self.chance(0.5):
            other = self.name()
        else:
            own = "her" if subj.gender == "f" else "his"
            other = self.common(self.pick(MEMBERS["kin"]), det=own, rich=0, plural=False)
        if other.phrase.head.form == subj.phrase.head.form:
            return self.split_comparison()
        than = attach("obl", case("than", other.phrase), adj.head)
        clause = self.copula(subj, head, self.word("pres pres past"))
        return join(clause.head, clause, than), "."


def plural_or_none(grammar: Grammar, noun: str) -> Phrase | None:
    """The bare plural, for "how many"; None when the noun has none."""
    np = grammar.common(noun, det="some", rich=0, plural=True, adjective=False)
    if not np.plural:
        return None
    np.phrase.head.head = None
    return Phrase([np.phrase.head], np.phrase.head)


def join_verb(grammar: Grammar, vp: VP, subj: NP) -> Phrase:
    """A finite verb phrase without its subject, for coordination."""
    vp.mid = []
    main = grammar.chain(vp.verb, "past", subj, False, False)[-1]
    return join(main.head, main, *(attach(rel, phrase, main.head) for rel, phrase in vp.post))


def finish(made: Made) -> list[Tok]:
    """Close the sentence: final mark, capital letter, no doubled punctuation."""
    phrase, final = made
    phrase.head.head, phrase.head.deprel = None, "root"
    toks = [*phrase.toks, *attach("punct", punct(final), phrase.head).toks]
    # "Anna, my neighbor, ." : a closing comma gives way to the mark that follows it.
    kept = [
        tok
        for tok, after in zip(toks, [*toks[1:], None], strict=True)
        if not (tok.form == "," and after is not None and after.upos == "PUNCT")
    ]
    for tok, after in itertools.pairwise(kept):
        if after.upos == "PUNCT":
            tok.space = False
    kept[-1].space = True
    kept[0].form = kept[0].form[0].upper() + kept[0].form[1:]
    return kept


Pattern = Callable[[Sentences], Made]

# pattern, weight
PROJECTIVE: list[tuple[Pattern, int]] = [
    (Sentences.statement, 16), (Sentences.negated, 5), (Sentences.fronted, 6),
    (Sentences.passive_statement, 8), (Sentences.copular, 7), (Sentences.comparison, 2),
    (Sentences.linking, 3), (Sentences.object_predicate, 2), (Sentences.existential, 4),
    (Sentences.yes_no, 6), (Sentences.who_question, 3), (Sentences.object_question, 4),
    (Sentences.adverb_question, 3), (Sentences.copular_question, 3), (Sentences.imperative, 6),
    (Sentences.compound, 6), (Sentences.shared_subject, 5), (Sentences.gapping, 2),
    (Sentences.reported, 7), (Sentences.indirect_question, 2), (Sentences.open_complement, 6),
    (Sentences.object_control, 4), (Sentences.adverbial, 8), (Sentences.purpose, 5),
    (Sentences.report_aside, 3), (Sentences.clausal_subject, 3), (Sentences.reason, 2),
    (Sentences.with_relative, 10), (Sentences.superlative, 2),
]  # fmt: skip

CROSSING: list[tuple[Pattern, int]] = [
    (Sentences.extraposed_relative, 4), (Sentences.extraposed_phrase, 2),
    (Sentences.extraposed_content, 2), (Sentences.long_question, 4),
    (Sentences.control_question, 3), (Sentences.stranding, 4),
    (Sentences.stranded_in_relative, 3), (Sentences.long_in_relative, 2),
    (Sentences.split_comparison, 2),
]  # fmt: skip
