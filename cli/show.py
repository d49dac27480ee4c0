"""The command that shows a memory: its sessions, its labels, its turns over time, and why turns were recalled."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stitchjam.cli.memory import open_disk
from stitchjam.cli.shared import AT_ONCE, CONFIG, Config, Json, MemoryPath, Model, app, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

Name = Annotated[
    str | None,
    typer.Argument(
        help="Session, turn, or span of a turn (TURN:START-END); with --labels a label, with --tree a path. "
        "[default: list all]",
        show_default=False,
    ),
]
Labels = Annotated[bool, typer.Option("--labels", help="Labels by kind and how they were merged, or turns of one.")]
Tree = Annotated[bool, typer.Option("--tree", help="The folders that sessions are filed in, or what lies at a path.")]
Timeline = Annotated[bool, typer.Option("--timeline", help="A line a turn: its topic, act, target and summary.")]
Html = Annotated[
    Path | None,
    typer.Option("--html", help="Of --timeline, or --trace of research: write a page that opens without network."),
]
Trace = Annotated[str | None, typer.Option("--trace", help="A question: why turns are recalled for it or not.")]
TurnName = Annotated[str | None, typer.Option("--turn", help="Of --trace: why this turn is recalled or not.")]
Ablate = Annotated[
    str | None, typer.Option("--ablate", help="Of --trace: no-scope, no-event, no-entity or similarity-only.")
]
Recaller = Annotated[
    str | None,
    typer.Option("--program", help="Of --trace: stitch_agent, intent_recall, researcher, memory_agent, or artifact."),
]
Effort = Annotated[
    Literal["low", "medium", "high"], typer.Option("--effort", help="Of --trace: how hard a fresh researcher tries.")
]


@app.command()
def show(
    name: Name = None,
    memory: MemoryPath = None,
    labels: Labels = False,
    tree: Tree = False,
    timeline: Timeline = False,
    html: Html = None,
    trace: Trace = None,
    turn: TurnName = None,
    ablate: Ablate = None,
    program: Recaller = None,
    effort: Effort = "low",
    model: Model = None,
    config: Config = CONFIG,
    as_json: Json = False,
) -> None:
    """List the sessions of a memory, or read one; look at its tree, labels or timeline, or at what a question finds."""
    mode = _mode({"labels": labels, "tree": tree, "timeline": timeline, "trace": trace is not None}, html)
    if trace is None and (turn or ablate or program):
        raise UsageError("--turn, --ablate and --program say how to trace a question; give it with --trace")
    store = open_disk(memory).store
    if trace is not None:
        if name is not None:
            raise UsageError(f"--trace takes the question alone; to ask about a turn: --turn {name}")
        how = (turn, ablate or "", _program(program or "stitch_agent", effort))
        return _traced(store, trace, how, html, (model, config), as_json)
    if mode == "timeline":
        return _timeline(store, name, html, as_json)
    {"labels": _labels, "tree": _tree}.get(mode, _sessions)(store, name, as_json)


def _mode(modes: dict[str, bool], html: Path | None) -> str:
    """What is shown, "" for sessions."""
    chosen = [name for name, is_chosen in modes.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError(f"choose one of {', '.join(f'--{name}' for name in modes)}")
    if html and chosen not in (["timeline"], ["trace"]):
        raise UsageError("--html is a form of --timeline and of --trace; give one of them")
    return next(iter(chosen), "")


def _sessions(store: Any, name: str | None, as_json: bool) -> None:
    from stitchjam.optimizers.show import overview_rows, overview_table, turn_lines
    from stitchjam.optimizers.show_research import opened_span

    if name is None:
        rows = overview_rows(store)
        return result(as_json, rows, overview_table(rows))
    if span := opened_span(name, store):
        return _span(store, span, as_json)
    session = store.session(_session_of(name, store))
    result(as_json, session.model_dump(), f"{session.id}  {session.time}", *turn_lines(session.turns))


def _span(store: Any, span: tuple[str, str, str, str], as_json: bool) -> None:
    """A quote in its turn, with the turns beside it."""
    from stitchjam.optimizers.show import turn_lines

    turn_id, before, quote, behind = span
    turn = store.turn(turn_id)
    near = store.around(turn, 2)
    at = [one.id for one in near].index(turn_id)
    value = {"turn": turn.model_dump(), "before": before, "quote": quote, "behind": behind}
    marked = f"[{turn.external_id or turn.id}] {turn.speaker}: {before}>>>{quote}<<<{behind}"
    lines = [*turn_lines(near[:at]), marked, *turn_lines(near[at + 1 :])]
    result(as_json, value, f"{turn.session_id}  {turn.time}", *lines)


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


def _tree(store: Any, name: str | None, as_json: bool) -> None:
    from stitchjam.optimizers.show_tree import tree_json, tree_lines, unfiled

    value = tree_json(store, name or "")
    result(as_json, value, *tree_lines(value))
    if left := unfiled(store):
        say(f"{left} sessions are not filed yet: stitchjam memorize")


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


def _program(name: str, effort: Any) -> Any:
    """What traces a question; what only finds gets an answerer."""
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.jam.researcher import Researcher
    from stitchjam.programs.systems import asker

    program = open_program(name, effort)[1]
    return asker(program) if isinstance(program, Researcher) else program


def _traced(
    store: Any,
    question: str,
    how: tuple[str | None, str, Any],
    html: Path | None,
    models: tuple[str | None, Path],
    as_json: bool,
) -> None:
    """How a question is researched, or recalled by intent."""
    turn, ablate, program = how
    if hasattr(program, "researcher"):
        if turn or ablate:
            raise UsageError("--turn and --ablate are of recall by intent; leave them out, or choose stitch_agent")
        return _research(store, question, program, html, models, as_json)
    if html:
        raise UsageError("--html of --trace shows research; add --program memory_agent")
    _trace(store, question, how, models, as_json)


def _research(
    store: Any, question: str, program: Any, html: Path | None, models: tuple[str | None, Path], as_json: bool
) -> None:
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.backends.usage import metered
    from stitchjam.cli.ask import watching
    from stitchjam.optimizers.pages.research import write_research
    from stitchjam.optimizers.report import usage_line, usage_rows
    from stitchjam.optimizers.show_research import research_json, research_lines
    from stitchjam.programs.step import settings_for

    bindings = open_bindings(models[1], models[0], say)
    with replies(None), settings_for(bindings, AT_ONCE), metered() as ledger, watching(True):
        found = program(question=question, store=store)
    value = research_json(found.context, store, found.answer) | {"usage": usage_rows(ledger)}
    lines = research_lines(value)
    if html is not None:
        write_research(html, found.context, store, found.answer)
        value, lines = value | {"html": str(html)}, [*lines, f"wrote {html}"]
    result(as_json, value, *lines)
    say(usage_line(ledger))


def _trace(
    store: Any,
    question: str,
    how: tuple[str | None, str, Any],
    models: tuple[str | None, Path],
    as_json: bool,
) -> None:
    from stitchjam.backends.usage import metered
    from stitchjam.data.console import working
    from stitchjam.optimizers.noted import find_turn
    from stitchjam.optimizers.report import usage_line, usage_rows
    from stitchjam.optimizers.show_trace import recall_json, recall_lines, recall_of, standing_json, standing_lines

    name, ablate, program = how
    recall = recall_of(program, ablate)
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
