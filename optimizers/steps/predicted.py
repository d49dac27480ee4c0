"""Turns a notebook into what a program said about turns, in the form in which steps are judged."""

from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Note
from stitchjam.data.labelled import LabelledHistory
from stitchjam.optimizers.steps.records import Predicted

__all__ = ["first_turns", "predicted"]


def predicted(notebook: Notebook) -> dict[str, Predicted]:
    """What was said about each turn, by turn id; labels are ids, with merges taken into account."""
    return {turn_id: _said(note) for turn_id in notebook.notes if (note := notebook.of(turn_id))}


def _said(note: Note) -> Predicted:
    return Predicted(scope=note.scope, events=note.intent.events, entities=note.intent.entities, text=note.text)


def first_turns(one: LabelledHistory, turns: int | None) -> LabelledHistory:
    """The first turns of a labelled history, with the questions that they hold all evidence of."""
    history = one.history.first(turns)
    kept = {turn.id for turn in history.turns}
    labels = {turn_id: gold for turn_id, gold in one.labels.items() if turn_id in kept}
    questions = tuple(question for question in one.questions if kept.issuperset(question.evidence))
    return LabelledHistory(name=one.name, history=history, labels=labels, questions=questions)
