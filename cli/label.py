"""Commands of STITCH: label the turns of a memory, or of the histories of a benchmark."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.memory import open_disk
from stitchjam.cli.shared import (
    CONFIG,
    MEMORY,
    Calls,
    Config,
    Dollars,
    Json,
    MemoryPath,
    Minutes,
    Model,
    app,
    result,
    say,
)
from stitchjam.data.errors import BackendError, BudgetStop, ModelError, UsageError

__all__ = ["Coreference", "Labeler", "Memories", "Turns", "labelling", "open_stitcher"]

_PATIENCE = 3  # requests that fail in a row before the endpoint counts as out
Memories = Annotated[Path, typer.Option(help="Folder with a memory for each history; what is labelled is kept there.")]
Labeler = Annotated[str, typer.Option("--program", help="stitch (one call a turn), stitch_stepwise, or an artifact.")]
Turns = Annotated[int | None, typer.Option(min=1, help="Only the first so many of each history.")]
Coreference = Annotated[bool, typer.Option(help="Note what references mean.")]


@app.command()
def label(
    memory: MemoryPath = None,
    bench: Annotated[str | None, typer.Option(help="Instead of a memory: the histories of a benchmark.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")] = None,
    memories: Memories = Path(".stitchjam/memories"),
    turns: Turns = None,
    program: Labeler = "stitch",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many turns now.")] = None,
    more: Annotated[
        bool, typer.Option("--more", help="More turns may come: wait for 50, of which the vocabulary is made.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Drop the notes of this program, and label anew.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try turns again that failed three times.")
    ] = False,
    coreference: Coreference = True,
    model: Model = None,
    config: Config = CONFIG,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Give every turn its contextual intent and a note. After a stop, the same command goes on."""
    if bench and memory:
        raise UsageError("--bench makes memories of its own below --memories; leave out --memory")
    if turns and not bench:
        raise UsageError("--turns cuts histories of a benchmark; to label a memory bit by bit, give --limit")
    if again and retry_failed:
        raise UsageError("--again labels all turns anew, also those that failed; leave out --retry-failed")
    stitcher, done = open_stitcher(program, coreference), {}
    start = "again" if again else "retry" if retry_failed else "on"
    with labelling(config, model, (calls, minutes, dollars), start) as run:
        for name, disk in _memories(memory, (bench, data, turns), memories):
            done[name] = run(disk, stitcher, name, limit, not more)
    result(as_json, {name: vars(one) for name, one in done.items()}, *(_line(*one) for one in done.items()))
    if given_up := sum(one.given_up for one in done.values()):
        raise ModelError(
            f"{given_up} turns failed three times and have no note; mend that, then: stitchjam label --retry-failed"
        )
    if failed := sum(len(one.failed) for one in done.values()):
        raise ModelError(f"{failed} turns have no note; the same command tries them again, each three times in all")


def open_stitcher(program: str, coreference: bool) -> Any:
    """What labels turns, by its name or from an artifact."""
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.stitch.stitcher import LABELERS, Stitcher

    _, loaded = open_program(program)
    if not isinstance(loaded, Stitcher):
        raise UsageError(f"{program!r} does not label turns; choose {', '.join(LABELERS)}, or an artifact of these")
    if not coreference:  # else it is as the artifact was made
        loaded.coreference = False
    return loaded


@contextmanager
def labelling(
    config: Path,
    model: str | None,
    limits: tuple[int | None, float | None, float | None],
    start: Any = "on",
) -> Iterator[Callable[..., Any]]:
    """A function that labels a memory: (disk, stitcher, name, limit, finish) to what was done. Shows progress."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.usage import Budget, metered
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.report import usage_line
    from stitchjam.programs.step import settings_for
    from stitchjam.programs.stitch.ingest import label_memory

    calls, minutes, dollars = limits
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars, patience=_PATIENCE)
    bindings = open_bindings(config, model, say)
    kept = (
        "turns that are labelled are kept",
        f"the same command{' without --again' * (start == 'again')} goes on from here",
    )
    with resumable(*kept), settings_for(bindings), metered(budget=budget) as ledger:
        try:
            with counts_shown(sys.stderr, lines=True) as tick:

                def run(disk: Any, stitcher: Any, name: str, limit: int | None = None, finish: bool = True) -> Any:
                    def through(_: str, done: int, of: int) -> None:
                        tick(name[:24], done, of)

                    if not disk.notes.notebook(stitcher.fingerprint).size:
                        say(f"{name}: first, types are read from the first turns, which takes as long as some turns")
                    done = label_memory(disk, stitcher, limit, finish, through, start)
                    for turn, reason in list(done.failed.items())[:5]:
                        say(f"{name}: no note of {turn}: {reason}")
                    return done

                yield run
        except (BackendError, BudgetStop) as error:
            raise _stopped(error, start) from None
        finally:
            if ledger.rows():
                say(usage_line(ledger))


def _stopped(error: BaseException, start: str) -> BaseException:
    """What ends the command when the backend is out, or a budget is used up; both are gone on from."""
    if start == "again":
        say("go on without --again, which would drop what is labelled now")
    return BudgetStop("backend out", str(error)) if isinstance(error, BackendError) else error


def _memories(memory: Path | None, bench: tuple[Any, Any, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    """The memories to label: one that is there, or one for each history of a benchmark."""
    name, data, turns = bench
    if not name:
        yield str(memory or MEMORY), open_disk(memory)
        return
    from stitchjam.data.benchmarks import open_benchmark
    from stitchjam.data.memories import memory_of_history

    for loaded in open_benchmark(name, data):
        yield loaded.history.id, memory_of_history(folder, loaded.history.first(turns))


def _line(name: str, done: Any) -> str:
    waits = f"; {done.waiting} wait until there are 50, or until it is said that no more come" if done.waiting else ""
    failed = f"; {len(done.failed)} failed" if done.failed else ""
    given_up = f"; {done.given_up} failed three times" if done.given_up else ""
    return f"{name}: {done.done} turns labelled{failed}{given_up}{waits}"
