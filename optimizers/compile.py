"""Turns a program, a task and a budget into a judged artifact: plan, seed score, recipe, held-out score, gate, write.

Resume is a replay: every reply is on disk in the run folder, so the same command after a crash repeats the same steps
and asks the model only for what is missing.
"""

import contextlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from pydantic import ValidationError

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.replay import replies
from stitchjam.backends.usage import Budget, Ledger, metered
from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.optimizers.compare import Comparison, compare
from stitchjam.optimizers.evaluate import evaluate
from stitchjam.optimizers.metrics import Metric
from stitchjam.optimizers.plan import REHEARSED, Plan, make_plan
from stitchjam.optimizers.publish import check_target, gate, place_for, write_artifact
from stitchjam.optimizers.recipes import Recipe
from stitchjam.optimizers.rows import Report, write_rows
from stitchjam.optimizers.task import Task
from stitchjam.programs.artifact import Manifest
from stitchjam.programs.contract import digest, identity
from stitchjam.programs.step import Program, settings_for

__all__ = ["Compiled", "Job", "compile_program", "fingerprint", "plan_only"]

Progress = Callable[[str, str, float | None], None]


@dataclass(frozen=True)
class Job:
    """Everything that decides a compile.

    Args:
        program: the seed.
        task: training and held-out examples.
        questions: all questions, for the leak scan.
        metric: what is climbed; its gold covers all questions.
        recipe: how.
        bindings: models by step and role; None uses the ambient dspy LM.
        out: the artifact folder.
        runs: folder for run folders, each named by program and fingerprint.
        threads: examples at once in evaluations.
    """

    program: Program
    task: Task
    questions: tuple[Question, ...]
    metric: Metric
    recipe: Recipe
    bindings: Bindings | None
    out: Path
    runs: Path
    threads: int = 1

    @property
    def totals(self) -> dict[str, int]:
        """Stage -> items at most, for progress bars."""
        held_out, train = len(self.task.held_out), self.recipe.runs(self.task)
        return {"plan": REHEARSED, "seed": held_out, "compile": train, "compiled": held_out}

    @property
    def folder(self) -> Path:
        """The run folder: replies for resume, fingerprint, and reports."""
        return self.runs / f"{self.task.program}-{digest(fingerprint(self))[:10]}"


@dataclass(frozen=True)
class Compiled:
    """What a compile came to; `path` is where the artifact is."""

    path: Path
    program: Program
    manifest: Manifest
    seed: Report
    compiled: Report
    comparison: Comparison
    ledger: Ledger
    seconds: float


def _models(bindings: Bindings | None) -> dict[str, str]:
    if bindings is not None:
        return bindings.describe()
    lm = dspy.settings.lm
    return {"role:task": _named(lm)} if lm else {}


def _named(lm: dspy.LM) -> str:
    """A model's name, with a hash of its address when it has one: dspy's cache key leaves the address out."""
    place = lm.kwargs.get("api_base") or lm.kwargs.get("base_url")
    return f"{lm.model}@{digest(place)[:8]}" if place else lm.model


def _data(job: Job) -> dict[str, Any]:
    def ids(examples: Iterable[dspy.Example]) -> list[str]:
        return [example.id for example in examples]

    # Without defaults, so that runs stay the same when a new version knows one more optional field.
    text = [question.model_dump(mode="json", exclude_defaults=True) for question in job.questions]
    return {
        "train": ids(job.task.train),
        "held_out": ids(job.task.held_out),
        "questions": digest(text),
        "store": job.metric.store.fingerprint,
    }


def fingerprint(job: Job) -> dict[str, Any]:
    """All that changes the outcome. Two jobs with the same fingerprint may share replies; others may not."""
    return identity(job.program) | {
        "data": _data(job),
        "metric": job.metric.describe(),
        "recipe": job.recipe.describe(),
        "models": _models(job.bindings),
    }


def _open_run(job: Job) -> Path:
    folder = job.folder
    folder.mkdir(parents=True, exist_ok=True)
    file, now = folder / "fingerprint.json", fingerprint(job)
    if file.exists():
        changed = _changed(file.read_text(encoding="utf-8"), json.loads(json.dumps(now)))
        if changed:
            raise UsageError(f"{folder} belongs to another run ({', '.join(changed)} differ); remove it to start again")
    with whole_file(file) as text:
        text.write(json.dumps(now, indent=1))
    return folder


