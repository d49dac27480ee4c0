"""Turns RealMem dialogues of one person into a labelled history: the project of a session is the scope of its turns."""

from collections.abc import Iterator
from pathlib import Path

from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.labelled.files import files_of
from stitchjam.data.labelled.records import LabelledHistory, TurnLabels, labelled_history
from stitchjam.data.readers.rows import Row, read_rows, require_new
from stitchjam.data.readers.source import Source
from stitchjam.data.records import Session

__all__ = ["read_realmem_labels"]

_UNRELATED = "Enhanced"  # conversations of other people, each about something else, put in between


def read_realmem_labels(path: Path) -> Iterator[LabelledHistory]:
    """The histories of a NAME_dialogues_SIZE.json, or of a folder of them, with sessions in time order.

    A session is named by its uuid, since its identifier tells the project. A session that was put in between is a
    scope of its own.
    """
    for file in files_of(path, ["*_dialogues_*.json"], "NAME_dialogues_SIZE.json"):
        [whole, *_] = read_rows(file)
        yield _labelled(whole, Source(str(file), b"").stem)


def _labelled(whole: Row, name: str) -> LabelledHistory:
    seen: set[str] = set()
    golds: dict[str, list[TurnLabels]] = {}
    sessions: list[Session] = []
    for row in whole.part("dialogues").items():
        session = _session(row, require_new(row, "session_uuid", seen))
        gold = TurnLabels(scope=_project(row), known=("scope",))
        golds[session.id] = [gold] * len(session.turns)
        sessions.append(session)
    return labelled_history(name, in_time_order(sessions), golds)


def _session(row: Row, name: str) -> Session:
    day = row.text("current_time", "").partition(" ")[0]  # "2025-12-19 (Friday)"
    turns = row.part("dialogue_turns").items()
    if not turns:
        raise row.part("dialogue_turns").fail("at least one turn")
    return build_session(name, day, [_turn(turn) for turn in turns])


def _turn(row: Row) -> dict[str, str]:
    return {"speaker": row.name("speaker"), "text": row.text("content")}


def _project(row: Row) -> str:
    identifier = row.name("session_identifier")
    project = identifier.partition(":")[0]
    return identifier if project == _UNRELATED else project
