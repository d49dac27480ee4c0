"""Commands of the Memorizer: memorize files sessions in a tree of folders, export writes it as real folders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.deriving import Bench, BenchData, Memories, Only, deriving, memories_of, start_of
from stitchjam.cli.memory import open_disk
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

__all__: list[str] = []


@app.command()
def memorize(
    memory: MemoryPath = None,
    bench: Bench = None,
    data: BenchData = None,
    only: Only = None,
    memories: Memories = Path(".stitchjam/memories"),
    program: Annotated[str, typer.Option(help="memorizer, or an artifact of it.")] = "memorizer",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many sessions now.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Drop memos and READMEs of this program first.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try sessions again that failed three times.")
    ] = False,
    model: Model = None,
    config: Config = CONFIG,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Write a memo of every session and file it in a tree of folders with READMEs. After a stop, the same goes on."""
    from stitchjam.programs.jam.filing import memorize as file

    start, chosen = start_of(again, retry_failed), memories_of(memory, (bench, data, None), memories, only)
    memorizer, done = _open(program), {}
    with deriving(config, model, (calls, minutes, dollars), start, "memos and READMEs that are written") as tick:
        for name, disk in chosen:

            def through(what: str, at: int, of: int, name: str = name) -> None:
                tick(f"{name[:20]} {what}", at, of)

            done[name] = file(disk, memorizer, limit, through, start)
            for item, reason in [*done[name].failed.items(), *done[name].unwritten.items()][:5]:
                say(f"{name}: {item}: {reason}")
    result(as_json, {name: vars(one) for name, one in done.items()}, *(_line(*one) for one in done.items()))
    _complain(done.values())


def _open(program: str) -> Any:
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.jam.memorizer import Memorizer

    _, loaded = open_program(program)
    if not isinstance(loaded, Memorizer):
        raise UsageError(f"{program!r} does not file sessions; choose memorizer, or an artifact of it")
    return loaded


def _line(name: str, done: Any) -> str:
    failed = f"; {len(done.failed)} failed" if done.failed else ""
    given_up = f"; {done.given_up} failed three times" if done.given_up else ""
    unwritten = f"; {len(done.unwritten)} have no README" if done.unwritten else ""
    written = f"{done.done} memos, {done.folders} folders, {done.written} READMEs written"
    return f"{name}: {written}{failed}{given_up}{unwritten}"


def _complain(done: Any) -> None:
    if given_up := sum(one.given_up for one in done):
        raise ModelError(
            f"{given_up} sessions failed three times and have no memo; mend that, then: stitchjam memorize "
            "--retry-failed"
        )
    if failed := sum(len(one.failed) + len(one.unwritten) for one in done):
        raise ModelError(f"{failed} memos or READMEs are missing; the same command tries them again")


@app.command()
def export(
    tree: Annotated[Path, typer.Option("--tree", help="New or empty folder to write the tree to.")],
    memory: MemoryPath = None,
    as_json: Json = False,
) -> None:
    """Write the tree of a memory as real folders: a README in each, and every session as it was ingested."""
    from stitchjam.data.tree.export import export_tree

    written = export_tree(open_disk(memory).store, tree)
    result(
        as_json,
        {"path": str(tree), "folders": written.folders, "sessions": written.sessions, "unfiled": written.unfiled},
        f"wrote {written.folders} folders and {written.sessions} sessions to {tree}",
        *([f"{written.unfiled} sessions are not filed yet, and lie in _unfiled/"] if written.unfiled else []),
    )
