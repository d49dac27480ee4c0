"""Turns places and values into strokes and texts: the parts of charts that templates/page.html draws as SVG.

matplotlib would fix colours and text sizes when it draws; these follow dark mode and are readable on a phone.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = [
    "COLOURS",
    "HEIGHT",
    "Spot",
    "Stroke",
    "Text",
    "WIDTH",
    "across",
    "amount",
    "axes",
    "labelled",
    "line",
    "linear_ticks",
    "log_ticks",
    "marker",
    "scale",
    "shortened",
    "tick_texts",
    "up",
]

# Okabe and Ito (2008), told apart by people with any colour vision; yellow is left out, it cannot be seen on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
WIDTH, HEIGHT = 420.0, 322.0  # narrow, since the width of a phone is what it is scaled to
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 412.0, 14.0, 274.0
_LETTER = 7.2  # mean width of a letter at the size of 13 that the page sets
_AWAY = (5, -12, 22, -28, 38)  # how far below its point a label may be
_Box = tuple[float, float, float, float]  # left, top, right, bottom


class Text(NamedTuple):
    """Words at a place; `anchor` is which end of them is there."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    css: str = ""


class Stroke(NamedTuple):
    """A path in SVG's language, with classes of the page's style and what a pointer on it tells."""

    path: str
    css: str
    tip: str = ""


class Spot(NamedTuple):
    """Where a point is, and from where to where the line through it goes."""

    x: float
    y: float
    top: float
    bottom: float


def marker(x: float, y: float, number: int, size: float = 5.0) -> str:
    """The path of a system's marker. Colours repeat after six systems and shapes after seven, so pairs after 42."""
    corners = (
        None,
        ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        ((0, -1.3), (1.2, 1), (-1.2, 1)),
        ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
        ((0, 1.3), (1.2, -1), (-1.2, -1)),
        ((-1.4, -0.5), (-0.5, -0.5), (-0.5, -1.4), (0.5, -1.4), (0.5, -0.5), (1.4, -0.5), (1.4, 0.5), (0.5, 0.5),
         (0.5, 1.4), (-0.5, 1.4), (-0.5, 0.5), (-1.4, 0.5)),
        ((-1.3, -1), (1.3, 1), (1.3, -1), (-1.3, 1)),
    )[number % 7]  # fmt: skip
    if corners is None:
        return f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0a{size} {size} 0 1 0 {-2 * size} 0z"
    return line([(x + size * dx, y + size * dy) for dx, dy in corners]) + "z"


def shortened(text: str, length: int) -> str:
    """Cut in the middle: names of runs differ at either end."""
    head = (length - 1) // 2
    return text if len(text) <= length else f"{text[:head]}…{text[head + 1 - length :]}"


def line(points: Sequence[tuple[float, float]]) -> str:
    """A path from point to point."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def across(share: float) -> float:
    """The place of a share of the whole width."""
    return 20 + (WIDTH - 40) * share


def up(share: float) -> float:
    """The place of a share of the height of the axes."""
    return _BOTTOM - (_BOTTOM - _TOP) * share


def scale(low: float, high: float, log: bool) -> Callable[[float], float]:
    """From values to places between the left and the right end of the frame, with some room at both."""
    left, right = _LEFT + 12, _RIGHT - 18
    of: Callable[[float], float] = (lambda value: math.log2(max(value, 1e-12))) if log else float
    span = of(high) - of(low)
    return lambda value: left + (right - left) * ((of(value) - of(low)) / span if span else 0.5)


def axes(below: str, beside: str) -> tuple[list[Stroke], list[Text]]:
    """Shares from 0 to 1 upwards, with their lines, and what the axes are called."""
    marks = [tick / 5 for tick in range(6)]
    strokes = [Stroke(line([(_LEFT, up(mark)), (_RIGHT, up(mark))]), "grid") for mark in marks]
    texts = [Text(_LEFT - 6, up(mark) + 4, f"{mark:.1f}", "end") for mark in marks]
    texts.append(Text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, below, "middle"))
    return strokes, [*texts, Text(-(_TOP + _BOTTOM) / 2, 12, beside, "middle", "turned")]


def tick_texts(marks: Sequence[tuple[float, str]]) -> list[Text]:
    """Texts below the frame, without those that would run into the one before."""
    texts, end = [], 0.0
    for x, text in marks:
        half = len(text) * _LETTER / 2
        if x - half >= end:
            texts.append(Text(x, _BOTTOM + 20, text, "middle"))
            end = x + half + 8
    return texts


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten around `low` and `high`, or fewer of them: not many more than six."""
    ticks: list[float] = []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        every = [float(f"{step}e{power}") for power in powers for step in steps]
        below, above = max(tick for tick in every if tick <= low), min(tick for tick in every if tick >= high)
        ticks = [tick for tick in every if below <= tick <= above]
        if len(ticks) <= 6:
            break
    return ticks


def linear_ticks(high: float) -> list[float]:
    """Round numbers from 0 to just above `high`, up to six of them."""
    power = math.floor(math.log10(high))
    step = next(one for one in (0.2, 0.25, 0.5, 1, 2, 2.5) if high <= 5 * one * 10**power) * 10**power
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


def amount(value: float) -> str:
    """Three digits, and never an exponent."""
    if value >= 100 or not value:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.12f}".rstrip("0").rstrip(".")


def labelled(spots: Sequence[Spot], labels: Sequence[str]) -> tuple[list[Stroke], list[Text]] | None:
    """Labels beside their points, with a line to those that are moved; None if one has to touch another or a point."""
    taken = [(spot.x - 14, spot.top - 3, spot.x + 14, spot.bottom + 3) for spot in spots]
    strokes, texts = [], []
    for number, (spot, label) in enumerate(zip(spots, labels, strict=True)):
        others = taken[:number] + taken[number + 1 :]
        tries = [_beside(spot, label, side, away) for away in _AWAY for side in ("start", "end")]
        inside = [(text, box) for text, box in tries if box[0] > _LEFT and box[2] < WIDTH and 0 < box[1] < _BOTTOM]
        free = [(text, box) for text, box in inside if not any(_touch(box, other) for other in others)]
        if not free:
            return None
        text, box = free[0]
        taken.append(box)
        texts.append(text)
        if text.y != spot.y + _AWAY[0]:
            strokes.append(Stroke(line([(spot.x, spot.y), (text.x, text.y - 4)]), "lead"))
    return strokes, texts


def _beside(spot: Spot, label: str, side: str, away: float) -> tuple[Text, _Box]:
    """A label and the box that it fills."""
    width, y = len(label) * _LETTER, spot.y + away
    x = spot.x + (12 if side == "start" else -12)
    left = x if side == "start" else x - width
    return Text(x, y, label, side, "name"), (left, y - 11, left + width, y + 3)


def _touch(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
