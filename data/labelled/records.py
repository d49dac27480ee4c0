"""The nouns of labelled histories: what each turn is about by gold, beside a history that holds none of it."""

from collections.abc import Mapping
from typing import Literal

from pydantic import field_validator, model_validator

from stitchjam.data.records import History, Question, Record, Session

__all__ = ["FIELDS", "Labelled", "LabelledHistory", "ReferenceGold", "TurnLabels", "labelled_history"]

Labelled = Literal["scope", "events", "entities", "targets", "references"]
FIELDS: tuple[Labelled, ...] = ("scope", "events", "entities", "targets", "references")


class ReferenceGold(Record):
    """Words of a turn that mean something told elsewhere, and what they mean."""

    words: str
    means: str


class TurnLabels(Record):
    """Gold of a turn. `scope` is what it serves, "" for nothing; labels of `events` and `entities` are a set in order.

    `targets` are the words of what it is about, `known` the fields that have gold, in the order of `FIELDS`: an empty
    field that is known says that there is nothing, one that is not known says nothing.
    """

    scope: str = ""
    events: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    references: tuple[ReferenceGold, ...] = ()
    known: tuple[Labelled, ...] = ()

    @field_validator("known")
    @classmethod
    def _in_order(cls, known: tuple[Labelled, ...]) -> tuple[Labelled, ...]:
        return tuple(name for name in FIELDS if name in known)

    @model_validator(mode="after")
    def _filled_are_known(self) -> "TurnLabels":
        if unknown := [name for name in FIELDS if getattr(self, name) and name not in self.known]:
            raise ValueError(f"known: {unknown[0]} has gold and is not named")
        return self


class LabelledHistory(Record):
    """A history, the gold of its turns by turn id, and questions about it where the set has some.

    A turn without gold has no entry in `labels`.
    """

    name: str
    history: History
    labels: dict[str, TurnLabels]
    questions: tuple[Question, ...] = ()


def labelled_history(
    name: str,
    sessions: tuple[Session, ...],
    golds: Mapping[str, list[TurnLabels]],
    questions: tuple[Question, ...] = (),
) -> LabelledHistory:
    """A history of sessions, each with the gold of its turns in their order, by session id."""
    pairs = [pair for session in sessions for pair in zip(session.turns, golds[session.id], strict=True)]
    return LabelledHistory(
        name=name,
        history=History(id=name, sessions=sessions),
        labels={turn.id: gold for turn, gold in pairs if gold.known},
        questions=questions,
    )
