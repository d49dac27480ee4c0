"""The command that shows a memory: its sessions, its labels, its turns over time, and why turns were recalled."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.memory import open_disk
from stitchjam.cli.shared import CONFIG, Config, Json, MemoryPath, Model, app, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

Name = Annotated[
    str | None,
    typer.Argument(help="Session, or turn in it; with --labels a label. [default: list all]", show_default=False),
]
Labels = Annotated[bool, typer.Option("--labels", help="Labels by kind and how they were merged, or turns of one.")]
Timeline = Annotated[bool, typer.Option("--timeline", help="A line a turn: its topic, act, target and summary.")]
Html = Annotated[
    Path | None, typer.Option("--html", help="Of --timeline: write a page that opens without network to this file.")
]
Trace = Annotated[str | None, typer.Option("--trace", help="A question: why turns are recalled for it or not.")]
TurnName = Annotated[str | None, typer.Option("--turn", help="Of --trace: why this turn is recalled or not.")]
Ablate = Annotated[
    str | None, typer.Option("--ablate", help="Of --trace: no-scope, no-event, no-entity or similarity-only.")
]
Recaller = Annotated[
    str | None, typer.Option("--program", help="Of --trace: stitch_agent, intent_recall, or an artifact of these.")
]


@app.command()
def show(
    name: Name = None,
    memory: MemoryPath = None,
    labels: Labels = False,
    timeline: Timeline = False,
    html: Html = None,
    trace: Trace = None,
    turn: TurnName = None,
    ablate: Ablate = None,
    program: Recaller = None,
    model: Model = None,
    config: Config = CONFIG,
    as_json: Json = False,
) -> None:
    """List the sessions of a memory, or read one; look at its labels, its timeline, or at what a question recalls."""
    if labels + timeline + (trace is not None) > 1:
        raise UsageError("choose one of --labels, --timeline and --trace")
    if html and not timeline:
        raise UsageError("--html is a form of --timeline; give both")
    if trace is None and (turn or ablate or program):
        raise UsageError("--turn, --ablate and --program say how to trace a question; give it with --trace")
    store = open_disk(memory).store
    if labels:
        return _labels(store, name, as_json)
    if timeline:
        return _timeline(store, name, html, as_json)
    if trace is not None:
        if name is not None:
            raise UsageError(f"--trace takes the question alone; to ask about a turn: --turn {name}")
        return _trace(store, trace, (turn, ablate or "", program or "stitch_agent"), (model, config), as_json)
    _sessions(store, name, as_json)


def _sessions(store: Any, name: str | None, as_json: bool) -> None:
    from stitchjam.optimizers.show import overview_rows, overview_table, turn_lines

    if name is None:
        rows = overview_rows(store)
        return result(as_json, rows, overview_table(rows))
    session = store.session(_session_of(name, store))
    result(as_json, session.model_dump(), f"{session.id}  {session.time}", *turn_lines(session.turns))


def _session_of(name: str, store: Any) -> str:
    """The session of that id, or of the turn with that id of ours or of its source."""
    if name in store.session_times:
        return name
    found = {turn.session_id for turn in store.turns if name in (turn.id, turn.external_id)}
    if len(found) > 1:
        raise UsageError(f"{name!r} is in several sessions: {', '.join(sorted(found))}; name one of these")
    if not found:
        raise UsageError(f"there is no session and no turn {name!r}; `stitchjam show` lists the sessions")
    return found.pop()


def _labels(store: Any, name: str | None, as_json: bool) -> None:
    from stitchjam.optimizers.show_notes import label_json, label_tables, label_turns, label_turns_lines

    if name is None:
        value = label_json(store)
        return result(as_json, value, *label_tables(value))
    value = label_turns(store, name)
    result(as_json, value, *label_turns_lines(value))


def _timeline(store: Any, name: str | None, html: Path | None, as_json: bool) -> None:
    from stitchjam.optimizers.noted import noted_json, told
    from stitchjam.optimizers.pages.timeline import write_timeline
    from stitchjam.optimizers.show_notes import timeline_lines

    shown = told(store, "" if name is None else _session_of(name, store))
    if html is None:
        return result(as_json, [noted_json(row) for row in shown.rows], *timeline_lines(shown))
    write_timeline(html, shown)
    value = {"html": str(html), "turns": len(shown.rows), "topics": len(shown.topics)}
    result(as_json, value, f"wrote {html}: {len(shown.rows):,} turns on {len(shown.topics):,} topics")


def _trace(
    store: Any,
    question: str,
    how: tuple[str | None, str, str],
    models: tuple[str | None, Path],
    as_json: bool,
) -> None:
    from stitchjam.backends.usage import metered
    from stitchjam.data.console import working
    from stitchjam.optimizers.noted import find_turn
    from stitchjam.optimizers.report import usage_line, usage_rows
    from stitchjam.optimizers.show_trace import recall_json, recall_lines, recall_of, standing_json, standing_lines
    from stitchjam.programs.artifact import open_program

    name, ablate, program = how
    recall = recall_of(open_program(program)[1], ablate)
    turn = None if name is None else find_turn(name, store.turns)
    with metered() as ledger, working(sys.stderr, "reading the intent"):
        found = _recalled(recall, question, store, models)
    value = recall_json(found.recall, found.context) | {"usage": usage_rows(ledger)}
    lines = recall_lines(value)
    if turn:
        value["turn"] = standing_json(turn, found.recall, recall, store, found.context)
        lines += standing_lines(value["turn"])
    result(as_json, value, *lines)
    if not store.notebook.size:
        say("nothing is labelled yet, so similarity alone decides; label it: stitchjam label")
    say(usage_line(ledger))


def _recalled(recall: Any, question: str, store: Any, models: tuple[str | None, Path]) -> Any:
    """What it recalls; a model is asked only where there are labels to ask it about."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.programs.step import settings_for

    if not recall.rank and (not store.notebook.size or recall.ablate == "similarity-only"):
        return recall(question=question, store=store)
    # Without `replies`, dspy's own disk cache would keep text of the memory where no one looks for it.
    with replies(None), settings_for(open_bindings(models[1], models[0], say)):
        return recall(question=question, store=store)
