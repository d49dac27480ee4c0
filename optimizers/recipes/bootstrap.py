"""Turns successful runs of a teacher into demos: JAM's verified-trajectory SFT as prompt compilation."""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from stitchjam.backends.bindings import Bindings
from stitchjam.optimizers.evaluate import BACKEND_ERRORS, OUTPUT_ERRORS
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
        origin: dict[str, list[str]] = {}
        watch, streams = _Watch(type(student)), (sys.stdout, sys.stderr)

        def good(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
            with watch.errors():
                score = metric(example, prediction)
            if progress is not None:
                with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                    progress(example.id, score.value)
            if score.value < metric.threshold:
                return False
            for inputs in dict.fromkeys(repr(inputs) for _, inputs, _ in trace or ()):
                origin.setdefault(inputs, []).append(example.id)
            return True

        optimizer = dspy.BootstrapFewShot(
            metric=good,
            teacher_settings=({"bindings": bindings.as_role("teacher")} if bindings else {})
            | {"callbacks": [*dspy.settings.callbacks, watch]},
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,  # labelled demos would be whole examples, store and all
            max_errors=len(task.train) + 1,  # outages and budgets leave as BudgetStop instead
        )
        seed = student.deepcopy()
        seed._compiled = False  # dspy refuses the result of an earlier compile
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it prints
            program = optimizer.compile(seed, trainset=list(task.train))
        watch.raise_first()
        return Candidate(program, _sources(program, origin))


class _Watch(BaseCallback):
    """Keeps the errors that dspy takes for failed examples although no example is at fault.

    A key that is not set or a metric without gold must not end as "no training example was answered well enough".
    """

    def __init__(self, kind: type[Program]):
        self.kind, self.run, self.found = kind, "", list[BaseException]()

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        if not self.run and isinstance(instance, self.kind):
            self.run = call_id

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        if call_id != self.run:
            return
        self.run = ""
        if exception is not None and not isinstance(exception, (*OUTPUT_ERRORS, *BACKEND_ERRORS)):
            self.found.append(exception)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Keep what is raised inside, and let it pass; a judge without a verdict is a failed example."""
        try:
            yield
        except (*OUTPUT_ERRORS, *BACKEND_ERRORS):
            raise
        except Exception as error:
            self.found.append(error)
            raise

    def raise_first(self) -> None:
        """Raise the first error kept, if any."""
        if self.found:
            raise self.found[0]


def _sources(program: Program, origin: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Which example each demo was seen in: a demo is the inputs and the reply of one call of its run.

    Demos stand in the order of their examples. Those of a child that was compiled before are not of this run.
    """
    sources = {}
    for name, predictor in predictors_of(program).items():
        left = {inputs: list(ids) for inputs, ids in origin.items()}
        fields = list(signature_of(predictor).input_fields)
        keys = [repr({field: demo[field] for field in fields}) for demo in predictor.demos]
        sources[name] = tuple(left[key].pop(0) if left.get(key) else "an earlier compile" for key in keys)
    return {name: ids for name, ids in sources.items() if ids}
