"""Commands that measure parts: eval steps (labels against gold), eval recall, eval oracle, eval research (bounds)."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stitchjam.cli.asked import say_labelled
from stitchjam.cli.deriving import BenchData, Memories, Only
from stitchjam.cli.eval import eval_app
from stitchjam.cli.label import Coreference, Labeler, Turns, labelling, open_stitcher
from stitchjam.cli.shared import CONFIG, Calls, Config, Dollars, Json, Minutes, Model, result, say
from stitchjam.data.errors import BudgetStop, UsageError

__all__: list[str] = []

_MOST = 200
KINDS = "worlds, came, sgd, realmem, qmsum, tiage, or rows (your own)"
STEPS = {
    "detect_scope": "scope",
    "type_event": "events",
    "type_entities": "entities",
    "write_note": "note",
}
Gold = Annotated[str, typer.Option("--gold", help=f"Kind of labelled set: {KINDS}.")]
GoldData = Annotated[Path | None, typer.Option("--data", help="Its file or folder. [default: the sample of worlds]")]
Step = Annotated[list[str] | None, typer.Option(help=f"Only figures of these steps; repeatable: {', '.join(STEPS)}.")]
Kind = Annotated[list[str] | None, typer.Option("--kind", help="Only questions of this type; repeatable.")]
K = Annotated[int, typer.Option("-k", min=1, help="Turns that are recalled, at most.")]
Tokens = Annotated[int, typer.Option(min=1, help="Budget of the context.")]


@eval_app.command("steps")
def eval_steps(
    gold: Gold = "worlds",
    data: GoldData = None,
    program: Labeler = "stitch",
    step: Step = None,
    turns: Turns = None,
    histories: Annotated[int | None, typer.Option(min=1, help="Only so many, from the first on.")] = None,
    coreference: Coreference = True,
    memories: Memories = Path(".stitchjam/steps"),
    model: Model = None,
    config: Config = CONFIG,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Label turns that have gold labels, and say how the labels and notes agree with them. The same command goes on."""
    from stitchjam.data.labelled import read_labelled
    from stitchjam.data.memories import memory_of_history
    from stitchjam.optimizers.steps import score_steps, step_tables
    from stitchjam.optimizers.steps.predicted import first_turns, predicted

    if unknown := set(step or ()) - set(STEPS):
        raise UsageError(f"no figures for step {sorted(unknown)[0]!r}; there are: {', '.join(STEPS)}")
    stitcher = open_stitcher(program, coreference)
    chosen = [first_turns(one, turns) for one in islice(read_labelled(gold, data), histories)]
    said, stop = {}, None
    with labelling(config, model, (calls, minutes, dollars)) as label:
        for one in chosen:
            disk = memory_of_history(memories / gold, one.history)
            try:
                label(disk, stitcher, one.name)
            except BudgetStop as reached:
                stop = reached
                break
            said[one.name] = predicted(disk.notes.notebook(stitcher.fingerprint))
    if said:
        report = score_steps([one for one in chosen if one.name in said], said)
        names = tuple(STEPS[name] for name in step or STEPS)
        result(as_json, report.only(names).model_dump(), *step_tables(report.only(names)))
    if stop:
        raise stop


@eval_app.command("oracle")
def eval_oracle(
    gold: Gold = "worlds",
    data: GoldData = None,
    kind: Kind = None,
    k: K = 40,
    tokens: Tokens = 4096,
    seeds: Annotated[int, typer.Option(min=1, help="Ways to choose wrong labels; figures are their means.")] = 3,
    as_json: Json = False,
) -> None:
    """What recall by intent finds with gold labels, and with a share of them wrong, against similarity; no model."""
    from stitchjam.data.labelled import read_labelled
    from stitchjam.optimizers.oracle import Plan, measure_oracle, oracle_tables
    from stitchjam.optimizers.progress import counts_shown

    plan = Plan(tuple(kind or ()), k, tokens, seeds=seeds)
    with counts_shown(sys.stderr, lines=True) as tick:
        report = measure_oracle(read_labelled(gold, data), plan, tick)
    result(as_json, report.model_dump(), *oracle_tables(report))


