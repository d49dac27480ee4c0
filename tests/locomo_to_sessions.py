"""Turns one LoCoMo conversation into our sessions and questions files: python locomo_to_sessions.py JSON FOLDER [0].

Category 5 (adversarial, mostly without an answer) is left out; evidence that names no turn is dropped and returned.
"""

import json
import re
import sys
from datetime import datetime
from pathlib import Path

from stitchjam.data.ids import build_session
from stitchjam.data.readers import write_questions, write_sessions
from stitchjam.data.records import History, Question, Session


def convert(source: Path, folder: Path, number: int = 0) -> tuple[Path, Path, list[str]]:
    """Write NAME.sessions.jsonl and NAME.questions.jsonl; returns both paths and the evidence that was dropped."""
    item = json.loads(source.read_text(encoding="utf-8"))[number]
    name, talk = item["sample_id"], item["conversation"]
    # There are date keys without a session, so the sessions are counted by their turns.
    keys = sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    history = History(id=name, sessions=tuple(_session(name, key, talk) for key in keys if talk[key]))
    turn_ids, dropped = {turn.external_id: turn.id for turn in history.turns}, []
    rows = [row for row in item["qa"] if row["category"] != 5]
    questions = [_question(f"{name}-{at}", row, turn_ids, dropped) for at, row in enumerate(rows, 1)]
    paths = folder / f"{name}.sessions.jsonl", folder / f"{name}.questions.jsonl"
    write_sessions(paths[0], history)
    write_questions(paths[1], questions, history)
    return *paths, dropped


def _session(name: str, key: str, talk: dict) -> Session:
    written = talk[f"{key}_date_time"]
    time = datetime.strptime(written, "%I:%M %p on %d %B, %Y").isoformat(timespec="minutes")  # noqa: DTZ007 (no zone)
    rows = [{"speaker": row["speaker"], "text": _text(row), "external_id": row["dia_id"]} for row in talk[key]]
    return build_session(f"{name}/{key}", time, rows)


def _text(row: dict) -> str:
    return row["text"] + (f" [photo: {row['blip_caption']}]" if row.get("blip_caption") else "")


def _question(name: str, row: dict, turn_ids: dict[str, str], dropped: list[str]) -> Question:
    # Several ids may stand in one string, and numbers may be padded: "D8:6; D9:17", "D30:05".
    ids = [re.sub(r":0+(?=\d)", ":", one) for text in row["evidence"] for one in re.split(r"[;\s]+", text) if one]
    dropped += [one for one in ids if one not in turn_ids]
    return Question(
        id=name,
        text=row["question"],
        answer=str(row["answer"]),
        evidence=tuple(dict.fromkeys(turn_ids[one] for one in ids if one in turn_ids)),
        kind=str(row["category"]),
    )


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
