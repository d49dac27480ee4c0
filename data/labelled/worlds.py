"""Turns worlds into labelled histories: their gold says what each turn is about."""

import re
from collections.abc import Iterator
from pathlib import Path

from stitchjam.data.labelled.records import FIELDS, LabelledHistory, ReferenceGold, TurnLabels
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.records import TurnGold

__all__ = ["read_world_labels"]

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def read_world_labels(path: Path | None = None) -> Iterator[LabelledHistory]:
    """The worlds in a folder, or those that ship with the package.

    Scopes are goals, "" for small talk; entities are types of things. Targets are the words that state something;
    dates are left out of them, since a good note says "yesterday" as a date.
    """
    for world in read_worlds(path):
        golds = [gold for session in world.gold() for gold in session.turns]
        labels = {turn.id: _labels(gold) for turn, gold in zip(world.history.turns, golds, strict=True)}
        yield LabelledHistory(name=world.name, history=world.history, labels=labels, questions=world.questions)


def _labels(gold: TurnGold) -> TurnLabels:
    targets = [one.place.text for one in gold.statements if not _DATE.fullmatch(one.fact.value)]
    return TurnLabels(
        scope=gold.scope,
        events=gold.events,
        entities=gold.types,
        targets=tuple(dict.fromkeys(targets)),
        references=tuple(ReferenceGold(words=one.text, means=one.means) for one in gold.references),
        known=FIELDS,
    )
