"""The command line: reads arguments, calls the rings below, prints what they return.

Imports of the rings stand inside the commands, so that `--help` is instant.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Literal

# Importing litellm would otherwise fetch a price list, with retries, and warn when there is no network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("TQDM_DISABLE", "1")

import typer  # noqa: E402

from stitchjam.data.errors import BudgetStop, PublishRefused, StitchjamError, UsageError  # noqa: E402
from stitchjam.data.secrets import hide_secrets  # noqa: E402

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage or config, 3 wrong data or artifact, 4 model or endpoint, "
    "5 compiled but not published, 6 budget used up or backend out, 130 interrupted (the same command goes on)."
)
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, epilog=EPILOG)
models_app = typer.Typer(no_args_is_help=True, help="Fetch small local models; probe any model.")
artifact_app = typer.Typer(no_args_is_help=True, help="Look at compiled programs.")
app.add_typer(models_app, name="models")
app.add_typer(artifact_app, name="artifact")

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Config = Annotated[Path, typer.Option(help="Which model answers which step.")]
Model = Annotated[str | None, typer.Option(help='One model for all steps instead, such as "local:smollm2-135m".')]
HistoryFile = Annotated[Path | None, typer.Option("--history", help="Chat, STITCH or sessions file. [default: sample]")]
QuestionsFile = Annotated[Path | None, typer.Option("--questions", help="Questions file. [default: the sample's]")]
ProgramName = Annotated[str, typer.Option(help="Artifact folder, or answerer, researcher, memory_agent.")]
EffortName = Annotated[Literal["low", "medium", "high"], typer.Option(help="How hard a fresh researcher tries.")]
MetricName = Annotated[str, typer.Option(help="answer_f1, evidence_recall, evidence_precision, end.")]
Runs = Annotated[Path, typer.Option(help="Replies are kept here, so that a stopped run goes on.")]
Threads = Annotated[int, typer.Option(min=1, help="Questions at once.")]
CONFIG, RUNS = Path("stitchjam.toml"), Path(".stitchjam/runs")


@app.callback()
def root(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Agent memory as DSPy programs that are compiled for your model."""


def _show(stream: Any, lines: tuple[object, ...]) -> None:
    from stitchjam.data.console import show

    show(stream, lines)


def _say(*lines: object) -> None:
    """Progress and notes go to standard error, so that standard output stays data."""
    _show(sys.stderr, lines)


def _out(as_json: bool, value: Any, *lines: object) -> None:
    if as_json:
        print(json.dumps(value, ensure_ascii=sys.stdout.encoding.lower() != "utf-8"))
    else:
        _show(sys.stdout, lines)


@app.command()
def init(force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False) -> None:
    """Write stitchjam.toml: which model answers which step."""
    from stitchjam.backends.bindings import EXAMPLE

    if CONFIG.exists() and not force:
        raise UsageError(f"{CONFIG} exists; edit it, or replace it with: stitchjam init --force")
    CONFIG.write_text(EXAMPLE, encoding="utf-8")
    _say(f"wrote {CONFIG}. Next: stitchjam models pull smollm2-135m, or name your own model in it")


