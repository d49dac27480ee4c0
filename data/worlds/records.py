"""The nouns of a world: what is true in it, where that is said, and what is asked about it.

Everything here is gold. A program sees the turns and the text of a question, and nothing else.
"""

from datetime import date
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from stitchjam.data.records import Record

__all__ = [
    "About",
    "Dials",
    "Evidence",
    "FORMAT",
    "Fact",
    "Pattern",
    "Place",
    "Query",
    "Reference",
    "SessionGold",
    "Statement",
    "Style",
    "TurnGold",
    "WorldQuestion",
    "bad_name",
    "session_of",
]

FORMAT = 1  # of the files of a world
_LONGEST = 100
Style = Literal["dialogue", "mail", "notes", "tool", "debate", "trip"]


class Dials(Record):
    """What a world is made from; the same dials give the same bytes.

    Attributes:
        sessions: how many, 10 to 5,000.
        overlap: 0 to 1, how much goals share their options (halls, hotels, ...), people and words.
        hops: 1 to 4, the longest chain that a question goes through.
        chatter: 0 to 1, share of turns that say nothing a question asks for; mails have such sentences instead.
        noise: 0 to 1, share of values and dates that are first told wrong and put right later.
        styles: weight of each style, 0 to 1,000; one that is left out is not used.
        questions: how many to ask, over all types.
    """

    seed: int = 0
    sessions: int = Field(default=40, ge=10, le=5000)
    overlap: float = Field(default=0.5, ge=0, le=1)
    hops: int = Field(default=3, ge=1, le=4)
    chatter: float = Field(default=0.25, ge=0, le=0.9)
    noise: float = Field(default=0.1, ge=0, le=1)
    styles: dict[Style, Annotated[float, Field(ge=0, le=1000)]] = dict.fromkeys(get_args(Style), 1.0)
    questions: int = Field(default=30, ge=0)
    language: str = "en"

    @field_validator("styles")
    @classmethod
    def _in_order(cls, styles: dict[Style, float]) -> dict[Style, float]:
        if not any(styles.values()):
            raise ValueError("give at least one style a weight above 0")
        return {name: styles[name] for name in get_args(Style) if name in styles}  # equal dials, equal bytes


def bad_name(name: str) -> str:
    """Why a name cannot be that of a world, which names a folder and files as well; "" when it can."""
    if not 0 < len(name.encode("utf-8", "replace")) <= _LONGEST:
        return f"a name has 1 to {_LONGEST} bytes"
    if not name.isprintable() or {"/", "\\"} & set(name) or name.startswith("."):
        return "a name has no slash, no control character, and no dot in front"
    return ""


class About(Record):
    """The description of a world in its world.json.

    Attributes:
        name: of the world; begins the names of its files and the ids in them.
        counts: sessions, turns, questions, and sessions of each style.
        types: questions of each type.
        refused: drafts of questions that were not kept, by fault.
        sha256: of each file.
    """

    format: int
    name: str
    split: Literal["train", "held_out"]
    dials: Dials
    counts: dict[str, int]
    types: dict[str, int]
    refused: dict[str, int]
    sha256: dict[str, str]

    @field_validator("format")
    @classmethod
    def _known_format(cls, number: int) -> int:
        if number != FORMAT:
            raise ValueError(f"it is {number}, this version reads {FORMAT}")
        return number

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if why := bad_name(name):
            raise ValueError(why)
        return name

    @field_validator("counts")
    @classmethod
    def _all_sizes(cls, counts: dict[str, int]) -> dict[str, int]:
        if missing := {"sessions", "turns", "questions"} - set(counts):
            raise ValueError(f"there is no number of {sorted(missing)[0]}")
        return counts


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
    start: int
    end: int
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
    give: tuple[str, ...]
    how: Operation = "one"
    n: int = Field(default=0, ge=0)
    form: str = ""
    described: int = Field(default=0, ge=0)
    clues: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _solvable(self) -> "Query":
        variables = {name for one in self.where for name in (one.subject, one.goal, one.value) if name.startswith("?")}
        if not self.give or not set(self.give) <= variables - {"?"}:
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

    @property
    def turns(self) -> tuple[str, ...]:
        """Ids of the evidence turns, in the order told."""
        return tuple(one.turn for one in self.evidence)
