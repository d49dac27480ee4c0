"""Turns STITCH standard files (turns.jsonl, questions.jsonl; CAME-Bench and others) into a history with questions.

Gold labels of the turns (partition, action, action_object) are left in the file: they must never reach a program.
"""

import json
import re
from collections.abc import Mapping

from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Loaded, Row, evidence_index, known_evidence, read_rows, require_new
from stitchjam.data.readers.source import Origin, Source
from stitchjam.data.records import History, Question

__all__ = ["read_stitch", "read_turns"]

# Every turn of CAME-Bench ends in " ----TIMESTAMP: 2025-05-15T08:02", of LongMemEval in three dashes and its date.
_LONGEST_MARKER = 200
_TIMESTAMP = re.compile(r"\s*-{3,}\s*TIMESTAMP:[ \t]*(?P<time>[^\n]*?)\s*\Z")


def read_turns(path: Origin) -> History:
    """Read a turns.jsonl: {"id", "role", "content"} a line, in time order.

    Turns whose ids have the form PREFIX-turn-NUMBER make one session per prefix, all others one for the file. The
    timestamp behind the text becomes the event time; the rest of the text stays as it is, stray field markers too.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, or an id is used twice; the message names file, line and field.
    """
    source = Source.of(path)
    name, seen = source.stem, set()
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(source):
        external = require_new(row, "id", seen)
        prefix = external.rpartition("-turn-")[0]
        rows.setdefault(prefix or name, []).append({**_turn(row), "external_id": external})
    return History(id=name, sessions=in_time_order(build_session(key, "", turns) for key, turns in rows.items()))


def read_stitch(turns: Origin, questions: Origin | None = None) -> Loaded:
    """Read a trajectory with its questions; evidence that names no turn is listed in `problems`.

    Args:
        turns: the turns.jsonl.
        questions: the questions.jsonl, where there is one.
    """
    history = read_turns(turns)
    if questions is None:
        return Loaded(history)
    turn_ids, seen, problems = evidence_index(history), set(), []
    loaded = tuple(_question(row, turn_ids, seen, problems) for row in read_rows(questions))
    return Loaded(history, loaded, tuple(problems))


def _turn(row: Row) -> dict[str, str]:
    text = row.text("content", "")  # proto3 JSON omits fields that are empty
    # Only the last line is looked at, and only from its last dashes on: white space and dashes without end stay fast.
    marker = _TIMESTAMP.search(text, _marker_start(text)) if "TIMESTAMP:" in text[-_LONGEST_MARKER:] else None
    if marker is None:
        return {"speaker": row.name("role"), "text": text}
    time = Row(row.where, {"time": marker["time"]}).time("time")
    return {"speaker": row.name("role"), "text": text[: marker.start()], "time": time}


def _marker_start(text: str) -> int:
    at = text.rindex("TIMESTAMP:")
    before = text[:at].rstrip()
    return len(before.rstrip("-").rstrip())


def _question(row: Row, turn_ids: Mapping[str, str], seen: set[str], problems: list[str]) -> Question:
    name, answer = require_new(row, "id", seen), _answer(row)
    evidence = known_evidence(row, name, row.labels("answer_turn_ids"), turn_ids, problems)
    if not answer:
        problems.append(f"{row.where}: question {name!r}: there is no answer")
    return Question(
        id=name,
        text=row.text("content"),
        answer=answer,
        evidence=evidence,
        kind=row.label("type", "").strip().replace(" ", "_"),
        time=row.time("date"),
    )


def _answer(row: Row) -> str:
    answer = row.part("answer")
    if answer.value is None:
        return ""
    choices = answer.part("multiple_choice_ids")
    if choices.value is not None:
        return ", ".join(choices.labels("choice_ids"))
    return answer.label("single_choice_id", "") or _unwrap(answer.label("free_form_answer", ""))


def _unwrap(answer: str) -> str:
    # Debate answers are a JSON list inside a string, usually of one string that is itself a list with semicolons.
    if not answer.startswith('["'):
        return answer
    try:
        entries = json.loads(answer)
    except (ValueError, RecursionError):
        return answer
    return "; ".join(map(str, entries))
