"""Commands of STITCH: label the turns of a memory, or of the histories of a benchmark."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.deriving import Bench, BenchData, Limits, Memories, Only, deriving, memories_of, start_of
from stitchjam.cli.shared import (
    CONFIG,
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
from stitchjam.data.errors import ModelError, UsageError

__all__ = ["Coreference", "Labeler", "Turns", "labelling", "open_stitcher"]

Labeler = Annotated[str, typer.Option("--program", help="stitch (one call a turn), stitch_stepwise, or an artifact.")]
Turns = Annotated[int | None, typer.Option(min=1, help="Only the first so many of each history.")]
Coreference = Annotated[bool, typer.Option(help="Note what references mean.")]


@app.command()
def label(
    memory: MemoryPath = None,
    bench: Bench = None,
    data: BenchData = None,
    only: Only = None,
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
    gold: Annotated[
        bool, typer.Option("--gold", help="Of --bench worlds, came, ...: take gold labels, without a model.")
    ] = False,
    model: Model = None,
    config: Config = CONFIG,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Give every turn its contextual intent and a note. After a stop, the same command goes on."""
    if gold:
        return _gold(bench, data, memories, only or (), as_json)
    start, chosen = start_of(again, retry_failed), memories_of(memory, (bench, data, turns), memories, only)
    stitcher, done = open_stitcher(program, coreference), {}
    with labelling(config, model, (calls, minutes, dollars), start) as run:
        for name, disk in chosen:
            done[name] = run(disk, stitcher, name, limit, not more)
    result(as_json, {name: vars(one) for name, one in done.items()}, *(_line(*one) for one in done.items()))
    if given_up := sum(one.given_up for one in done.values()):
        raise ModelError(
            f"{given_up} turns failed three times and have no note; mend that, then: stitchjam label --retry-failed"
        )
    if failed := sum(len(one.failed) for one in done.values()):
        raise ModelError(f"{failed} turns have no note; the same command tries them again, each three times in all")


def _gold(bench: str | None, data: Path | None, memories: Path, only: Sequence[str], as_json: bool) -> None:
    """Note the gold labels of a labelled set in memories of its histories."""
    from stitchjam.data.labelled import read_labelled
    from stitchjam.data.labelled.gold import label_by_gold
    from stitchjam.data.memories import memory_of_history

    if not bench:
        raise UsageError("--gold takes the labels of a labelled set; name it with --bench, such as worlds")
    done = {}
    for one in read_labelled(bench, data):
        if only and one.name not in only:
            continue
        done[one.name] = label_by_gold(memory_of_history(memories, one.history), one)
    result(as_json, done, *(f"{name}: {count} turns have their gold labels" for name, count in done.items()))


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
def labelling(config: Path, model: str | None, limits: Limits, start: Any = "on") -> Iterator[Callable[..., Any]]:
    """A function that labels a memory: (disk, stitcher, name, limit, finish) to what was done. Shows progress."""
    from stitchjam.programs.stitch.ingest import label_memory

    with deriving(config, model, limits, start, "turns that are labelled") as tick:

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


def _line(name: str, done: Any) -> str:
    waits = f"; {done.waiting} wait until there are 50, or until it is said that no more come" if done.waiting else ""
    failed = f"; {len(done.failed)} failed" if done.failed else ""
    given_up = f"; {done.given_up} failed three times" if done.given_up else ""
    return f"{name}: {done.done} turns labelled{failed}{given_up}{waits}"
