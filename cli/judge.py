"""Commands that judge and compile: eval, compile, demo."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stitchjam.cli.shared import (
    CONFIG,
    MEMORY,
    METRIC_HELP,
    RUNS,
    Config,
    EffortName,
    HistoryFile,
    Json,
    MemoryPath,
    MetricName,
    Model,
    ProgramName,
    QuestionsFile,
    Runs,
    Threads,
    app,
    fix_hash_seed,
    result,
    say,
    show,
)
from stitchjam.data.errors import PublishRefused, UsageError

__all__: list[str] = []

EVAL_HELP = "Score a program on questions with gold answers and evidence, or search on the evidence alone."
SYSTEM_HELP = (
    "program: that of --program. closed_book, full_context, bm25, hybrid, researcher: what to compare with. "
    "search: how much evidence search finds, without a model."
)


eval_app = typer.Typer(invoke_without_command=True, help=EVAL_HELP)
app.add_typer(eval_app, name="eval")


@eval_app.callback()
def evaluate_program(
    context: typer.Context,
    program: ProgramName = "answerer",
    metric: Annotated[str | None, typer.Option(help=f"{METRIC_HELP} [default: the benchmark's, or answer_f1]")] = None,
    bench: Annotated[
        str | None, typer.Option(help="Ask a benchmark: worlds, locomo, longmemeval, came, hotpotqa.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Your copy of it. [default: the sample of worlds]")] = None,
    system: Annotated[str, typer.Option(help=SYSTEM_HELP)] = "program",
    k: Annotated[int, typer.Option("-k", min=1, help="Of bm25 and hybrid: turns that they find.")] = 10,
    tokens: Annotated[int, typer.Option(min=1, help="Of full_context: tokens that it shows.")] = 8192,
    memory: MemoryPath = None,
    history: HistoryFile = None,
    questions: QuestionsFile = None,
    split: Annotated[
        str | None, typer.Option(help="train, held_out or all. [default: held_out; of search: all]")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many questions.")] = None,
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    out: Annotated[Path | None, typer.Option(help="Write one row a question here (jsonl).")] = None,
    encoder: Annotated[str, typer.Option(help="Of search: static, bge-m3, flag:MODEL or none.")] = "static",
    choose_weights: Annotated[
        bool,
        typer.Option("--choose-weights", help="Of search: choose its weights on all histories but the scored one."),
    ] = False,
    runs: Runs = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Score a program on questions with gold answers and evidence, or search on the evidence alone."""
    if context.invoked_subcommand:
        return
    memory = _memory(memory, history, questions)
    chosen = split or ("all" if bench or system == "search" else "held_out")
    cases = _cases(bench, data, (history, questions, memory), chosen, limit, encoder)
    if system == "search":
        return _evaluate_search(cases, choose_weights, as_json)
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.optimizers.evaluate import require_answers, write_rows

    name, loaded = _system(system, program, effort, k, tokens)
    trials, kept = _trials(cases, name, metric or _metric_of(bench)), _runs(runs, memory) / "eval"
    report = _evaluate(loaded, trials, open_bindings(config, model, say), kept, threads, as_json)
    if out:
        write_rows(out, report)
    require_answers(report, kept)


def _system(system: str, program: str, effort: Any, k: int, tokens: int) -> tuple[str, Any]:
    """The kind of program that a system is, and the system."""
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.systems import open_system

    return (
        open_program(program, effort)
        if system == "program"
        else ("memory_agent", open_system(system, effort, k, tokens))
    )


def _metric_of(bench: str | None) -> str:
    from stitchjam.data.benchmarks import BENCHMARKS

    return BENCHMARKS[bench].metric if bench else "answer_f1"


def _evaluate(  # noqa: PLR0913
    program: Any, trials: list[Any], bindings: Any, kept: Path, threads: int, as_json: bool
) -> Any:
    """Evaluate with progress and show the result."""
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.evaluate import evaluate_kept
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.report import kinds_table, report_line, report_table, usage_rows, usage_table

    total = sum(len(one.examples) for one in trials)
    with resumable(), progress_shown(sys.stderr, {"eval": total}) as tick:
        report, ledger = evaluate_kept(program, trials, bindings, kept / "replies.jsonl", threads,
                                       lambda row: tick("eval", row.id, row.value))  # fmt: skip
    kinds = {kind: {"n": n, "score": round(score, 6)} for kind, (n, score) in report.kinds.items()}
    result(
        as_json,
        report.summary() | {"kinds": kinds, "usage": usage_rows(ledger)},
        report_table(report),
        kinds_table(report),
        usage_table(ledger),
        report_line(report),
    )
    return report


@eval_app.command("compare")
def eval_compare(
    first: Annotated[Path, typer.Argument(help="Rows that eval --out wrote.")],
    second: Annotated[Path, typer.Argument(help="Rows of another system on the same questions.")],
    as_json: Json = False,
) -> None:
    """How much better the second is, with an interval from a paired bootstrap over histories or questions."""
    from stitchjam.optimizers.compare import compare, read_report
    from stitchjam.optimizers.report import kind_changes

    before, after = read_report(first), read_report(second)
    found = compare(before, after)
    drawn = f"{found.clusters} histories" if found.clusters else f"{found.n} questions"
    result(
        as_json,
        {"metric": before.metric, **found.model_dump(mode="json")},
        kind_changes(found),
        f"{before.metric} on {found.n} questions: {found.before:.3f} -> {found.after:.3f}",
        f"gain {found.gain:+.3f} (95 % interval {found.low:+.3f} to {found.high:+.3f} from {drawn}; "
        f"{found.better} better, {found.worse} worse)",
    )


