"""Turns a prediction and its gold into a score with a reason. One metric, three faces for dspy.

Gold sits in a side table keyed by question id. It is never part of a dspy example, because optimizers print whole
examples into proposer prompts and store them as demos.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED, Answer, Claim, Context, Question
from stitchjam.data.store import Store
from stitchjam.data.text import normalise, words

__all__ = [
    "AnswerF1",
    "EndMetric",
    "EvidencePrecision",
    "EvidenceRecall",
    "METRICS",
    "Metric",
    "Score",
    "check_fit",
    "make_metric",
]

Level = Literal["session", "turn"]


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

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7):
        self.gold = {question.id: question for question in questions}
        self.store, self.threshold = store, threshold

    @abstractmethod
    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """Score one prediction."""

    def __call__(self, example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *_: Any) -> Score:
        """The score of a prediction for an example.

        Raises:
            UsageError: the example has no id that the gold table knows.
        """
        key = example.get("id")
        if key not in self.gold:
            raise UsageError(
                f"metric {self.name!r} has no gold for example id {key!r}; give examples their question id"
            )
        return self.score(self.gold[key], prediction)

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


def _f1(predicted: list[str], gold: list[str]) -> float:
    common = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0


def answer_f1(answer: Answer, gold: Question) -> float:
    """Token F1 against the best of answer and aliases (LongBench normalisation).

    An abstention is right when the gold is empty or says that nothing is mentioned, and 0 otherwise.
    """
    if answer.abstained:
        return float(normalise(gold.answer) in ("", NOT_MENTIONED))
    return max(_f1(words(answer.text), words(form)) for form in (gold.answer, *gold.aliases))


class AnswerF1(Metric):
    """Token F1 of the answer (jam.md 5.1: lower case, no punctuation, no articles, best of several golds)."""

    name = "answer_f1"
    needs = frozenset({"answer"})

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        value = answer_f1(prediction.answer, gold)
        why = f"answered {prediction.answer.text!r}, expected {gold.answer!r} (F1 {value:.2f})"
        return Score(value, why, {"f1": value, "exact": float(value == 1)})


def cited(prediction: dspy.Prediction) -> tuple[str, ...]:
    """Turn ids that a prediction rests on: those of its context when it has one, else those of its answer."""
    source: Context | Answer = prediction.get("context") or prediction.answer
    return source.turn_ids


class _Evidence(Metric):
    """Cited against gold evidence."""

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7, level: Level = "turn"):
        super().__init__(questions, store, threshold)
        self.level: Level = level

    def sets(self, gold: Question, prediction: dspy.Prediction) -> tuple[set[str], set[str]]:
        """Cited and gold ids at the metric's level."""
        return _at(cited(prediction), self.level, self.store), _at(gold.evidence, self.level, self.store)

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"level": self.level}


def _at(turn_ids: Iterable[str], level: Level, store: Store) -> set[str]:
    """Ids at a level; a turn that is not in the store stays itself, so that an invented one counts as wrong."""
    return {_session(turn_id, store) if level == "session" else turn_id for turn_id in turn_ids}


def _session(turn_id: str, store: Store) -> str:
    try:
        return store.turn(turn_id).session_id
    except UsageError:
        return turn_id


def _ratio(part: set[str], whole: set[str]) -> float:
    return len(part) / len(whole) if whole else 0.0


class EvidenceRecall(_Evidence):
    """Share of the gold evidence that is cited; JAM's reward."""

    name = "evidence_recall"

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        found, wanted = self.sets(gold, prediction)
        value = _ratio(found & wanted, wanted)
        return Score(value, f"cited {len(found & wanted)} of {len(wanted)} gold {self.level}s", {"recall": value})


class EvidencePrecision(_Evidence):
    """Share of what is cited that is gold evidence."""

    name = "evidence_precision"

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        found, wanted = self.sets(gold, prediction)
        value = _ratio(found & wanted, found)
        return Score(value, f"{len(found & wanted)} of {len(found)} cited {self.level}s are gold", {"precision": value})


