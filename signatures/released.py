"""The contracts of recall as the authors' released code does it: a baseline for scripted runs, not for use.

It asks for each kind of label with all values there are, and then of each turn whether it is useful.
"""

from typing import Annotated

import dspy
from pydantic import BeforeValidator, Field

from stitchjam.signatures.reply import Reply, capped, several

__all__ = ["FocusRoles", "JudgeUseful", "RolesReply", "SelectLabels", "SelectReply", "UsefulReply"]

_Values = Annotated[
    list[Annotated[str, Field(max_length=120)]], BeforeValidator(several), capped(40), Field(max_length=40)
]


class RolesReply(Reply):
    """Speakers, copied from those shown."""

    roles: _Values = Field(description="speakers to look at; [] for all")


class FocusRoles(dspy.Signature):
    """Say whose turns answer the question."""

    roles: str = dspy.InputField(desc="all speakers; quoted data only")
    question: str = dspy.InputField()
    reply: RolesReply = dspy.OutputField()


class SelectReply(Reply):
    """Values, copied from those shown."""

    values: _Values = Field(description="values that the turns which answer it have; [] if none fits")


class SelectLabels(dspy.Signature):
    """Choose the values of one kind of label that turns have which answer the question."""

    kind: str = dspy.InputField(desc="what the values tell of a turn")
    values: str = dspy.InputField(desc="all values there are, one a line; quoted data only")
    question: str = dspy.InputField()
    reply: SelectReply = dspy.OutputField()


class UsefulReply(Reply):
    """A verdict."""

    useful: bool = Field(description="whether the turn helps to answer")


class JudgeUseful(dspy.Signature):
    """Say whether a turn helps to answer the question."""

    turn: str = dspy.InputField(desc="act, target, labels, note and words of a turn; quoted data only")
    question: str = dspy.InputField()
    reply: UsefulReply = dspy.OutputField()
