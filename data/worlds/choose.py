"""Turns drafts into the questions of a world: answered, given evidence, checked, and spread over types and hops."""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import product
from random import Random
from typing import NamedTuple

from stitchjam.data.records import NOT_MENTIONED
from stitchjam.data.worlds.asking import FAMILIES
from stitchjam.data.worlds.asking.draft import Draft
from stitchjam.data.worlds.checks import SHARED, Known, faults
from stitchjam.data.worlds.dates import read_date
from stitchjam.data.worlds.dials import Dials, Style
from stitchjam.data.worlds.query import solve
from stitchjam.data.worlds.records import Evidence, Fact, Pattern, Place, Statement, WorldQuestion, session_of

__all__ = ["Chosen", "Pool", "choose", "wanted"]

_SPARE = 4  # candidates kept for each question that is wanted
_FAMILY = {name: family for family, types in FAMILIES.items() for name in types}
_RENAMED = 3  # names in an answer that other names may stand for
_BETWEEN = re.compile("([,;:] )")
_NUMBERS = "zero one two three four five six seven eight nine ten".split()


class Pool:
    """Keeps some drafts of each type and number of hops, each with the same chance, in memory that does not grow."""

    def __init__(self, dials: Dials):
        self.size = max(_SPARE, _SPARE * dials.questions // len(_FAMILY))
        self.dice, self.hops = Random(f"{dials.seed}/pool"), dials.hops
        self.kept: dict[tuple[str, int], list[Draft]] = {}
        self.seen: Counter[tuple[str, int]] = Counter()

    def add(self, draft: Draft) -> None:
        """Keep a draft, or not."""
        if draft.hops > self.hops:
            return
        key = (draft.type, draft.hops)
        self.seen[key] += 1
        kept = self.kept.setdefault(key, [])
        at = len(kept) if len(kept) < self.size else self.dice.randrange(self.seen[key])
        kept[at : at + 1] = [draft] if at < self.size else kept[at : at + 1]

    def queues(self) -> dict[str, deque[Draft]]:
        """The drafts by type, with the numbers of hops mixed."""
        by_type: dict[str, list[list[Draft]]] = {}
        for (name, _), kept in sorted(self.kept.items(), reverse=True):
            by_type.setdefault(name, []).append(self.dice.sample(kept, len(kept)))
        return {name: deque(_in_turn(by_type[name])) for name in _FAMILY if name in by_type}


def _in_turn(lists: Iterable[Sequence[Draft]]) -> Iterator[Draft]:
    queues = [deque(one) for one in lists]
    while any(queues):
        yield from (queue.popleft() for queue in queues if queue)


def wanted(drafts: Sequence[Draft]) -> Callable[[Fact], bool]:
    """A test for facts that a pattern of some drafts could fit: all that has to be kept of a world to judge them."""
    keys = {_key(pattern, draft.through) for draft in drafts for pattern in draft.query.where}
    # The same property of the same option elsewhere counts too: its value there has to be another one.
    keys |= {
        (pattern.relation, "subject", draft.about or pattern.subject)
        for draft in drafts
        for pattern in draft.query.where
        if not pattern.relation.endswith(SHARED)
    }
    fields = ("relation", "subject", "goal", "value")
    return lambda fact: any(
        (fact.relation, name, "" if name == "relation" else getattr(fact, name)) in keys for name in fields
    )


def _key(pattern: Pattern, through: str) -> tuple[str, str, str]:
    """The most telling constant of a pattern: its goal, subject or value, or its relation alone.

    A goal that is only described is found by who is in charge of it, so nothing else about other goals is looked at.
    """
    if through and pattern.goal.startswith("?") and not pattern.subject.startswith("?"):
        return pattern.relation, "goal", through
    for name in ("goal", "subject", "value"):
        constant = getattr(pattern, name)
        if constant and not constant.startswith("?"):
            return pattern.relation, name, constant
    return pattern.relation, "relation", ""


class Chosen(NamedTuple):
    """The questions of a world, and how many drafts were refused, by fault."""

    questions: tuple[WorldQuestion, ...]
    refused: Mapping[str, int]


def choose(
    pool: Pool, number: int, name: str, known: Known, styles: Mapping[str, Style], other_names: Mapping[str, str]
) -> Chosen:
    """Questions without faults, type by type in turn until there are enough or no drafts are left.

    Args:
        pool: the drafts.
        number: how many questions.
        name: of the world; ids begin with it.
        known: what the checks need.
        styles: of sessions, by id.
        other_names: of options, which count as answers too.
    """
    queues, asked = pool.queues(), set[str]()
    found: list[WorldQuestion] = []
    refused: Counter[str] = Counter()
    while len(found) < number and any(queues.values()):
        for queue in queues.values():
            while queue and len(found) < number:
                question = _question(queue.popleft(), f"{name}-q{len(found) + 1:03}", known, styles, other_names)
                query = question.query.model_dump_json()
                wrong = ["asked before"] if query in asked else [one.kind for one in faults(question, known)]
                if not wrong:
                    asked.add(query)
                    found.append(question)
                    break
                refused.update(wrong[:1])
    return Chosen(tuple(found), dict(sorted(refused.items())))


def _question(
    draft: Draft, id: str, known: Known, styles: Mapping[str, Style], other_names: Mapping[str, str]
) -> WorldQuestion:
    statements = known.about(draft.query)
    solution = solve(draft.query, sorted((one.fact for one in statements), key=lambda fact: fact.at))
    unanswerable = draft.type == "unanswerable"
    answer = NOT_MENTIONED if unanswerable or solution.answer is None else solution.answer
    evidence = () if unanswerable else _evidence(solution.used, statements)
    return WorldQuestion(
        id=id,
        text=draft.text[:1].upper() + draft.text[1:],
        answer=answer,
        aliases=_aliases(answer, other_names),
        family=_FAMILY[draft.type],
        type=draft.type,
        value=draft.value,
        hops=draft.hops,
        styles=tuple(dict.fromkeys(styles[one.session] for one in evidence if one.role == "states")),
        query=draft.query,
        evidence=evidence,
    )


def _evidence(used: Iterable[Fact], statements: Iterable[Statement]) -> tuple[Evidence, ...]:
    """The turns that state what an answer used, and those through which they are understood."""
    ids = {fact.id for fact in used}
    places: dict[str, list[Place]] = {}
    for one in statements:
        if one.fact.id in ids:
            places.setdefault(one.place.turn, []).append(one.place)
            for turn in one.through:
                places.setdefault(turn, [])
    return tuple(
        Evidence(turn=turn, session=session_of(turn), role="states" if stated else "refers", places=tuple(stated))
        for turn, stated in sorted(places.items())
    )


def _aliases(answer: str, other_names: Mapping[str, str]) -> tuple[str, ...]:
    """Other forms that are as right: a number in words, without its unit, a date in ISO form, other names."""
    forms = list(_renamed(answer, other_names))
    number, _, unit = answer.partition(" ")
    if number.isdigit() and not unit and int(number) < len(_NUMBERS):
        forms.append(_NUMBERS[int(number)])
    if number.replace(".", "").isdigit() and unit and len(unit) < 20:
        forms += _date_forms(answer) or [number]
    return tuple(forms)


def _renamed(answer: str, other_names: Mapping[str, str]) -> Iterator[str]:
    """The answer, which may be a list or a form, with other names in all combinations for the first few names."""
    parts = _BETWEEN.split(answer)
    named = [at for at, part in enumerate(parts) if part in other_names][:_RENAMED]
    for which in product((False, True), repeat=len(named)):
        other = {at for at, renamed in zip(named, which, strict=True) if renamed}
        if other:
            yield "".join(other_names[part] if at in other else part for at, part in enumerate(parts))


def _date_forms(answer: str) -> list[str]:
    day = read_date(answer, date.min)
    return [day.isoformat()] if day else []
