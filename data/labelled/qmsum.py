"""Turns QMSum meetings into labelled histories: the topic that is discussed is the scope of a turn."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from stitchjam.data.ids import build_session
from stitchjam.data.labelled.files import files_of
from stitchjam.data.labelled.records import LabelledHistory, TurnLabels, labelled_history
from stitchjam.data.readers.rows import Row, read_records
from stitchjam.data.readers.source import Source

__all__ = ["read_qmsum_labels"]


def read_qmsum_labels(path: Path) -> Iterator[LabelledHistory]:
    """A history for each meeting of a file or a folder, named by its meeting_id or by the file and its number in it.

    Turns outside of all topics have the scope ""; where topics overlap, the first in the list counts.
    """
    for file in files_of(path, ["*.jsonl", "*.json"], "meetings in NAME.jsonl"):
        stem = Source(str(file), b"").stem
        for number, row in enumerate(read_records(file), 1):
            yield _labelled(row, row.name("meeting_id", "") or f"{stem}-{number}")


def _labelled(row: Row, name: str) -> LabelledHistory:
    said = row.part("meeting_transcripts").items()
    if not said:
        raise row.part("meeting_transcripts").fail("at least one turn")
    turns = [{"speaker": turn.name("speaker"), "text": turn.text("content")} for turn in said]
    session = build_session(name, "", turns)
    golds = [TurnLabels(scope=scope, known=("scope",)) for scope in _scopes(row.part("topic_list").items(), len(turns))]
    return labelled_history(name, (session,), {session.id: golds})


def _scopes(topics: Sequence[Row], count: int) -> list[str]:
    scopes = [""] * count
    for topic in topics:
        name = topic.name("topic")
        for span in topic.part("relevant_text_span").items():
            first, last = _span(span, count)
            for at in range(first, last + 1):
                scopes[at] = scopes[at] or name
    return scopes


def _span(row: Row, count: int) -> tuple[int, int]:
    """First and last turn of a span; the file has both as text, and the last one belongs to it."""
    ends = [str(one.value) for one in row.items()]
    numbers = [int(end) for end in ends if end.isascii() and end.isdigit()]
    if len(ends) != 2 or len(numbers) != 2 or not numbers[0] <= numbers[1] < count:
        raise row.fail(f"the first and the last turn of a topic, from 0 to {count - 1}, instead of {', '.join(ends)}")
    return numbers[0], numbers[1]
