"""Turns a measured rehearsal into a plan: how many calls, tokens, minutes and dollars a compile may take."""

import math
from collections.abc import Callable
from itertools import islice

import dspy

from stitchjam.backends.usage import Usage, metered
from stitchjam.data.errors import BudgetStop
from stitchjam.data.records import Record
from stitchjam.optimizers.evaluate import BACKEND_ERRORS, OUTPUT_ERRORS
from stitchjam.optimizers.recipes import Recipe
from stitchjam.optimizers.task import Task
from stitchjam.programs.step import Program

__all__ = ["Plan", "REHEARSED", "make_plan"]

REHEARSED = 2


class Plan(Record):
    """An upper bound. `runs` are program runs; the other figures scale the dearest run of the rehearsal.

    `measured` says how many training examples were really run for it (their replies are kept and used again).
    """

    runs: int
    calls: int
    tokens: int
    seconds: float
    cost: float
    measured: int
    calls_a_run: float
    seconds_a_call: float
    tokens_a_second: float


def make_plan(program: Program, task: Task, recipe: Recipe, progress: Callable[[str], None] | None = None) -> Plan:
    """Run the program on a few training examples and scale up.

    Runs: held-out examples twice (seed and compiled) and what the recipe may take. Demos lengthen prompts: each may
    add the tokens of one rehearsed call to every compiled call.
    """
    rehearsed = _rehearse(program, task, progress)
    calls_a_run = max(usage.calls + usage.cache_hits for usage in rehearsed)
    usage = sum(rehearsed, Usage())
    compiled, others = len(task.held_out), len(task.held_out) + recipe.runs(task)
    longer = 1 + recipe.demos()
    scale = (others + compiled * longer) * calls_a_run / usage.calls if usage.calls else 0.0
    return Plan(
        runs=others + compiled,
        calls=calls_a_run * (others + compiled),
        tokens=math.ceil(usage.tokens * scale),
        seconds=usage.seconds * scale,
        cost=usage.cost * scale,
        measured=len(rehearsed),
        calls_a_run=calls_a_run,
        seconds_a_call=usage.seconds / usage.calls if usage.calls else 0.0,
        tokens_a_second=usage.tokens / usage.seconds if usage.seconds else 0.0,
    )


def _rehearse(program: Program, task: Task, progress: Callable[[str], None] | None) -> list[Usage]:
    rehearsed = []
    for example in islice(task.train, REHEARSED):
        with metered() as ledger:
            _run(program, example)
        rehearsed.append(ledger.total())
        if progress is not None:
            progress(example.id)
    if not any(usage.calls or usage.cache_hits for usage in rehearsed):
        raise BudgetStop("plan", "the program made no LM call on the first examples; check the questions and the store")
    return rehearsed


def _run(program: Program, example: dspy.Example) -> None:
    try:
        program(**example.inputs())
    except (*OUTPUT_ERRORS, *BACKEND_ERRORS):
        return  # it still took its calls; the evaluation reports the failure
