"""Turns a file of a known format into histories.

chat        OpenAI-style messages, one conversation or many, and logs of calls
stitch      STITCH standard turns.jsonl
sessions    our own NAME.sessions.jsonl
locomo      the official LoCoMo file; a history for each conversation
tau-bench   runs with {"task_id", "traj"}
swe-agent   a .traj
transcript  lines of the form "Speaker: text"
document    Markdown or plain text

JSON is told apart by its first record, other text by its first lines; the name only decides what is a document.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.chat import read_chat
from stitchjam.data.readers.document import read_document
from stitchjam.data.readers.locomo import read_locomo
from stitchjam.data.readers.rows import Loaded, read_rows
from stitchjam.data.readers.sessions import (
    read_questions,
    read_sessions,
    write_questions,
    write_sessions,
)
from stitchjam.data.readers.source import Origin, Source
from stitchjam.data.readers.stitch import read_stitch, read_turns
from stitchjam.data.readers.trajectory import read_swe_agent, read_tau_bench
from stitchjam.data.readers.transcript import looks_like_transcript, read_transcript
from stitchjam.data.records import History

__all__ = [
    "FORMATS",
    "Loaded",
    "detect_format",
    "parse_histories",
    "read_document",
    "read_histories",
    "read_history",
    "read_locomo",
    "read_questions",
    "read_sessions",
    "read_stitch",
    "read_transcript",
    "write_questions",
    "write_sessions",
]


def _alone(read: Callable[[Origin], History]) -> Callable[[Origin], tuple[History, ...]]:
    return lambda origin: (read(origin),)


FORMATS: Mapping[str, Callable[[Origin], tuple[History, ...]]] = MappingProxyType(
    {
        "chat": _alone(read_chat),
        "stitch": _alone(read_turns),
        "sessions": _alone(read_sessions),
        "locomo": lambda origin: tuple(loaded.history for loaded in read_locomo(origin)),
        "tau-bench": _alone(read_tau_bench),
        "swe-agent": _alone(read_swe_agent),
        "transcript": _alone(read_transcript),
        "document": _alone(read_document),
    }
)

# Fields by which a record is known, or the first entry of a list. Those of a format that is more special come first.
_RECORDS = (
    ("locomo", {"sample_id", "conversation"}),
    ("tau-bench", {"traj"}),
    ("swe-agent", {"trajectory"}),
    ("chat", {"messages"}),
    ("chat", {"request", "response"}),
    ("sessions", {"turns"}),
    ("stitch", {"id", "role"}),
    ("chat", {"role"}),
)
_ENTRIES = (
    ("locomo", {"sample_id", "conversation"}),
    ("tau-bench", {"traj"}),
    ("chat", {"messages"}),
    ("chat", {"request", "response"}),
    ("chat", {"role"}),
)

_JSON = {".json", ".jsonl", ".ndjson", ".traj"}
_MARKDOWN = {".markdown", ".md"}
_PLAIN = {"", ".rst", ".text", ".txt"}
# A transcript may begin with [18:30], a document with [a link] or {% a template %}.
_LOOKS_LIKE_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*["}]')

_EXPECTED = (
    'chat messages ({"messages": [{"role", "content"}, ...]} or a list of messages), '
    'STITCH turns ({"id", "role", "content"} a line), sessions ({"id", "turns": [{"speaker", "text"}, ...]} a line), '
    'LoCoMo ({"sample_id", "conversation"}), tau-bench ({"task_id", "traj"}), SWE-agent ({"trajectory"})'
)


def read_histories(path: Origin, format: str | None = None) -> tuple[History, ...]:
    """Read a file of any known format: one history, or one for each conversation of a LoCoMo file.

    Args:
        path: the file; UTF-8, with or without a byte order mark.
        format: a name in `FORMATS`, to skip the detection.

    Raises:
        UsageError: the file cannot be opened, or there is no such format.
        DataError: the file is empty or not of the format; the message names file, line and what was expected.
    """
    source = Source.of(path)
    name = detect_format(source) if format is None else format
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}; choose one of: {', '.join(FORMATS)}")
    return FORMATS[name](source)


def parse_histories(content: bytes, name: str, format: str) -> tuple[History, ...]:
    """What `read_histories` gives for a file with this content and path, without looking at any file.

    Args:
        content: the bytes of the file.
        name: its path; absolute, where the result must not depend on the current folder.
        format: a name in `FORMATS`.
    """
    return read_histories(Source(str(Path(name)), content), format)


def read_history(path: Origin, format: str | None = None) -> History:
    """Read a file that holds one history; arguments and errors are those of `read_histories`.

    Raises:
        UsageError: also when it holds several; the message names them.
    """
    source = Source.of(path)
    histories = read_histories(source, format)
    if len(histories) != 1:
        raise UsageError(
            f"{source.name} holds {len(histories)} histories ({', '.join(history.id for history in histories)}); "
            "ingest it into a memory, where each is a source: stitchjam ingest FILE"
        )
    return histories[0]


def detect_format(path: Origin) -> str:
    """The name in `FORMATS` of a file's format; raises what `read_histories` raises."""
    source = Source.of(path)
    suffix = Path(source.name).suffix.lower()
    if suffix in _MARKDOWN:
        return "document"
    if suffix in _JSON or _LOOKS_LIKE_JSON.match(source.content):
        return _json_format(source)
    if suffix in _PLAIN:
        return "transcript" if looks_like_transcript(source) else "document"
    source.text_lines()  # what is no text at all is told first
    raise DataError(
        f"{source.name}, line 1: expected {_EXPECTED}, a transcript (a .txt of 'Speaker: text' lines) or document "
        "(.md, .txt); found none of these. Convert it to one, or read it as plain text with --format document"
    )


def _json_format(source: Source) -> str:
    row = next(iter(read_rows(source)))
    many = isinstance(row.value, list)
    record = next(iter(row.value), None) if many else row.value
    if isinstance(record, dict):
        for name, fields in _ENTRIES if many else _RECORDS:
            if fields <= record.keys():
                return name
    found = "an object with other fields" if isinstance(record, dict) else "something else"
    raise DataError(f"{row.where}: expected {_EXPECTED}; found {found}. Convert it to one of these")