def _cases(  # noqa: PLR0913
    bench: str | None, data: Path | None, own: tuple[Any, Any, Any], split: str, limit: int | None, encoder: str
) -> list[Any]:
    """Histories with the questions to ask: of a benchmark, or of files or a memory of the user's own."""
    from stitchjam.data.sample import bench_cases, load_cases
    from stitchjam.optimizers.task import select

    if data and not bench:
        raise UsageError("--data is the file or folder of a benchmark; name it with --bench, or give --history")
    if bench and any(own):
        raise UsageError("--bench brings its own histories and questions; leave out --history, --questions, --memory")
    if bench:
        return list(bench_cases(bench, data, split, limit, encoder=encoder))
    history, questions, memory = own
    cases = load_cases(history, questions, memory, encoder)
    return [case._replace(questions=select(case.questions, split, limit)) for case in cases]


def _trials(cases: list[Any], program: str, metric: str) -> list[Any]:
    from stitchjam.optimizers.evaluate import Trial
    from stitchjam.optimizers.metrics import check_fit, make_metric
    from stitchjam.optimizers.task import examples

    judges = [make_metric(metric, case.questions, case.store) for case in cases]
    check_fit(judges[0], program)
    return [
        Trial(examples(program, case.questions, case.store), judge, case.name)
        for case, judge in zip(cases, judges, strict=True)
    ]


def _runs(runs: Path | None, memory: Path | None) -> Path:
    """Where replies are kept: with the memory they are about, so that `forget` finds them; else under .stitchjam."""
    if memory is None:
        return runs or RUNS
    from stitchjam.data.disk.store import DiskStore

    folder = runs or memory / "replies"
    DiskStore(memory, create=False).keep_replies(folder)
    return folder


def _memory(memory: Path | None, history: Path | None, questions: Path | None) -> Path | None:
    """Questions without a history are about the memory of this folder, if there is one."""
    return MEMORY if memory is None and history is None and questions and MEMORY.exists() else memory


def _evaluate_search(cases: list[Any], choose: bool, as_json: bool) -> None:
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.retrieval import evaluate_search, search_tables

    with counts_shown(sys.stderr) as tick:
        report = evaluate_search(cases, choose, tick)
    result(as_json, report.model_dump(), *search_tables(report))


@app.command("compile")
def compile_command(
    program: ProgramName = "answerer",
    metric: MetricName = "answer_f1",
    recipe: Annotated[str, typer.Option(help="bootstrap.")] = "bootstrap",
    out: Annotated[Path | None, typer.Option(help="Artifact folder. [default: artifacts/PROGRAM]")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Measure, print the plan and stop.")] = False,
    calls: Annotated[int | None, typer.Option(min=1, help="Stop after so many backend calls.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so many minutes.")] = None,
    dollars: Annotated[float | None, typer.Option(min=0, help="Stop after so many US dollars.")] = None,
    demos: Annotated[int, typer.Option(min=1, max=16, help="Demos a step, at most.")] = 4,
    threshold: Annotated[float, typer.Option(min=0.01, max=1, help="Score from which a run becomes a demo.")] = 0.7,
    memory: MemoryPath = None,
    history: HistoryFile = None,
    questions: QuestionsFile = None,
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    runs: Runs = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Compile a program for your model and judge it on held-out questions."""
    fix_hash_seed()
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.usage import Budget
    from stitchjam.data.console import resumable
    from stitchjam.data.sample import load_data
    from stitchjam.optimizers.compile import Job, compile_program, plan_only
    from stitchjam.optimizers.metrics import check_fit, make_metric
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.recipes import make_recipe
    from stitchjam.optimizers.report import compiled_lines, compiled_summary, plan_line
    from stitchjam.optimizers.task import Task
    from stitchjam.programs.artifact import open_program

    memory = _memory(memory, history, questions)
    data, (name, seed) = load_data(history, questions, memory), open_program(program, effort)
    chosen = make_metric(metric, data.questions, data.store, threshold=threshold)
    check_fit(chosen, name)
    job = Job(
        program=seed,
        task=Task.of(name, data.questions, data.store),
        questions=data.questions,
        metric=chosen,
        recipe=make_recipe(recipe, max_demos=demos),
        bindings=open_bindings(config, model, say),
        out=out or Path("artifacts") / name,
        runs=_runs(runs, memory),
        threads=threads,
    )
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars)
    with resumable(), progress_shown(sys.stderr, job.totals) as tick:
        estimate = plan_only(job, budget, tick)
    if plan:
        return result(as_json, estimate.model_dump(), plan_line(estimate))
    say(plan_line(estimate))
    with resumable(), progress_shown(sys.stderr, job.totals) as tick:
        done = compile_program(job, budget, tick)
    result(as_json, compiled_summary(done), *compiled_lines(done))
    if done.manifest.refused:
        raise PublishRefused(done.manifest.refused)


@app.command()
def demo(folder: Annotated[Path, typer.Option(help="Everything is written here.")] = Path("demo")) -> None:
    """The whole story on a tiny model and the sample: ask, compile, judge, save, reload, ask again."""
    fix_hash_seed()
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.demo import run_demo
    from stitchjam.optimizers.progress import progress_shown

    with resumable():
        run_demo(folder, lambda line: show(sys.stdout, (line,)), lambda totals: progress_shown(sys.stderr, totals))
