"""Turns files of the schema-guided dialogues into labelled histories: a dialogue a session, a file a history."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.labelled.files import files_of
from stitchjam.data.labelled.records import LabelledHistory, TurnLabels, labelled_history
from stitchjam.data.labelled.sgd_questions import Dialogue, Service, ask_slots
from stitchjam.data.readers.rows import Row, read_records, require_new
from stitchjam.data.readers.source import Source

__all__ = ["read_sgd_labels"]

_SCHEMA = "schema.json"


def read_sgd_labels(path: Path) -> Iterator[LabelledHistory]:
    """A file of dialogues, or all of a folder, with their schema.json (or NAME_schema.json) beside them.

    The scope of a turn is its dialogue with the service of its first frame, its events are the acts of all frames, its
    entities the slots that these acts are about.

    Raises:
        UsageError: there is no file, or not exactly one schema.
        DataError: a file is not of this form, or names a service that the schema does not know.
    """
    schema = _schema(path if path.is_dir() else path.parent)
    for file in files_of(path, ["*.json"], "dialogues_001.json and schema.json"):
        if not file.name.endswith(_SCHEMA):
            rows = list(read_records(file))
            yield _labelled(rows, Source(str(file), b"").stem, schema)


def _schema(folder: Path) -> dict[str, Service]:
    found = sorted(folder.glob(f"*{_SCHEMA}"))
    if len(found) != 1:
        raise UsageError(f"{folder}: {len(found)} files *{_SCHEMA} here; put the one of these dialogues beside them")
    return {row.name("service_name"): _service(row) for row in read_records(found[0])}


def _service(row: Row) -> Service:
    slots = {slot.name("name"): slot.text("description") for slot in row.part("slots").items()}
    return Service(row.name("service_name"), row.text("description"), slots)


def _labelled(rows: Sequence[Row], name: str, schema: Mapping[str, Service]) -> LabelledHistory:
    seen: set[str] = set()
    golds: dict[str, list[TurnLabels]] = {}
    dialogues: list[Dialogue] = []
    for row in rows:
        id = require_new(row, "dialogue_id", seen)
        turns = row.part("turns").items()
        if not turns:
            raise row.part("turns").fail("at least one turn")
        said = [{"speaker": turn.name("speaker").lower(), "text": turn.text("utterance")} for turn in turns]
        dialogues.append(Dialogue(id, build_session(f"{name}/{id}", "", said), turns))
        golds[f"{name}/{id}"] = [_labels(turn, id, schema) for turn in turns]
    questions = tuple(ask_slots(dialogues, schema))
    return labelled_history(name, tuple(one.session for one in dialogues), golds, questions)


def _labels(turn: Row, dialogue: str, schema: Mapping[str, Service]) -> TurnLabels:
    frames = turn.entries("frames")
    if not frames:
        return TurnLabels()
    acts = [action.name("act").lower() for frame in frames for action in frame.entries("actions")]
    slots = [slot for frame in frames for slot in _slots(frame, schema)]
    return TurnLabels(
        scope=f"{dialogue} {frames[0].name('service')}",
        events=tuple(dict.fromkeys(acts)),
        entities=tuple(dict.fromkeys(slots)),
        known=("scope", "events", "entities"),
    )


def _slots(frame: Row, schema: Mapping[str, Service]) -> Iterator[str]:
    """What acts are about; "intent" and "count" are no slots of a service."""
    service = frame.name("service")
    if service not in schema:
        raise DataError(f"{frame.where}: the schema has no service {service!r}; put the schema of these dialogues here")
    for action in frame.entries("actions"):
        slot = action.text("slot", "")
        if slot in schema[service].slots and not action.name("act").endswith("_INTENT"):
            yield slot
