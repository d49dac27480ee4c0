"""Turns a question into a context as the authors' released code does (specs: section 3, "retrieval as coded").

A baseline to count calls of and to compare with: 5 calls and up to 39 more a question. Where the paper ranks by label
density, this takes the union of all labels, asks of each turn whether it is useful, and orders by similarity.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Note
from stitchjam.data.records import Context, Turn
from stitchjam.data.store import Store
from stitchjam.programs.answer import Answerer
from stitchjam.programs.render import clip, quoted
from stitchjam.programs.step import Program, as_step
from stitchjam.signatures.released import FocusRoles, JudgeUseful, SelectLabels

__all__ = ["ReleasedAgent", "ReleasedRecall"]

_KEPT, _CHECKS, _SHOWN = 12, 39, 20  # accepted, asked about, and given at most
_WORDS = 200  # of a turn
_KINDS = {"scope": "topic", "event": "what it does", "target": "what it is about", "entity": "kinds of things"}
Values = dict[str, set[str]]


class ReleasedRecall(Program):
    """Recall of the released code.

    Args:
        focus_roles, select_labels, judge_useful: replacements for the steps of these names.
    """

    focus_roles: dspy.Module
    select_labels: dspy.Module
    judge_useful: dspy.Module

    def __init__(self, focus_roles: Any = None, select_labels: Any = None, judge_useful: Any = None):
        super().__init__()
        self.focus_roles = as_step(focus_roles, FocusRoles)
        self.select_labels = as_step(select_labels, SelectLabels)
        self.judge_useful = as_step(judge_useful, JudgeUseful)

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Recall; returns `context`, its turns by similarity, best first.

        Raises:
            ModelOutputError, BackendError: from the steps.
        """
        notebook = store.notebook
        turns = [turn for turn in store.turns if turn.id in notebook.notes]
        values = {turn.id: _values(notebook, turn) for turn in turns}
        roles = self._roles(question, turns)
        wanted = {kind: self._selected(question, kind, values) for kind in _KINDS}
        hits = {
            turn.id: _hits(values[turn.id], wanted) for turn in turns if not roles or turn.speaker.casefold() in roles
        }
        ranked = sorted((turn for turn in turns if hits.get(turn.id)), key=lambda turn: -hits[turn.id])
        useful = self._useful(question, ranked, notebook)
        ids = {turn.id for turn in useful or turns}
        found = [hit.turn for hit in store.search(question, store.size) if hit.turn.id in ids][:_SHOWN]
        return dspy.Prediction(context=Context(request=question, claims=tuple(quoted(turn) for turn in found)))

    def _roles(self, question: str, turns: Sequence[Turn]) -> set[str]:
        known = {turn.speaker.casefold() for turn in turns}
        chosen = self.focus_roles(roles=", ".join(sorted(known)), question=question).reply.roles
        return known & {role.casefold() for role in chosen}

    def _selected(self, question: str, kind: str, values: Mapping[str, Values]) -> set[str]:
        known = sorted({value for one in values.values() for value in one[kind]})
        reply = self.select_labels(kind=_KINDS[kind], values="\n".join(known), question=question).reply
        return set(reply.values)

    def _useful(self, question: str, ranked: Sequence[Turn], notebook: Notebook) -> list[Turn]:
        kept: list[Turn] = []
        for turn in ranked[: min(_CHECKS, max(1, len(ranked) // 2))]:
            shown = _shown(turn, notebook.notes[turn.id], notebook)
            if self.judge_useful(turn=shown, question=question).reply.useful:
                kept.append(turn)
            if len(kept) == _KEPT:
                break
        return kept


def _values(notebook: Notebook, turn: Turn) -> Values:
    note = notebook.notes[turn.id]
    names = {facet: set(values) for facet, values in notebook.names(note.intent).items()}
    return {**names, "target": {note.target} if note.target else set()}


def _hits(own: Values, wanted: Values) -> int:
    return sum(not own[kind].isdisjoint(wanted[kind]) for kind in _KINDS)


def _shown(turn: Turn, note: Note, notebook: Notebook) -> str:
    labels = ", ".join(notebook.bank.name(one) for one in note.intent.ids)
    words = " ".join(turn.text.split()[:_WORDS])
    return f"{note.act} | {note.target} | {labels} | {clip(note.summary, 300)} | {turn.speaker}: {words}"


class ReleasedAgent(Program):
    """Recalls as the released code does, and answers.

    Args:
        recall: finds the context; default: `ReleasedRecall()`.
        answerer: answers from it; default: `Answerer()`.
    """

    def __init__(self, recall: ReleasedRecall | None = None, answerer: Answerer | None = None):
        super().__init__()
        self.recall, self.answerer = recall or ReleasedRecall(), answerer or Answerer()

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Recall and answer; returns `answer` and `context`."""
        context = self.recall(question=question, store=store).context
        return dspy.Prediction(answer=self.answerer(question=question, context=context).answer, context=context)
