"""Commands that judge and compile: eval, compile, demo."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stitchjam.cli.shared import (
    CONFIG,
    MEMORY,
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
from stitchjam.data.errors import PublishRefused

__all__: list[str] = []


@app.command("eval")
def evaluate_program(
    program: ProgramName = "answerer",
    metric: MetricName = "answer_f1",
    system: Annotated[
        Literal["program", "search"], typer.Option(help="search: how much evidence search finds, without a model.")
    ] = "program",
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
    if system == "search":
        from stitchjam.data.sample import load_cases

        cases = load_cases(history, questions, _memory(memory, history, questions), encoder)
        return _evaluate_search(cases, split or "all", limit, choose_weights, as_json)
    memory = _memory(memory, history, questions)
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.data.console import resumable
    from stitchjam.data.sample import load_data
    from stitchjam.optimizers.evaluate import evaluate_kept, require_answers, write_rows
    from stitchjam.optimizers.metrics import check_fit, make_metric
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.report import report_line, report_table, usage_rows, usage_table
    from stitchjam.optimizers.task import examples, select
    from stitchjam.programs.artifact import open_program

    data, (name, loaded) = load_data(history, questions, memory), open_program(program, effort)
    asked = select(data.questions, split or "held_out", limit)
    judge = make_metric(metric, asked, data.store)
    check_fit(judge, name)
    bindings, cases = open_bindings(config, model, say), examples(name, asked, data.store)
    kept = _runs(runs, memory) / "eval"
    with resumable(), progress_shown(sys.stderr, {"eval": len(asked)}) as tick:
        report, ledger = evaluate_kept(loaded, cases, judge, bindings, kept / "replies.jsonl", threads,
                                       lambda row: tick("eval", row.id, row.value))  # fmt: skip
    result(
        as_json,
        report.summary() | {"usage": usage_rows(ledger)},
        report_table(report),
        usage_table(ledger),
        report_line(report),
    )
    if out:
        write_rows(out, report)
    require_answers(report, kept)


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


def _evaluate_search(cases: Any, split: str, limit: int | None, choose: bool, as_json: bool) -> None:
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.retrieval import evaluate_search, search_tables
    from stitchjam.optimizers.task import select

    chosen = [case._replace(questions=select(case.questions, split, limit)) for case in cases]
    with counts_shown(sys.stderr) as tick:
        report = evaluate_search(chosen, choose, tick)
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
