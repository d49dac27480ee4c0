"""Commands that compile: compile, demo."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stitchjam.cli.shared import (
    CONFIG,
    Calls,
    Config,
    Dollars,
    EffortName,
    HistoryFile,
    Json,
    MemoryPath,
    MetricName,
    Minutes,
    Model,
    ProgramName,
    QuestionsFile,
    Runs,
    Threads,
    app,
    fix_hash_seed,
    kept_folder,
    memory_of,
    result,
    say,
    show,
)
from stitchjam.data.errors import PublishRefused

__all__: list[str] = []


@app.command("compile")
def compile_command(
    program: ProgramName = "answerer",
    metric: MetricName = "answer_f1",
    recipe: Annotated[str, typer.Option(help="bootstrap.")] = "bootstrap",
    out: Annotated[Path | None, typer.Option(help="Artifact folder. [default: artifacts/PROGRAM]")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Measure, print the plan and stop.")] = False,
    calls: Calls = None,
    minutes: Minutes = None,
    dollars: Dollars = None,
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

    memory = memory_of(memory, history, questions)
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
        runs=kept_folder(runs, memory),
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
