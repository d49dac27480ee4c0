"""Turns a question and what a world says into the faults that it has; a question that is kept has none.

These are the validations of Memory-Gym (JAM section 3) that need no judge: no leak, a unique answer, evidence that is
enough and of which each piece is needed, clues that are ambiguous alone, and gold that can be read back.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Literal, NamedTuple

from stitchjam.data.records import NOT_MENTIONED
from stitchjam.data.text import normalise
from stitchjam.data.worlds.dates import read_date, say_day
from stitchjam.data.worlds.query import fits, known_from, solve
from stitchjam.data.worlds.records import Evidence, Fact, Place, Query, Statement, WorldQuestion, session_of

__all__ = ["Fault", "Known", "SHARED", "answer_from", "faults"]


# Relations whose values many subjects share by their nature, such as who proposed something.
SHARED = ("proposed", "recommended", "feature", "chosen", "charge", "date", "paid", "paid_on")
_DATED = ("date", "moved", "paid_on")
_MARK, _THOUSANDS, _GLUED = (re.compile(one) for one in (r"[^\w\s]", r"(?<=\d),(?=\d{3})", r"(?<=\d)(?=[^\W\d_])"))


class Fault(NamedTuple):
    """What is wrong with a question."""

    kind: Literal["leak", "second answer", "not enough", "unneeded", "span", "date", "clue"]
    why: str


@dataclass(frozen=True)
class Known:
    """What the checks of some questions need to know of a world.

    Attributes:
        statements: at least those that a pattern of the questions could fit.
        texts: of the evidence turns, by id.
        days: of the sessions of those turns, by id.
    """

    statements: Sequence[Statement]
    texts: Mapping[str, str]
    days: Mapping[str, date]

    def about(self, query: Query) -> list[Statement]:
        """The statements of the relations that a query asks for; no others can change what it gives."""
        relations = sorted({pattern.relation for pattern in query.where})
        return [one for relation in relations for one in self._by_relation.get(relation, ())]

    def in_turn(self, turn: str) -> Sequence[Statement]:
        """What a turn states."""
        return self._by_turn.get(turn, ())

    @cached_property
    def _by_relation(self) -> Mapping[str, Sequence[Statement]]:
        return _grouped(self.statements, lambda one: one.fact.relation)

    @cached_property
    def _by_turn(self) -> Mapping[str, Sequence[Statement]]:
        return _grouped(self.statements, lambda one: one.place.turn)


def _grouped(statements: Iterable[Statement], key: Callable[[Statement], str]) -> Mapping[str, Sequence[Statement]]:
    found: dict[str, list[Statement]] = {}
    for one in statements:
        found.setdefault(key(one), []).append(one)
    return found


def answer_from(query: Query, facts: Sequence[Fact]) -> str:
    """What somebody answers who knows these facts; "not mentioned" when they do not determine it."""
    return solve(query, facts).answer or NOT_MENTIONED


def faults(question: WorldQuestion, known: Known) -> list[Fault]:
    """All faults of a question, in the order of the checks."""
    relevant = known.about(question.query)
    checks = (_leak, _second_answer, _evidence, _clues)
    return [*_places(question, known, relevant), *(fault for check in checks for fault in check(question, relevant))]


def _leak(question: WorldQuestion, world: Sequence[Statement]) -> Iterator[Fault]:
    """The question says neither its answer, in any form of it, nor the name of what it describes."""
    asked = f" {_bare(question.text)} "
    answers = (*_members(question), question.answer, *question.aliases)
    forms = [form for answer in answers for form in (answer, *_other_dates(answer))]
    for form in (*forms, *_described(question, world)):
        if question.type != "unanswerable" and f" {_bare(form)} " in asked:
            yield Fault("leak", f"the question says {form!r}")
            return


def _other_dates(answer: str) -> Iterator[str]:
    """Other ways to write a date: with the month first, and without its year."""
    if day := read_date(answer, date.min):
        number, month, year = say_day(day).split()
        yield from (f"{month} {number} {year}", f"{month} {number}", f"{number} {month}")


def _described(question: WorldQuestion, world: Sequence[Statement]) -> Iterator[str]:
    """Names of options, people and goals that a question describes, so that they have to be found out."""
    query = question.query
    named = {name for one in query.where for name in (one.subject, one.goal, one.value)}
    if query.described or query.clues:
        for fact in solve(query, _facts(world)).used:
            for pattern in (one for one in query.where if fits(one, fact)):
                names = ((pattern.subject, fact.subject), (pattern.goal, fact.goal), (pattern.value, fact.value))
                yield from (name for variable, name in names if variable.startswith("?") and name not in {"", *named})


def _members(question: WorldQuestion) -> Sequence[str]:
    """The members of a list, or the values in a filled form."""
    form = question.query.form
    filled = re.fullmatch("(.+)".join(map(re.escape, form.split("{}"))), question.answer) if form else None
    return filled.groups() if filled else question.answer.split(", ")


def _bare(text: str) -> str:
    """The words without all marks, such as “ and —, numbers without commas and apart from their units."""
    return normalise(_MARK.sub(" ", _GLUED.sub(" ", _THOUSANDS.sub("", text))))


def _second_answer(question: WorldQuestion, world: Sequence[Statement]) -> Iterator[Fault]:
    solution = solve(question.query, _facts(world))
    answer = solution.answer or NOT_MENTIONED
    if question.type != "unanswerable" and solution.answer is None:
        yield Fault("second answer", "the world does not determine one answer")
    elif question.type == "unanswerable" and any(fits(question.query.where[-1], fact) for fact in _facts(world)):
        yield Fault("second answer", "the world says something about what is asked")
    elif answer != question.answer:
        yield Fault("second answer", f"the world says {answer!r}, gold is {question.answer!r}")
    elif question.query.how == "one" and not question.query.form and solution.used:
        value = solution.used[-1]
        void = {fact.voids for fact in _facts(world)}
        for fact in (fact for fact in _facts(world) if fact.id not in void):
            near = not value.relation.endswith(SHARED) and (fact.goal == value.goal or fact.subject == value.subject)
            if fact.id != value.id and near and (fact.relation, fact.value) == (value.relation, value.value):
                yield Fault("second answer", f"{fact.subject!r} has the same {fact.relation} in {fact.goal!r}")


def _evidence(question: WorldQuestion, world: Sequence[Statement]) -> Iterator[Fault]:
    turns = question.turns
    found = answer_from(question.query, known_from(world, turns))
    if found != question.answer:
        yield Fault("not enough", f"the evidence gives {found!r}, gold is {question.answer!r}")
        return
    for at, turn in enumerate(turns):
        rest = known_from(world, turns[:at] + turns[at + 1 :])
        if answer_from(question.query, rest) == question.answer:
            yield Fault("unneeded", f"the answer is the same without {turn}")


def _clues(question: WorldQuestion, world: Sequence[Statement]) -> Iterator[Fault]:
    """Each clue alone leaves several candidates, all of them one."""
    query, facts = question.query, _facts(world)
    clues = [query.where[at] for at in query.clues]
    for clue in clues:
        name = clue.subject
        alone = solve(Query(where=(clue,), give=(name,), how="count"), facts).answer
        if alone is None or int(alone) < 2:
            yield Fault("clue", f"{clue.value!r} alone tells which one it is")
    if clues:
        together = solve(Query(where=tuple(clues), give=(clues[0].subject,), how="count"), facts).answer
        if together != "1":
            yield Fault("clue", f"the clues leave {together or 'no'} candidates")


def _places(question: WorldQuestion, known: Known, world: Sequence[Statement]) -> Iterator[Fault]:
    """Each piece of evidence stands where it says, and states what the answer rests on, no more and no less."""
    needed = _needed(question, world)
    for one in question.evidence:
        wrong = list(_misplaced(one, known))
        if not wrong and set(one.places) != needed.get(one.turn, set(one.places)):
            wrong.append(Fault("span", f"{one.turn} states other things that the answer rests on"))
        yield from wrong


def _needed(question: WorldQuestion, world: Sequence[Statement]) -> dict[str, set[Place]]:
    """Where the evidence states what the answer rests on, by turn; nothing when it gives another answer."""
    solution = solve(question.query, known_from(world, question.turns))
    used = {fact.id for fact in solution.used if solution.answer == question.answer}
    found: dict[str, set[Place]] = {}
    for one in world:
        if one.fact.id in used:
            found.setdefault(one.place.turn, set()).add(one.place)
    return found


def _misplaced(one: Evidence, known: Known) -> Iterator[Fault]:
    if one.session not in known.days or one.session != session_of(one.turn):
        yield Fault("span", f"{one.turn} is not in session {one.session!r}")
        return
    if (one.role == "states") != bool(one.places):
        yield Fault("span", f"{one.turn} {one.role}, and has {len(one.places)} places")
    for place in one.places:
        here = (place.start, place.end)
        facts = [told.fact for told in known.in_turn(one.turn) if (told.place.start, told.place.end) == here]
        if not facts or place.turn != one.turn:
            yield Fault("span", f"nothing is stated at {place.start}:{place.end} of {place.turn}")
        elif known.texts.get(place.turn, "")[place.start : place.end] != place.text:
            yield Fault("span", f"{place.turn} does not read {place.text!r} at {place.start}:{place.end}")
        else:
            yield from _dates(place.text, known.days[one.session], facts)


def _dates(words: str, said: date, facts: Iterable[Fact]) -> Iterator[Fault]:
    for fact in facts:
        day = read_date(words, said) if fact.relation in _DATED else None
        if fact.relation in _DATED and (day is None or day.isoformat() != fact.value):
            yield Fault("date", f"{words!r} said on {said} is {day}, gold is {fact.value}")


def _facts(statements: Iterable[Statement]) -> list[Fact]:
    return sorted((one.fact for one in statements), key=lambda fact: fact.at)
