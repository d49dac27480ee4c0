"""Turns labelled turns into one HTML page that opens without network: a band of topics, and each turn with its note."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from stitchjam.data.intents.records import Note
from stitchjam.data.text import printable
from stitchjam.optimizers.noted import Noted, Told, Topic, place
from stitchjam.optimizers.pages.lanes import band
from stitchjam.optimizers.pages.sheet import Cutter, inline, write_sheet

__all__ = ["write_timeline"]

_BYTES = 7_000_000  # of the turns: what browsers, also of phones, open without waiting
_FRAME = 1_200  # bytes of HTML around the texts of a turn
_TURNS, _TOPICS = 3_000, 300
_SHORTEST, _LONGEST = 80, 2_000  # bytes to which texts of turns are cut
_SHORT = 300  # bytes of names and summaries; models are held to 120 characters
_MANY = 8  # labels and references of a turn that are shown


class _Piece(NamedTuple):
    """Words of a turn: plain (""), its target, or a reference with what it means."""

    text: str
    kind: str = ""
    tip: str = ""


class _Link(NamedTuple):
    """A turn that another one names; `at` is its place on the page, -1 when it is not on it."""

    name: str
    at: int


class _Card(NamedTuple):
    """A turn. `state` has a letter for each filter it passes: m moved, d replaced, r has references, n has no note."""

    at: int
    row: Noted
    where: str
    speaker: str
    pieces: Sequence[_Piece]
    state: str
    topic: str = ""
    target: str = ""
    summary: str = ""
    labels: Sequence[str] = ()
    references: Sequence[tuple[str, str]] = ()
    replaced_by: _Link | None = None
    replaces: Sequence[_Link] = ()


def write_timeline(path: Path, shown: Told) -> None:
    """Write the page; the same memory gives the same bytes.

    A memory that is too large for a page is shown in part, and the page says what was left out: of the turns the
    newest, of the topics those with the most turns.

    Args:
        path: an .html file; one that is there is replaced.
        shown: what `told` gave.

    Raises:
        UsageError: the file cannot be written.
    """
    write_sheet(path, "timeline.html", _content(shown), {})


def _content(shown: Told) -> dict[str, Any]:
    first = max(0, len(shown.rows) - _TURNS)
    cutter = Cutter(_limit(len(shown.rows) - first))
    writer = _Writer({row.turn.id: at for at, row in enumerate(shown.rows)}, first, shown, cutter)
    cards = [writer.card(at) for at in range(first, len(shown.rows))]
    topics = sorted(shown.topics.values(), key=lambda topic: (-topic.turns, topic.number))
    return {
        **inline("page.css", "timeline.css", script="timeline.js"),
        "shown": shown,
        "sessions": len({row.turn.session_id for row in shown.rows}),
        "band": band(shown.rows, tuple(shown.topics.values())),
        "topics": [_brief(topic, writer.short) for topic in topics[:_TOPICS]],
        "days": [(session, list(some)) for session, some in groupby(cards, key=lambda card: card.row.turn.session_id)],
        "cards": len(cards),
        "cut": cutter.cut,
        "limit": cutter.limit,
    }


def _limit(turns: int) -> int:
    return min(max(_BYTES // max(1, turns) - _FRAME, _SHORTEST), _LONGEST)


def _brief(topic: Topic, short: Cutter) -> Topic:
    return Topic(topic.number, topic.id, short(topic.name), short(topic.gist), topic.turns)


class _Writer:
    """Makes the card of a turn from its note."""

    def __init__(self, places: Mapping[str, int], first: int, shown: Told, cutter: Cutter):
        self.places, self.first, self.shown = places, first, shown
        self.cutter, self.short = cutter, Cutter(_SHORT)

    def card(self, at: int) -> _Card:
        """The card of the turn at a place."""
        row, short = self.shown.rows[at], self.short
        card = _Card(at, row, short(place(row.turn)), short(row.turn.speaker), self._pieces(row), "n")
        note = row.note
        if note is None:
            return card
        return card._replace(
            state=_state(row, note),
            topic=short(row.topic.name) if row.topic else "",
            target=short(note.target),
            summary=short(note.summary),
            labels=[short(name) for name in (*row.events, *row.entities)[:_MANY]],
            references=[(short(one.words), short(one.means)) for one in note.references[:_MANY]],
            replaced_by=self._link(row.replaced_by) if row.replaced_by else None,
            replaces=[self._link(one) for one in row.replaces[:_MANY]],
        )

    def _link(self, turn_id: str) -> _Link:
        at = self.places.get(turn_id, -1)
        return _Link(
            self.short(place(self.shown.rows[at].turn) if at >= 0 else turn_id), at if at >= self.first else -1
        )

    def _pieces(self, row: Noted) -> list[_Piece]:
        """The text of a turn with what its note points to in it."""
        text = printable(row.turn.text)  # places stay where they are
        kept = self.cutter.kept(text)
        pieces, end = [], 0
        for start, stop, kind, tip in _marked(text, row.note) if row.note else ():
            if end <= start and stop <= kept:
                pieces += [_Piece(text[end:start]), _Piece(text[start:stop], kind, self.short(tip))]
                end = stop
        return [piece for piece in (*pieces, _Piece(text[end:kept] + "…" * (kept < len(text)))) if piece.text]


def _state(row: Noted, note: Note) -> str:
    passes = (("m", row.move != "continue"), ("d", row.replaced_by), ("r", note.references))
    return "".join(letter for letter, holds in passes if holds)


def _marked(text: str, note: Note) -> list[tuple[int, int, str, str]]:
    """Where the target and the references of a turn stand in it: start, end, kind and meaning, in order."""
    span, found = note.span, list[tuple[int, int, str, str]]()
    whole = span.start == 0 and span.end >= len(text)  # that is how a note says that the target is not named
    if span.start < span.end <= len(text) and (not whole or text.casefold() == note.target.casefold()):
        found.append((span.start, span.end, "target", ""))
    for one in note.references[:_MANY]:
        words = r"\s+".join(map(re.escape, printable(one.words).split()))
        match = re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE) if words else None
        found += [(*match.span(), "reference", one.means)] if match else []
    return sorted(found)
