"""The nouns: frozen records with a JSON form, from the raw turn to the cited answer.

`record.model_dump_json()` and `Record.model_validate_json(line)` are the JSON form; a file of them is jsonlines.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stitchjam.data.errors import UsageError
from stitchjam.data.times import seconds

__all__ = [
    "Answer",
    "Claim",
    "Context",
    "Effort",
    "Filter",
    "History",
    "NOT_MENTIONED",
    "Outcome",
    "Question",
    "Round",
    "Session",
    "Span",
    "Turn",
    "first_error",
]

Effort = Literal["low", "medium", "high"]
NOT_MENTIONED = "not mentioned"  # the answer when a memory does not say
StopReason = Literal["sufficient", "nothing_more", "rounds", "one_shot", "failed"]


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong with a record: where, and what."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


class Record(BaseModel):
    """Base of all records: immutable, and unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Turn(Record):
    """One step of a trajectory: who said what, and when.

    `id` hashes the previous turn's id, speaker, text and event time, so the same words said twice are two turns.
    `external_id` is the id in the source file. `time` is event time, ISO 8601; it has a zone where the source has one.
    """

    id: str
    session_id: str
    speaker: str
    text: str
    time: str = ""
    external_id: str = ""


class Session(Record):
    """A run of turns that belong together; `time` is when it began."""

    id: str
    turns: tuple[Turn, ...]
    time: str = ""


class History(Record):
    """All sessions of one memory, oldest first."""

    id: str
    sessions: tuple[Session, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns in time order."""
        return tuple(turn for session in self.sessions for turn in session.turns)

    def first(self, turns: int | None) -> "History":
        """The history as it was after so many turns; all of it for None."""
        kept, left = [], len(self.turns) if turns is None else turns
        for session in self.sessions:
            if left > 0:
                kept.append(session.model_copy(update={"turns": session.turns[:left]}))
            left -= len(session.turns)
        return self.model_copy(update={"sessions": tuple(kept)})


class Filter(Record):
    """Where to search; a field that is left out does not restrict. A lone name may stand for a list of one.

    `sources` are ids or names of what was ingested, `folders` paths or ids with all below them, `labels` ids of intent
    labels on turns: of each facet that is named, a turn bears one. `after` (inclusive) and `before` (exclusive) are ISO
    8601; a turn without event time lies in no period.
    """

    sources: Sequence[str] | None = None
    sessions: Sequence[str] | None = None
    speakers: Sequence[str] | None = None
    folders: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    after: str = ""
    before: str = ""

    @classmethod
    def of(cls, **fields: Any) -> "Filter":
        """A filter of its fields; raises UsageError when one is unknown or cannot be read."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise UsageError(f"filter {first_error(error)}; its fields are {', '.join(cls.model_fields)}") from None

    @field_validator("sources", "sessions", "speakers", "folders", "labels", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (
            (value,) if isinstance(value, str) else value if value is None else tuple(value)
        )  # a lone string would be read as its letters

    @field_validator("after", "before")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        if value and seconds(value) is None:
            raise ValueError(f"{value!r} is not an ISO 8601 date or time such as 2026-03-02 or 2026-03-02T18:30")
        return value


class Span(Record):
    """A place in the history: code points `start` to `end` of a turn's text, with the hash of the words there.

    Made once, from a turn; afterwards only copied. That is what makes provenance computed instead of claimed.
    """

    turn_id: str
    session_id: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    sha256: str

    @classmethod
    def of(cls, turn: Turn, start: int = 0, end: int | None = None) -> "Span":
        """The span of a turn's text from `start` to `end` (default: all of it)."""
        end = len(turn.text) if end is None else end
        return cls(
            turn_id=turn.id,
            session_id=turn.session_id,
            start=start,
            end=end,
            sha256=sha256(turn.text[start:end].encode()).hexdigest(),
        )

    def holds_in(self, turn: Turn) -> bool:
        """Whether the words at this place are still the ones that were quoted."""
        return self.end <= len(turn.text) and self == Span.of(turn, self.start, self.end)


class Claim(Record):
    """One statement with the spans that support it. `quote` is the verbatim text of the spans."""

    text: str
    quote: str
    speaker: str
    spans: tuple[Span, ...]
    time: str = ""


Outcome = Literal["found", "nothing", "invalid", "repeated", "beyond", "failed"]


class Round(Record):
    """What one round of research did, for the trace: actions taken, what came back, what is still missing.

    `outcomes` are the kinds of the observations: something was found or not, the action was invalid, was done before,
    was one too many, or its reader's answer could not be used. `read` are ids of sessions that were opened first in it.
    """

    actions: tuple[str, ...]
    observations: tuple[str, ...]
    missing: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = ()
    read: tuple[str, ...] = ()


class Context(Record):
    """What research found for a request: claims with their spans, and how it came to be.

    `browsed` lists session ids that were really opened; `failures` lists steps whose answer could not be used;
    `dropped` counts claims without support that were left out, `replaced` those that said what their evidence does not,
    and gave way to its words. `gists` say what the topics of the claims are about;
    they help to read the claims and are no evidence. `evidence` are the verbatim words that were found, by the labels
    e1, e2 ... that the rounds speak of; claims rest on some of them.
    """

    request: str
    claims: tuple[Claim, ...] = ()
    stop: StopReason = "one_shot"
    needs: tuple[str, ...] = ()
    covered: tuple[bool, ...] = ()
    rounds: tuple[Round, ...] = ()
    browsed: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    dropped: int = 0
    replaced: int = 0
    gists: tuple[str, ...] = ()
    evidence: tuple[Claim, ...] = ()

    @property
    def session_ids(self) -> tuple[str, ...]:
        """Sessions that the claims cite, in order of first use."""
        return tuple(dict.fromkeys(span.session_id for claim in self.claims for span in claim.spans))

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """Turns that the claims cite, in order of first use."""
        return tuple(dict.fromkeys(span.turn_id for claim in self.claims for span in claim.spans))


class Answer(Record):
    """An answer and the claims it rests on; `abstained` when the memory does not say."""

    text: str
    claims: tuple[Claim, ...] = ()
    abstained: bool = False

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """Turns cited, in order of first use."""
        return tuple(dict.fromkeys(span.turn_id for claim in self.claims for span in claim.spans))


class Question(Record):
    """A question with its gold answer and evidence. Gold never reaches a program: metrics look it up by `id`.

    `evidence` holds turn ids of the history; `sessions` the sessions with gold evidence where a benchmark names them,
    which may be more than those of `evidence`; `aliases` are other accepted answers; `kind` is the benchmark's type.
    """

    id: str
    text: str
    answer: str
    aliases: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    kind: str = ""
    split: Literal["train", "held_out", ""] = ""
    time: str = ""