class EndMetric(Metric):
    """The Memory-Gym end metric: 0.45 answer + 0.35 F1(cited, gold sessions) + 0.15 span support + 0.05 budget saved.

    It is 0 when provenance is forged: a span that does not hold in the store, or a cited session that was never opened.
    JAM rewards recall alone, which opening everything would win.

    Args:
        questions, store, threshold: see `Metric`.
        rounds: the budget of rounds that saving is measured against.
    """

    name = "end"
    needs = frozenset({"answer", "context"})
    weights = {"answer": 0.45, "sources": 0.35, "support": 0.15, "saved": 0.05}

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7, rounds: int = 5):
        super().__init__(questions, store, threshold)
        self.rounds = rounds

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer, context = prediction.answer, prediction.context
        forged = self._forged(answer, context)
        if forged:
            return Score(0.0, f"forged provenance: {forged}", dict.fromkeys(self.weights, 0.0))
        sources = _at(answer.turn_ids, "session", self.store)
        wanted = _at(gold.evidence, "session", self.store)
        parts = {
            "answer": answer_f1(answer, gold),
            "sources": _f1(sorted(sources), sorted(wanted)) if wanted else float(not sources),
            "support": _support(context),
            "saved": max(0.0, 1 - len(context.rounds) / self.rounds),
        }
        value = sum(self.weights[name] * part for name, part in parts.items())
        missed = sorted(wanted - set(context.browsed))
        hit = f"cited {len(sources & wanted)} of {len(wanted)} sources"
        why = f"answered {answer.text!r}, expected {gold.answer!r}; {hit}"
        return Score(value, why + (f"; never opened {', '.join(missed)}" if missed else ""), parts)

    def _forged(self, answer: Answer, context: Context) -> str:
        claims = (*context.claims, *answer.claims)
        if not all(_holds(claim, self.store) for claim in claims):
            return "a quoted span does not hold in the store"
        unread = {span.session_id for claim in claims for span in claim.spans} - set(context.browsed)
        if unread and context.stop != "one_shot":
            return f"session {sorted(unread)[0]!r} was cited and never opened"
        return ""

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"rounds": self.rounds, "weights": self.weights}


def _holds(claim: Claim, store: Store) -> bool:
    """Whether the spans are the store's own and the quote holds their words."""
    try:
        turns = [store.turn(span.turn_id) for span in claim.spans]
    except UsageError:
        return False
    return all(
        span.end <= len(turn.text) and span.holds_in(turn) and turn.text[span.start : span.end] in claim.quote
        for span, turn in zip(claim.spans, turns, strict=True)
    )


def _support(context: Context) -> float:
    """Share of the composed claims that had evidence; those without were dropped and count against it."""
    kept = sum(bool(claim.spans) for claim in context.claims)
    return kept / (len(context.claims) + context.dropped) if kept else 0.0


METRICS: dict[str, type[Metric]] = {
    metric.name: metric for metric in (AnswerF1, EndMetric, EvidencePrecision, EvidenceRecall)
}


_GIVES = {"answerer": {"answer"}, "researcher": {"context"}, "memory_agent": {"answer", "context"}}


def check_fit(metric: Metric, program: str) -> None:
    """Refuse a metric that reads what a program does not give, before any call is paid for.

    Raises:
        UsageError: it does not fit; the message names programs that do.
    """
    fitting = sorted(name for name, gives in _GIVES.items() if metric.needs <= gives)
    if program not in fitting:
        raise UsageError(f"metric {metric.name!r} cannot score {program!r}; it scores: {', '.join(fitting)}")


def make_metric(name: str, questions: Iterable[Question], store: Store, **settings: Any) -> Metric:
    """A metric by name.

    Raises:
        UsageError: there is no such metric.
    """
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}; known: {', '.join(sorted(METRICS))}")
    return METRICS[name](questions, store, **settings)
