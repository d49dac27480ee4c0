"""Turns a query and facts into the answer: the one piece of logic behind gold, evidence, oracle and checks.

Gold is the answer from all facts of a world. Evidence is what that answer used. The oracle sees only the evidence, and
a check leaves facts out or puts some in: always this function, on other facts.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from stitchjam.data.worlds.dates import iso_day, say_day
from stitchjam.data.worlds.records import Fact, Pattern, Query, Statement

__all__ = ["Solution", "fits", "known_from", "solve"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Solution(NamedTuple):
    """The answer, None when the facts do not determine one, and the facts that it rests on."""

    answer: str | None
    used: tuple[Fact, ...] = ()


class _Match(NamedTuple):
    """Values of the variables, and the facts that gave them, one for each pattern."""

    values: Mapping[str, str]
    facts: tuple[Fact, ...]


def known_from(statements: Iterable[Statement], turns: Iterable[str]) -> list[Fact]:
    """The facts that someone learns who reads just these turns, in the order told."""
    read = set(turns)
    found = [one.fact for one in statements if one.place.turn in read and read.issuperset(one.through)]
    return sorted(found, key=lambda fact: (fact.at, fact.id))


def solve(query: Query, facts: Sequence[Fact]) -> Solution:
    """The answer that facts determine; they must be in the order told."""
    void = {fact.voids for fact in facts if fact.voids}
    found = [_Match({}, ())]
    for number, pattern in enumerate(query.where, 1):
        fitting = _fitting(pattern, [fact for fact in facts if fact.id not in void])
        found = [joined for match in found for fact in fitting if (joined := _join(match, pattern, fact))]
        if not found or (number <= query.described and len(found) > 1):
            return Solution(None)
    return _OPERATIONS[query.how](query, _distinct(query, found))


def _fitting(pattern: Pattern, facts: Iterable[Fact]) -> list[Fact]:
    """Facts with the pattern's constants; with `last`, only the newest about each property, whatever its value."""
    found = [fact for fact in facts if _same(pattern, fact, ("relation", "subject", "goal"))]
    if pattern.last:
        found = list({(fact.subject, fact.goal): fact for fact in found}.values())
    return [fact for fact in found if _same(pattern, fact, ("value",))]


def fits(pattern: Pattern, fact: Fact) -> bool:
    """Whether a fact has all constants of a pattern."""
    return _same(pattern, fact, ("relation", "subject", "goal", "value"))


def _same(pattern: Pattern, fact: Fact, fields: Iterable[str]) -> bool:
    return all(
        (wanted := getattr(pattern, field)).startswith("?") or wanted == getattr(fact, field) for field in fields
    )


def _join(match: _Match, pattern: Pattern, fact: Fact) -> _Match | None:
    values = dict(match.values)
    for field in ("subject", "goal", "value"):
        name = getattr(pattern, field)
        if (
            name.startswith("?")
            and name != "?"
            and values.setdefault(name, getattr(fact, field)) != getattr(fact, field)
        ):
            return None
    return _Match(values, (*match.facts, fact))


def _distinct(query: Query, matches: Iterable[_Match]) -> list[_Match]:
    """One match for each combination of the values asked for, in the order in which its facts were told."""
    found: dict[tuple[str, ...], _Match] = {}
    for match in sorted(matches, key=lambda one: [fact.at for fact in one.facts]):
        found.setdefault(tuple(match.values[name] for name in query.give), match)
    return list(found.values())


def _used(matches: Iterable[_Match]) -> tuple[Fact, ...]:
    return tuple({fact.id: fact for match in matches for fact in match.facts}.values())


def _one(query: Query, matches: list[_Match]) -> Solution:
    if len(matches) != 1:
        return Solution(None)
    values = [_shown(matches[0].values[name]) for name in query.give]
    return Solution(query.form.format(*values) if query.form else values[0], _used(matches))


def _list(query: Query, matches: list[_Match]) -> Solution:
    return Solution(", ".join(_shown(match.values[query.give[0]]) for match in matches), _used(matches))


def _count(query: Query, matches: list[_Match]) -> Solution:
    return Solution(str(len(matches)), _used(matches))


def _sum(query: Query, matches: list[_Match]) -> Solution:
    values = [match.values[query.give[-1]] for match in matches]
    return Solution(_with_unit(sum(map(_number, values)), values[0]), _used(matches))


def _nth(query: Query, matches: list[_Match]) -> Solution:
    if len(matches) < query.n:
        return Solution(None)
    return Solution(_shown(matches[query.n - 1].values[query.give[0]]), _used(matches[: query.n]))


def _chain(query: Query, matches: list[_Match]) -> Solution:
    """What was replaced first, and everything that came in its place; nothing when a link is missing."""
    first, second = query.give
    if any(one.values[second] != other.values[first] for one, other in zip(matches, matches[1:], strict=False)):
        return Solution(None)
    names = [matches[0].values[first], *(match.values[second] for match in matches)]
    return Solution(", ".join(names), _used(matches))


def _gap(query: Query, matches: list[_Match]) -> Solution:
    if len(matches) != 1:
        return Solution(None)
    first, second = (matches[0].values[name] for name in query.give)
    apart = abs(_number(first) - _number(second))
    return Solution(query.form.format(_digits(apart)) if query.form else _with_unit(apart, first), _used(matches))


def _days(query: Query, matches: list[_Match]) -> Solution:
    """Days between two dates of one match, or between the first and the last when one variable is asked for."""
    if len(query.give) == 1 and len(matches) > 1:
        ends = [match.values[query.give[0]] for match in (matches[0], matches[-1])]
        used = [matches[0], matches[-1]]
    elif len(query.give) == 2 and len(matches) == 1:
        ends, used = [matches[0].values[name] for name in query.give], matches
    else:
        return Solution(None)
    first, second = map(iso_day, ends)
    if not first or not second:
        return Solution(None)
    count = abs((second - first).days)
    return Solution(f"{count} day{'s' * (count != 1)}", _used(used))


def _more(query: Query, matches: list[_Match]) -> Solution:
    by_number = sorted(matches, key=lambda match: _number(match.values[query.give[1]]), reverse=query.how == "more")
    names, numbers = ({match.values[name] for match in matches} for name in query.give)
    if not len(matches) == len(names) == len(set(map(_number, numbers))) == query.n:
        return Solution(None)
    return Solution(_shown(by_number[0].values[query.give[0]]), _used(matches))


_OPERATIONS: dict[str, Callable[[Query, list[_Match]], Solution]] = {
    "one": _one,
    "list": _list,
    "count": _count,
    "sum": _sum,
    "nth": _nth,
    "chain": _chain,
    "gap": _gap,
    "days": _days,
    "more": _more,
    "less": _more,
}


def _shown(value: str) -> str:
    day = iso_day(value)
    return say_day(day) if day else value


def _number(value: str) -> float:
    found = _NUMBER.search(value.replace(",", ""))
    return float(found[0]) if found else 0.0


def _with_unit(number: float, like: str) -> str:
    """The number in the unit of a value: 45 like "180 euros" is "45 euros"."""
    return _NUMBER.sub(_digits(number), like.replace(",", ""), count=1)


def _digits(number: float) -> str:
    """At most two decimals, and none that are zero."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
