"""Turns a history into one whose turns say where they stood in the text that they came from."""

from bisect import bisect_right
from itertools import accumulate

from stitchjam.data.ids import build_session
from stitchjam.data.records import History

__all__ = ["placed"]


def placed(history: History, text: str) -> tuple[History, int]:
    """A history with the places of its turns as their external ids, `START-END`, and how many were found.

    Args:
        history: turns in the order of the text.
        text: the text as it stands in its file; places are code points of it. A turn that has an external id keeps it;
            so does one that is not in the text as it is, which then has none.
    """
    lines = text.split("\n")
    bare = [line.removesuffix("\r") for line in lines]  # as readers see them
    plain = "\n".join(bare)
    ours = [0, *accumulate(len(line) + 1 for line in bare)]
    theirs = [0, *accumulate(len(line) + 1 for line in lines)]

    def at_file(place: int) -> int:
        line = bisect_right(ours, place) - 1
        return theirs[line] + place - ours[line]

    at, found, sessions = 0, 0, []
    for session in history.sessions:
        rows = []
        for turn in session.turns:
            row = turn.model_dump(include={"speaker", "text", "time", "external_id"})
            start = -1 if turn.external_id else _find(plain, turn.speaker, turn.text, at)
            if start >= 0:
                at, found = start + len(turn.text), found + 1
                row["external_id"] = f"{at_file(start)}-{at_file(at - 1) + 1}"
            rows.append(row)
        sessions.append(build_session(session.id, session.time, rows))
    return history.model_copy(update={"sessions": tuple(sessions)}), found


def _find(plain: str, speaker: str, words: str, start: int) -> int:
    """Where words stand; not in the name of who says them, as in "Ed: Ed"."""
    direct, named = plain.find(words, start), plain.find(f"{speaker}:", start)
    behind = named + len(speaker) + 1
    return plain.find(words, behind) if 0 <= named <= direct < behind else direct
