"""Turns an answer into correct or wrong by an LLM judge, which is asked only where words do not settle it.

Under bindings the role "judge" answers, so that a program can change its model while the yardstick stays.
"""

import string
from collections.abc import Iterable
from typing import Any

import dspy

from stitchjam.data.records import NOT_MENTIONED, Answer, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import abstains, accepted, said, unanswerable
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import whole_words
from stitchjam.programs.contract import signed_name
from stitchjam.programs.judge import ABSTENTION, AnswerJudge

__all__ = ["Judged", "LongMemEval"]


@listed
class Judged(Metric):
    """1 when a judge calls the answer correct, one rule for all types: as JAM and Memory-R1 judge LoCoMo (jam.md 5.1).

    Without a call: an abstention is right when the gold has no answer, and only an abstention is; the words of an
    accepted answer are right; an empty answer is wrong. The part `asked_judge` is 1 where the judge decided.

    Args:
        questions, store, threshold: see `Metric`.
        judge: who is asked; default: an `AnswerJudge` as it is before any compiling.

    Raises:
        ModelError: from the judge, when an answer is scored.
    """

    name = "judged"
    needs = frozenset({"answer"})
    judge_kind = "answer_judge"

    def __init__(
        self, questions: Iterable[Question], store: Store, threshold: float = 0.7, judge: AnswerJudge | None = None
    ):
        super().__init__(questions, store, threshold)
        self.judge = judge or AnswerJudge()

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        return _settled(prediction.answer, gold) or self._unsettled(prediction.answer, gold)

    def _unsettled(self, answer: Answer, gold: Question) -> Score:
        if unanswerable(gold):
            return _score(False, f"answered {answer.text!r}, but the memory does not say")
        return self._asked(answer, gold)

    def _asked(self, answer: Answer, gold: Question, kind: str = "") -> Score:
        forms = [form for form in accepted(gold) if form.strip() and form != NOT_MENTIONED]
        reference = "; or: ".join(forms) or "the memory does not say"
        with dspy.context(trace=None):  # the trace is that of the program
            found = self.judge(question=gold.text, reference=reference, answer=answer.text, kind=kind)
        verdict = "judged CORRECT" if found.correct else "judged WRONG"
        missing = f", missing: {found.missing}" if found.missing else ""
        return _score(found.correct, f"{said(answer, reference)}; {verdict}{missing}", asked=True)

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`; the judge is named by what it is."""
        return super().describe() | {"judge": signed_name(self.judge)}


@listed
class LongMemEval(Judged):
    """LongMemEval's accuracy: the judge goes by a rule for the type of question, see `programs.judge.RULES`.

    Whether a free answer recognises that a question has none is for the judge too, which is shown the file's reason.
    The published figures are those of GPT-4o as the judge, always asked and without examples (evaluate_qa.py).
    """

    name = "longmemeval"

    def _unsettled(self, answer: Answer, gold: Question) -> Score:
        return self._asked(answer, gold, ABSTENTION if unanswerable(gold) else gold.kind)


def _settled(answer: Answer, gold: Question) -> Score | None:
    """The score of an answer that needs no judge, if it is one."""
    if not answer.abstained and not answer.text.strip(string.punctuation + string.whitespace):
        return _score(False, f"an empty answer, expected {gold.answer!r}")
    if abstains(answer):
        right = unanswerable(gold)
        return _score(right, "abstained; " + ("the memory does not say" if right else f"expected {gold.answer!r}"))
    words = whole_words(answer.text)
    form = next((form for form in accepted(gold) if words and whole_words(form) == words), None)
    return _score(True, f"{said(answer, form)}: the same words") if form is not None else None


def _score(correct: bool, why: str, asked: bool = False) -> Score:
    return Score(float(correct), why, {"correct": float(correct), "asked_judge": float(asked)})
