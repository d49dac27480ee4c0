"""Turns LongMemEval files (oracle, S, M) into histories, each with the questions that are asked about it.

S and M are large, so instances are read one at a time. `has_answer` is gold and stays in the file. So is what ids say:
sessions with the answer are called "answer_...", questions without one "..._abs"; sessions get other names here.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import groupby

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Loaded, Row, dump, require_new
from stitchjam.data.readers.source import Origin
from stitchjam.data.readers.streamed import stream_records
from stitchjam.data.records import NOT_MENTIONED, History, Question, Session

__all__ = ["read_longmemeval"]

_UNANSWERABLE = "_abs"


def read_longmemeval(path: Origin) -> Iterator[Loaded]:
    """Read instances one after the other: {"question_id", "question", "haystack_sessions", ...}.

    Instances that follow one another and have the same haystack share a history. A session is named by a hash of its id
    in the file, its third turn "NAME/3". Evidence is the turns with `has_answer`; the sessions with the answer are
    gold too, and some have no such turn. A question whose id ends in "_abs" has no evidence and the answer "not
    mentioned", with the file's explanation as an alias. Numbers and dates in answers are kept as written.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form; the message names file, entry and field.
    """
    seen: set[str] = set()
    for _, rows in groupby(stream_records(path), key=_said):
        yield _instance(list(rows), seen)


def _said(row: Row) -> str:
    """A hash of the haystack without its labels, which are others for each question."""
    talks = [[(turn.part("role").value, turn.part("content").value) for turn in talk.items()]
             for talk in row.entries("haystack_sessions")]  # fmt: skip
    return sha256(dump([*_haystack(row), talks]).encode()).hexdigest()


def _haystack(row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return row.labels("haystack_session_ids"), row.labels("haystack_dates")


def _instance(rows: Sequence[Row], seen: set[str]) -> Loaded:
    sessions = _sessions(rows[0])
    history = History(id=_name(rows[0].name("question_id")), sessions=in_time_order(sessions.values()))
    problems: list[str] = []
    questions = tuple(_question(row, require_new(row, "question_id", seen), sessions, problems) for row in rows)
    return Loaded(history, questions, tuple(problems))


def _name(id: str) -> str:
    return sha256(id.encode()).hexdigest()[:12]


def _sessions(row: Row) -> dict[str, Session]:
    """Sessions by the id that the file gives them; one without turns is left out."""
    ids, dates = _haystack(row)
    talks = row.entries("haystack_sessions")
    if not len(ids) == len(dates) == len(talks) or not ids:
        raise DataError(
            f"{row.where}: {len(ids)} haystack_session_ids, {len(dates)} haystack_dates and {len(talks)} "
            "haystack_sessions; expected as many of each, at least one. Download the file again"
        )
    if len(set(ids)) < len(ids):
        raise DataError(f"{row.where}: a session is in haystack_session_ids twice; download the file again")
    return {id: _session(row, id, date, talk) for id, date, talk in zip(ids, dates, talks, strict=True) if talk.items()}


def _session(row: Row, id: str, date: str, talk: Row) -> Session:
    name, time = _name(id), Row(row.where, {"date": date}).time("date")
    turns = [
        {"speaker": turn.name("role"), "text": turn.text("content"), "external_id": f"{name}/{number}"}
        for number, turn in enumerate(talk.items(), 1)
    ]
    return build_session(name, time, turns)


def _question(row: Row, id: str, sessions: dict[str, Session], problems: list[str]) -> Question:
    answer, given = row.label("answer"), row.labels("answer_session_ids")
    problems += [
        f"{row.where}: question {id!r}: evidence {one!r} is no session" for one in given if one not in sessions
    ]
    gold = [one for one in given if one in sessions]
    without = id.endswith(_UNANSWERABLE)
    return Question(
        id=id,
        text=row.text("question"),
        answer=NOT_MENTIONED if without else answer,
        aliases=(answer,) if without else (),
        evidence=() if without else _evidence(row, sessions),
        sessions=() if without else tuple(dict.fromkeys(sessions[one].id for one in gold)),
        kind=row.label("question_type", ""),
        time=row.time("question_date"),
    )


def _evidence(row: Row, sessions: dict[str, Session]) -> tuple[str, ...]:
    """Ids of the turns that have the answer."""
    ids, talks = row.labels("haystack_session_ids"), row.entries("haystack_sessions")
    return tuple(
        turn.id
        for id, talk in zip(ids, talks, strict=True)
        if id in sessions
        for turn, label in zip(sessions[id].turns, talk.items(), strict=True)
        if label.part("has_answer").value is True
    )
