"""Turns a whole run - answer, context, provenance, rounds - into one figure: the end metric of Memory-Gym."""

from collections.abc import Iterable
from typing import Any

import dspy

from stitchjam.data.records import Answer, Context, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import answer_f1
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.evidence import holds
from stitchjam.optimizers.metrics.forms import overlap_f1
from stitchjam.optimizers.metrics.sources import at_level, gold_at

__all__ = ["EndMetric"]


@listed
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
        sources = at_level(answer.turn_ids, "session", self.store)
        wanted = gold_at(gold, "session", self.store)
        parts = {
            "answer": answer_f1(answer, gold),
            "sources": overlap_f1(sorted(sources), sorted(wanted)) if wanted else float(not sources),
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
        if not all(holds(claim, self.store) for claim in claims):
            return "a quoted span does not hold in the store"
        unread = {span.session_id for claim in claims for span in claim.spans} - set(context.browsed)
        if unread and context.stop != "one_shot":
            return f"session {sorted(unread)[0]!r} was cited and never opened"
        return ""

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"rounds": self.rounds, "weights": self.weights}


def _support(context: Context) -> float:
    """Share of the composed claims that had evidence; those without were dropped and count against it."""
    kept = sum(bool(claim.spans) for claim in context.claims)
    return kept / (len(context.claims) + context.dropped) if kept else 0.0
