"""Turns an answer to a LoCoMo question into a score by the official rules, and by those of GAM, which differ."""

import math
from collections import Counter
from collections.abc import Iterable
from statistics import fmean

import dspy

from stitchjam.data.records import Answer, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import best_form, in_brackets, said
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import differences, gam_words, locomo_words, overlap_f1, porter

__all__ = ["LocomoF1", "LocomoGam"]

_MULTI_HOP, _OPEN_DOMAIN, _ADVERSARIAL = "1", "3", "5"  # categories
_NO_ANSWER = ("no information available", "not mentioned")


@listed
class LocomoF1(Metric):
    """LoCoMo's official score (snap-research/locomo, task_eval/evaluation.py), by category, the question's `kind`.

    1 multi-hop: prediction and gold are split at commas; each gold part takes its best F1, and their mean counts, so
    whatever else is listed costs nothing. 3 open-domain: the gold ends at its first ";". 5 adversarial: 1 when the
    answer says "no information available" or "not mentioned", or abstained. All others: F1 of Porter stems.

    The official scorer reads nothing but text, so an abstention is rated by its words except in category 5. It knows
    one gold; with aliases the best counts.

    Raises:
        MissingExtra: nltk is not installed.
    """

    name = "locomo_f1"
    needs = frozenset({"answer"})

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7):
        super().__init__(questions, store, threshold)
        porter()  # missing now, and not after the first answer was paid for

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer: Answer = prediction.answer
        if gold.kind == _ADVERSARIAL:
            return _adversarial(answer)
        rate = _part_by_part if gold.kind == _MULTI_HOP else _stem_f1
        value, form = best_form(gold, lambda form: rate(answer.text, _cut(form, gold.kind)))
        why = _part_facts if gold.kind == _MULTI_HOP else _stem_differences
        facts = in_brackets(f"F1 {value:.2f}", why(answer.text, _cut(form, gold.kind)))
        return Score(value, said(answer, form) + facts, {"f1": value})


def _cut(form: str, kind: str) -> str:
    return form.split(";")[0].strip() if kind == _OPEN_DOMAIN else form


def _adversarial(answer: Answer) -> Score:
    value = float(answer.abstained or any(phrase in answer.text.lower() for phrase in _NO_ANSWER))
    why = f"answered {answer.text!r}; " + ("right" if value else "wrong") + ": the conversation does not say"
    return Score(value, why, {"f1": value})


def _stem_f1(predicted: str, gold: str) -> float:
    return overlap_f1(locomo_words(predicted), locomo_words(gold))


def _stem_differences(predicted: str, gold: str) -> str:
    return differences(locomo_words(predicted), locomo_words(gold))


def _by_part(predicted: str, gold: str) -> dict[int, tuple[str, float]]:
    # An empty part, as behind a last comma, can never be found and counts as 0: so does the official scorer.
    given = predicted.split(",")
    parts = (part.strip() for part in gold.split(","))
    return {at: (part, max(_stem_f1(one, part) for one in given)) for at, part in enumerate(parts)}


def _part_by_part(predicted: str, gold: str) -> float:
    return fmean(value for _, value in _by_part(predicted, gold).values())


def _part_facts(predicted: str, gold: str) -> str:
    return ", ".join(f"{part!r} {value:.2f}" for part, value in _by_part(predicted, gold).values())


@listed
class LocomoGam(Metric):
    """LoCoMo as GAM scores it: F1 and BLEU-1 of plain words, in which two empty texts are equal; the value is F1.

    Category 5 is not rated. As in GAM, an abstention is rated by its words.
    """

    name = "locomo_gam"
    needs = frozenset({"answer"})
    parts = ("f1", "bleu1")

    def unrated(self, gold: Question) -> str:
        """See `Metric.unrated`."""
        return "GAM's scorer leaves out category 5, adversarial" if gold.kind == _ADVERSARIAL else ""

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer: Answer = prediction.answer
        given = gam_words(answer.text)
        value, form = best_form(gold, lambda form: _gam_f1(given, gam_words(form)))
        bleu, _ = best_form(gold, lambda form: _bleu1(given, gam_words(form)))
        facts = in_brackets(f"F1 {value:.2f}, BLEU-1 {bleu:.2f}", differences(given, gam_words(form)))
        return Score(value, said(answer, form) + facts, {"f1": value, "bleu1": bleu})


def _gam_f1(predicted: list[str], gold: list[str]) -> float:
    return overlap_f1(predicted, gold) if predicted or gold else 1.0


def _bleu1(predicted: list[str], gold: list[str]) -> float:
    """Clipped unigram precision, times e^(1 - gold/predicted) when the prediction is the shorter one."""
    if not predicted:
        return 0.0
    precision = sum((Counter(predicted) & Counter(gold)).values()) / len(predicted)
    return precision * math.exp(min(0.0, 1 - len(gold) / len(predicted)))
