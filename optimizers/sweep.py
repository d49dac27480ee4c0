"""Turns one dial of a world and some of its values into a curve: how much harder memory gets as the dial goes up.

Each point is the mean over the types of questions that all points have, so that a rare type weighs the same everywhere.
"""

import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from stitchjam.data.atomic import whole_path
from stitchjam.data.errors import MissingExtra, UsageError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.records import Record
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.generate import generate_world
from stitchjam.optimizers.difficulty import Difficulty, measure

__all__ = ["Curve", "Point", "SWEEPS", "draw", "require_drawing", "sweep"]

Dial = Literal["overlap", "sessions"]
SWEEPS: dict[Dial, tuple[float, ...]] = {
    "overlap": (0.0, 0.25, 0.5, 0.75, 1.0),
    "sessions": (20, 80, 320, 1280),
}
_LONG = 100  # sessions of the worlds in which overlap is varied: in short ones few goals can share anything


class Point(Record):
    """One value of the dial: recall@10 and share solved by BM25, the same for multi-hop questions, closed book."""

    value: float
    questions: int
    recall: float
    solved: float
    multi_hop: float
    closed: float


class Curve(Record):
    """Points by ascending value of a dial; `types` are those averaged over."""

    dial: Dial
    worlds: int
    types: tuple[str, ...]
    points: tuple[Point, ...]


def sweep(dial: Dial, dials: Dials, worlds: int, tick: Tick = quiet) -> Curve:
    """Generate worlds at each value of a dial and measure them.

    Args:
        dial: which one.
        dials: the others, and the first seed.
        worlds: how many at each value; their seeds count up.
        tick: is given what is being done, how much is through, and how much there is.

    Raises:
        UsageError: no type of question appears at every value.
    """
    if dial == "overlap":
        dials = dials.model_copy(update={"sessions": _LONG})
    found: dict[float, Difficulty] = {}
    for done, value in enumerate(SWEEPS[dial], 1):
        found[value] = _at(dials.model_copy(update={dial: int(value) if dial == "sessions" else value}), worlds)
        tick(dial, done, len(SWEEPS[dial]))
    named = [{row.name for row in one.types} - {"unanswerable"} for one in found.values()]
    common = sorted(set.intersection(*named))
    if not common:
        raise UsageError("no type of question appears at every value; raise --worlds or --questions")
    return Curve(
        dial=dial, worlds=worlds, types=tuple(common), points=tuple(_point(*one, common) for one in found.items())
    )


def _at(dials: Dials, worlds: int) -> Difficulty:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(worlds):
            seed = dials.seed + number
            generate_world(Path(folder), f"w{seed}", dials.model_copy(update={"seed": seed}))
        return measure(read_worlds(Path(folder)))


def _point(value: float, found: Difficulty, types: Sequence[str]) -> Point:
    rows = [row for row in found.types if row.name in types]
    multi_hop = [row.bm25 for row in found.families if row.name == "multi-hop"]
    return Point(
        value=value,
        questions=found.together.questions,
        recall=fmean(row.recall for row in rows),
        solved=fmean(row.bm25 for row in rows),
        multi_hop=multi_hop[0] if multi_hop else 0.0,
        closed=found.together.closed,
    )


def require_drawing(path: Path) -> None:
    """Raises UsageError when no picture of that name can be drawn: before work is spent on what it would show."""
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"{path}: a picture is .svg, .png or .pdf; choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); choose another --plot") from None
    if path.is_dir():
        raise UsageError(f"{path} is a folder; choose another --plot")
    _figure_class()


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw curves into a picture, side by side; the format follows from the name.

    Raises:
        UsageError: matplotlib is not installed, or the name has an unknown ending.
    """
    require_drawing(path)
    figure = _figure_class()(figsize=(5 * len(curves), 3.6), layout="constrained")
    for at, curve in enumerate(curves, 1):
        _panel(figure.add_subplot(1, len(curves), at), curve)
    picture = BytesIO()  # drawing into a file on a full disk ends in errors of many kinds
    figure.savefig(picture, format=path.suffix[1:])
    with whole_path(path) as new:
        new.write_bytes(picture.getvalue())


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "report", "a picture") from None
    return Figure


def _panel(axes: Any, curve: Curve) -> None:
    values = [point.value for point in curve.points]
    for name, label in (
        ("recall", "recall of evidence, BM25 top 10"),
        ("solved", "solved from BM25 top 10"),
        ("multi_hop", "multi-hop solved from BM25 top 10"),
        ("closed", "closed book"),
    ):
        axes.plot(values, [getattr(point, name) for point in curve.points], marker="o", label=label)
    if curve.dial == "sessions":
        axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set(xlabel=curve.dial, ylim=(0, 1), title=f"{curve.worlds} worlds a point")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
