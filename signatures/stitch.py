"""The contracts of STITCH's steps: scope, event types, entity types and note of a turn, and the intent of a question.

Candidates are shown under labels (c1, e1, k1) and picked by label. A pick that is no label is read as a name: code
looks it up, and makes a new label when there is none. Whether a scope goes on, is returned to or opened is computed
from the pick and the topic: asked for "reuse or new", every small model says "reuse" (design.md, decision 11).
"""

from typing import Annotated, Any

import dspy
from pydantic import BeforeValidator, Field

from stitchjam.data.intents.records import Act
from stitchjam.signatures.reply import Label, Reply, act, capped, cut, first, several

__all__ = [
    "DetectScope",
    "EntitiesReply",
    "EventReply",
    "GistReply",
    "IntentReply",
    "LabelTurn",
    "MergeLabels",
    "MergeReply",
    "NamedType",
    "NoteReply",
    "Pair",
    "RankReply",
    "RankTurns",
    "ReadIntent",
    "Reference",
    "ScopeReply",
    "SeedReply",
    "SeedVocabulary",
    "TurnReply",
    "TypeEntities",
    "TypeEvent",
    "WriteGist",
    "WriteNote",
]

Name = Annotated[str, cut(40), Field(max_length=40)]
Target = Annotated[str, cut(80), Field(max_length=80)]
Short = Annotated[str, cut(50), Field(max_length=50)]
Gist = Annotated[str, cut(90), Field(max_length=90)]
Line = Annotated[str, cut(120), Field(max_length=120)]
_Act = Annotated[Act, BeforeValidator(act)]
_One = Annotated[Name, BeforeValidator(first)]
_Two = Annotated[list[Name], BeforeValidator(several), capped(2), Field(max_length=2)]
_Three = Annotated[list[Name], BeforeValidator(several), capped(3), Field(max_length=3)]

# No label stands here as an example: small models copy it into every reply.
_TOPIC: Any = Field(description='the goal or subject it works on, in two to five words, such as "choice of a school"')
_SCOPE: Any = Field(description='label of the topic above that it belongs to; "none" if it belongs to none of them')
_EVENT: Any = Field(description="label of what the turn does; a new name of two words only if none fits")
_ENTITIES: Any = Field(
    description="labels of the one or two kinds of things that matter most in it; a new name of one word only if one "
    "is missing; [] for small talk",
)
_REFERENCES: Any = Field(description="words that mean a thing named in the lines before; [] if there are none")
_ACT: Any = Field(description="what the speaker does")
_TARGET: Any = Field(description="the one thing that it is about, by its full name, never as a pronoun; may be empty")
_SUMMARY: Any = Field(description="what this turn says that is new, in one short sentence with names and numbers")
_GIST: Any = Field(description="where its topic stands after this turn, in at most twelve words")


class NamedType(Reply):
    """A type with what it means."""

    name: Annotated[Name, Field(min_length=1)] = Field(description="two or three words")
    meaning: Annotated[Target, Field(max_length=80)] = Field(description="when it is used, in a few words")


class SeedReply(Reply):
    """The vocabulary that a memory starts with."""

    events: Annotated[list[NamedType], BeforeValidator(several), capped(8), Field(min_length=1, max_length=8)] = Field(
        description="what turns do, such as asking, proposing or deciding something"
    )
    entities: Annotated[list[NamedType], BeforeValidator(several), capped(8), Field(max_length=8)] = Field(
        description="the kinds of things and properties that they are about, such as person, place or cost"
    )


class SeedVocabulary(dspy.Signature):
    """Name the types that fit turns like these, all of them different. Event types say what a turn does, whatever it is
    about; entity types are kinds of things or properties. Types are general: no name of a single thing or person."""

    turns: str = dspy.InputField(desc="turns of a conversation or trajectory, some of many; quoted data only")
    reply: SeedReply = dspy.OutputField()


class ScopeReply(Reply):
    """The topic comes first: whoever names it has read the turn before choosing. The verdict is computed from both."""

    topic: Name = _TOPIC
    scope: Name = _SCOPE


class DetectScope(dspy.Signature):
    """Say which topic a turn belongs to: the one that goes on, one that it returns to, or none of them.
    A topic is a goal or subject that turns work on over time, such as the choice of a school."""

    scopes: str = dspy.InputField(desc="topics: label, name, what it is about so far, likeness; quoted data only")
    before: str = dspy.InputField(desc="turns before; quoted data only")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: ScopeReply = dspy.OutputField()


class EventReply(Reply):
    """A type by label or, a new one, by name."""

    event: _One = _EVENT


class TypeEvent(dspy.Signature):
    """Say what a turn does, by one of the types."""

    events: str = dspy.InputField(desc="types: label, name, meaning")
    before: str = dspy.InputField(desc="turns before; quoted data only")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: EventReply = dspy.OutputField()


class EntitiesReply(Reply):
    """Types by label or, new ones, by name."""

    entities: _Two = _ENTITIES


class TypeEntities(dspy.Signature):
    """Say which kinds of things a turn is about."""

    entities: str = dspy.InputField(desc="types: label, name, meaning")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: EntitiesReply = dspy.OutputField()


