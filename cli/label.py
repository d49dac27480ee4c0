"""Commands of STITCH: label the turns of a memory, or of the histories of a benchmark."""

import sys
from collections.abc import Iterator
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
from stitchjam.data.errors import ModelOutputError, UsageError

__all__: list[str] = []

_PATIENCE = 3  # requests that fail in a row before the endpoint counts as out
Memories = Annotated[
    Path, typer.Option(help="Of --bench: folder with a memory for each history; `eval --memories` reads it.")
]
Labeler = Annotated[str, typer.Option("--program", help="stitch (one call a turn), stitch_stepwise, or an artifact.")]


@app.command()
def label(
    memory: MemoryPath = None,
    bench: Annotated[str | None, typer.Option(help="Instead of a memory: the histories of a benchmark.")] = None,
    data: Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")] = None,
    memories: Memories = Path(".stitchjam/memories"),
    program: Labeler = "stitch",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many turns of each history.")] = None,
    more: Annotated[
        bool, typer.Option("--more", help="More turns may come: below 50, wait, for the vocabulary is made of them.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Drop the notes of this program, and label anew.")] = False,
    coreference: Annotated[bool, typer.Option(help="Note what references mean.")] = True,
    model: Model = None,
    config: Config = CONFIG,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Give every turn its contextual intent and note. After a stop, the same command goes on."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.usage import Budget, metered
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.report import usage_line, usage_rows
    from stitchjam.programs.step import settings_for
    from stitchjam.programs.stitch.ingest import label_memory

    if bench and memory:
        raise UsageError("--bench makes memories of its own below --memories; leave out --memory")
    stitcher = _stitcher(program, coreference)
    bindings, done = open_bindings(config, model, say), {}
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars, patience=_PATIENCE)
    with (
        resumable("turns that are labelled are kept"),
        settings_for(bindings),
        metered(budget=budget) as ledger,
        counts_shown(sys.stderr) as tick,
    ):
        for name, disk in _memories(memory, bench, data, memories):
            if again:
                disk.notes.drop(stitcher.fingerprint)
            done[name] = label_memory(disk, stitcher, limit, not more, tick)
            say(*_lines(name, done[name]))
    value = {name: vars(one) for name, one in done.items()}
    result(as_json, {"labelled": value, "usage": usage_rows(ledger)})
    say(usage_line(ledger))
    if failed := sum(len(one.failed) for one in done.values()):
        raise ModelOutputError("label_turn", f"{failed} turns have no note; the same command tries them again", "")


def _stitcher(program: str, coreference: bool) -> Any:
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.stitch.stitcher import LABELERS, Stitcher

    _, loaded = open_program(program)
    if not isinstance(loaded, Stitcher):
        raise UsageError(f"{program!r} does not label turns; choose {', '.join(LABELERS)}, or an artifact of these")
    loaded.coreference = coreference
    return loaded


def _memories(memory: Path | None, bench: str | None, data: Path | None, folder: Path) -> Iterator[tuple[str, Any]]:
    """The memories to label: one that is there, or one for each history of a benchmark."""
    if not bench:
        yield str(memory or MEMORY), open_disk(memory)
        return
    from stitchjam.data.benchmarks import open_benchmark
    from stitchjam.data.memories import memory_of_history

    for loaded in open_benchmark(bench, data):
        yield loaded.history.id, memory_of_history(folder, loaded.history)


def _lines(name: str, done: Any) -> list[str]:
    waits = f"; {done.waiting} wait until there are 50" if done.waiting else ""
    return [
        f"{name}: {done.done} turns labelled{waits}",
        *(f"  no note of {turn}: {reason}" for turn, reason in list(done.failed.items())[:5]),
    ]
