"""Turns an option into the words that call it: its name, or less where a listener would understand less.

"It", another name, "the second hall you proposed": each means something that was told in other turns, and those turns
come along, since a reader who has not seen them does not understand the sentence.
"""

import re
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from stitchjam.data.worlds.cast import Option
from stitchjam.data.worlds.records import session_of
from stitchjam.data.worlds.wording import Wording, fill

__all__ = ["Listener", "Mention", "Proposal", "Referrer", "Speech"]

_ANAPHORA, _OTHER_NAME, _ORDINAL, _PERSON = 0.55, 0.35, 0.3, 1.0  # how often each is used where it is understood
_NTH = ("first", "second", "third", "fourth", "fifth", "sixth")
_NO_PRONOUN = re.compile(r"\b(?:of|at|from|in|off|by|with|against|for|to)$")


class Mention(NamedTuple):
    """Words for something, what they mean, and the other turns that tell so; none for a name."""

    words: str
    means: str
    through: frozenset[str] = frozenset()
    pronoun: bool = False


class Proposal(NamedTuple):
    """That somebody proposed an option: the turn, all turns that it takes to understand it, and who was there."""

    kind: str
    actor: str
    option: str
    turn: str
    turns: frozenset[str]
    heard: frozenset[str]


@dataclass
class Listener:
    """What somebody knows who heard everything up to now: the ground of every reference.

    Attributes:
        other_names: the turn that told the other name of an option, by the option and who was there.
        proposals: by goal, in the order made.
        topic: the goal that is talked about, and the turn that says so.
        last: the option that "it" means now, and the turns that name it.
        person: the same for "she" or "he".
        opened: who has been told about a goal, by the goal.
        frames: the sentence frames of the turn that is spoken, and that turn.
        present: who is known to take part in this session, from their speaking or being spoken to.
        mistakes: the fact that a wrong act told, by the identity of the act.
    """

    other_names: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)
    proposals: dict[str, list[Proposal]] = field(default_factory=dict)
    topic: tuple[str, str] = ("", "")
    last: tuple[str, frozenset[str]] | None = None
    person: tuple[str, frozenset[str]] | None = None
    opened: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    frames: tuple[str, list[str]] = ("", [])
    present: set[str] = field(default_factory=set)
    mistakes: dict[int, str] = field(default_factory=dict)


class Speech(NamedTuple):
    """A turn that is about to be spoken: where it stands, in which style, about which goal, and by whom.

    `actors` are the two who act, by role; `role` is the one who speaks, None for somebody who writes minutes.
    """

    turn: str
    style: str
    goal: str
    actors: tuple[str, str]
    role: int | None


class Referrer(NamedTuple):
    """Chooses how to call an option."""

    wording: Wording
    listener: Listener
    dice: Random

    def person(self, name: str, she: str, speech: Speech) -> Mention:
        """Words for a person: a pronoun where the turn before named the same."""
        last = self.listener.person
        if last is None or last[0] != name or self.dice.random() >= _PERSON:
            return Mention(name, name)
        return Mention(she, name, last[1] - {speech.turn}, pronoun=True)

    def mention(self, option: Option, speech: Speech, template: str, short: bool, actor: str) -> Mention:
        """Words for an option that fit where {option} stands in a template; `short` allows pronouns."""
        ways = self._other_name(option, speech)
        if speech.role is not None or not self._own(option, speech, actor):
            ways += self._ordinal(option, speech)
        if short:
            ways += self._anaphora(option, speech, template)
        return self.dice.choice(ways) if ways else Mention(option.name, option.name)

    def _anaphora(self, option: Option, speech: Speech, template: str) -> list[Mention]:
        last = self.listener.last
        if last is None or last[0] != option.name or self.dice.random() >= _ANAPHORA:
            return []
        before = re.split(r"\{[Oo]ption\}", template)[0].rstrip()
        words = self.wording["kinds"][option.kind]["that"]
        words = [word for word in words if word != "it" or not _NO_PRONOUN.search(before)]
        return [Mention(self.dice.choice(words), option.name, last[1] - {speech.turn}, pronoun=True)]

    def _other_name(self, option: Option, speech: Speech) -> list[Mention]:
        turn = self.listener.other_names.get((option.name, frozenset(speech.actors)))
        if turn is None or self.dice.random() >= _OTHER_NAME:
            return []
        return [Mention(option.other, option.name, frozenset({turn}) - {speech.turn})]

    def _understood(self, own: Proposal, row: list[Proposal], speech: Speech) -> bool:
        """Whether both have heard all of the row, and would count the same within this session."""
        if any(not one.heard.issuperset(speech.actors) for one in row) or own.turn == speech.turn:
            return False
        here = [one for one in row if session_of(one.turn) == session_of(speech.turn)]
        just_named = self.listener.last is not None and self.listener.last[0] == own.option
        return not just_named and (not here or (own in here and here.index(own) == row.index(own)))

    def _own(self, option: Option, speech: Speech, actor: str) -> bool:
        """Whether it was proposed by who acts: minutes would name the person twice."""
        made = self.listener.proposals.get(speech.goal, [])
        return any((one.option, one.actor) == (option.name, actor) for one in made)

    def _ordinal(self, option: Option, speech: Speech) -> list[Mention]:
        made = self.listener.proposals.get(speech.goal, [])
        own = next((one for one in made if one.option == option.name), None)
        if own is None or self.dice.random() >= _ORDINAL:
            return []
        row = [one for one in made if (one.kind, one.actor) == (own.kind, own.actor)]
        if len(row) < 2 or not self._understood(own, row, speech):
            return []
        fields = {
            "nth": _NTH[row.index(own)],
            "kind": self.wording.noun(option.kind),
            "who": self._who(own.actor, speech),
        }
        words = fill(self.dice.choice(self.wording.templates("ordinal", speech.style)), fields).plain
        told = frozenset[str]().union(*(one.turns for one in row[: row.index(own) + 1]))
        return [Mention(words, option.name, told - {speech.turn})]

    def _who(self, actor: str, speech: Speech) -> str:
        """ "You" only to somebody of whom a reader of this session knows that he or she is there."""
        if speech.role is not None and speech.actors[speech.role] == actor:
            return "I"
        return "you" if speech.role is not None and actor in self.listener.present else actor
