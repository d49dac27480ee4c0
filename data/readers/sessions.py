"""Turns our own NAME.sessions.jsonl and NAME.questions.jsonl into a history with questions, and back.

A session a line:  {"id", "time", "turns": [{"id", "speaker", "text", "time"}]}
A question a line: {"id", "text", "answer", "aliases", "evidence": [turn ids], "sessions", "type", "split", "time"}
Optional are "time", the "id" of turns, and everything of a question behind its answer. The "id" of a turn is external:
any name, unique in the file; evidence refers to it.
"""

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Literal, cast

from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Row, dump, evidence_index, read_rows, require_new
from stitchjam.data.readers.source import Origin, Source
from stitchjam.data.records import History, Question, Session, Turn

__all__ = ["read_questions", "read_sessions", "write_questions", "write_sessions"]

_SPLITS = ("train", "held_out", "")


def read_sessions(path: Origin) -> History:
    """Read a *.sessions.jsonl.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, or an id is used twice; the message names file, line and field.
    """
    source = Source.of(path)
    session_ids: set[str] = set()
    turn_ids: set[str] = set()
    sessions = [_session(row, session_ids, turn_ids) for row in read_rows(source)]
    return History(id=source.stem, sessions=in_time_order(sessions))


def read_questions(path: Origin, history: History) -> tuple[Question, ...]:
    """Read a *.questions.jsonl whose evidence lies in `history`.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, or evidence names no turn; the message names file, line and id.
    """
    turn_ids, seen = evidence_index(history), set()
    known = {session.id for session in history.sessions}
    return tuple(_question(row, turn_ids, known, seen) for row in read_rows(path))


def write_sessions(path: str | Path, history: History) -> None:
    """Write a history as *.sessions.jsonl; reading it gives the same sessions and turn ids."""
    _write(path, (_session_row(session) for session in history.sessions))


def write_questions(path: str | Path, questions: Iterable[Question], history: History) -> None:
    """Write questions as *.questions.jsonl; evidence is written as external ids where turns have one."""
    external = {turn.id: turn.external_id or turn.id for turn in history.turns}
    _write(path, (_question_row(question, external) for question in questions))


def _session(row: Row, session_ids: set[str], turn_ids: set[str]) -> Session:
    row.require_known("id", "time", "turns")
    turns = row.part("turns").items()
    if not turns:
        raise row.part("turns").fail("at least one turn")
    return build_session(
        require_new(row, "id", session_ids), row.time("time"), [_turn(turn, turn_ids) for turn in turns]
    )


def _turn(row: Row, seen: set[str]) -> dict[str, str]:
    row.require_known("id", "speaker", "text", "time")
    external = require_new(row, "id", seen) if row.part("id").value is not None else ""
    return {"speaker": row.name("speaker"), "text": row.text("text"), "time": row.time("time"), "external_id": external}


def _question(row: Row, turn_ids: Mapping[str, str], known: Set[str], seen: set[str]) -> Question:
    row.require_known("id", "text", "answer", "aliases", "evidence", "sessions", "type", "split", "time")
    if missing := [one for one in row.labels("sessions") if one not in known]:
        raise DataError(f"{row.where}: no session has the id {missing[0]!r}; correct it, or add the session")
    return Question(
        id=require_new(row, "id", seen),
        text=row.text("text"),
        answer=row.label("answer"),
        aliases=row.labels("aliases"),
        evidence=tuple(_evidence(row, external, turn_ids) for external in row.labels("evidence")),
        sessions=row.labels("sessions"),
        kind=row.label("type", ""),
        split=_split(row),
        time=row.time("time"),
    )


def _split(row: Row) -> Literal["train", "held_out", ""]:
    split = row.text("split", "")
    if split not in _SPLITS:
        raise row.part("split").fail(f'"train", "held_out" or no split instead of {split!r}')
    return cast(Literal["train", "held_out", ""], split)


def _evidence(row: Row, external: str, turn_ids: Mapping[str, str]) -> str:
    if external not in turn_ids:
        raise DataError(f"{row.where}: no turn has the id {external!r}; correct it, or add the turn to the sessions")
    return turn_ids[external]


def _session_row(session: Session) -> dict[str, Any]:
    row = {"id": session.id, "time": session.time, "turns": [_turn_row(turn, session) for turn in session.turns]}
    return {key: value for key, value in row.items() if value != ""}


def _turn_row(turn: Turn, session: Session) -> dict[str, str]:
    row = {"id": turn.external_id, "speaker": turn.speaker, "text": turn.text}
    row["time"] = turn.time if turn.time != session.time else ""
    return {key: value for key, value in row.items() if value or key == "text"}


def _question_row(question: Question, external: Mapping[str, str]) -> dict[str, Any]:
    row = {
        "id": question.id,
        "text": question.text,
        "answer": question.answer,
        "aliases": list(question.aliases),
        "evidence": [external.get(turn_id, turn_id) for turn_id in question.evidence],
        "sessions": list(question.sessions),
        "type": question.kind,
        "split": question.split,
        "time": question.time,
    }
    return {key: value for key, value in row.items() if value or key in ("text", "answer")}


def _write(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with whole_file(Path(path)) as file:
        file.writelines(dump(row) + "\n" for row in rows)