@app.command()
def ask(
    question: str,
    history: HistoryFile = None,
    program: ProgramName = "memory_agent",
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    trace: Annotated[bool, typer.Option("--trace", help="Show how the research went.")] = False,
    as_json: Json = False,
) -> None:
    """Answer a question from a history, citing turns."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.replay import replies
    from stitchjam.backends.usage import metered
    from stitchjam.data.sample import load_data
    from stitchjam.optimizers.report import answer_lines, trace_lines, usage_line, usage_rows
    from stitchjam.programs.answer import asker
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.step import settings_for

    store, (_, chosen) = load_data(history).store, open_program(program, effort)
    # Without this, dspy's own disk cache would keep text of the memory where no one looks for it.
    with replies(None), settings_for(open_bindings(config, model, _say)), metered() as ledger:
        found = asker(chosen)(question=question, store=store)
    value = {"answer": found.answer.model_dump(), "context": found.context.model_dump(), "usage": usage_rows(ledger)}
    _out(
        as_json,
        value,
        *answer_lines(found.answer, store, found.context),
        *(trace_lines(found.context) if trace else ()),
    )
    _say(usage_line(ledger))


@app.command("eval")
def evaluate_program(
    program: ProgramName = "answerer",
    metric: MetricName = "answer_f1",
    history: HistoryFile = None,
    questions: QuestionsFile = None,
    split: Annotated[str, typer.Option(help="train, held_out or all.")] = "held_out",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many questions.")] = None,
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    out: Annotated[Path | None, typer.Option(help="Write one row a question here (jsonl).")] = None,
    runs: Runs = RUNS,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Score a program on questions with gold answers and evidence."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.data.console import resumable
    from stitchjam.data.sample import load_data
    from stitchjam.optimizers.evaluate import evaluate_kept, require_answers, write_rows
    from stitchjam.optimizers.metrics import check_fit, make_metric
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.report import report_line, report_table, usage_rows, usage_table
    from stitchjam.optimizers.task import examples, select
    from stitchjam.programs.artifact import open_program

    data, (name, loaded) = load_data(history, questions), open_program(program, effort)
    asked = select(data.questions, split, limit)
    judge = make_metric(metric, asked, data.store)
    check_fit(judge, name)
    bindings, cases, kept = open_bindings(config, model, _say), examples(name, asked, data.store), runs / "eval"
    with resumable(), progress_shown(sys.stderr, {"eval": len(asked)}) as tick:
        report, ledger = evaluate_kept(loaded, cases, judge, bindings, kept / "replies.jsonl", threads,
                                       lambda row: tick("eval", row.id, row.value))  # fmt: skip
    _out(
        as_json,
        report.summary() | {"usage": usage_rows(ledger)},
        report_table(report),
        usage_table(ledger),
        report_line(report),
    )
    if out:
        write_rows(out, report)
    require_answers(report, kept)


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
    history: HistoryFile = None,
    questions: QuestionsFile = None,
    effort: EffortName = "low",
    model: Model = None,
    config: Config = CONFIG,
    runs: Runs = RUNS,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Compile a program for your model and judge it on held-out questions."""
    _fix_hash_seed()
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

    data, (name, seed) = load_data(history, questions), open_program(program, effort)
    chosen = make_metric(metric, data.questions, data.store, threshold=threshold)
    check_fit(chosen, name)
    job = Job(
        program=seed,
        task=Task.of(name, data.questions, data.store),
        questions=data.questions,
        metric=chosen,
        recipe=make_recipe(recipe, max_demos=demos),
        bindings=open_bindings(config, model, _say),
        out=out or Path("artifacts") / name,
        runs=runs,
        threads=threads,
    )
    budget = Budget(calls=calls, seconds=minutes and minutes * 60, cost=dollars)
    with resumable(), progress_shown(sys.stderr, job.totals) as tick:
        estimate = plan_only(job, budget, tick)
    if plan:
        return _out(as_json, estimate.model_dump(), plan_line(estimate))
    _say(plan_line(estimate))
    with resumable(), progress_shown(sys.stderr, job.totals) as tick:
        done = compile_program(job, budget, tick)
    _out(as_json, compiled_summary(done), *compiled_lines(done))
    if done.manifest.refused:
        raise PublishRefused(done.manifest.refused)


def _fix_hash_seed() -> None:
    """Start again with a fixed hash seed: dspy's bootstrapping chooses demos by a hash that depends on it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})


@app.command()
def demo(folder: Annotated[Path, typer.Option(help="Everything is written here.")] = Path("demo")) -> None:
    """The whole story on a tiny model and the sample: ask, compile, judge, save, reload, ask again."""
    _fix_hash_seed()
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.demo import run_demo
    from stitchjam.optimizers.progress import progress_shown

    with resumable():
        run_demo(folder, lambda line: _show(sys.stdout, (line,)), lambda totals: progress_shown(sys.stderr, totals))


@models_app.command("pull")
def models_pull(name: str) -> None:
    """Fetch a small model and check its SHA-256."""
    from stitchjam.backends.models import pull

    print(pull(name, progress=_say))


@models_app.command("check")
def models_check(alias: Annotated[str | None, typer.Argument()] = None, config: Config = CONFIG, model: Model = None,
                 as_json: Json = False) -> None:  # fmt: skip
    """Probe how answers can be constrained, how long a prompt may be, and how fast the model is."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.probe import probe
    from stitchjam.optimizers.report import probe_table

    endpoints = open_bindings(config, model).endpoints
    chosen = [endpoint for endpoint in endpoints if alias in (None, endpoint.alias)]
    if not chosen:
        raise UsageError(f"no role or step uses a model {alias!r}; used: {', '.join(e.alias for e in endpoints)}")
    found = [probe(endpoint, say=_say) for endpoint in chosen]
    _out(as_json, [vars(one) for one in found], probe_table(found))


@artifact_app.command("show")
def artifact_show(folder: Path, as_json: Json = False) -> None:
    """What a compiled program is for, how it scored, and what is in it."""
    from stitchjam.optimizers.report import manifest_lines
    from stitchjam.programs.artifact import read_manifest

    manifest = read_manifest(folder)
    _out(as_json, manifest.model_dump(mode="json"), *manifest_lines(manifest))


@artifact_app.command("check")
def artifact_check(folder: Path) -> None:
    """Verify hashes and contract, and load it as production would."""
    from stitchjam.programs.artifact import load

    load(folder)
    print(f"{folder}: fine")


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):  # an answer is paid for, whatever the terminal can show
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app()
    except (StitchjamError, BudgetStop, OSError) as error:  # an OSError is a file or folder that cannot be used
        if debug:
            _say(hide_secrets(traceback.format_exc()))  # a server may repeat the key it refuses
        _say(f"error: {hide_secrets(str(error))}")
        sys.exit(getattr(error, "exit_code", 1))


if __name__ == "__main__":
    main()
