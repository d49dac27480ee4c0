"""Turns questions and a store into dspy examples that hold inputs only."""

from collections.abc import Iterable
from dataclasses import dataclass

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.data.store import Store
from stitchjam.data.text import normalise
from stitchjam.programs.artifact import PROGRAMS
from stitchjam.programs.judge import JUDGES
from stitchjam.programs.recall import recall
from stitchjam.programs.stitch.stitcher import LABELERS

__all__ = ["Task", "asked", "examples"]


@dataclass(frozen=True)
class Task:
    """What is compiled and judged: examples to learn from, examples held out, and where both come from."""

    program: str
    train: tuple[dspy.Example, ...]
    held_out: tuple[dspy.Example, ...]

    @classmethod
    def of(cls, program: str, questions: Iterable[Question], store: Store, k: int = 10) -> "Task":
        """Split questions by their `split`.

        Raises:
            UsageError: one of the splits is empty, or a question is in both.
        """
        questions = list(questions)
        train = [question for question in questions if question.split == "train"]
        held_out = [question for question in questions if question.split == "held_out"]
        if not train or not held_out:
            raise UsageError(
                f"compiling needs questions with split 'train' and 'held_out'; there are {len(train)} and "
                f"{len(held_out)}. Add the field to the questions file"
            )
        if {normalise(question.text) for question in train} & {normalise(question.text) for question in held_out}:
            raise UsageError("a question is in both splits; held-out questions must be new")
        return cls(program, examples(program, train, store, k), examples(program, held_out, store, k))


def examples(program: str, questions: Iterable[Question], store: Store, k: int = 10) -> tuple[dspy.Example, ...]:
    """One example a question: id, question and what else the program takes (a store, or a context of `k` turns).

    Raises:
        UsageError: there is no such program, or it takes no questions: a judge, or what labels turns.
    """
    known = sorted(PROGRAMS.keys() - JUDGES.keys() - LABELERS.keys())
    if program not in known:
        raise UsageError(f"no program that answers questions: {program!r}; known: {', '.join(known)}")
    if program == "answerer":
        rows = ({"id": q.id, "question": asked(q), "context": recall(q.text, store, k)} for q in questions)
        return tuple(dspy.Example(**row).with_inputs("question", "context") for row in rows)
    rows = ({"id": q.id, "question": asked(q), "store": store} for q in questions)
    return tuple(dspy.Example(**row).with_inputs("question", "store") for row in rows)


def asked(question: Question) -> str:
    """A question as a program gets it: with the day on which it is asked, where that is known.

    "How long ago" has no other answer; LongMemEval shows it too.
    """
    return f"{question.text} (asked on {question.time[:10]})" if question.time else question.text
