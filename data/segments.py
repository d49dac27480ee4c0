"""Turns a history into one whose turns say where they stood in the text that they came from."""

from stitchjam.data.ids import build_session
from stitchjam.data.records import History

__all__ = ["placed"]


def placed(history: History, text: str) -> tuple[History, int]:
    """A history with the places of its turns as their external ids, `START-END`, and how many were found.

    Args:
        history: turns in the order of the text.
        text: with line ends as "\\n". A turn that has an external id keeps it; so does one that is not in the text as
            it is, which then has none.
    """
    at, found, sessions = 0, 0, []
    for session in history.sessions:
        rows = []
        for turn in session.turns:
            row = turn.model_dump(include={"speaker", "text", "time", "external_id"})
            start = -1 if turn.external_id else text.find(turn.text, at)
            if start >= 0:
                at, found = start + len(turn.text), found + 1
                row["external_id"] = f"{start}-{at}"
            rows.append(row)
        sessions.append(build_session(session.id, session.time, rows))
    return history.model_copy(update={"sessions": tuple(sessions)}), found
