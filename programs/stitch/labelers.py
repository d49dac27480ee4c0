"""Turns a turn, and what is shown with it, into what a model says about it: in one call, or step by step.

Both give the same `Reading`, and the code around them is shared: see `settle.py`. The fused one is the default; the
stepwise one follows the paper and is the reference.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import dspy

from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.view import View
from stitchjam.signatures.stitch import (
    DetectScope,
    LabelTurn,
    Reference,
    TypeEntities,
    TypeEvent,
    WriteGist,
    WriteNote,
)

__all__ = ["FusedLabeler", "Labeler", "Reading", "StepwiseLabeler"]


@dataclass(frozen=True)
class Reading:
    """What a model said about a turn, unchecked: picks of labels, names and sentences."""

    topic: str
    scope: str
    event: str
    entities: tuple[str, ...]
    references: tuple[Reference, ...]
    act: str
    target: str
    summary: str
    gist: str


class Labeler(Program):
    """Base of what reads one turn."""

    @abstractmethod
    def forward(self, view: View) -> dspy.Prediction:
        """Read a window of a turn.

        Returns:
            A prediction with `reading`, a `Reading`.

        Raises:
            ModelOutputError, BackendError: from the steps.
        """


class FusedLabeler(Labeler):
    """One call a turn.

    Args:
        label_turn: replacement for the step `LabelTurn`.
    """

    label_turn: dspy.Module

    def __init__(self, label_turn: Any = None):
        super().__init__()
        self.label_turn = as_step(label_turn, LabelTurn)

    def forward(self, view: View) -> dspy.Prediction:
        """See `Labeler.forward`."""
        return dspy.Prediction(reading=_reading(self.label_turn(**view.fields()).reply))


class StepwiseLabeler(Labeler):
    """Scope, event, entities, note and gist, each by a step of its own (the order of the paper).

    Args:
        detect_scope, type_event, type_entities, write_note, write_gist: replacements for the steps of these names.
    """

    detect_scope: dspy.Module
    type_event: dspy.Module
    type_entities: dspy.Module
    write_note: dspy.Module
    write_gist: dspy.Module

    def __init__(
        self,
        detect_scope: Any = None,
        type_event: Any = None,
        type_entities: Any = None,
        write_note: Any = None,
        write_gist: Any = None,
    ):
        super().__init__()
        self.detect_scope = as_step(detect_scope, DetectScope)
        self.type_event = as_step(type_event, TypeEvent)
        self.type_entities = as_step(type_entities, TypeEntities)
        self.write_note = as_step(write_note, WriteNote)
        self.write_gist = as_step(write_gist, WriteGist)

    def forward(self, view: View) -> dspy.Prediction:
        """See `Labeler.forward`."""
        shown = view.fields()

        def only(*names: str) -> dict[str, str]:
            return {name: shown[name] for name in names}

        scope = self.detect_scope(**only("scopes", "before", "turn")).reply
        event = self.type_event(**only("events", "before", "turn")).reply
        types = self.type_entities(**only("entities", "turn")).reply
        note = self.write_note(**only("before", "mentioned", "turn")).reply
        known = view.scopes.picked(scope.scope)
        topic = known.name if known else scope.topic
        gist = view.scopes.bank.gists.get(known.id, "") if known else ""
        told = self.write_gist(topic=topic, gist=gist or "(nothing yet)", turn=view.line).reply
        return dspy.Prediction(reading=_reading(scope, event, types, note, told))


def _reading(*replies: Any) -> Reading:
    said: dict[str, Any] = {name: value for reply in replies for name, value in reply}
    lists: dict[str, Any] = {name: tuple(said[name]) for name in ("entities", "references")}
    return Reading(**(said | lists))
