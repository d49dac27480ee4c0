"""Commands that ask: init, ask."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

import typer

from stitchjam.cli.shared import (
    AT_ONCE,
    CONFIG,
    MEMORY,
    Config,
    EffortName,
    HistoryFile,
    Json,
    MemoryPath,
    Model,
    ProgramName,
    app,
    result,
    say,
)
from stitchjam.data.errors import UsageError

__all__ = ["watching"]


@app.command()
def init(force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False) -> None:
    """Write stitchjam.toml: which model answers which step."""
    from stitchjam.backends.bindings import EXAMPLE

    if CONFIG.exists() and not force:
        raise UsageError(f"{CONFIG} exists; edit it, or replace it with: stitchjam init --force")
    CONFIG.write_text(EXAMPLE, encoding="utf-8")
    say(f"wrote {CONFIG}. Next: stitchjam models pull smollm2-135m, or name your own model in it")


@contextmanager
def watching(watch: bool) -> Iterator[None]:
    """Show rounds of research as they end."""
    import dspy

    from stitchjam.optimizers.show_research import round_lines

    with dspy.context(watch=(lambda number, one: say(*round_lines(number, one))) if watch else None):
        yield


@app.command()
def ask(
    question: str,
    memory: MemoryPath = None,
    history: HistoryFile = None,
    program: ProgramName = "memory_agent",
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    trace: Annotated[bool, typer.Option("--trace", help="Show how the research or the recall went.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show each round of the research as it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question from a memory or a file, citing turns; from the sample when there is neither."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.backends.usage import metered
    from stitchjam.data.console import working
    from stitchjam.data.sample import load_data
    from stitchjam.optimizers.report import answer_lines, usage_line, usage_rows
    from stitchjam.optimizers.show_research import research_json, research_lines
    from stitchjam.optimizers.show_trace import recall_json, recall_lines
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.step import settings_for
    from stitchjam.programs.systems import asker

    if memory is None and history is None and MEMORY.exists():
        memory = MEMORY
    store, (_, chosen) = load_data(history, memory=memory).store, open_program(program, effort)
    # Without this, dspy's own disk cache would keep text of the memory where no one looks for it.
    bindings = open_bindings(config, model, say)
    # What turns while one waits would be drawn over the lines of rounds.
    waiting = nullcontext() if watch else working(sys.stderr, "asking")
    with replies(None), settings_for(bindings, AT_ONCE), metered() as ledger, waiting, watching(watch):
        found = asker(chosen)(question=question, store=store)
    value = {"answer": found.answer.model_dump(), "context": found.context.model_dump(), "usage": usage_rows(ledger)}
    lines: list[object] = [*answer_lines(found.answer, store, found.context)]
    if trace and "recall" not in found:
        lines += research_lines(research_json(found.context, store, found.answer))
    if trace and "recall" in found:
        value["recall"] = recall_json(found.recall, found.context)
        lines += recall_lines(value["recall"])
    result(as_json, value, *lines)
    say(usage_line(ledger))
