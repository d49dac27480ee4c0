"""What the commands share that derive something in memories: label, memorize, eval steps."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.memory import open_disk
from stitchjam.cli.shared import MEMORY, say
from stitchjam.data.errors import BackendError, BudgetStop, UsageError

__all__ = ["Bench", "BenchData", "Limits", "Memories", "Only", "deriving", "memories_of", "start_of"]

_PATIENCE = 3  # requests that fail in a row before the endpoint counts as out
Memories = Annotated[Path, typer.Option(help="Folder with a memory for each history; what is derived is kept there.")]
Bench = Annotated[str | None, typer.Option(help="Instead of a memory: the histories of a benchmark.")]
BenchData = Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")]
Only = Annotated[list[str] | None, typer.Option(help="Of a benchmark: only the history of this id; again for more.")]
Limits = tuple[int | None, float | None, float | None]  # calls, minutes, dollars


@contextmanager
def deriving(config: Path, model: str | None, limits: Limits, start: str, items: str) -> Iterator[Any]:
    """The settings in which programs derive something, within limits; gives what shows progress.

    Args:
        config, model: which models.
        limits: the most that all may take.
        start: "on", "retry" or "again".
        items: what is derived, for messages, such as "turns that are labelled".
    """
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.usage import Budget, metered
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.report import usage_line
    from stitchjam.programs.step import settings_for

    calls, minutes, dollars = limits
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars, patience=_PATIENCE)
    bindings = open_bindings(config, model, say)
    kept = f"{items} are kept", f"the same command{' without --again' * (start == 'again')} goes on from here"
    with resumable(*kept), settings_for(bindings), metered(budget=budget) as ledger:
        try:
            with counts_shown(sys.stderr, lines=True) as tick:
                yield tick
        except (BackendError, BudgetStop) as error:
            raise _stopped(error, start) from None
        finally:
            if ledger.rows():
                say(usage_line(ledger))


def _stopped(error: BaseException, start: str) -> BaseException:
    """What ends the command when the backend is out, or a budget is used up; both are gone on from."""
    if start == "again":
        say("go on without --again, which would drop what is done now")
    return BudgetStop("backend out", str(error)) if isinstance(error, BackendError) else error


def start_of(again: bool, retry_failed: bool) -> Any:
    """How to start, by two switches."""
    if again and retry_failed:
        raise UsageError("--again does all anew, also what failed; leave out --retry-failed")
    return "again" if again else "retry" if retry_failed else "on"


def memories_of(
    memory: Path | None,
    bench: tuple[str | None, Path | None, int | None],
    folder: Path,
    only: Sequence[str] | None = None,
) -> Iterator[tuple[str, Any]]:
    """Names and memories: one that is there, or those of a benchmark (name, data, first turns), all or only some."""
    name, data, turns = bench
    if name and memory:
        raise UsageError("--bench makes memories of its own below --memories; leave out --memory")
    if turns and not name:
        raise UsageError("--turns cuts histories of a benchmark; to do a memory bit by bit, give --limit")
    if only and not name:
        raise UsageError("--only names histories of a benchmark; leave it out")
    return _memories(memory, (name, data, turns), folder, only or ())


def _memories(
    memory: Path | None, bench: tuple[Any, Any, Any], folder: Path, only: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    name, data, turns = bench
    if not name:
        yield str(memory or MEMORY), open_disk(memory)
        return
    from stitchjam.data.benchmarks import open_benchmark
    from stitchjam.data.memories import memory_of_history

    for loaded in open_benchmark(name, data, only):
        yield loaded.history.id, memory_of_history(folder, loaded.history.first(turns))
