"""What a world is made from, and the description of it that lies beside its files."""

from hashlib import sha256
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from stitchjam.data.records import Record

__all__ = ["About", "Dials", "FORMAT", "Split", "Style", "bad_name"]

FORMAT = 1  # of the files of a world
_LONGEST = 100
Split = Literal["train", "held_out"]
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
        return {name: styles[name] + 0.0 for name in get_args(Style) if name in styles}  # equal dials, equal bytes

    @field_validator("overlap", "chatter", "noise")
    @classmethod
    def _no_minus_zero(cls, share: float) -> float:
        return share + 0.0

    @property
    def split(self) -> Split:
        """Frozen by the hash of the seed: other dials of one seed make nearly the same world, which must not leak."""
        digest = sha256(f"{self.language}/{self.seed}".encode()).hexdigest()
        return "train" if int(digest[:8], 16) % 5 < 3 else "held_out"


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
    split: Split
    dials: Dials
    counts: dict[str, Annotated[int, Field(ge=0)]]
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

    @model_validator(mode="after")
    def _split_of_its_seed(self) -> "About":
        if self.split != self.dials.split:
            raise ValueError(f"split: a world of seed {self.dials.seed} is {self.dials.split}")
        return self
