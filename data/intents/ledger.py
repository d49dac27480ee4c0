"""Turns notes into what is mentioned, in order, and what was decided and decided anew, each with its span."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from stitchjam.data.intents.records import Act, Note
from stitchjam.data.records import Span
from stitchjam.data.text import name_key

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
    """Mentions by scope and speaker, and decisions by scope and entity types (sorted), both in the order told."""

    mentions: dict[str, dict[str, list[Mention]]] = field(default_factory=lambda: defaultdict(dict))
    decisions: dict[tuple[str, tuple[str, ...]], list[Decision]] = field(default_factory=lambda: defaultdict(list))
    _named: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    _replaced: dict[str, str] = field(default_factory=dict)

    def apply(self, note: Note) -> None:
        """Enter a note whose labels are canonical."""
        key, named = name_key(note.target), self._named[note.scope]
        if key and (note.speaker, key) not in named:
            named.add((note.speaker, key))
            mention = Mention(note.target, note.act, note.turn_id, note.span)
            self.mentions[note.scope].setdefault(note.speaker, []).append(mention)
        if note.act == "cancel" or (note.act == "decide" and key):
            self._decide(note, key)

    def _decide(self, note: Note, key: str) -> None:
        decided = self.decisions[note.scope, tuple(sorted(note.intent.entities))]
        # Without entity types nothing says that two decisions of a scope are about the same.
        for last in reversed(decided if note.intent.entities else []):
            if last.replaced_by:  # and so are those before it
                break
            if note.act == "cancel" or name_key(last.target) != key:
                last.replaced_by = self._replaced[last.turn_id] = note.turn_id
        if note.act == "decide":
            decided.append(Decision(note.target, note.turn_id, note.span))

    def drop(self, scopes: Collection[str]) -> None:
        """Leave out what was entered for some scopes, so that their notes can be entered again under other labels."""
        for scope in scopes:
            self.mentions.pop(scope, None)
            self._named.pop(scope, None)
        for key in [key for key in self.decisions if key[0] in scopes]:
            for one in self.decisions.pop(key):
                self._replaced.pop(one.turn_id, None)

    def replaced_by(self, turn_id: str) -> str:
        """The turn that replaced what this one decided, "" when it still holds or decided nothing."""
        return self._replaced.get(turn_id, "")

    def told(self, scope: str, last: int) -> list[tuple[str, int, Mention]]:
        """The last mentions of a scope: who made it, its place among theirs from 1 on, and the mention."""
        return [
            (speaker, place, mention)
            for speaker, mentions in self.mentions.get(scope, {}).items()
            for start in [max(len(mentions) - last, 0)]
            for place, mention in enumerate(mentions[start:], start + 1)
        ]
