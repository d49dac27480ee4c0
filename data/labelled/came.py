"""Turns CAME-Bench trajectories into labelled histories: partition, action and action_object become gold.

They stand in the same file as the turns; the history is read by the reader that leaves them there.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from stitchjam.data.labelled.records import LabelledHistory, TurnLabels
from stitchjam.data.readers.came import came_files, read_came
from stitchjam.data.readers.rows import Loaded, Row, read_rows
from stitchjam.data.text import normalise

__all__ = ["read_came_labels"]

_SEPARATOR = re.compile(r"[,;]")


def read_came_labels(path: Path) -> Iterator[LabelledHistory]:
    """A decoded release, one of its trajectories, or a folder of examples; raises what `read_came` raises.

    The scope is the last part of the partition: the day of a trip, the topic of a debate. What an action is about
    becomes targets where it is a name that is said in the trajectory; in debates it is an id, which no note can hold.
    """
    for loaded, (turns, _) in zip(read_came(path), came_files(path), strict=True):
        yield _labelled(loaded, turns)


def _labelled(loaded: Loaded, path: Path) -> LabelledHistory:
    history = loaded.history
    said = f" {normalise(' '.join(turn.text for turn in history.turns))} "
    golds = {row.name("id"): _labels(row, said) for row in read_rows(path)}
    labels = {turn.id: gold for turn in history.turns if (gold := golds[turn.external_id]).known}
    return LabelledHistory(name=history.id, history=history, labels=labels, questions=loaded.questions)


def _labels(row: Row, said: str) -> TurnLabels:
    parts, action = row.labels("partition"), row.label("action", "")
    objects = [one.strip() for one in _SEPARATOR.split(row.label("action_object", ""))]
    names = [one for one in objects if one and f" {normalise(one)} " in said]
    has = {"scope": bool(parts), "events": bool(action), "targets": bool(names) or (bool(action) and not any(objects))}
    return TurnLabels.model_validate(
        {
            "scope": parts[-1] if parts else "",
            "events": (action,) if action else (),
            "targets": tuple(dict.fromkeys(names)),
            "known": tuple(name for name, known in has.items() if known),
        }
    )
