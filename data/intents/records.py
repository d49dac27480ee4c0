"""The nouns of STITCH: labels, the note of a turn with its contextual intent, and what labelling one turn changed.

The contextual intent of a turn is its thematic scope, its event types and its key entity types (STITCH section 3.6).
"""

from typing import Literal, get_args

from pydantic import Field

from stitchjam.data.records import Record, Span

__all__ = [
    "ACTS",
    "Act",
    "Entry",
    "FACETS",
    "Facet",
    "Intent",
    "Label",
    "Merge",
    "Move",
    "Note",
    "Resolved",
    "SEED",
    "Vocabulary",
]

Facet = Literal["scope", "event", "entity"]
FACETS: tuple[Facet, ...] = get_args(Facet)
Act = Literal["ask", "tell", "propose", "compare", "decide", "cancel", "agree", "object", "sum_up", "other"]
ACTS: tuple[Act, ...] = get_args(Act)
Move = Literal["continue", "return", "open"]
SEED = ""  # maker of a label that was there before the first turn was labelled


class Label(Record):
    """A canonical label. Its id never changes and holds no words; `maker` is the turn it was made for, "" for seeds."""

    id: str
    facet: Facet
    name: str
    description: str = ""
    maker: str = SEED


class Merge(Record):
    """Two labels that mean the same: from now on `old` stands for `into`. `similarity` is that of their vectors."""

    old: str
    into: str
    similarity: float = 0.0


class Resolved(Record):
    """Words of a turn and what they mean, such as "it" and "the Lutetia"; resolved before the note was stored."""

    words: str
    means: str


class Intent(Record):
    """Ids of labels. Of a turn: what it is about. Of a question: what it asks for; an empty facet is not determined."""

    scopes: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    def of(self, facet: Facet) -> tuple[str, ...]:
        """The labels of one facet."""
        return {"scope": self.scopes, "event": self.events, "entity": self.entities}[facet]

    @property
    def ids(self) -> tuple[str, ...]:
        """All labels."""
        return self.scopes + self.events + self.entities


class Note(Record):
    """What is noted of a turn: its intent, its act and target, a summary in one line, and what its references mean.

    `number` counts notes in the order in which they were made. `move` says how the scope follows from the one before
    in the session. `span` is where the turn names its target, else the whole turn. `gist` is what the scope is about
    so far, this turn included.
    """

    turn_id: str
    session_id: str
    speaker: str
    number: int = Field(ge=0)
    intent: Intent
    move: Move
    act: Act
    target: str
    summary: str
    references: tuple[Resolved, ...] = ()
    gist: str = ""
    span: Span

    @property
    def scope(self) -> str:
        """Id of its scope."""
        return self.intent.scopes[0] if self.intent.scopes else ""

    @property
    def text(self) -> str:
        """All its words: act, target, summary and what references mean."""
        return ". ".join(filter(None, (self.act, self.target, self.summary, *(one.means for one in self.references))))


class Vocabulary(Record):
    """Labels that a memory starts with, and ids of the turns that they were read from."""

    labels: tuple[Label, ...] = ()
    seen: tuple[str, ...] = ()


class Entry(Record):
    """What labelling one turn did: its note, the labels made for it, and the merges made after it.

    Entries in the order of their notes are the whole state of a labelling: `Notebook` is folded from them. `checked`
    when labels were looked through for some that mean the same; `seen` are ids of the turns that the vocabulary in the
    first entry was read from.
    """

    note: Note
    made: tuple[Label, ...] = ()
    merges: tuple[Merge, ...] = ()
    checked: bool = False
    seen: tuple[str, ...] = ()
