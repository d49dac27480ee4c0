"""The nouns of a world: what is true in it, where that is said, and what is asked about it.

Everything here is gold. A program sees the turns and the text of a question, and nothing else.
"""

from datetime import date
from typing import Literal

from pydantic import Field, field_validator, model_validator

from stitchjam.data.records import Record
from stitchjam.data.worlds.dials import Style

__all__ = [
    "Evidence",
    "Fact",
    "Pattern",
    "Place",
    "Query",
    "Reference",
    "SessionGold",
    "Statement",
    "TurnGold",
    "WorldQuestion",
    "session_of",
]

_FAR = 1_000_000  # code points of a turn, at most


class Fact(Record):
    """Something that is true from `at` on. What it is about lies in the goal `goal`, "" for facts about a person.

    `relation` and `subject` name a property, such as "hall.fee" of "the Granary"; a later fact about the same property
    replaces it. `voids` is the id of a fact that was a mistake and that this one puts right.
    """

    id: str
    relation: str
    subject: str
    goal: str
    value: str
    at: int
    voids: str = ""


class Place(Record):
    """Code points `start` to `end` of a turn's text, and the words there."""

    turn: str
    start: int = Field(ge=0, le=_FAR)
    end: int = Field(ge=0, le=_FAR)
    text: str


def session_of(turn: str) -> str:
    """The id of the session of a turn; it begins the turn's id."""
    return turn.rpartition("t")[0]


class Statement(Record):
    """A fact and the words that state its value; `through` are turns that tell what "it" or "for that" means here."""

    fact: Fact
    place: Place
    through: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[str, ...]:
        """All turns that a reader needs who sees no others: this one, and those that resolve its references."""
        return tuple(sorted({self.place.turn, *self.through}))


class Reference(Record):
    """Words that mean something told in another turn, such as "the second hall you proposed"."""

    start: int
    end: int
    text: str
    means: str
    through: tuple[str, ...]


class TurnGold(Record):
    """Contextual intent of a turn: the goal it serves ("" for none), what it does, and to which types of things."""

    id: str
    scope: str
    events: tuple[str, ...]
    types: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    statements: tuple[Statement, ...] = ()

    @property
    def through(self) -> frozenset[str]:
        """The other turns that it takes to understand this one."""
        return frozenset().union(*(one.through for one in (*self.references, *self.statements)))


class SessionGold(Record):
    """Gold of a session: style, topic groups (the first is the main one), and its turns."""

    id: str
    day: date
    style: Style
    groups: tuple[str, ...]
    turns: tuple[TurnGold, ...]


class Pattern(Record):
    """Facts that fit; a field that begins with "?" is a variable. `last`: only the newest fact about each property."""

    relation: str
    subject: str = "?"
    goal: str = "?"
    value: str = "?"
    last: bool = False


Operation = Literal["one", "list", "chain", "count", "sum", "gap", "days", "nth", "more", "less"]


class Query(Record):
    """A question in symbols: all patterns must fit at once; then `how` turns the values of `give` into the answer.

    one: the only value, or `form` filled with the only values. list: all, in the order told. count, sum: of all.
    chain: of `give`, two variables, the first in the first match and then the second in each.
    nth: number `n` in the order told. gap, days: difference of the two variables of `give`; `form` is a gap's unit.
    more, less: the candidate (`give`, first variable) whose number (second) is greater, or smaller, among `n`.
    `described`: so many patterns at the start stand for a name, and each must leave exactly one match.
    `clues`: positions in `where` of clues, none of which is enough alone.
    """

    where: tuple[Pattern, ...]
    give: tuple[str, ...] = Field(max_length=8)
    how: Operation = "one"
    n: int = Field(default=0, ge=0)
    form: str = ""
    described: int = Field(default=0, ge=0)
    clues: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _solvable(self) -> "Query":
        names = {name for one in self.where for name in (one.subject, one.goal, one.value)}
        variables = {name for name in names if name.startswith("?")} - {"?"}
        if not self.give or not set(self.give) <= variables:
            raise ValueError(f"give: {self.give} are not all variables of a pattern")
        if self.how in ("gap", "chain", "more", "less") and len(self.give) != 2:
            raise ValueError(f"give: {self.how} takes two variables")
        if self.how in ("nth", "more", "less") and not self.n:
            raise ValueError(f"n: {self.how} takes a number above 0")
        if any(at not in range(len(self.where)) or self.where[at].subject not in variables for at in self.clues):
            raise ValueError(f"clues: {self.clues} are not all patterns with a variable")
        filled = 1 if self.how == "gap" else len(self.give)
        if self.form.count("{}") > filled or {"{", "}"} & set(self.form.replace("{}", "")):
            raise ValueError(f"form: {self.form!r} is not filled by {filled}")
        return self


class Evidence(Record):
    """A turn that the answer needs: it states something (`places`), or another turn refers to it."""

    turn: str
    session: str
    role: Literal["states", "refers"]
    places: tuple[Place, ...] = ()


class WorldQuestion(Record):
    """A question with exact gold. `type` is the kind of question, `family` the set of types it comes from.

    `value` names what the answer is, such as "hall.fee" or "person": a guess without memory is the commonest of these.
    `hops` counts the facts that follow from one another.
    """

    id: str
    text: str
    answer: str
    aliases: tuple[str, ...] = ()
    family: str
    type: str
    value: str
    hops: int
    styles: tuple[Style, ...]
    query: Query
    evidence: tuple[Evidence, ...]

    @field_validator("evidence")
    @classmethod
    def _states_something(cls, evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
        if evidence and not any(one.role == "states" for one in evidence):
            raise ValueError("none of it states anything")
        return evidence

    @property
    def turns(self) -> tuple[str, ...]:
        """Ids of the evidence turns, in the order told."""
        return tuple(one.turn for one in self.evidence)
