"""Commands on a memory: ingest, search, verify, forget, stats."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.shared import MEMORY, Json, MemoryPath, app, result, say
from stitchjam.data.errors import DataError, StitchjamError, UsageError

__all__: list[str] = []

FORMAT_NAMES = ("chat", "stitch", "sessions", "locomo", "tau-bench", "swe-agent", "transcript", "document")


def _many(help: str) -> Any:
    return typer.Option(show_default=False, help=f"{help} May be given more than once.")


Sources = Annotated[list[str] | None, _many("Id or name of a source, as `stats` shows it.")]
Sessions = Annotated[list[str] | None, _many("Id of a session, as `show` lists it.")]
Speakers = Annotated[list[str] | None, _many("Who speaks; upper and lower case alike.")]
Folders = Annotated[list[str] | None, _many("Folder that sessions were filed in, with all below it.")]
Labels = Annotated[list[str] | None, _many("Intent label of turns.")]


def open_disk(memory: Path | None, encoder: str | None = None, create: bool = False) -> Any:
    """The memory that a command works on."""
    from stitchjam.data.disk.store import DiskStore

    return DiskStore(memory or MEMORY, encoder, create)


@app.command()
def ingest(
    files: Annotated[list[Path], typer.Argument(help="Files, or folders with files, of a known format.")],
    memory: MemoryPath = None,
    format: Annotated[str | None, typer.Option(help=f"Instead of finding out: {', '.join(FORMAT_NAMES)}.")] = None,
    encoder: Annotated[str | None, typer.Option(help="static, bge-m3, flag:MODEL or none. [default: static]")] = None,
    as_json: Json = False,
) -> None:
    """Add files to a memory. What is there already adds nothing; after a stop, the same command goes on."""
    from stitchjam.data.console import resumable
    from stitchjam.data.readers import FORMATS
    from stitchjam.optimizers.progress import counts_shown

    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; choose one of: {', '.join(FORMATS)}")
    disk, done, failed = open_disk(memory, encoder, create=True), [], {}
    with (
        resumable("what was ingested is kept"),
        counts_shown(sys.stderr) as tick,
    ):
        for file in _files(files):
            try:
                added = disk.add_file(file, format, tick)
            except StitchjamError as error:
                failed[str(file)] = str(error)
                continue
            done.append({"file": str(file), **asdict(added)})
    result(as_json, {"added": done, "failed": failed}, *(_added_line(row) for row in done))
    for row in done:
        if row["pending"]:
            say(f"{row['file']} is stored, but not indexed yet: {row['pending']}")
    for message in failed.values():
        say(f"not ingested: {message}")
    if failed:
        others = "; the others were" if done else ""
        raise DataError(f"{len(failed)} of {len(failed) + len(done)} files were not ingested{others}")


def _files(paths: Iterable[Path]) -> list[Path]:
    """Files in order, each once; of a folder all below it but the hidden ones."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        visible = [x for x in inside if not any(part.startswith(".") for part in x.relative_to(path).parts)]
        found |= dict.fromkeys(x for x in visible if not x.is_dir())
    if not found:
        raise UsageError("there are no files in what was named; name files, or folders that hold some")
    return list(found)


def _added_line(row: dict[str, Any]) -> str:
    new = f"{row['turns']} new turns, {row['sessions']} new sessions" if row["turns"] else "nothing new"
    return f"{row['file']}: {new} (source {', '.join(row['sources'])})"


@app.command()
def search(
    query: str,
    memory: MemoryPath = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Hits at most.")] = 10,
    sessions: Annotated[bool, typer.Option("--sessions", help="Find sessions instead of turns.")] = False,
    neighbours: Annotated[int, typer.Option(min=0, help="Turns to add before and after each hit.")] = 0,
    source: Sources = None,
    session: Sessions = None,
    speaker: Speakers = None,
    folder: Folders = None,
    label: Labels = None,
    after: Annotated[str, typer.Option(help="From this ISO 8601 date or time on; needs event times.")] = "",
    before: Annotated[str, typer.Option(help="Before this date or time; needs event times.")] = "",
    as_json: Json = False,
) -> None:
    """Find turns or sessions by words and meaning, without a model."""
    from stitchjam.data.records import Filter
    from stitchjam.optimizers.show import hit_lines, session_lines

    lists = {"sources": source, "sessions": session, "speakers": speaker, "folders": folder, "labels": label}
    where = Filter.of(**{name: value or None for name, value in lists.items()}, after=after, before=before)
    store = open_disk(memory).store
    if sessions:
        found = store.search_sessions(query, k, where=where)
        value = [{"session": hit.session.id, "time": hit.session.time, "score": hit.score} for hit in found]
        return result(as_json, value, *session_lines(found))
    hits = store.search(query, k, where, neighbours)
    result(as_json, [hit.turn.model_dump() | {"score": hit.score} for hit in hits], *hit_lines(hits))


@app.command()
def verify(
    memory: MemoryPath = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the index anew first.")] = False,
    as_json: Json = False,
) -> None:
    """Read back every byte that was ingested and compare it; exit code 3 when something is wrong."""
    from stitchjam.optimizers.progress import counts_shown

    disk = open_disk(memory)
    with counts_shown(sys.stderr) as tick:
        found = disk.verify(rebuild, tick)
    fine = f"fine: {found.turns} turns in {found.sessions} sessions, {found.bytes:,} bytes of files read back"
    problems = (*found.log_problems, *(f"index: {problem}" for problem in found.index_problems))
    result(as_json, asdict(found), *(problems or (fine,)))
    if found.log_problems:
        raise DataError(
            f"{len(found.log_problems)} problems; restore the memory from a backup, or ingest its files anew"
        )
    if found.index_problems:
        raise DataError("the log is whole, its index is not; make it anew with: stitchjam verify --rebuild")


@app.command()
def forget(
    source: Annotated[str, typer.Argument(help="Id or name of a source; `stitchjam stats` lists them.")],
    memory: MemoryPath = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a source for good: its turns, its bytes, all that was derived from them, and kept replies of models."""
    from stitchjam.data.console import resumable

    disk = open_disk(memory)
    if not yes and not sys.stdin.isatty():
        raise UsageError("what is forgotten cannot be brought back; say that you mean it with --yes")
    if not yes:
        typer.confirm(f"forget {source!r} and all that was derived from it?", abort=True, err=True)
    with resumable("it is forgotten wholly or not at all"):
        done = disk.forget(source)
    result(
        as_json, asdict(done), f"forgot {done.turns} turns and {done.sessions} sessions of {', '.join(done.sources)}"
    )
    if not done.erased:
        say("another process still reads the memory; the last bytes go when it is next opened after that")


@app.command()
def stats(memory: MemoryPath = None, as_json: Json = False) -> None:
    """What a memory holds, what still waits, what failed and what was forgotten."""
    from stitchjam.optimizers.show import stats_tables

    value = open_disk(memory).stats()
    result(as_json, value, *stats_tables(value))
