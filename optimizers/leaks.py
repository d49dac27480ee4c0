"""Turns a compiled program into a list of leaks: held-out text or gold that would reach a prompt."""

from collections.abc import Iterable

import dspy

from stitchjam.data.records import Question
from stitchjam.data.text import normalise
from stitchjam.programs.contract import predictors_of, signature_of
from stitchjam.signatures import STEPS

__all__ = ["leaks"]

_SHORTEST_ANSWER = 4


def leaks(program: dspy.Module, questions: Iterable[Question]) -> tuple[str, ...]:
    """Every leak found, one line each.

    Demos may quote the history, which held-out questions share. They may not hold a held-out question, fields that
    are not in the signature (gold, ids), or turn ids; no instruction may hold a gold answer or a held-out question.
    """
    questions = list(questions)
    return tuple(
        f"{name}: {leak}"
        for name, predictor in predictors_of(program).items()
        for leak in [*_in_demos(predictor, questions), *_in_instructions(predictor, questions)]
    )


def _in_demos(predictor: dspy.Predict, questions: list[Question]) -> list[str]:
    found = []
    held_out = _held_out(questions)
    turn_ids = {turn_id for q in questions for turn_id in q.evidence}
    for number, demo in enumerate(predictor.demos, 1):
        extra = set(demo.keys()) - set(signature_of(predictor).fields) - {"augmented"}
        found += [f"demo {number} holds the field {name!r}, which the step does not take" for name in sorted(extra)]
        text = " ".join(str(demo[name]) for name in demo.keys())
        plain = normalise(text)
        found += [f"demo {number} holds held-out question {key!r}" for t, key in held_out.items() if _holds(plain, t)]
        found += [f"demo {number} holds the gold turn id {turn_id!r}" for turn_id in turn_ids if turn_id in text]
    return found


def _in_instructions(predictor: dspy.Predict, questions: list[Question]) -> list[str]:
    text, ours = normalise(signature_of(predictor).instructions), _hand_written(predictor)
    answers = {normalise(form): q.id for q in questions for form in (q.answer, *q.aliases)}
    found = [
        f"the instruction holds the gold answer of question {key!r}"
        for answer, key in answers.items()
        if len(answer) >= _SHORTEST_ANSWER and _holds(text, answer) and not _holds(ours, answer)
    ]
    asked = _held_out(questions).items()
    return found + [f"the instruction holds held-out question {key!r}" for t, key in asked if _holds(text, t)]


def _held_out(questions: list[Question]) -> dict[str, str]:
    return {normalise(q.text): q.id for q in questions if q.split == "held_out"}


def _hand_written(predictor: dspy.Predict) -> str:
    """The words of our own instruction, which cannot leak: a gold answer may be "number" or "none"."""
    signature = STEPS.get(getattr(predictor, "step", ""))
    return normalise(signature.instructions) if signature else ""


def _holds(text: str, part: str) -> bool:
    """Whether normalised text holds whole words of normalised text."""
    return bool(part) and f" {part} " in f" {text} "
