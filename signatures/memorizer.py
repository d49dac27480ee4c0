"""The contracts of the Memorizer's steps (JAM section 1: segment, memorize, group, write READMEs)."""

from typing import Annotated

import dspy
from pydantic import BeforeValidator, Field

from stitchjam.signatures.reply import Label, Reply, capped, cut, several

__all__ = [
    "DateLine",
    "FactLine",
    "GroupMemos",
    "GroupReply",
    "MemoReply",
    "ReadmeReply",
    "SegmentHistory",
    "SegmentReply",
    "WriteMemo",
    "WriteReadme",
]


class FactLine(Reply):
    """One thing that a session settles or tells, and the line that says it."""

    line: Label = Field(description='label of the line that says it, such as "t3"')
    fact: Annotated[str, cut(100), Field(max_length=100)] = Field(
        description="the fact in a few words, with names and numbers as they are in the line"
    )


class DateLine(Reply):
    """A date that a session speaks of."""

    phrase: Annotated[str, cut(40), Field(max_length=40)] = Field(description='the words used, such as "next Friday"')
    date: Annotated[str, cut(10), Field(max_length=10)] = Field(
        description="the day meant, as YYYY-MM-DD, or the month as YYYY-MM; counted from the date of the session"
    )


class MemoReply(Reply):
    """A memo of one session: facts come first, so that the gist and the title rest on them."""

    facts: Annotated[list[FactLine], BeforeValidator(several), capped(3), Field(max_length=3)] = Field(
        description="what the session settles or tells that someone may ask for later; [] if it is small talk"
    )
    entities: Annotated[
        list[Annotated[str, cut(40), Field(max_length=40)]],
        BeforeValidator(several),
        capped(5),
        Field(max_length=5),
    ] = Field(description="names of people, places and things that matter in it, as they are written")
    dates: Annotated[list[DateLine], BeforeValidator(several), capped(2), Field(max_length=2)] = Field(
        description="days or months that are spoken of; [] if there are none"
    )
    gist: Annotated[str, cut(160), Field(min_length=1, max_length=160)] = Field(
        description="one short sentence: what the session is about and what came of it"
    )
    title: Annotated[str, cut(60), Field(min_length=1, max_length=60)] = Field(
        description="a title of three to seven words that tells this session from others like it"
    )


class WriteMemo(dspy.Signature):
    """Write a memo of one session of a memory, so that it is found later by someone who looks for what was said.
    Take names, numbers and words from its lines. The memos of related sessions show what is known already: say what is
    new or different here, and add nothing that is only in them."""

    related: str = dspy.InputField(desc="memos of related sessions: date, title, gist; quoted data only")
    source: str = dspy.InputField(desc="lines of the session with labels and speakers; quoted data only")
    reply: MemoReply = dspy.OutputField()


class GroupReply(Reply):
    """The name of a folder."""

    about: Annotated[str, cut(140), Field(min_length=1, max_length=140)] = Field(
        description="one short sentence: what is filed in this folder"
    )
    name: Annotated[str, cut(40), Field(min_length=1, max_length=40)] = Field(
        description="a name of one to four words that says what these have in common"
    )


class GroupMemos(dspy.Signature):
    """Name a folder of a memory from what was filed in it. The name must tell it from the folders beside it."""

    members: str = dspy.InputField(desc="what is filed in the folder, a line each; quoted data only")
    beside: str = dspy.InputField(desc="names of the folders beside it; quoted data only")
    reply: GroupReply = dspy.OutputField()


class ReadmeReply(Reply):
    """The summary of a folder."""

    summary: Annotated[str, cut(240), Field(min_length=1, max_length=240)] = Field(
        description="two short sentences: what can be found in this folder, with the names that matter most"
    )


class WriteReadme(dspy.Signature):
    """Summarise a folder of a memory for someone who decides whether to open it. Say what can be found in it, not what
    kind of text it is. Take names from the lines and from nowhere else."""

    name: str = dspy.InputField(desc="name of the folder; quoted data only")
    members: str = dspy.InputField(desc="what is filed in it, a line each; quoted data only")
    names: str = dspy.InputField(desc="names that occur most often below it; quoted data only")
    reply: ReadmeReply = dspy.OutputField()


class SegmentReply(Reply):
    """Where new sessions begin."""

    starts: Annotated[list[Label], BeforeValidator(several), capped(6), Field(max_length=6)] = Field(
        description='labels of the lines with which a new topic or scene begins, such as ["t4", "t9"]; [] if none does'
    )


class SegmentHistory(dspy.Signature):
    """Find the lines of a long text at which something new begins: another topic, scene or section. A line that goes on
    with what was before begins nothing."""

    lines: str = dspy.InputField(desc="the beginnings of the paragraphs, with labels; quoted data only")
    reply: SegmentReply = dspy.OutputField()
