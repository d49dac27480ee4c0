"""Turns a prediction and its gold into a score with a reason. One metric, three faces for dspy.

Gold sits in a side table keyed by question id. It is never part of a dspy example, because optimizers print whole
examples into proposer prompts and store them as demos.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_type_hints

import dspy
from pydantic import TypeAdapter

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.data.store import Store
from stitchjam.programs.artifact import open_program
from stitchjam.programs.judge import JUDGES
from stitchjam.programs.step import Program
from stitchjam.programs.stitch.stitcher import LABELERS

__all__ = [
    "METRICS",
    "Metric",
    "Score",
    "check_fit",
    "listed",
    "make_metric",
    "metric_settings",
    "open_judge",
    "skipped",
]


@dataclass(frozen=True)
class Score:
    """A value from 0 to 1, why it is that, and its parts."""

    value: float
    why: str
    parts: dict[str, float] = field(default_factory=dict)


class Metric(ABC):
    """Base of metrics.

    Args:
        questions: the gold, looked up by `example.id`.
        store: where spans are verified.
        threshold: from here on a run is good enough to become a demo.
    """

    name = ""
    needs: frozenset[str] = frozenset()
    judge_kind = ""  # the kind of program that its argument `judge` takes
    parts: tuple[str, ...] = ()  # names of the parts that are 0 where a question is not rated

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7):
        self.gold = {question.id: question for question in questions}
        self.store, self.threshold = store, threshold

    @abstractmethod
    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """Score one prediction to a question that is rated."""

    def unrated(self, gold: Question) -> str:
        """Why the metric does not rate a question, whatever is answered; "" when it does."""
        return ""

    def __call__(self, example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *_: Any) -> Score:
        """The score of a prediction for an example.

        Raises:
            UsageError: from `gold_of`.
        """
        gold = self.gold_of(example)
        reason = self.unrated(gold)
        return skipped(reason, *self.parts) if reason else self.score(gold, prediction)

    def gold_of(self, example: dspy.Example) -> Question:
        """The question of an example.

        Raises:
            UsageError: the example has no id that the gold table knows.
        """
        key = example.get("id")
        if key not in self.gold:
            raise UsageError(
                f"metric {self.name!r} has no gold for example id {key!r}; give examples their question id"
            )
        return self.gold[key]

    def as_float(self, example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *rest: Any) -> float:
        """For evaluation."""
        return self(example, prediction).value

    def as_bool(self, example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *rest: Any) -> bool:
        """For bootstrapping, with the explicit threshold: to dspy any number above 0 is a success."""
        return self(example, prediction).value >= self.threshold

    def as_feedback(
        self,
        example: dspy.Example,
        prediction: dspy.Prediction,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        """For GEPA: score and feedback in words."""
        score = self(example, prediction)
        return dspy.Prediction(score=score.value, feedback=score.why)

    def describe(self) -> dict[str, Any]:
        """Name and settings, for manifests and fingerprints."""
        return {"name": self.name, "threshold": self.threshold}


def skipped(reason: str, *parts: str) -> Score:
    """The score of a question that a metric does not rate: 0, with the part `skipped`.

    The mean over the questions that were rated is the mean over all, divided by 1 - the mean of `skipped`.
    """
    return Score(0.0, f"not rated: {reason}", dict.fromkeys(parts, 0.0) | {"skipped": 1.0})


METRICS: dict[str, type[Metric]] = {}
_M = TypeVar("_M", bound=Metric)


def listed(metric: type[_M]) -> type[_M]:
    """Decorator that makes a metric known by its name; a subclass in a test or a notebook is not known unasked."""
    METRICS[metric.name] = metric
    return metric


_GIVES = {
    "answerer": {"answer"},
    "intent_recall": {"context"},
    "memory_agent": {"answer", "context"},
    "researcher": {"context"},
    "stitch_agent": {"answer", "context"},
}


def check_fit(metric: Metric, program: str) -> None:
    """Refuse a metric that reads what a program does not give, before any call is paid for.

    Raises:
        UsageError: it does not fit; the message names programs that do.
    """
    fitting = sorted(name for name, gives in _GIVES.items() if metric.needs <= gives)
    if program in JUDGES:
        raise UsageError(f"{program!r} is a judge and answers no questions; measure it on labels: stitchjam eval judge")
    if program in LABELERS:
        raise UsageError(f"{program!r} labels turns and answers no questions; measure it on gold: stitchjam eval steps")
    if program not in fitting:
        raise UsageError(f"metric {metric.name!r} cannot score {program!r}; it scores: {', '.join(fitting)}")


def open_judge(metric: str, name: str) -> Program:
    """The judge that a metric is to ask.

    Args:
        metric: its name.
        name: an artifact folder, or a judge by its name.

    Raises:
        UsageError: the metric asks no judge, or one of another kind. ArtifactError: see `programs.artifact.load`.
    """
    wanted = _known(metric).judge_kind
    if not wanted:
        raise UsageError(f"metric {metric!r} asks no judge; leave out --judge")
    kind, program = open_program(name)
    if kind != wanted:
        raise UsageError(f"metric {metric!r} asks a program of the kind {wanted!r}, and {name!r} is of {kind!r}")
    return program


def metric_settings(metric: str, given: Iterable[str]) -> dict[str, Any]:
    """Settings of a metric from "name=value", such as "tokens=2048".

    Raises:
        UsageError: the metric has no such setting, or it cannot have that value; the message names those it has.
    """
    hints = get_type_hints(_known(metric).__init__)
    known = {name: hint for name, hint in hints.items() if name not in ("questions", "store", "judge", "return")}
    found = {}
    for one in given:
        name, _, value = one.partition("=")
        try:
            found[name] = TypeAdapter(known[name]).validate_python(value)
            if not isinstance(found[name], str) and not 0 <= found[name] < math.inf:
                raise ValueError(value)
        except (KeyError, ValueError):  # pydantic's is one too
            names = ", ".join(f"{name} ({_shown(hint)})" for name, hint in known.items())
            raise UsageError(f"metric {metric!r} has no setting {one!r}; it has: {names}") from None
    return found


def _shown(hint: Any) -> str:
    return " or ".join(map(str, get_args(hint))) or hint.__name__


def make_metric(name: str, questions: Iterable[Question], store: Store, **settings: Any) -> Metric:
    """A metric by name.

    Raises:
        UsageError: there is no such metric.
    """
    return _known(name)(questions, store, **settings)


def _known(name: str) -> type[Metric]:
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}; known: {', '.join(sorted(METRICS))}")
    return METRICS[name]
