"""Turns labelled rows, one turn a line, into labelled histories, and back.

{"step": "label_turn", "inputs": {"session", "id", "speaker", "text", "time"}, "outputs": {...}, "group": NAME}

The outputs hold those of "scope", "events", "entities", "targets" and "references" ({"words", "means"}) that have gold;
"id" and "time" of the inputs may be left out. The group is the history; questions are not part of the rows.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.labelled.records import FIELDS, LabelledHistory, ReferenceGold, TurnLabels, labelled_history
from stitchjam.data.readers.rows import Row, read_rows, require_new
from stitchjam.data.records import Turn

__all__ = ["STEP", "labelled_rows", "read_row_labels"]

STEP = "label_turn"
_Lines = dict[str, list[tuple[dict[str, str], TurnLabels]]]


def read_row_labels(path: Path) -> Iterator[LabelledHistory]:
    """The histories of a file, in the order in which their groups first appear; a session is named once in a group.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, or an id is used twice in a group; the message names file, line and field.
    """
    groups: dict[str, _Lines] = {}
    seen: dict[str, set[str]] = {}
    for row in read_rows(path):
        row.require_known("step", "inputs", "outputs", "group")
        if row.text("step") != STEP:
            raise row.part("step").fail(f'"{STEP}"')
        group, inputs = row.name("group"), row.part("inputs")
        lines = groups.setdefault(group, {}).setdefault(inputs.name("session"), [])
        lines.append((_turn(inputs, seen.setdefault(group, set())), _labels(row.part("outputs"))))
    yield from (_labelled(name, sessions) for name, sessions in groups.items())


def _labelled(name: str, lines: _Lines) -> LabelledHistory:
    sessions = [build_session(key, "", [turn for turn, _ in each]) for key, each in lines.items()]
    return labelled_history(
        name, in_time_order(sessions), {key: [gold for _, gold in each] for key, each in lines.items()}
    )


def _turn(row: Row, seen: set[str]) -> dict[str, str]:
    row.require_known("session", "id", "speaker", "text", "time")
    external = require_new(row, "id", seen) if row.part("id").value is not None else ""
    return {"speaker": row.name("speaker"), "text": row.text("text"), "time": row.time("time"), "external_id": external}


def _labels(row: Row) -> TurnLabels:
    row.require_known(*FIELDS)
    return TurnLabels(
        scope=row.label("scope", ""),
        events=row.labels("events"),
        entities=row.labels("entities"),
        targets=row.labels("targets"),
        references=tuple(_reference(entry) for entry in row.entries("references")),
        known=tuple(name for name in FIELDS if row.part(name).value is not None),
    )


def _reference(row: Row) -> ReferenceGold:
    row.require_known("words", "means")
    return ReferenceGold(words=row.name("words"), means=row.name("means"))


def labelled_rows(one: LabelledHistory) -> Iterator[dict[str, Any]]:
    """The rows of a history, in order; read again they give the same turns and the same gold, without questions."""
    for turn in one.history.turns:
        outputs = _outputs(one.labels.get(turn.id, TurnLabels()))
        yield {"step": STEP, "inputs": _inputs(turn), "outputs": outputs, "group": one.name}


def _inputs(turn: Turn) -> Mapping[str, str]:
    whole = {"session": turn.session_id, "id": turn.external_id, "speaker": turn.speaker, "text": turn.text}
    whole["time"] = turn.time
    return {key: value for key, value in whole.items() if value or key == "text"}


def _outputs(labels: TurnLabels) -> Mapping[str, Any]:
    return {name: value for name, value in labels.model_dump(mode="json").items() if name in labels.known}
