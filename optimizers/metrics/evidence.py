"""Turns what a prediction cites into figures about evidence, without a model: what was found, and whether it holds."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Literal

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Answer, Claim, Context, Question, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import one_line
from stitchjam.data.tokens import count_tokens
from stitchjam.optimizers.metrics.answers import accepted, unanswerable
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import contains, whole_words

__all__ = [
    "AnswerInContext",
    "EvidenceAtBudget",
    "EvidenceNear",
    "EvidencePrecision",
    "EvidenceRecall",
    "Level",
    "SpanSupport",
    "at_level",
    "cited",
    "gold_at",
    "holds",
    "recall_by_tokens",
]

Level = Literal["session", "turn"]
_SHOWN, _LENGTH = 3, 60
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # tokens


def _source(prediction: dspy.Prediction) -> Context | Answer:
    return prediction.get("context") or prediction.answer


def cited(prediction: dspy.Prediction) -> tuple[str, ...]:
    """Turn ids that a prediction rests on: those of its context when it has one, else those of its answer."""
    return _source(prediction).turn_ids


def at_level(turn_ids: Iterable[str], level: Level, store: Store) -> set[str]:
    """Ids at a level; a turn that is not in the store stays itself, so that an invented one counts as wrong."""
    return {_session(turn_id, store) if level == "session" else turn_id for turn_id in turn_ids}


def gold_at(gold: Question, level: Level, store: Store) -> set[str]:
    """Gold ids at a level; some benchmarks name sessions without saying which of their turns count."""
    return at_level(gold.evidence, level, store) | (set(gold.sessions) if level == "session" else set())


def _session(turn_id: str, store: Store) -> str:
    turn = _turn(turn_id, store)
    return turn.session_id if turn else turn_id


def _turn(turn_id: str, store: Store) -> Turn | None:
    try:
        return store.turn(turn_id)
    except UsageError:
        return None


def _ends(turn_ids: Iterable[str], store: Store) -> list[tuple[str, int]]:
    """Ids of turns with the tokens of a context up to their end; "speaker: text" and a line break each."""
    turns = _turns(turn_ids, store)
    ends = accumulate(count_tokens(f"{turn.speaker}: {turn.text}") + 1 for turn in turns)
    return [(turn.id, end) for turn, end in zip(turns, ends, strict=True)]


def recall_by_tokens(gold: Question, prediction: dspy.Prediction, store: Store) -> dict[int, float]:
    """Share of the gold turns among the cited ones that fit into so many tokens, for several budgets.

    It is empty for a question without gold turns. See `EvidenceAtBudget`.
    """
    wanted, ends = set(gold.evidence), _ends(cited(prediction), store)
    return {
        tokens: _ratio({one for one, end in ends if end <= tokens} & wanted, wanted) for tokens in BUDGETS if wanted
    }


def _turns(turn_ids: Iterable[str], store: Store) -> list[Turn]:
    """Those that exist, in the order given."""
    return [turn for turn in (_turn(turn_id, store) for turn_id in turn_ids) if turn]


def _named(name: str, ids: Sequence[str], store: Store) -> str:
    """Ids in words: where a turn stands, and how it begins."""
    if not ids:
        return ""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"; {name}: {', '.join(_place(one, store) for one in ids[:_SHOWN])}{more}"


def _place(id: str, store: Store) -> str:
    turn = _turn(id, store)
    return f"{turn.session_id} {one_line(turn.text)[:_LENGTH]!r}" if turn else id


def _ratio(part: set[str], whole: set[str]) -> float:
    return len(part) / len(whole) if whole else 0.0


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
        value = _ratio(found & wanted, wanted)
        missed = _named("missed", sorted(wanted - found), self.store)
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
        value = _ratio(found & wanted, found)
        extra = _named("not gold", sorted(found - wanted), self.store)
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
        fitting = {one for one, end in _ends(ids, self.store) if end <= self.tokens}
        value = _ratio(fitting & wanted, wanted)
        late = _named("cited too late", [one for one in ids if one in wanted - fitting], self.store)
        missed = _named("not cited", sorted(wanted - set(ids)), self.store)
        fits = f"{len(fitting)} of {len(ids)} turns fit into {self.tokens} tokens"
        why = f"{len(fitting & wanted)} of {len(wanted)} gold turns are among them"
        return Score(value, f"{fits}; {why}{late}{missed}", {"recall": value, "fitting": _ratio(fitting, set(ids))})

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
        value = _ratio(near, wanted)
        why = f"cited {len(found & wanted)} of {len(wanted)} gold turns, and {len(near - found)} more by a neighbour"
        missed = _named("missed", sorted(wanted - near), self.store)
        return Score(value, why + missed, {"recall": value, "exact": _ratio(found & wanted, wanted)})

    def _around(self, turn_id: str) -> set[str]:
        turn = _turn(turn_id, self.store)
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
        turns = _turns(cited(prediction), self.store)
        texts = [(turn, whole_words(turn.text)) for turn in turns]
        for form in accepted(gold):
            for turn, text in texts:
                if contains(text, whole_words(form)):
                    return Score(1.0, f"{form!r} stands in {_place(turn.id, self.store)}", {"found": 1.0})
        return Score(0.0, f"{gold.answer!r} stands in none of {len(turns)} cited turns", {"found": 0.0})


@listed
class SpanSupport(Metric):
    """Share of the claims whose spans hold in the store and whose quotes hold the words there.

    Claims that were dropped for want of evidence count against it; nothing claimed is 0.
    """

    name = "span_support"

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        source = _source(prediction)
        supported = sum(bool(claim.spans) and holds(claim, self.store) for claim in source.claims)
        dropped = source.dropped if isinstance(source, Context) else 0
        composed = len(source.claims) + dropped
        value = supported / composed if composed else 0.0
        why = f"{supported} of {composed} claims rest on words that stand in the memory"
        return Score(value, why + (f"; {dropped} were dropped" if dropped else ""), {"support": value})


def holds(claim: Claim, store: Store) -> bool:
    """Whether the spans are the store's own and the quote holds their words."""
    turns = [_turn(span.turn_id, store) for span in claim.spans]
    return all(
        turn is not None
        and span.end <= len(turn.text)
        and span.holds_in(turn)
        and turn.text[span.start : span.end] in claim.quote
        for span, turn in zip(claim.spans, turns, strict=True)
    )
