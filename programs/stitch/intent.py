"""Turns a request into its contextual intent: labels of the memory that it asks about, as one call of a model."""

from collections.abc import Sequence
from typing import Any

import dspy

from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.records import Turn
from stitchjam.programs.render import NOTHING, clip
from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.candidates import Candidates
from stitchjam.programs.stitch.view import clean
from stitchjam.signatures.stitch import ReadIntent

__all__ = ["IntentReader"]

_SHOWN: dict[Facet, int] = {"scope": 10, "event": 12, "entity": 12}
_NOW, _CLIPPED = 4, 160  # last turns of an agent that are shown with its next step, and characters of each


class IntentReader(Program):
    """Reads the intent of a question, or of the next step of an agent.

    Args:
        read_intent: replacement for the step `ReadIntent`.
    """

    read_intent: dspy.Module

    def __init__(self, read_intent: Any = None):
        super().__init__()
        self.read_intent = as_step(read_intent, ReadIntent)

    def forward(self, request: str, notebook: Notebook, now: Sequence[Turn] = ()) -> dspy.Prediction:
        """Read it.

        Args:
            request: the question, or what the agent is about to do.
            notebook: whose labels are shown: those near to the request, and those used last.
            now: the last turns of the agent, in order; their scope is shown first.

        Returns:
            A prediction with `intent`, an `Intent` of labels in the notebook. Picks that are no label are left out: a
            facet without one is not determined, and excludes nothing.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        here = notebook.current(now[-1].session_id) if now else ""
        with notebook.lock:
            shown = {facet: _candidates(notebook, facet, request, here) for facet in FACETS}
            lines = {facet: candidates.lines(here) for facet, candidates in shown.items()}
        said = (f"{clip(turn.speaker, 60)}: {clip(clean(turn.text), _CLIPPED)}" for turn in list(now)[-_NOW:])
        reply = self.read_intent(
            events=lines["event"],
            entities=lines["entity"],
            scopes=lines["scope"],
            now="\n".join(said) or NOTHING,
            request=request,
        ).reply
        picks: dict[Facet, list[str]] = {"scope": reply.scopes, "event": reply.events, "entity": reply.entities}
        with notebook.lock:
            found = {facet: tuple(one.id for one in shown[facet].chosen(picks[facet])[0]) for facet in FACETS}
        return dspy.Prediction(intent=Intent(scopes=found["scope"], events=found["event"], entities=found["entity"]))


def _candidates(notebook: Notebook, facet: Facet, request: str, here: str) -> Candidates:
    first = [here] if here and facet == "scope" else []
    return Candidates(notebook.bank, facet, tuple(notebook.bank.shortlist(facet, request, _SHOWN[facet], first)))
