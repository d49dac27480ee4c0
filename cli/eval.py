"""Commands that judge: eval, with compare and report."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.asked import cases_of, say_filed, say_labelled, say_tree, system_of
from stitchjam.cli.deriving import Only
from stitchjam.cli.shared import (
    CONFIG,
    METRIC_HELP,
    Calls,
    Config,
    Dollars,
    EffortName,
    HistoryFile,
    Json,
    MemoryPath,
    Minutes,
    Model,
    ProgramName,
    QuestionsFile,
    Runs,
    Threads,
    app,
    kept_folder,
    memory_of,
    result,
    say,
)
from stitchjam.data.errors import BudgetStop, UsageError

__all__ = ["eval_app"]

EVAL_HELP = "Score a program on questions with gold answers and evidence, or search on the evidence alone."
SYSTEM_HELP = (
    "program: that of --program. closed_book, full_context, bm25, hybrid: what to compare with. researcher, with the "
    "tree of memories that `memorize` made; also 'researcher no-tree', 'no-bm25', 'no-dense', 'no-filters'; memos: one "
    "search over their memos. stitch: "
    "recall by intent, in memories that `label` made; also 'stitch no-scope', 'no-event', 'no-entity', "
    "'similarity-only'; released: as the authors' code does. "
    "search: how much evidence search finds, without a model."
)
MetricOf = Annotated[
    str | None, typer.Option("--metric", help=f"{METRIC_HELP} [default: the benchmark's, or answer_f1]")
]
Setting = Annotated[
    list[str] | None, typer.Option(help="Of the metric, such as level=session (evidence_recall) or tokens=2048.")
]
Judge = Annotated[
    str | None, typer.Option(help="Of judged and longmemeval: an artifact. Of came_f1: that, or candidate_judge.")
]
Bench = Annotated[
    str | None, typer.Option(help="Ask a benchmark: worlds, locomo, longmemeval, came, hotpotqa, sessions.")
]
Data = Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")]
System = Annotated[str, typer.Option(help=SYSTEM_HELP)]
K = Annotated[int, typer.Option("-k", min=1, help="Of bm25, hybrid and memos: turns or memos that they find.")]
Rounds = Annotated[int | None, typer.Option(min=1, help="Of researcher: rounds, instead of those of --effort.")]
Found = Annotated[int | None, typer.Option(min=1, help="Of researcher: sessions that a search finds, likewise.")]
Tokens = Annotated[int, typer.Option(min=1, help="Of full_context: tokens that it shows.")]
Split = Annotated[str | None, typer.Option(help="train, held_out or all. [default: all of a benchmark, else held_out]")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many questions.")]
Seed = Annotated[int, typer.Option(help="Of the choice that --limit makes in a benchmark.")]
Rollout = Annotated[int, typer.Option(min=0, help="Ask anew, for other replies of a model that samples.")]
Out = Annotated[Path | None, typer.Option(help="One row a question (jsonl). [default: in the folder of --runs]")]
Name = Annotated[str | None, typer.Option(help="What reports call it. [default: system and settings]")]
Deadline = Annotated[float, typer.Option(min=0.1, max=1e6, help="Seconds for one question; then it counts as 0.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Ask questions again that failed.")]
Memories = Annotated[
    Path | None, typer.Option(help="Of --bench: memories that `label` or `memorize` made; stitch and memos need them.")
]
Encoder = Annotated[str, typer.Option(help="What search goes by: static, bge-m3, flag:MODEL or none.")]
ChooseWeights = Annotated[
    bool, typer.Option("--choose-weights", help="Of search: choose its weights on all histories but the scored one.")
]


eval_app = typer.Typer(invoke_without_command=True, help=EVAL_HELP)
app.add_typer(eval_app, name="eval")


@eval_app.callback()
def evaluate_program(
    context: typer.Context,
    program: ProgramName = "answerer",
    metric: MetricOf = None,
    bench: Bench = None,
    data: Data = None,
    setting: Setting = None,
    judge: Judge = None,
    system: System = "program",
    k: K = 10,
    rounds: Rounds = None,
    found: Found = None,
    tokens: Tokens = 8192,
    memory: MemoryPath = None,
    history: HistoryFile = None,
    questions: QuestionsFile = None,
    split: Split = None,
    limit: Limit = None,
    seed: Seed = 0,
    only: Only = None,
    memories: Memories = None,
    rollout: Rollout = 0,
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    out: Out = None,
    name: Name = None,
    deadline: Deadline = 1800,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
    retry_failed: RetryFailed = False,
    encoder: Encoder = "static",
    choose_weights: ChooseWeights = False,
    runs: Runs = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Score a program on questions with gold answers and evidence, or search on the evidence alone."""
    if context.invoked_subcommand:
        return
    memory = memory_of(memory, history, questions)
    chosen = split or ("all" if bench or system == "search" else None)
    cases = cases_of(bench, data, (history, questions, memory, memories), (chosen, limit, seed), encoder, only)
    if system == "search":
        return _evaluate_search(cases, choose_weights, out or metric, as_json)
    from stitchjam.backends.bindings import open_bindings

    kind, loaded, label = system_of(system, program, effort, k, tokens, (rounds, found))
    rate = _metric(metric, bench, setting or (), judge, kind)
    kept, bindings = kept_folder(runs, memory) / "eval", open_bindings(config, model, say)
    bindings = bindings.rollout(rollout) if rollout else bindings
    run = _run(loaded, rate, cases, bindings, (name or label, bench, rollout))
    rows = _rows(out or kept / f"{run.id}.jsonl", run, cases)
    limits = {"deadline": deadline, "calls": calls, "seconds": minutes and minutes * 60, "cost": dollars}
    terms = {"threads": threads, "again": retry_failed} | limits
    researches = system.startswith("researcher") and system != "researcher no-tree"
    noted = system.split(" ")[0] in ("stitch", "released") and system != "stitch similarity-only"
    needs = say_labelled if noted else say_filed if system == "memos" else say_tree if researches else None
    _evaluate(loaded, _trials(cases, kind, rate, (bench, needs), rows), rows, (bindings, kept, terms), as_json)


