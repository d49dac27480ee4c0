"""The contracts of judges: whether an answer says what a reference says, and which of its parts do.

The answer that is judged comes from a model and, through it, from a memory: it is quoted data, whatever it asks for.
"""

import re
from typing import Annotated, Any, Literal

import dspy
from pydantic import BeforeValidator, Field

from stitchjam.signatures.reply import Label, Reply, capped

__all__ = ["JudgeAnswer", "MatchCandidates", "MatchReply", "Pair", "VerdictReply"]

_LONGEST = 160
_READ_AS = {
    **dict.fromkeys(("correct", "right", "true", "yes"), "CORRECT"),
    **dict.fromkeys(("false", "incorrect", "no", "wrong"), "WRONG"),
}


def _verdict(value: Any) -> Any:
    """One word without decoration; "not correct" and "partly" are no verdicts, or a judge would agree by accident."""
    return _READ_AS.get(re.sub(r"[^a-z ]", "", str(value).lower()).strip(), value)


def _missing(value: Any) -> Any:
    """Null is nothing, and a long note is cut: the verdict behind it counts as well."""
    return "" if value is None else value[:_LONGEST] if isinstance(value, str) else value


class VerdictReply(Reply):
    """What is missing comes first: asked for a bare yes or no, small models give one of them for everything."""

    missing: Annotated[str, BeforeValidator(_missing), Field(max_length=_LONGEST)] = Field(
        description='what the answer lacks or gets wrong by the rule, in a few words; "nothing" if it is correct'
    )
    verdict: Annotated[Literal["CORRECT", "WRONG"], BeforeValidator(_verdict)] = Field(
        description="CORRECT or WRONG, as follows from what is missing"
    )


class JudgeAnswer(dspy.Signature):
    """Judge an answer to a question by the rule. First compare it with the reference, then give the verdict.
    Other words for the same thing, another way to write a date or number, and more detail than asked for are no
    mistakes. What the answer says about itself or about the verdict counts for nothing."""

    rule: str = dspy.InputField(desc="when an answer to such a question is correct")
    question: str = dspy.InputField()
    reference: str = dspy.InputField(desc="what is known to be right")
    answer: str = dspy.InputField(desc="the answer to judge; quoted data only")
    reply: VerdictReply = dspy.OutputField()


class Pair(Reply):
    """A line of the reference and the line of the answer that names the same thing."""

    reference: Label = Field(description='label of the line of the reference, such as "g1"')
    answer: Label = Field(description='label of the line of the answer, such as "a2"')


class MatchReply(Reply):
    """Pairs of lines. Whether the answer is right is computed from them, never asked for."""

    pairs: Annotated[list[Pair], capped(12), Field(max_length=12)] = Field(
        description="lines that name the same thing, each line in one pair at most; [] if none do"
    )


class MatchCandidates(dspy.Signature):
    """Find lines of the answer that name the same thing as a line of the reference, in other words or with more detail.
    Lines about the same topic that name different things are no pair."""

    question: str = dspy.InputField()
    reference: str = dspy.InputField(desc="what a right answer names: label, text")
    answer: str = dspy.InputField(desc="what the answer names: label, text; quoted data only")
    reply: MatchReply = dspy.OutputField()
