"""Turns a question in symbols and its words into a draft: the ground that all question writers stand on."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from stitchjam.data.worlds.plots import Plot
from stitchjam.data.worlds.records import Fact, Pattern, Query, Statement
from stitchjam.data.worlds.wording import Text, Wording, fill

__all__ = ["Asker", "Draft", "Ledger"]


@dataclass
class Ledger:
    """All that was told about one goal."""

    plot: Plot
    statements: list[Statement] = field(default_factory=list)

    @property
    def goal(self) -> str:
        """The goal's name."""
        return self.plot.goal.name

    @cached_property
    def valid(self) -> list[Fact]:
        """The facts, without those that were mistakes; asked for only when all has been told."""
        void = {one.fact.voids for one in self.statements}
        return [one.fact for one in self.statements if one.fact.id not in void]

    def of(self, relation: str) -> list[Fact]:
        """The facts of a relation that were no mistakes, in the order told."""
        return [fact for fact in self.valid if fact.relation == relation]

    def corrected(self, relation: str) -> list[Fact]:
        """The facts of a relation that put a mistake right."""
        return [fact for fact in self.of(relation) if fact.voids]


@dataclass(frozen=True)
class Draft:
    """A question before it has evidence: its words, and what it asks in symbols.

    `value` names what the answer is; `through` is the other goal that it goes through without naming it, and `about`
    the option that it asks about without naming it, "" for none.
    """

    type: str
    text: str
    query: Query
    value: str
    hops: int = 1
    through: str = ""
    about: str = ""


@dataclass
class Asker:
    """What a question writer works with.

    Attributes:
        ledger: the goal asked about.
        others: other goals that were finished not long before.
        general: facts about people and words, each told once in the world.
    """

    ledger: Ledger
    others: list[Ledger]
    general: list[Statement]
    wording: Wording
    dice: Random

    @property
    def goal(self) -> str:
        """The name of the goal asked about."""
        return self.ledger.goal

    @property
    def kinds(self) -> list[str]:
        """Kinds of options of the goal."""
        return list(self.ledger.plot.options)

    def words(self, way: str, **fields: str | Text) -> str:
        """A question in words; the goal and, from a `kind`, its nouns need not be given."""
        return self.fill(self.dice.choice(self.wording["questions"]["ask"][way]), **fields)

    def describe(self, way: str, **fields: str | Text) -> str:
        """A description that stands for a name."""
        return self.fill(self.wording["questions"]["describe"][way], **fields)

    def fill(self, template: str, **fields: str | Text) -> str:
        """A template with the fields that follow from the goal and the kind put in as well."""
        table = self.ledger.plot.goal.table
        given: dict[str, str | Text] = {"goal": self.goal, **fields}
        given.setdefault("date_of", fill(table["date_of"], given).plain)
        if isinstance(kind := fields.get("kind"), str):
            names = self.wording["kinds"][kind]
            given |= {"kind": names["noun"], "kinds": names["plural"]}
        return fill(template, given).plain

    def attribute(self, relation: str) -> Mapping[str, Any]:
        """The wording of a property, by a relation such as "hall.fee"."""
        kind, name = relation.split(".")
        return self.wording.attributes(kind)[name]

    def asks(self, relation: str, option: str) -> str:
        """The question for a property of an option."""
        template = self.dice.choice(self.attribute(relation)["question"])
        return self.fill(template, option=option)

    def properties(self) -> list[Fact]:
        """Values of properties of options that were told and not put right."""
        wrong = {fact.id for fact in self.ledger.valid if fact.voids}
        return [fact for fact in self.ledger.valid if fact.id not in wrong and self.is_property(fact.relation)]

    def is_property(self, relation: str) -> bool:
        """Whether a relation is a property such as "hall.fee"."""
        kind, _, name = relation.partition(".")
        return kind in self.wording["attributes"] and name in self.wording["attributes"][kind]

    def some(self, items: Iterable[Any], most: int = 2) -> list[Any]:
        """A few of them, by chance."""
        pool = list(items)
        return self.dice.sample(pool, min(most, len(pool)))

    def people(self, relation: str) -> Iterator[tuple[str, list[Fact]]]:
        """Who is the value of a relation, and the facts that say so, in the order told."""
        found: dict[str, list[Fact]] = {}
        for fact in self.ledger.of(relation):
            found.setdefault(fact.value, []).append(fact)
        yield from found.items()

    def trait(self, person: str) -> str:
        """What was told about a person, "" for nothing."""
        return next((one.fact.value for one in self.general if one.fact.subject == person), "")

    def here(self, relation: str, **fields: Any) -> Pattern:
        """A pattern within the goal."""
        return Pattern(relation=relation, goal=self.goal, **fields)
