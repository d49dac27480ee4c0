"""Turns what a memory holds and finds into lines and tables for people. It prints nothing itself."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from rich.table import Table
from rich.text import Text

from stitchjam.data.records import Turn
from stitchjam.data.store import Hit, SessionHit, Store
from stitchjam.data.text import one_line, printable

__all__ = ["hit_lines", "overview_rows", "overview_table", "session_lines", "stats_tables", "table", "turn_lines"]

_NOTHING = "nothing was found; use other words or fewer filters. Turns without an event time lie in no period"


def hit_lines(hits: Sequence[Hit]) -> list[str]:
    """A line a turn: score ("beside" for a neighbour of a hit), session, turn, day, speaker, words."""
    lines = [f"{_score(hit)}  {_place(hit.turn)}  {hit.turn.speaker}: {one_line(hit.turn.text)}" for hit in hits]
    return lines or [_NOTHING]


def session_lines(hits: Sequence[SessionHit]) -> list[str]:
    """A session with its two best turns."""
    lines = []
    for hit in hits:
        lines.append(f"{hit.score:5.2f}  {hit.session.id}  {hit.session.time[:16]}  {len(hit.session.turns)} turns")
        lines += [f"         {turn.speaker}: {one_line(turn.text)[:160]}" for turn in hit.best]
    return lines or [_NOTHING]


def turn_lines(turns: Iterable[Turn]) -> list[str]:
    """The turns of a session in full."""
    return [f"[{turn.external_id or turn.id}] {turn.speaker}: {turn.text}" for turn in turns]


def overview_rows(store: Store) -> list[dict[str, Any]]:
    """One row a session: id, time, number of turns, speakers, and how it begins."""
    return [
        {
            "session": session.id,
            "time": session.time,
            "turns": len(session.turns),
            "speakers": ", ".join(dict.fromkeys(turn.speaker for turn in session.turns)),
            "begins": session.turns[0].text[:80],
        }
        for session in store.sessions
    ]


def overview_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The sessions of a memory."""
    return _table(("session", "time", "turns", "speakers", "begins"), rows, right="turns")


def stats_tables(stats: Mapping[str, Any]) -> list[Any]:
    """The state of a memory: figures, sources, work and tombstones."""
    counts = stats["counts"]
    lines: list[Any] = [
        f"{stats['path']}: {counts['turn']} turns in {counts['session']} sessions from {counts['source']} sources",
        f"{stats['bytes']:,} bytes, generation {stats['generation']}, encoder {stats['encoder']}, "
        f"{counts['note']} notes, {counts['memo']} memos, {stats['sealed_turns']} turns in sealed segments",
    ]
    if stats["sources"]:
        rows = [row | {"ingested": _day(row["ingested"])} for row in stats["sources"]]
        lines.append(_table(("id", "name", "format", "turns", "ingested"), rows, right="turns"))
    if stats["work"]:
        lines.append(_table(("step", "program", "status", "items", "error"), stats["work"], right="items"))
    for row in stats["tombstones"]:
        erased = "" if row["erased"] else "; its bytes go when no other process reads the memory"
        lines.append(f"forgotten: {row['source']} at {_day(row['forgotten'])}{erased}")
    return lines


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[str] = ()) -> Table:
    """Rows under their columns, those of `right` flush right; every cell is one line and safe for a terminal."""
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(printable(one_line(str(cell)))) for cell in row))
    return made


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], right: str) -> Table:
    return table(columns, ([row[column] for column in columns] for row in rows), (right,))


def _place(turn: Turn) -> str:
    return f"[{turn.session_id} {turn.external_id or turn.id}] {turn.time[:10]}".rstrip()


def _score(hit: Hit) -> str:
    return f"{hit.score:6.2f}" if hit.score else "beside"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M")