def _changed(text: str, now: dict[str, Any]) -> list[str]:
    try:
        before = json.loads(text)
    except ValueError:
        before = None
    if not isinstance(before, dict):
        return ["all parts"]
    return sorted(key for key in now if before.get(key) != now[key])


def _check_out(folder: Path) -> None:
    """Refuse an output folder before calls are paid for that could not be written after them."""
    check_target(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(prefix=".stitchjam-", dir=folder.parent).cleanup()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None


def plan_only(job: Job, budget: Budget | None = None, progress: Progress | None = None) -> Plan:
    """Measure a few training examples and say what a compile would take.

    Their replies are kept for it, and so is the plan: a run that goes on is not measured again.

    Raises:
        BudgetStop, UsageError: see `compile_program`.
    """
    _check_out(job.out)
    file = _open_run(job) / "plan.json"
    with contextlib.suppress(FileNotFoundError, ValidationError):
        return Plan.model_validate_json(file.read_text(encoding="utf-8"))
    with (
        replies(file.with_name("replies.jsonl")),
        settings_for(job.bindings, job.threads),
        metered(budget=budget or Budget()),
    ):
        plan = make_plan(job.program, job.task, job.recipe, _stage(progress, "plan"))
    with whole_file(file) as text:
        text.write(plan.model_dump_json())
    return plan


def _stage(progress: Progress | None, stage: str) -> Callable[..., None] | None:
    if progress is None:
        return None
    return lambda item, value=None: progress(stage, getattr(item, "id", item), getattr(item, "value", value))


def compile_program(job: Job, budget: Budget | None = None, progress: Progress | None = None) -> Compiled:
    """Compile, judge on held-out data, and write the artifact, published or marked with the reasons why not.

    Args:
        job: what to do.
        budget: upper limits; default: none, but a dead backend still stops the run.
        progress: called with stage ("seed", "compile" or "compiled"), example id and score.

    Raises:
        BudgetStop: a limit was reached or the backend is out. Nothing is written but the replies so far.
        UsageError: the run folder belongs to another run, or the output folder is not an artifact.
    """
    start = time.monotonic()
    _check_out(job.out)
    folder = _open_run(job)
    with (
        replies(folder / "replies.jsonl"),
        settings_for(job.bindings, job.threads),
        metered(budget=budget or Budget()) as ledger,
    ):
        seed = evaluate(job.program, job.task.held_out, job.metric, job.threads, _stage(progress, "seed"))
        candidate = job.recipe.compile(job.program, job.task, job.metric, job.bindings, _stage(progress, "compile"))
        after = evaluate(candidate.program, job.task.held_out, job.metric, job.threads, _stage(progress, "compiled"))
    comparison = compare(seed, after)
    refused = gate(candidate.program, after, comparison, job.questions)
    seconds = time.monotonic() - start
    facts = _facts(job, seed, after, comparison) | {"published": not refused, "refused": refused}
    facts["demos"] = candidate.sources
    for name, report in (("seed", seed), ("compiled", after)):
        write_rows(folder / f"{name}.jsonl", report)
    path = place_for(job.out, bool(refused))
    manifest = write_artifact(path, job.task.program, candidate.program, facts, _run_facts(ledger, seconds))
    return Compiled(path, candidate.program, manifest, seed, after, comparison, ledger, seconds)


def _facts(job: Job, seed: Report, after: Report, comparison: Comparison) -> dict[str, Any]:
    return {
        "compiled_for": _models(job.bindings),
        "recipe": job.recipe.describe() | {"pythonhashseed": os.environ.get("PYTHONHASHSEED", "random")},
        "metric": job.metric.describe(),
        "data": _data(job) | {"fingerprint": digest(fingerprint(job))},
        "scores": {
            "seed": seed.summary(),
            "compiled": after.summary(),
            "held_out": comparison.model_dump(mode="json"),
        },
    }


def _run_facts(ledger: Ledger, seconds: float) -> dict[str, Any]:
    rows = [
        {"step": step, "model": model} | {k: v for k, v in vars(usage).items()}
        for (step, model), usage in ledger.rows().items()
    ]
    return {
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 1),
        "usage": rows,
        "host": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
    }
