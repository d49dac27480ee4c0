"""Turns notes into what is mentioned, in order, and what was decided and decided anew, each with its span."""

from collections import defaultdict
from dataclasses import dataclass, field

from stitchjam.data.intents.records import Act, Note
from stitchjam.data.records import Span
from stitchjam.data.text import normalise

__all__ = ["Decision", "Ledger", "Mention"]


@dataclass(frozen=True)
class Mention:
    """The first time that a speaker named something in a scope; the second one is "the second you mentioned"."""

    target: str
    act: Act
    turn_id: str
    span: Span


@dataclass
class Decision:
    """What was decided in a scope about entities of some types; `replaced_by` is the turn that decided otherwise."""

    target: str
    turn_id: str
    span: Span
    replaced_by: str = ""


@dataclass
class Ledger:
    """Mentions by scope and speaker, and decisions by scope and entity types, both in the order told."""

    mentions: dict[str, dict[str, list[Mention]]] = field(default_factory=lambda: defaultdict(dict))
    decisions: dict[tuple[str, tuple[str, ...]], list[Decision]] = field(default_factory=lambda: defaultdict(list))
    _named: set[tuple[str, str, str]] = field(default_factory=set)
    _replaced: dict[str, str] = field(default_factory=dict)

    def apply(self, note: Note) -> None:
        """Enter a note whose labels are canonical."""
        key = normalise(note.target)
        if not key:
            return
        if (note.scope, note.speaker, key) not in self._named:
            self._named.add((note.scope, note.speaker, key))
            mention = Mention(note.target, note.act, note.turn_id, note.span)
            self.mentions[note.scope].setdefault(note.speaker, []).append(mention)
        if note.act in ("decide", "cancel"):
            self._decide(note)

    def _decide(self, note: Note) -> None:
        # Without entity types nothing says that two decisions of a scope are about the same.
        decided = self.decisions[note.scope, note.intent.entities]
        if decided and note.intent.entities:
            last = decided[-1]
            if normalise(last.target) != normalise(note.target) or note.act == "cancel":
                last.replaced_by = note.turn_id
                self._replaced[last.turn_id] = note.turn_id
        if note.act == "decide":
            decided.append(Decision(note.target, note.turn_id, note.span))

    def replaced_by(self, turn_id: str) -> str:
        """The turn that replaced what this one decided, "" when it still holds or decided nothing."""
        return self._replaced.get(turn_id, "")

    def told(self, scope: str, last: int) -> list[tuple[str, int, Mention]]:
        """The last mentions of a scope: who made it, its place among theirs from 1 on, and the mention."""
        return [
            (speaker, place, mention)
            for speaker, mentions in self.mentions.get(scope, {}).items()
            for place, mention in list(enumerate(mentions, 1))[-last:]
        ]
