"""Turns successful runs of a teacher into demos: JAM's verified-trajectory SFT as prompt compilation."""

import contextlib
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from stitchjam.backends.bindings import Bindings
from stitchjam.optimizers.metrics import Metric
from stitchjam.optimizers.recipes.candidate import Candidate
from stitchjam.optimizers.task import Task
from stitchjam.programs.contract import predictors_of, signature_of
from stitchjam.programs.step import Program

__all__ = ["Bootstrap"]


@dataclass(frozen=True)
class Bootstrap:
    """`dspy.BootstrapFewShot` with its traps closed.

    Args:
        max_demos: demos a predictor; the run ends when so many training questions were answered well.
    """

    name = "bootstrap"
    max_demos: int = 4

    def runs(self, task: Task) -> int:
        """See `Recipe.runs`."""
        return len(task.train)

    def demos(self) -> int:
        """See `Recipe.demos`."""
        return self.max_demos

    def describe(self) -> dict[str, Any]:
        """See `Recipe.describe`."""
        return {"name": self.name, **asdict(self)}

    def compile(
        self,
        student: Program,
        task: Task,
        metric: Metric,
        bindings: Bindings | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Candidate:
        """See `Recipe.compile`. The teacher role answers when bindings have one."""
        origin: dict[str, str] = {}

        def good(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
            score = metric(example, prediction)
            if progress is not None:
                progress(example.id, score.value)
            origin.update({repr(inputs): example.id for _, inputs, _ in trace or ()})
            return score.value >= metric.threshold

        optimizer = dspy.BootstrapFewShot(
            metric=good,
            teacher_settings={"bindings": bindings.as_role("teacher")} if bindings else {},
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,  # labelled demos would be whole examples, store and all
            max_errors=len(task.train) + 1,  # outages and budgets leave as BudgetStop instead
        )
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it prints
            program = optimizer.compile(student, trainset=list(task.train))
        return Candidate(program, _sources(program, origin))


def _sources(program: Program, origin: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Which example each demo was seen in: a demo is the inputs and the reply of one call of its run."""
    return {
        name: tuple(
            origin[repr({field: demo[field] for field in signature_of(predictor).input_fields})]
            for demo in predictor.demos
        )
        for name, predictor in predictors_of(program).items()
        if predictor.demos
    }
