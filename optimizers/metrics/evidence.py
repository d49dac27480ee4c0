"""Turns what a prediction cites into figures about evidence, without a model: what was found, and whether it holds."""

from collections.abc import Iterable
from typing import Any

import dspy

from stitchjam.data.records import Claim, Context, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import accepted, unanswerable
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import contains, whole_words
from stitchjam.optimizers.metrics.sources import (
    Level,
    at_level,
    cited,
    ends_of,
    gold_at,
    named,
    place_of,
    ratio,
    source,
    turn_of,
    turns_of,
)

__all__ = [
    "AnswerInContext",
    "EvidenceAtBudget",
    "EvidenceNear",
    "EvidencePrecision",
    "EvidenceRecall",
    "SpanSupport",
    "holds",
]


def _without_evidence(gold: Question) -> str:
    return "" if gold.evidence else "the question names no evidence"


class _Evidence(Metric):
    """Cited against gold evidence."""

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7, level: Level = "turn"):
        super().__init__(questions, store, threshold)
        self.level: Level = level

    def sets(self, gold: Question, prediction: dspy.Prediction) -> tuple[set[str], set[str]]:
        """Cited and gold ids at the metric's level."""
        return at_level(cited(prediction), self.level, self.store), gold_at(gold, self.level, self.store)

    def unrated(self, gold: Question) -> str:
        """See `Metric.unrated`."""
        return "" if gold_at(gold, self.level, self.store) else f"the question names no gold {self.level}"

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"level": self.level}


@listed
class EvidenceRecall(_Evidence):
    """Share of the gold evidence that is cited; JAM's reward."""

    name = "evidence_recall"
    parts = ("recall",)

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        found, wanted = self.sets(gold, prediction)
        value = ratio(found & wanted, wanted)
        missed = named("missed", sorted(wanted - found), self.store)
        return Score(
            value, f"cited {len(found & wanted)} of {len(wanted)} gold {self.level}s{missed}", {"recall": value}
        )


@listed
class EvidencePrecision(_Evidence):
    """Share of what is cited that is gold evidence."""

    name = "evidence_precision"
    parts = ("precision",)

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        found, wanted = self.sets(gold, prediction)
        value = ratio(found & wanted, found)
        extra = named("not gold", sorted(found - wanted), self.store)
        return Score(
            value, f"{len(found & wanted)} of {len(found)} cited {self.level}s are gold{extra}", {"precision": value}
        )


@listed
class EvidenceAtBudget(Metric):
    """Recall of gold turns among the cited turns that fit into the first tokens of a context (CAME-Bench: 4,096).

    A turn costs what "speaker: text" and a line break cost (CAME-Bench shows turns so), whatever part of it was quoted:
    systems that quote differently are measured alike. The first turn that does not fit whole ends the context.

    Args:
        questions, store, threshold: see `Metric`.
        tokens: the budget, as counted by `data.tokens`.
    """

    name = "evidence_at_budget"
    parts = ("recall", "fitting")

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7, tokens: int = 4096):
        super().__init__(questions, store, threshold)
        self.tokens = tokens

    def unrated(self, gold: Question) -> str:
        """See `Metric.unrated`."""
        return _without_evidence(gold)

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        ids = cited(prediction)
        wanted = set(gold.evidence)
        fitting = {one for one, end in ends_of(ids, self.store) if end <= self.tokens}
        value = ratio(fitting & wanted, wanted)
        late = named("cited too late", [one for one in ids if one in wanted - fitting], self.store)
        missed = named("not cited", sorted(wanted - set(ids)), self.store)
        fits = f"{len(fitting)} of {len(ids)} turns fit into {self.tokens} tokens"
        why = f"{len(fitting & wanted)} of {len(wanted)} gold turns are among them"
        return Score(value, f"{fits}; {why}{late}{missed}", {"recall": value, "fitting": ratio(fitting, set(ids))})

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"tokens": self.tokens}


@listed
class EvidenceNear(Metric):
    """Share of the gold turns that are cited, themselves or by a neighbour in their session.

    In some copies of CAME-Bench the gold turn asks and the next one holds the value; in others both are gold.

    Args:
        questions, store, threshold: see `Metric`.
        distance: how far a neighbour may stand.
    """

    name = "evidence_near"
    parts = ("recall", "exact")

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7, distance: int = 1):
        super().__init__(questions, store, threshold)
        self.distance = distance

    def unrated(self, gold: Question) -> str:
        """See `Metric.unrated`."""
        return _without_evidence(gold)

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        found, wanted = set(cited(prediction)), set(gold.evidence)
        near = {one for one in wanted if found & self._around(one)}
        value = ratio(near, wanted)
        why = f"cited {len(found & wanted)} of {len(wanted)} gold turns, and {len(near - found)} more by a neighbour"
        missed = named("missed", sorted(wanted - near), self.store)
        return Score(value, why + missed, {"recall": value, "exact": ratio(found & wanted, wanted)})

    def _around(self, turn_id: str) -> set[str]:
        turn = turn_of(turn_id, self.store)
        return {one.id for one in self.store.around(turn, self.distance)} if turn else {turn_id}

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`."""
        return super().describe() | {"distance": self.distance}


@listed
class AnswerInContext(Metric):
    """1 when the answer or an alias stands, word by word, in the text of one cited turn; no model could paraphrase it.

    It needs no gold evidence and so compares copies of a benchmark that mark other turns. A list, or an answer that has
    to be computed, stands nowhere and is found by no system.
    """

    name = "answer_in_context"
    parts = ("found",)

    def unrated(self, gold: Question) -> str:
        """See `Metric.unrated`."""
        return "the question has no answer that could stand anywhere" if unanswerable(gold) else ""

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        turns = turns_of(cited(prediction), self.store)
        texts = [(turn, whole_words(turn.text)) for turn in turns]
        for form in accepted(gold):
            for turn, text in texts:
                if contains(text, whole_words(form)):
                    return Score(1.0, f"{form!r} stands in {place_of(turn.id, self.store)}", {"found": 1.0})
        return Score(0.0, f"{gold.answer!r} stands in none of {len(turns)} cited turns", {"found": 0.0})


@listed
class SpanSupport(Metric):
    """Share of the claims whose spans hold in the store and whose quotes hold the words there.

    Claims that were dropped for want of evidence count against it; nothing claimed is 0.
    """

    name = "span_support"

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        rests_on = source(prediction)
        supported = sum(bool(claim.spans) and holds(claim, self.store) for claim in rests_on.claims)
        dropped = rests_on.dropped if isinstance(rests_on, Context) else 0
        composed = len(rests_on.claims) + dropped
        value = supported / composed if composed else 0.0
        why = f"{supported} of {composed} claims rest on words that stand in the memory"
        return Score(value, why + (f"; {dropped} were dropped" if dropped else ""), {"support": value})


def holds(claim: Claim, store: Store) -> bool:
    """Whether the spans are the store's own and the quote holds their words."""
    turns = [turn_of(span.turn_id, store) for span in claim.spans]
    return all(
        turn is not None
        and span.end <= len(turn.text)
        and span.holds_in(turn)
        and turn.text[span.start : span.end] in claim.quote
        for span, turn in zip(claim.spans, turns, strict=True)
    )
