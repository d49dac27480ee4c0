"""Turns labelled turns into a band: a lane a topic, a bar a run of turns on it, marks where it opens or returns.

Its parts are drawn by templates/timeline.html as SVG, in pixels: it scrolls sideways where it is wider than the page.
"""

from collections.abc import Sequence
from typing import NamedTuple

from stitchjam.optimizers.noted import Noted, Topic
from stitchjam.optimizers.pages.drawing import COLOURS, Stroke, line, marker

__all__ = ["Band", "Lane", "band"]

_TURNS, _LANES = 10_000, 30
_LANE = 18  # pixels, as timeline.css has it
_BAR, _DOT, _SMALL = 10, 4.5, 3.0
_CLOSE = 4  # pixels of a turn; below that marks are small, or they hide each other
_WIDEST, _USUAL = 14, 1_000  # pixels of a turn, and of the whole as long as turns are wide enough


class Lane(NamedTuple):
    """A topic, or all that have no lane of their own."""

    topic: Topic | None
    name: str


class Band(NamedTuple):
    """Where things are drawn; `first` is the place among all turns of the one at its left end."""

    lanes: Sequence[Lane]
    strokes: Sequence[Stroke]
    first: int
    each: int  # pixels of a turn
    width: int
    height: int
    words: str


class _At(NamedTuple):
    """A turn in the band: its place, its lane, and whether it goes on as the one before it."""

    x: int
    lane: int
    row: Noted
    joined: bool  # same session as the one before


def band(rows: Sequence[Noted], topics: Sequence[Topic]) -> Band:
    """The newest turns; topics with few turns share a lane when there are many topics."""
    first = max(0, len(rows) - _TURNS)
    shown = rows[first:]
    lanes, lane_of = _lanes(shown, topics)
    each = max(1, min(_WIDEST, _USUAL // max(1, len(shown))))
    spots = [
        _At(at * each, lane_of[_id(row)], row, at > 0 and row.turn.session_id == shown[at - 1].turn.session_id)
        for at, row in enumerate(shown)
    ]
    width, height = max(1, len(shown) * each), len(lanes) * _LANE
    sessions = sum(not spot.joined for spot in spots)
    words = f"{len(shown):,} turns in {sessions:,} sessions, in time order, on {len(lanes)} lanes"
    return Band(lanes, _strokes(spots, each, height), first, each, width, height, words)


def _id(row: Noted) -> str:
    return row.topic.id if row.topic else ""


def _lanes(rows: Sequence[Noted], topics: Sequence[Topic]) -> tuple[list[Lane], dict[str, int]]:
    used = {_id(row) for row in rows}
    there = [topic for topic in topics if topic.id in used]
    most = {topic.id for topic in sorted(there, key=lambda topic: (-topic.turns, topic.number))[:_LANES]}
    lanes = [Lane(topic, topic.name) for topic in there if topic.id in most]
    lane_of = {lane.topic.id: at for at, lane in enumerate(lanes) if lane.topic}
    rest = [topic.id for topic in there if topic.id not in most]
    if rest:
        lane_of |= dict.fromkeys(rest, len(lanes))
        lanes.append(Lane(None, f"{len(rest):,} other topics"))
    if "" in used:
        lane_of[""] = len(lanes)
        lanes.append(Lane(None, "no note"))
    return lanes, lane_of


def _middle(lane: int) -> float:
    return lane * _LANE + _LANE / 2


def _strokes(spots: Sequence[_At], each: int, height: int) -> list[Stroke]:
    """From back to front: where sessions begin, moves from lane to lane, bars by colour, marks by colour."""
    begins = "".join(line([(spot.x, 0), (spot.x, height)]) for spot in spots[1:] if not spot.joined)
    bars: dict[str, list[str]] = {}
    for run in _runs(spots):
        bars.setdefault(_css(run[0].row), []).append(_bar(run[0], each * len(run)))
    marks: dict[str, list[str]] = {}
    dot = _DOT if each >= _CLOSE else _SMALL
    for spot in spots:
        if spot.row.move != "continue":
            css = f"{spot.row.move} {_css(spot.row)}"
            marks.setdefault(css, []).append(marker(spot.x + each / 2, _middle(spot.lane), 0, dot))
    strokes = [Stroke(begins, "grid"), Stroke(_moves(spots), "lead")]
    strokes += [Stroke("".join(paths), f"bar {css}") for css, paths in sorted(bars.items())]
    strokes += [Stroke("".join(paths), css) for css, paths in sorted(marks.items())]
    return [stroke for stroke in strokes if stroke.path]


def _moves(spots: Sequence[_At]) -> str:
    """From topic to topic within a session; turns without a topic do not interrupt one."""
    found, before = [], None
    for spot in spots:
        before = before if spot.joined else None
        if spot.row.topic:
            if before is not None and spot.lane != before:
                found.append(line([(spot.x, _middle(before)), (spot.x, _middle(spot.lane))]))
            before = spot.lane
    return "".join(found)


def _runs(spots: Sequence[_At]) -> list[list[_At]]:
    runs: list[list[_At]] = []
    for spot in spots:
        if runs and spot.joined and _id(runs[-1][-1].row) == _id(spot.row):
            runs[-1].append(spot)
        else:
            runs.append([spot])
    return runs


def _bar(spot: _At, width: int) -> str:
    return f"M{spot.x} {_middle(spot.lane) - _BAR / 2:.0f}h{width}v{_BAR}h{-width}z"


def _css(row: Noted) -> str:
    return f"c{row.topic.number % len(COLOURS)}" if row.topic else "bare"
