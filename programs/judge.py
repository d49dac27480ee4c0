"""Turns a question, its reference and an answer into a verdict: judges are programs, compiled and measured like others.

`stitchjam eval judge` measures how well one agrees with people; the metrics `judged` and `longmemeval` ask it.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dspy

from stitchjam.data.text import one_line
from stitchjam.programs.step import Program, as_step
from stitchjam.signatures.judge import JudgeAnswer, MatchCandidates

__all__ = ["ABSTENTION", "AnswerJudge", "CandidateJudge", "JUDGES", "RULES"]

ABSTENTION = "abstention"  # the kind of a question without an answer, which LongMemEval tells by its id
_ALL = "correct if it holds all that the reference says; another name, number or date, or only a part of it, is wrong"
# After the prompts of LongMemEval's published evaluation (arXiv 2410.10813, evaluate_qa.py); other types have no rule
# of their own.
RULES: Mapping[str, str] = MappingProxyType(
    {
        "": _ALL,
        "temporal-reasoning": f"{_ALL}; but a number of days, weeks or months that is off by one is correct",
        "knowledge-update": f"{_ALL}; the reference is the updated value: an answer that also names an older one is "
        "correct as long as it gives the updated one as its answer",
        "single-session-preference": "the reference describes what this person would want of an answer: correct if it "
        "recalls and uses what it knows about the person rightly; it need not meet every point",
        ABSTENTION: "the question cannot be answered, and the reference explains why: correct if the answer says so, "
        "that something is not known, or that only other things are; wrong if it answers the question",
    }
)
_NOTHING = {"", "none", "nothing"}


class AnswerJudge(Program):
    """Says whether an answer is correct, and what it lacks.

    Args:
        judge_answer: replacement for the step `JudgeAnswer`.
    """

    judge_answer: dspy.Module

    def __init__(self, judge_answer: Any = None):
        super().__init__()
        self.judge_answer = as_step(judge_answer, JudgeAnswer)

    def forward(self, question: str, reference: str, answer: str, kind: str = "") -> dspy.Prediction:
        """Judge.

        Args:
            question: its text.
            reference: the right answer; for a question without one, why it has none.
            answer: what is judged.
            kind: LongMemEval's type of question or `ABSTENTION`, for a rule of `RULES`; any other has the rule of "".

        Returns:
            A prediction with `correct`, a bool, and `missing`, which is "" when the judge misses nothing.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        texts = {"question": one_line(question), "reference": one_line(reference), "answer": one_line(answer)}
        reply = self.judge_answer(rule=RULES.get(kind, _ALL), **texts).reply
        missing = one_line(reply.missing)
        correct = reply.verdict == "CORRECT"
        return dspy.Prediction(correct=correct, missing="" if missing.strip(" .").lower() in _NOTHING else missing)


class CandidateJudge(Program):
    """Says which parts of an answer name the same thing as parts of the reference (CAME-Bench, after exact matching).

    Args:
        match_candidates: replacement for the step `MatchCandidates`.
    """

    match_candidates: dspy.Module

    def __init__(self, match_candidates: Any = None):
        super().__init__()
        self.match_candidates = as_step(match_candidates, MatchCandidates)

    def forward(self, question: str, reference: Sequence[str], answer: Sequence[str]) -> dspy.Prediction:
        """Match.

        Returns:
            A prediction with `pairs`, places in the two lists; each place is in one pair at most.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        golds, given = _labelled("g", reference), _labelled("a", answer)
        shown = {"reference": _lines(golds, reference), "answer": _lines(given, answer)}
        pairs: dict[int, int] = {}
        for pair in self.match_candidates(question=one_line(question), **shown).reply.pairs:
            gold, place = golds.get(pair.reference), given.get(pair.answer)
            if gold is not None and place is not None and gold not in pairs and place not in pairs.values():
                pairs[gold] = place
        return dspy.Prediction(pairs=list(pairs.items()))


def _labelled(letter: str, texts: Iterable[str]) -> dict[str, int]:
    return {f"{letter}{place + 1}": place for place, _ in enumerate(texts)}


def _lines(labels: Iterable[str], texts: Iterable[str]) -> str:
    return "\n".join(f"{label} | {one_line(text)}" for label, text in zip(labels, texts, strict=True))


JUDGES: Mapping[str, type[Program]] = MappingProxyType({"answer_judge": AnswerJudge, "candidate_judge": CandidateJudge})
