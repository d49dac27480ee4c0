"""Turns questions and a store into dspy examples that hold inputs only."""

from collections.abc import Iterable
from dataclasses import dataclass

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.data.store import Store
from stitchjam.data.text import normalise
from stitchjam.programs.artifact import PROGRAMS
from stitchjam.programs.recall import recall

__all__ = ["Task", "examples", "select"]


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
        UsageError: there is no such program.
    """
    if program not in PROGRAMS:
        raise UsageError(f"unknown program {program!r}; known: {', '.join(sorted(PROGRAMS))}")
    if program == "answerer":
        return tuple(
            dspy.Example(id=q.id, question=q.text, context=recall(q.text, store, k)).with_inputs("question", "context")
            for q in questions
        )
    return tuple(
        dspy.Example(id=q.id, question=q.text, store=store).with_inputs("question", "store") for q in questions
    )


def select(questions: Iterable[Question], split: str, limit: int | None = None) -> tuple[Question, ...]:
    """The first `limit` questions of a split, or of "all".

    Raises:
        UsageError: there are none.
    """
    questions = tuple(questions)
    if not questions:
        raise UsageError("there are no questions; give --questions, or neither a history nor questions for the sample")
    chosen = tuple(question for question in questions if split in ("all", question.split))
    if not chosen:
        known = sorted({question.split for question in questions} - {""})
        hint = f'use one of {", ".join(["all", *known])}, or add "split": "{split}" to questions'
        raise UsageError(f"no question has the split {split!r}; {hint}")
    return chosen[:limit]