def _rows(path: Path, run: Any, cases: Any) -> Any:
    from stitchjam.optimizers.row_file import Rows

    return Rows(path, run, cases.keys)


def _run(program: Any, rate: Any, cases: Any, bindings: Any, about: tuple[str, str | None, int]) -> Any:
    """What is evaluated; a model that judges itself is named."""
    from stitchjam.optimizers.run import describe_run

    name, bench, rollout = about
    named = {"name": name, "bench": bench or "", "rollout": rollout}
    run = describe_run(program, rate((), None), cases, bindings, named)
    if run.judge and run.judge == run.model:
        say(f"{run.judge} judges itself; name another model as judge under [roles], and measure it: eval judge")
    return run


def _metric(metric: str | None, bench: str | None, given: Sequence[str], judge: str | None, program: str) -> Any:
    """What makes a metric, which fits the program, from questions and a store."""
    from stitchjam.data.benchmarks import BENCHMARKS
    from stitchjam.optimizers.metrics import check_fit, make_metric, metric_settings, open_judge

    name = metric or (BENCHMARKS[bench].metric if bench else "answer_f1")
    settings = metric_settings(name, given) | ({"judge": open_judge(name, judge)} if judge else {})

    def rate(questions: Any, store: Any) -> Any:
        return make_metric(name, questions, store, **settings)

    check_fit(rate((), None), program)
    return rate


def _trials(cases: Any, program: str, rate: Any, about: tuple[str | None, Any], rows: Any) -> Iterator[Any]:
    """What is left to ask, one history at a time; `about` is the benchmark, and what checks that a history is ready."""
    from stitchjam.data.benchmarks import BENCHMARKS
    from stitchjam.optimizers.evaluate import Trial
    from stitchjam.optimizers.task import examples

    bench, check = about
    kinds = BENCHMARKS[bench].kinds if bench else {}
    for case in cases.open():
        left = [one for one in case.questions if (case.name, one.id) not in rows.done]
        if left:
            if check:
                check(case)
            yield Trial(examples(program, left, case.store), rate(left, case.store), case.name, kinds)


def _evaluate(program: Any, trials: Iterator[Any], rows: Any, how: tuple[Any, Path, Any], as_json: bool) -> None:
    """Evaluate with progress and show the result, also of a run that was stopped."""
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.evaluate import Terms, evaluate_kept, require_answers
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.rows import FAILED

    bindings, kept, limits = how
    terms = Terms(bindings, kept / "replies.jsonl", **limits)
    if terms.again:
        rows.drop(FAILED)
    left, stop = rows.run.asked - len(rows.done), None
    if rows.done:
        say(f"{rows.path} holds {len(rows.done)} of {rows.run.asked} rows; to do: {left}")
    with resumable(), progress_shown(sys.stderr, {"eval": left}) as tick:
        try:
            evaluate_kept(program, trials, rows, terms, lambda row: tick("eval", row.id, row.value))
        except BudgetStop as reached:
            stop = reached
    report = rows.settle()
    if report.rows or as_json or not stop:
        _show(report, terms.ledger, as_json)
    say(f"rows: {rows.path}")
    if stop:
        raise stop
    require_answers(report, terms.kept)


def _show(report: Any, ledger: Any, as_json: bool) -> None:
    from stitchjam.optimizers.pages.figures import systems
    from stitchjam.optimizers.report import usage_rows, usage_table
    from stitchjam.optimizers.tables import kinds_tables, report_line, report_table

    kinds = {kind: {"n": n, "score": round(score, 6)} for kind, (n, score) in report.kinds.items()}
    result(
        as_json,
        report.summary() | {"kinds": kinds, "usage": usage_rows(ledger)},
        report_table(report),
        *kinds_tables(systems([report])),
        usage_table(ledger),
        report_line(report),
    )


def _evaluate_search(cases: Any, choose: bool, given: Any, as_json: bool) -> None:
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.retrieval import evaluate_search, search_tables

    if given:
        raise UsageError("--system search has its own figures and no rows; leave out --metric and --out")
    with counts_shown(sys.stderr) as tick:
        report = evaluate_search(list(cases.open()), choose, tick)
    result(as_json, report.model_dump(), *search_tables(report))
