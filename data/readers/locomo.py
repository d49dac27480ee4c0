"""Turns the official LoCoMo file (locomo10.json) into histories with questions, one for each conversation."""

import re
from collections.abc import Mapping
from datetime import datetime

from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Loaded, Row, evidence_index, known_evidence, read_records, require_new
from stitchjam.data.readers.source import Origin
from stitchjam.data.records import History, Question, Session

__all__ = ["read_locomo"]

_SESSION = re.compile(r"session_(\d+)")
_ADVERSARIAL = "5"


def read_locomo(path: Origin) -> tuple[Loaded, ...]:
    """Read conversations: a list of them, or one.

    A history is named by its sample_id ("conv-26"), a session "conv-26/session_1", a turn's external id is its dia_id
    ("D1:3"). The caption of a photo stands behind the text. All questions are read; those of category 5, adversarial,
    have the empty answer where the file gives none. What does not resolve is listed in `problems`.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, or an id is used twice; the message names file, line and field.
    """
    seen: set[str] = set()
    return tuple(_conversation(row, require_new(row, "sample_id", seen)) for row in read_records(path))


def _conversation(row: Row, name: str) -> Loaded:
    history = _history(row.part("conversation"), name)
    turn_ids, problems = evidence_index(history), []
    entries = enumerate(row.entries("qa"), 1)
    questions = tuple(_question(entry, f"{name}-{number}", turn_ids, problems) for number, entry in entries)
    return Loaded(history, questions, tuple(problems))


def _history(talk: Row, name: str) -> History:
    # There are dates without a session, so the sessions are told by their turns.
    numbers = sorted(int(match[1]) for match in map(_SESSION.fullmatch, talk.fields()) if match)
    seen: set[str] = set()
    sessions = [
        _session(talk, f"session_{number}", name, seen) for number in numbers if talk.entries(f"session_{number}")
    ]
    if not sessions:
        raise talk.fail('turns in fields "session_1", "session_2", ...')
    return History(id=name, sessions=in_time_order(sessions))


def _session(talk: Row, key: str, name: str, seen: set[str]) -> Session:
    return build_session(
        f"{name}/{key}", _time(talk.text(f"{key}_date_time", "")), [_turn(row, seen) for row in talk.entries(key)]
    )


def _turn(row: Row, seen: set[str]) -> dict[str, str]:
    caption = row.text("blip_caption", "")
    photo = f" [photo: {caption}]" if caption else ""
    return {
        "speaker": row.name("speaker"),
        "text": row.text("text") + photo,
        "external_id": require_new(row, "dia_id", seen),
    }


def _time(written: str) -> str:
    try:
        time = datetime.strptime(written, "%I:%M %p on %d %B, %Y")  # noqa: DTZ007 (the file has no zone)
    except ValueError:
        return written
    return time.isoformat(timespec="minutes")


def _question(row: Row, name: str, turn_ids: Mapping[str, str], problems: list[str]) -> Question:
    answer, kind = row.label("answer", ""), row.label("category", "")
    evidence = known_evidence(row, name, _evidence(row), turn_ids, problems)
    if not answer and kind != _ADVERSARIAL:
        problems.append(f"{row.where}: question {name!r}: there is no answer")
    return Question(
        id=name,
        text=row.text("question"),
        answer=answer,
        evidence=evidence,
        kind=kind,
    )


def _evidence(row: Row) -> list[str]:
    # Several ids may stand in one string, and numbers may be padded: "D8:6; D9:17", "D30:05".
    listed = "; ".join(row.labels("evidence"))
    return [re.sub(r":0+(?=\d)", ":", one) for one in re.split(r"[;\s]+", listed) if one]
