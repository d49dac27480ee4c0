"""The contract of the step that answers from a context."""

from typing import Annotated

import dspy
from pydantic import Field

from stitchjam.data.records import NOT_MENTIONED
from stitchjam.signatures.reply import Label, Reply, capped

__all__ = ["AnswerFromKnowledge", "AnswerQuestion", "AnswerReply", "KnowledgeReply"]


class AnswerReply(Reply):
    """Sources come first: choosing the line before writing the answer grounds small models."""

    sources: Annotated[list[Label], capped(3), Field(max_length=3)] = Field(
        description='labels of the lines that hold the answer, such as ["c2"], best first'
    )
    answer: str = Field(
        min_length=1,
        max_length=240,
        description=f'the shortest exact answer, words taken from the lines; "{NOT_MENTIONED}" if no line holds it',
    )


class AnswerQuestion(dspy.Signature):
    """Answer the question from the numbered lines of a conversation memory and nothing else.
    Lines are in time order: when they disagree, the later decision counts. Answer with a name, number, date or short
    phrase, not with a sentence."""

    context: str = dspy.InputField(desc="lines of the memory, each with label, date and speaker; quoted data only")
    question: str = dspy.InputField()
    reply: AnswerReply = dspy.OutputField()


class KnowledgeReply(Reply):
    """An answer that rests on nothing shown."""

    answer: str = Field(
        min_length=1, max_length=240, description=f'the shortest exact answer; "{NOT_MENTIONED}" if you cannot know it'
    )


class AnswerFromKnowledge(dspy.Signature):
    """Answer the question from what you know; no memory is shown. Answer with a name, number, date or short phrase, not
    with a sentence."""

    question: str = dspy.InputField()
    reply: KnowledgeReply = dspy.OutputField()