class Reference(Reply):
    """Words of a turn and what they mean."""

    words: Short = Field(description='the words of this turn, copied, such as "it"')
    means: Short = Field(description="the full name of what they mean, from the lines before")


_References = Annotated[list[Reference], BeforeValidator(several), capped(2), Field(max_length=2)]


class NoteReply(Reply):
    """The note of a turn; code keeps a reference only if the lines before hold what it means."""

    summary: Line = _SUMMARY
    act: _Act = _ACT
    target: Target = _TARGET
    references: _References = _REFERENCES


class WriteNote(dspy.Signature):
    """Note a turn so that it can be understood alone: call things by the names that the lines before give them, not
    "it" or "there". Repeat nothing else of these lines; add nothing that is not said."""

    before: str = dspy.InputField(desc="earlier turns on the same topic, and the last ones; quoted data only")
    mentioned: str = dspy.InputField(desc="what each speaker named on this topic, counted in order; quoted data only")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: NoteReply = dspy.OutputField()


class GistReply(Reply):
    """One line."""

    gist: Gist = _GIST


class WriteGist(dspy.Signature):
    """Bring the summary of a topic up to date: what it is about and where it stands after this turn."""

    topic: str = dspy.InputField(desc="name of the topic; quoted data only")
    gist: str = dspy.InputField(desc="its summary so far; quoted data only")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: GistReply = dspy.OutputField()


class TurnReply(Reply):
    """All that is noted of a turn. Its summary comes first: whoever wrote it has read the turn before choosing."""

    summary: Line = _SUMMARY
    act: _Act = _ACT
    target: Target = _TARGET
    references: _References = _REFERENCES
    topic: Name = _TOPIC
    scope: Name = _SCOPE
    event: _One = _EVENT
    entities: _Two = _ENTITIES
    gist: Gist = _GIST


class LabelTurn(dspy.Signature):
    """Note the last turn: which topic it belongs to, what it does, which kinds of things it is about, and what it says.
    A topic is a goal or subject that turns work on over time, such as the choice of a school. Call things by the names
    that the lines before give them, not "it" or "there". Repeat nothing else of these lines; add nothing that is not
    said."""

    events: str = dspy.InputField(desc="what turns do: label, name, meaning")
    entities: str = dspy.InputField(desc="kinds of things: label, name, meaning")
    scopes: str = dspy.InputField(desc="topics: label, name, what it is about so far, likeness; quoted data only")
    before: str = dspy.InputField(desc="earlier turns on the topic, and the last ones; quoted data only")
    mentioned: str = dspy.InputField(desc="what each speaker named on this topic, counted in order; quoted data only")
    turn: str = dspy.InputField(desc="the turn to note; quoted data only")
    reply: TurnReply = dspy.OutputField()


class Pair(Reply):
    """One of the pairs shown, and the name that both shall bear."""

    pair: Label = Field(description="label of the pair")
    name: Name = Field(description="the better of the two names, copied")


class MergeReply(Reply):
    """Pairs that mean the same; the rest stay apart."""

    same: Annotated[list[Pair], BeforeValidator(several), capped(6), Field(max_length=6)] = Field(
        description="the pairs to merge; often []"
    )


class MergeLabels(dspy.Signature):
    """Find pairs of labels that two people would use for exactly the same thing. Labels that are only related, or of
    which one is a part or a kind of the other, stay apart: so do different days, places and people."""

    pairs: str = dspy.InputField(desc="label, first name and meaning, second name and meaning; quoted data only")
    reply: MergeReply = dspy.OutputField()


class IntentReply(Reply):
    """What the request is about; a list that is empty is not determined and excludes nothing."""

    scopes: _Three = Field(description="labels of the topics that it asks about; [] if it names none")
    events: _Three = Field(description="labels of what the turns did that answer it; [] if open")
    entities: _Three = Field(description="labels of the kinds of things it asks for; [] if open")


class ReadIntent(dspy.Signature):
    """Say what to look for in a memory to answer a question or to take the next step: on which topics, what the turns
    did that would answer it, and which kinds of things they are about."""

    events: str = dspy.InputField(desc="what turns do: label, name, meaning")
    entities: str = dspy.InputField(desc="kinds of things: label, name, meaning")
    scopes: str = dspy.InputField(desc="topics: label, name, what it is about; quoted data only")
    now: str = dspy.InputField(desc="what was said last, if an agent asks for its next step; quoted data only")
    request: str = dspy.InputField()
    reply: IntentReply = dspy.OutputField()


class RankReply(Reply):
    """Only the useful ones; code keeps the others behind them."""

    useful: Annotated[list[Label], BeforeValidator(several), capped(12), Field(max_length=12)] = Field(
        description="labels of the turns that help to answer, best first"
    )


class RankTurns(dspy.Signature):
    """Order turns of a memory by how much they help to answer the request. Leave out those that do not."""

    turns: str = dspy.InputField(desc="turns: label, date, speaker, words; quoted data only")
    request: str = dspy.InputField()
    reply: RankReply = dspy.OutputField()
