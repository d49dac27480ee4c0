"""Compile jobs on the sample with the oracle, as small as a test needs them."""

from pathlib import Path
from typing import Any

from oracle import Oracle

from stitchjam.backends.bindings import Bindings
from stitchjam.data.records import Question
from stitchjam.data.sample import Data, load_data
from stitchjam.optimizers.compile import Job
from stitchjam.optimizers.metrics import make_metric
from stitchjam.optimizers.recipes import make_recipe
from stitchjam.optimizers.task import Task
from stitchjam.programs.artifact import open_program


def small_data(train: int = 4, held_out: int = 4) -> Data:
    """The sample with its first questions of each split."""
    store, questions = load_data()
    chosen = [q for q in questions if q.split == "train"][:train]
    return Data(store, (*chosen, *[q for q in questions if q.split == "held_out"][:held_out]))


def make_job(
    folder: Path,
    data: Data,
    lm: Any,
    program: str = "answerer",
    metric: str = "answer_f1",
    threads: int = 1,
    questions: tuple[Question, ...] | None = None,
    **settings: Any,
) -> Job:
    """A job that writes below `folder`; `settings` are max_demos, threshold or bindings."""
    questions = data.questions if questions is None else questions
    bound = settings.pop("bindings") if "bindings" in settings else Bindings({"task": lm})
    demos = settings.pop("max_demos", 2)
    return Job(
        program=open_program(program)[1],
        task=Task.of(program, questions, data.store),
        questions=questions,
        metric=make_metric(metric, questions, data.store, **settings),
        recipe=make_recipe("bootstrap", max_demos=demos),
        bindings=bound,
        out=folder / "out",
        runs=folder / "runs",
        threads=threads,
    )


def oracle_lm(data: Data, **overrides: Any) -> Any:
    """An oracle's LM with some steps replaced."""
    return Oracle(data).lm(**overrides)
