"""The command that cuts long texts into sessions before they are ingested."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.shared import CONFIG, Config, Json, Model, app, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []


@app.command()
def segment(
    file: Annotated[Path, typer.Argument(help="A file of a known format, such as a long text.")],
    out: Annotated[Path, typer.Option(help="Where the sessions go: a .jsonl file that `ingest` reads.")],
    tokens: Annotated[int, typer.Option(min=50, help="Tokens of a session, at most.")] = 1500,
    by_model: Annotated[
        bool, typer.Option("--by-model", help="Let a model say where something new begins; else length decides.")
    ] = False,
    format: Annotated[str | None, typer.Option(help="Instead of finding out.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    model: Model = None,
    config: Config = CONFIG,
    as_json: Json = False,
) -> None:
    """Cut long sessions where something new begins. Turns keep their words, and say where they stood in the file."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.backends.usage import metered
    from stitchjam.data.console import working
    from stitchjam.data.readers import read_history
    from stitchjam.data.readers.sessions import write_sessions
    from stitchjam.data.readers.source import Source
    from stitchjam.data.segments import placed
    from stitchjam.optimizers.report import usage_line
    from stitchjam.programs.jam.segmenter import Segmenter
    from stitchjam.programs.step import settings_for

    if out.exists() and not force:
        raise UsageError(f"{out} is there; name another file, or replace it with --force")
    source = Source.of(file)  # read once: it may be a pipe
    history, program = read_history(source, format), Segmenter(tokens, by_model)
    bindings: Any = open_bindings(config, model, say) if by_model else None
    # Without this, dspy's own disk cache would keep text of the file where no one looks for it.
    with replies(None), settings_for(bindings), metered() as ledger, working(sys.stderr, "segmenting"):
        found = program(history=history)
    history, known = placed(found.history, source.content.decode("utf-8", "replace"))
    write_sessions(out, history)
    for failure in found.failures:
        say(f"the model's answer could not be used, so length decided: {failure}")
    if known < len(history.turns):
        say(f"{len(history.turns) - known} turns do not stand in the file word for word, and have no place")
    value = {"out": str(out), "sessions": len(history.sessions), "turns": len(history.turns), "placed": known}
    result(as_json, value, f"wrote {value['sessions']} sessions with {value['turns']} turns to {out}")
    if by_model:
        say(usage_line(ledger))
