"""Turns a file of a known format into a history; the format is told by the content, not by the name.

chat      OpenAI-style messages, one conversation or many
stitch    STITCH standard turns.jsonl
sessions  our own NAME.sessions.jsonl
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.chat import read_chat
from stitchjam.data.readers.rows import Loaded, Row, first_row
from stitchjam.data.readers.sessions import (
    read_questions,
    read_sessions,
    write_questions,
    write_sessions,
)
from stitchjam.data.readers.stitch import read_stitch, read_turns
from stitchjam.data.records import History

__all__ = [
    "FORMATS",
    "Loaded",
    "detect_format",
    "read_history",
    "read_questions",
    "read_sessions",
    "read_stitch",
    "write_questions",
    "write_sessions",
]

FORMATS: Mapping[str, Callable[[str | Path], History]] = MappingProxyType(
    {"chat": read_chat, "stitch": read_turns, "sessions": read_sessions}
)

_EXPECTED = (
    'chat messages ({"messages": [{"role", "content"}, ...]} or a list of messages), '
    'STITCH turns ({"id", "role", "content"} a line) or sessions ({"id", "turns": [{"speaker", "text"}, ...]} a line)'
)


def read_history(path: str | Path, format: str | None = None) -> History:
    """Read a file of any known format.

    Args:
        path: the file; UTF-8, with or without a byte order mark.
        format: a name in `FORMATS`, to skip the detection.

    Raises:
        UsageError: the file cannot be opened, or there is no such format.
        DataError: the file is empty or not of the format; the message names file, line and what was expected.
    """
    name = detect_format(path) if format is None else format
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}; choose one of: {', '.join(FORMATS)}")
    return FORMATS[name](path)


def detect_format(path: str | Path) -> str:
    """The name in `FORMATS` of a file's format, by its first record; raises what `read_history` raises."""
    row = first_row(path)
    if isinstance(row.value, dict):
        return _format_of(row, row.value)
    first = row.value[0] if isinstance(row.value, list) and row.value else None
    if isinstance(first, dict) and ("messages" in first or "role" in first):
        return "chat"
    raise row.fail(_EXPECTED)


def _format_of(row: Row, record: Mapping[str, object]) -> str:
    if "messages" in record:
        return "chat"
    if "turns" in record:
        return "sessions"
    if "id" in record and "role" in record:
        return "stitch"
    raise DataError(f"{row.where}: expected {_EXPECTED}; found an object with other fields. Convert it to one of these")
