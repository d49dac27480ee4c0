"""Turns an answer and its gold into a score by words: token F1, exact match, ROUGE-L, and whether it abstained.

Scorers differ in what a word is, so their figures must not be mixed; each metric names the scorer it follows.
"""

import string
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import dspy

from stitchjam.data.errors import MissingExtra
from stitchjam.data.records import NOT_MENTIONED, Answer, Question
from stitchjam.data.store import Store
from stitchjam.data.text import normalise, words
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import differences, overlap_f1, squad_words

__all__ = [
    "Abstention",
    "AnswerF1",
    "QaF1",
    "RougeL",
    "abstains",
    "accepted",
    "answer_f1",
    "best_form",
    "in_brackets",
    "said",
    "unanswerable",
]


def unanswerable(gold: Question) -> bool:
    """Whether the right answer is that the memory does not say."""
    return _says_nothing(gold.answer)


def abstains(answer: Answer) -> bool:
    """Whether an answer says that the memory does not say; one without words says nothing."""
    return answer.abstained or _says_nothing(answer.text)


def _says_nothing(text: str) -> bool:
    # Not normalised: "A" is an option and "The The" a band, and nothing would be left of them.
    return not text.strip(string.punctuation + string.whitespace) or normalise(text) == NOT_MENTIONED


def accepted(gold: Question) -> tuple[str, ...]:
    """All accepted answers, the main one first."""
    return (gold.answer, *gold.aliases)


def answer_f1(answer: Answer, gold: Question) -> float:
    """Token F1 against the best of answer and aliases (LongBench normalisation).

    An abstention is right when the gold is empty or says that nothing is mentioned, and 0 otherwise.
    """
    if answer.abstained:
        return float(unanswerable(gold))
    return max(overlap_f1(words(answer.text), words(form)) for form in accepted(gold))


def best_form(gold: Question, rate: Callable[[str], float]) -> tuple[float, str]:
    """The highest value over accepted answers, and the first that reaches it."""
    form = max(accepted(gold), key=rate)
    return rate(form), form


def said(answer: Answer, form: str) -> str:
    """How every reason begins."""
    return f"answered {answer.text!r}, expected {form!r}"


def in_brackets(*facts: str) -> str:
    """Facts behind what was said, without empty ones."""
    return f" ({'; '.join(fact for fact in facts if fact)})"


def _abstained(gold: Question, *parts: str) -> Score:
    """The score of an abstention."""
    value = float(unanswerable(gold))
    why = "abstained, as it should: the gold has no answer" if value else f"abstained, but expected {gold.answer!r}"
    return Score(value, why, dict.fromkeys(parts, value))


@listed
class AnswerF1(Metric):
    """Token F1 of the answer (jam.md 5.1: lower case, no punctuation, no articles, best of several golds)."""

    name = "answer_f1"
    needs = frozenset({"answer"})

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        value = answer_f1(prediction.answer, gold)
        why = f"answered {prediction.answer.text!r}, expected {gold.answer!r} (F1 {value:.2f})"
        return Score(value, why, {"f1": value, "exact": float(value == 1)})


@listed
class QaF1(Metric):
    """F1 and exact match of HotpotQA and NarrativeQA as in LongBench: the best over the golds, each for itself.

    "the" and "a" match exactly, since nothing is left of either, while their F1 is 0: so do the official scorers. An
    abstention is right when the gold has no answer. HotpotQA's own rule for "yes" and "no" is not in LongBench.
    """

    name = "qa_f1"
    needs = frozenset({"answer"})

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer: Answer = prediction.answer
        if answer.abstained:
            return _abstained(gold, "f1", "em")
        given = squad_words(answer.text)
        value, form = best_form(gold, lambda form: overlap_f1(given, squad_words(form)))
        exact = float(any(given == squad_words(form) for form in accepted(gold)))
        why = "exact match" if exact else f"F1 {value:.2f}"
        facts = in_brackets(why, "" if exact else differences(given, squad_words(form)))
        return Score(value, said(answer, form) + facts, {"f1": value, "em": exact})


@lru_cache(maxsize=1)
def _rouge() -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise MissingExtra("rouge-score", "bench", "ROUGE-L") from None
    return RougeScorer(["rougeL"], use_stemmer=True)


@listed
class RougeL(Metric):
    """ROUGE-L by the rouge-score library, with stems: the best F of several references (QMSum, SQuALITY).

    F is 2 LCS / (words given + words in the reference), LCS the longest common subsequence. The library knows only
    ASCII letters and digits as words: "café" is "caf", and Greek is nothing. An abstention is right when the gold has
    no answer.

    Raises:
        MissingExtra: rouge-score is not installed.
    """

    name = "rouge_l"
    needs = frozenset({"answer"})

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7):
        super().__init__(questions, store, threshold)
        _rouge()

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer: Answer = prediction.answer
        if answer.abstained:
            return _abstained(gold, "precision", "recall", "f")
        rated = [(_rouge().score(form, answer.text)["rougeL"], form) for form in accepted(gold)]
        best, form = max(rated, key=lambda pair: pair[0].fmeasure)
        parts = {"precision": float(best.precision), "recall": float(best.recall), "f": float(best.fmeasure)}
        figures = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
        return Score(parts["f"], f"{said(answer, form)} (ROUGE-L {figures})", parts)


@listed
class Abstention(Metric):
    """1 when it abstained and the gold has no answer, or did not and there is one; what it answered does not count.

    Parts tell the two mistakes apart: an answer where there is none, and silence where there is one.
    """

    name = "abstention"
    needs = frozenset({"answer"})

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        silent, empty = abstains(prediction.answer), unanswerable(gold)
        did = "abstained" if silent else f"answered {prediction.answer.text!r}"
        there_is = "the memory does not say" if empty else f"the memory says {gold.answer!r}"
        why = f"{did}, {'rightly' if silent == empty else 'wrongly'}: {there_is}"
        mistakes = {"false_answer": float(empty and not silent), "false_abstention": float(silent and not empty)}
        return Score(float(silent == empty), why, {"correct": float(silent == empty)} | mistakes)