@eval_app.command("recall")
def eval_recall(
    bench: Annotated[str, typer.Option(help="Benchmark whose memories `label` made.")] = "worlds",
    data: Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")] = None,
    memories: Memories = Path(".stitchjam/memories"),
    turns: Turns = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many questions.")] = None,
    reader: Annotated[str, typer.Option(help="intent_recall, or an artifact of it.")] = "intent_recall",
    k: K = 40,
    tokens: Tokens = 4096,
    model: Model = None,
    config: Config = CONFIG,
    runs: Annotated[Path, typer.Option(help="Replies are kept here, so that a stopped run goes on.")] = Path(
        ".stitchjam/runs"
    ),
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    as_json: Json = False,
) -> None:
    """Evidence that BM25, hybrid search, STITCH and its ablations recall; one call a question, no answers."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.backends.usage import Budget, metered
    from stitchjam.data.cases import labelled_cases
    from stitchjam.data.console import resumable
    from stitchjam.data.intents.matching import Limits
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.recalls import measure_recall, recall_tables
    from stitchjam.optimizers.report import usage_line
    from stitchjam.programs.step import settings_for

    recall, cases = _reader(reader), labelled_cases(bench, data, memories, turns, limit)
    for case in cases:
        say_labelled(case)
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars)
    total = sum(bool(question.evidence) for case in cases for question in case.questions)
    with (
        resumable(),
        replies(runs / "recall" / "replies.jsonl"),
        settings_for(open_bindings(config, model, say)),
        metered(budget=budget) as ledger,
        progress_shown(sys.stderr, {"recall": total}) as tick,
    ):
        report = measure_recall(cases, recall, Limits(k, tokens), lambda one: tick("recall", one, None))
    result(as_json, report.model_dump(), *recall_tables(report))
    say(usage_line(ledger))


@eval_app.command("research")
def eval_research(
    bench: Annotated[str, typer.Option(help="Benchmark whose questions are researched.")] = "worlds",
    data: BenchData = None,
    memories: Annotated[
        Path | None, typer.Option(help="Memories that `memorize` or `label` made; else there is no tree.")
    ] = None,
    planner: Annotated[
        Literal["ideal", "words", "garbage"],
        typer.Option(help="ideal: words of gold turns without the answer. words: of the question. garbage: nonsense."),
    ] = "ideal",
    rounds: Annotated[str, typer.Option(help="Budgets of rounds, in one run.")] = "1,2,5,10,20",
    k: Annotated[str, typer.Option("-k", help="Sessions that a search finds.")] = "1,3,5",
    actions: Annotated[int, typer.Option(min=1, help="Actions of a round.")] = 5,
    split: Annotated[str, typer.Option(help="train, held_out or all.")] = "all",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many questions.")] = None,
    seed: Annotated[int, typer.Option(help="Of the choice that --limit makes.")] = 0,
    only: Only = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the curves of recall against budget.")] = None,
    as_json: Json = False,
) -> None:
    """Which share of gold sessions research reads within a budget, when code plans instead of a model."""
    from stitchjam.data.cases import bench_cases
    from stitchjam.optimizers.bounds import bound_tables, measure_bounds
    from stitchjam.optimizers.pages.curves import write_curves
    from stitchjam.optimizers.progress import counts_shown

    budgets, found = _numbers("--rounds", rounds), _numbers("-k", k)
    cases = bench_cases(bench, data, split, limit, seed, memories=memories, only=only or ())
    with counts_shown(sys.stderr) as tick:
        report = measure_bounds(cases.open(), planner, budgets, found, actions, tick)
    if html is not None:
        write_curves(html, report)
        say(f"wrote {html}")
    result(as_json, report.model_dump(), *bound_tables(report))


def _numbers(option: str, text: str) -> list[int]:
    """Numbers from 1 on, ascending, from a text such as "1,3,5"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= _MOST for part in parts):
        raise UsageError(f"{option} takes whole numbers from 1 to {_MOST}, such as 1,3,5, not {text!r}")
    return sorted(set(map(int, parts)))


def _reader(name: str) -> Any:
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.stitch.recall import IntentRecall

    _, program = open_program(name)
    if not isinstance(program, IntentRecall):
        raise UsageError(f"{name!r} reads no intents; give intent_recall, or an artifact of it")
    return program.reader
