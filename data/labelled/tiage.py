"""Turns TIAGE dialogues into labelled histories: each shift of topic begins a new scope."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from stitchjam.data.ids import build_session
from stitchjam.data.labelled.files import files_of
from stitchjam.data.labelled.records import LabelledHistory, TurnLabels, labelled_history
from stitchjam.data.readers.rows import Row, read_rows
from stitchjam.data.readers.source import Source

__all__ = ["read_tiage_labels"]

_START, _SAME, _SHIFT = "-1", "0", "1"
_SPEAKERS = ("A", "B")  # the file names none; the two take turns


def read_tiage_labels(path: Path) -> Iterator[LabelledHistory]:
    """A history for each dialogue of a file or a folder, named by the file and the dialogue's key.

    Scopes are the numbers of the segments, from 1: a topic that comes back is a new one, as the set does not say.
    """
    for file in files_of(path, ["anno_*.json"], "anno_SPLIT.json"):
        stem = Source(str(file), b"").stem
        [whole, *_] = read_rows(file)
        for key in whole.fields():
            yield _labelled(whole.part(key), f"{stem}-{key}")


def _labelled(row: Row, name: str) -> LabelledHistory:
    lines = [_line(entry) for entry in row.items()]
    if not lines:
        raise row.fail("at least one utterance")
    turns = [{"speaker": _SPEAKERS[at % 2], "text": text} for at, (text, _) in enumerate(lines)]
    session = build_session(name, "", turns)
    golds = [TurnLabels(scope=scope, known=("scope",)) for scope in _scopes(row, [mark for _, mark in lines])]
    return labelled_history(name, (session,), {session.id: golds})


def _line(row: Row) -> tuple[str, str]:
    parts = row.items()
    if len(parts) != 2 or not isinstance(parts[0].value, str):
        raise row.fail("an utterance and its mark")
    return parts[0].value, str(parts[1].value)


def _scopes(row: Row, marks: Sequence[str]) -> Iterator[str]:
    segment = 1
    for at, mark in enumerate(marks):
        if mark not in ((_START,) if at == 0 else (_SAME, _SHIFT)):
            wanted = f'the mark "{_START}" of the start' if at == 0 else f'a mark "{_SAME}" or "{_SHIFT}"'
            raise row.items()[at].fail(f"{wanted} instead of {mark!r}")
        segment += mark == _SHIFT
        yield str(segment)
