"""Turns progress calls into bars on a terminal, and into plain lines where output goes to a file."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from stitchjam.data.text import printable

__all__ = ["counts_shown", "progress_shown"]

Tick = Callable[[str, str, float | None], None]


@contextmanager
def progress_shown(stream: IO[str], totals: Mapping[str, int]) -> Iterator[Tick]:
    """A function to call after each item with stage, item and score (None when there is none yet).

    Args:
        stream: where to; a terminal gets one bar a stage with the mean score so far.
        totals: stage -> items at most.
    """
    console = Console(file=stream, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        yield _lines(console, totals)
        return
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(
        *columns,
        TimeRemainingColumn(),
        TextColumn("{task.fields[mean]}"),
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bars:
        yield _bars(bars, totals)


@contextmanager
def counts_shown(stream: IO[str], lines: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function to call with what is being done, how much of it is through, and how much there is.

    On a terminal it moves a bar for each kind of work; elsewhere nothing is shown, since most such work takes seconds.
    `lines`: what takes minutes writes a line there each time.
    """
    console = Console(file=stream, soft_wrap=True, highlight=False)
    if lines and not console.is_terminal:
        yield lambda what, done, total: console.print(printable(f"{what}  {done:>4}/{total}"), markup=False)
        return
    bars = Progress(
        TextColumn("{task.description:9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    tasks: dict[str, TaskID] = {}

    def tick(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what)
        bars.update(tasks[what], completed=done, total=total)

    with bars:
        yield tick


def _lines(console: Console, totals: Mapping[str, int]) -> Tick:
    done: dict[str, int] = {}

    def tick(stage: str, item: str, score: float | None = None) -> None:
        done[stage] = done.get(stage, 0) + 1
        value = "" if score is None else f"  {score:.2f}"
        console.print(printable(f"{stage:9}{done[stage]:>4}/{totals.get(stage, '?')}  {item}{value}"), markup=False)

    return tick


def _bars(bars: Progress, totals: Mapping[str, int]) -> Tick:
    tasks: dict = {}
    scores: dict[str, list[float]] = {}

    def tick(stage: str, item: str, score: float | None = None) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=totals.get(stage), mean="")
            scores[stage] = []
        if score is not None:
            scores[stage].append(score)
        mean = f"mean {sum(scores[stage]) / len(scores[stage]):.3f}" if scores[stage] else ""
        bars.update(tasks[stage], advance=1, mean=mean)

    return tick
