"""Turns HotpotQA files into histories: a paragraph is a session, a sentence a turn that its title "speaks".

Two forms are read: the distractor setting of the authors, with supporting facts, and the long versions (some hundred
documents in one text, "Document 1:" and so on) that MemAgent, GAM and JAM report, which have no gold evidence.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from stitchjam.data.ids import build_session
from stitchjam.data.readers.rows import Loaded, Row, require_new
from stitchjam.data.readers.source import Origin
from stitchjam.data.readers.streamed import stream_records
from stitchjam.data.records import History, Question, Session

__all__ = ["read_hotpotqa"]

_DOCUMENT = re.compile(r"^(?:Document|Passage) \d+:\s*", re.MULTILINE)


def read_hotpotqa(path: Origin) -> Iterator[Loaded]:
    """Read questions one after the other, each with a history of its own.

    Distractor: {"_id", "question", "answer", "context": [[title, [sentence, ...]], ...],
    "supporting_facts": [[title, number], ...]}. Long: {"input", "answers", "context": "Document 1: ..."}; there a
    paragraph is one turn. Session 3 of a question is "ID/p3", its first sentence "ID/p3.1". A supporting fact that is
    no sentence is listed in `problems`.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form; the message names file, entry and field.
    """
    seen: set[str] = set()
    for number, row in enumerate(stream_records(path), 1):
        long = isinstance(row.part("context").value, str)
        yield _long(row, f"{number:04}") if long else _distractor(row, require_new(row, "_id", seen))


def _distractor(row: Row, id: str) -> Loaded:
    paragraphs = [_paragraph(entry) for entry in row.part("context").items()]
    sessions = [_session(f"{id}/p{at}", *one) for at, one in enumerate(paragraphs, 1) if one[1]]
    by_title = {session.turns[0].speaker: session for session in reversed(sessions)}  # the first of a title counts
    problems: list[str] = []
    question = Question(
        id=id,
        text=row.text("question"),
        answer=row.label("answer"),
        evidence=_evidence(row, id, by_title, problems),
        kind=row.label("type", ""),
    )
    return Loaded(History(id=id, sessions=_some(row, sessions)), (question,), tuple(problems))


def _paragraph(entry: Row) -> tuple[str, list[str]]:
    """Its title and its sentences; empty ones stay, since supporting facts count them."""
    parts = entry.items()
    if len(parts) != 2 or not isinstance(parts[0].value, str):
        raise entry.fail("a title and a list of sentences")
    return parts[0].value, [Row(part.where, {"text": part.value}).text("text") for part in parts[1].items()]


def _session(name: str, title: str, sentences: Sequence[str]) -> Session:
    turns = [
        {"speaker": title or "untitled", "text": sentence.strip(), "external_id": f"{name}.{number}"}
        for number, sentence in enumerate(sentences, 1)
    ]
    return build_session(name, "", turns)


def _some(row: Row, sessions: Sequence[Session]) -> tuple[Session, ...]:
    if not sessions:
        raise row.part("context").fail("at least one paragraph with text")
    return tuple(sessions)


def _evidence(row: Row, id: str, by_title: Mapping[str, Session], problems: list[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for fact in row.entries("supporting_facts"):
        title, at = (part.value for part in fact.items()) if len(fact.items()) == 2 else ("", -1)
        session = by_title.get(title)
        if session and isinstance(at, int) and 0 <= at < len(session.turns):
            found[session.turns[at].id] = None
        else:
            problems.append(f"{row.where}: question {id!r}: evidence {fact.value!r} is no sentence")
    return tuple(found)


def _long(row: Row, id: str) -> Loaded:
    documents = [text for text in _DOCUMENT.split(row.text("context")) if text.strip()]
    sessions = [_document(f"{id}/p{at}", text.strip()) for at, text in enumerate(documents, 1)]
    answers = row.labels("answers") or (row.label("answer"),)
    question = Question(
        id=id, text=row.text("input", "") or row.text("question"), answer=answers[0], aliases=answers[1:]
    )
    return Loaded(History(id=id, sessions=_some(row, sessions)), (question,))


def _document(name: str, text: str) -> Session:
    title, _, body = text.partition("\n")
    return _session(name, title.strip(), [body.strip()]) if body.strip() else _session(name, "", [text])
