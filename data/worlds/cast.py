"""Turns dials into who and what a world holds: people, goals, options and values, shared as much as `overlap` says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stitchjam.data.errors import UsageError
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.wording import Wording, fill

__all__ = ["Cast", "Goal", "Option"]

_SHARED = 6  # options of a kind that goals share at full overlap
_TOWNS = 8  # in which trips of a world go; the hotels and restaurants are split among them
_FEW = 3  # people, places and parts that goals share at full overlap
_TEAMS = 10
_TRIES = 50
_FAMILIES = ("occasion", "trip", "works", "software")


@dataclass(frozen=True)
class Goal:
    """What people work towards, by its name; `family` is its table in the wording."""

    name: str
    family: str
    place: str
    table: Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """Something that may be chosen, with the other name that some use for it."""

    name: str
    other: str
    kind: str


class _Deck:
    """Draws from a list without putting back; begins anew when all are drawn. Each world has its own order of cards."""

    def __init__(self, cards: list[Any], dice: Random):
        self.cards, self.dice, self.left = dice.sample(cards, len(cards)), dice, []

    def draw(self) -> Any:
        if not self.left:
            self.left = self.dice.sample(self.cards, len(self.cards))
        return self.left.pop()


class Cast:
    """Deals out people, goals, options and values; what it remembers does not grow with the number of sessions."""

    def __init__(self, dials: Dials, wording: Wording):
        self.dice = Random(f"{dials.seed}/cast/{dials.language}")
        self.overlap, self.wording = dials.overlap, wording
        people = self.dice.sample(wording["people"]["people"], len(wording["people"]["people"]))
        teams = min(1 + dials.sessions // 25, _TEAMS)
        self.teams = [(people[2 * n][0], people[2 * n + 1][0]) for n in range(teams)]
        others = people[2 * teams :]
        half = len(others) // 2
        self.guests = [name for name, _, _ in others[:half]]
        self.friends = {name: trait for name, _, trait in others[half:]}
        self.towns = self.dice.sample(wording["goals"]["trip"]["places"], _TOWNS)
        self.families = self.dice.sample(_FAMILIES, len(_FAMILIES))
        self.decks: dict[str, _Deck] = {}
        self.goals: set[str] = set()
        self.features: dict[str, set[str]] = {}  # by option, those that somebody spoke of where it was on the list
        self.had: set[tuple[str, str, str]] = set()  # values of properties; bounded by their ranges

    def draw(self, deck: str, cards: list[Any]) -> Any:
        """The next of a named deck of cards."""
        return self._deck(deck, cards).draw()

    def shared(self, deck: str, cards: list[Any], few: int) -> Any:
        """One of the first `few` cards as often as `overlap` says, else the next of all."""
        if few and self.dice.random() < self.overlap:
            return self._deck(f"{deck}/few", self._deck(deck, cards).cards[:few]).draw()
        return self.draw(deck, cards)

    def _deck(self, deck: str, cards: list[Any]) -> _Deck:
        if deck not in self.decks:
            self.decks[deck] = _Deck(cards, self.dice)
        return self.decks[deck]

    def goal(self) -> Goal:
        """A goal whose name no other goal of the world has; when few words give no new one, all words are used."""
        for few in (*[_FEW] * 20, *[0] * 1000):
            # With overlap, most goals are of one family: only those share options.
            weights = [(1 - 0.9 * self.overlap) ** rank for rank in range(len(_FAMILIES))] if few else None
            family = self.dice.choices(self.families, weights)[0]
            table = self.wording["goals"][family]
            fields = {
                "person": self.shared(f"{family}/guest", self.guests, few),
                "place": self.shared(f"{family}/place", self._places(family, table), few),
                "part": self.shared(f"{family}/part", table.get("parts", [""]), few),
            }
            name = fill(self.shared(f"{family}/name", table["names"], few), fields).plain
            if name not in self.goals:
                self.goals.add(name)
                return Goal(name, family, fields["place"], table)
        raise UsageError("the wording has no more names for goals; ask for fewer sessions")

    def _places(self, family: str, table: Mapping[str, Any]) -> list[str]:
        return self.towns if family == "trip" else table.get("places", [""])

    def options(self, kind: str, place: str, count: int) -> list[Option]:
        """Different options of a kind; hotels and restaurants stand in one town each, so only its trips share them."""
        names = self.wording["kinds"][kind]["names"]
        if place and kind in ("hotel", "restaurant"):
            few = len(names) // _TOWNS
            at = self.towns.index(place) * few
            names = names[at : at + few]
            return [Option(name, other, kind) for name, other in self.dice.sample(names, min(count, len(names)))]
        found: dict[str, Option] = {}
        while len(found) < count:
            name, other = self.shared(kind, names, _SHARED)
            found[name] = Option(name, other, kind)
        return list(found.values())

    def two_features(self, options: Sequence[Option]) -> list[str]:
        """Two features that were never spoken of where one of these options was on the list; none when all were.

        What an option has it has for every goal, so who has it must not change with what is told elsewhere.
        """
        spoken = set[str]().union(*(self.features.get(option.name, set()) for option in options))
        left = [one for one in self.wording["kinds"][options[0].kind]["features"] if one not in spoken]
        chosen = self.dice.sample(left, 2) if len(left) > 1 else []
        for option in options:
            self.features.setdefault(option.name, set()).update(chosen)
        return chosen

    def near(self, kind: str, attribute: str, value: str) -> str:
        """A wrong value that somebody might take for a value of this property."""
        table = self.wording.attributes(kind)[attribute]
        numbers = range(table["from"], table["to"] + 1, table["step"])
        at = next(n for n, number in enumerate(numbers) if _shown(number, table) == value)
        most = max(3, len(numbers) // 8)
        others = [n for n in range(max(0, at - most), min(len(numbers), at + most + 1)) if n != at]
        return _shown(numbers[self.dice.choice(others)], table)

    def value(self, option: Option, attribute: str) -> str:
        """A value that no other option has, until the whole range is used up, and that this one never had before."""
        value = self._value(option.kind, attribute)
        for _ in range(_TRIES):
            if (option.name, attribute, value) in self.had:
                value = self._value(option.kind, attribute)
        self.had.add((option.name, attribute, value))
        return value

    def _value(self, kind: str, attribute: str) -> str:
        table = self.wording.attributes(kind)[attribute]
        numbers = list(range(table["from"], table["to"] + 1, table["step"]))
        number = self.draw(f"value/{kind}.{attribute}", numbers)
        return _shown(number, table)


def _shown(number: int, table: Mapping[str, Any]) -> str:
    return f"{number // 60}:{number % 60:02}" if table.get("time") else table["value"].format(number)
