"""Turns what a model said about a turn into its note: picks become labels, and the move of the scope is computed.

Whatever a model says, a turn gets one scope and a note; what cannot be used makes recall weaker and harms nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.bank import same_numbers
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Act, Entry, Facet, Intent, Label, Move, Note, Resolved
from stitchjam.data.records import Span, Turn
from stitchjam.data.text import normalise, one_line, words
from stitchjam.programs.stitch.candidates import Candidates, is_name
from stitchjam.programs.stitch.labelers import Reading
from stitchjam.programs.stitch.view import View
from stitchjam.signatures.reply import act

__all__ = ["Thresholds", "label_id", "settle"]

_REFERENCE = 5  # words of a reference at most; what is longer is no reference but a quotation
_JOINED = 480  # characters of the summaries of a turn that was read in parts


@dataclass(frozen=True)
class Thresholds:
    """Similarities that decide; they are parameters of the program and are saved with it.

    `open_below`: a picked scope that the turn is less like than this is not believed, and a new one is opened.
    `same`: a new name that is so like a label is that label. `merge`: labels so alike are shown to the merging step.
    """

    open_below: float = 0.1
    same: float = 0.85
    merge: float = 0.6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not -1 <= value <= 1:
                raise UsageError(f"{name} of Thresholds is a similarity from -1 to 1, not {value!r}")


class _Maker:
    """Finds labels for names, and makes those that are missing."""

    def __init__(self, notebook: Notebook, turn: Turn, seed: str, same: float):
        self.bank, self.turn, self.seed, self.same = notebook.bank, turn, seed, same
        self.made: list[Label] = []

    def label(self, facet: Facet, name: str) -> Label:
        """The label of a name: one of that name, one that is nearly the same, or a new one."""
        known = self.bank.find(facet, name) or self._made(facet, name)
        if known:
            return known
        for near, score in self.bank.nearest(facet, name):
            if score >= self.same and same_numbers(near.name, name):
                return near
        fresh = Label(id=label_id(facet, self.seed, self.turn.id, name), facet=facet, name=name, maker=self.turn.id)
        self.made.append(fresh)
        return fresh

    def _made(self, facet: Facet, name: str) -> Label | None:
        alike = (one for one in self.made if one.facet == facet and normalise(one.name) == normalise(name))
        return next(alike, None)


def label_id(facet: Facet, seed: str, maker: str, name: str) -> str:
    """An id without words: it survives what was said, and the same labelling makes the same ones."""
    return f"{facet}-{sha256(chr(0).join((seed, facet, maker, name)).encode('utf-8', 'replace')).hexdigest()[:12]}"


def settle(
    notebook: Notebook,
    views: Sequence[View],
    readings: Sequence[Reading],
    thresholds: Thresholds,
    seed: str = "",
) -> Entry:
    """The entry of a turn, from the readings of its windows.

    Args:
        notebook: what was noted so far.
        views: the windows of the turn as they were shown, in order.
        readings: what was said about each.
        thresholds: see there.
        seed: what makes ids of new labels differ between programs.
    """
    turn, first = views[0].turn, readings[0]
    maker = _Maker(notebook, turn, seed, thresholds.same)
    scope, move = _scope(maker, views[0], first, thresholds)
    events = _labels(maker, [(view.events, (one.event,)) for view, one in zip(views, readings, strict=True)])
    entities = _labels(maker, [(view.entities, one.entities) for view, one in zip(views, readings, strict=True)])
    target = next((one.target for one in readings if is_name(one.target)), "")
    note = Note(
        turn_id=turn.id,
        session_id=turn.session_id,
        speaker=turn.speaker,
        number=notebook.next_number,
        intent=Intent(scopes=(scope.id,), events=events, entities=entities),
        move=move,
        act=_act(maker, events, first.act),
        target=target,
        summary=" ".join(dict.fromkeys(one_line(one.summary) for one in readings))[:_JOINED].strip(),
        references=_resolved(views, readings),
        gist=readings[-1].gist or notebook.bank.gists.get(scope.id, ""),
        span=_span(turn, target),
    )
    return Entry(note=note, made=tuple(maker.made))


def _scope(maker: _Maker, view: View, reading: Reading, thresholds: Thresholds) -> tuple[Label, Move]:
    """The scope of a turn and how it follows: the one of its topic's name, else the picked one if it is likely."""
    bank, chosen = maker.bank, view.scopes.picked(reading.scope)
    named = bank.find("scope", reading.topic) if is_name(reading.topic) else None
    if chosen and not _believed(view, chosen, reading.topic, thresholds):
        chosen = None  # a small model picks the first one whatever is said
    label = named or chosen
    if label is None and is_name(reading.topic):
        label = maker.label("scope", reading.topic)
    if label is None:
        label = bank.labels.get(view.here) or maker.label("scope", _fallback(view))
    return label, "continue" if label.id == view.here else "return" if label.id in bank.labels else "open"


def _believed(view: View, chosen: Label, topic: str, thresholds: Thresholds) -> bool:
    """Whether a pick fits the turn and the topic that was named: "plan for day 2" is not the scope "plan for day 1"."""
    if re.findall(r"\d+", topic) and not same_numbers(topic, chosen.name):
        return False
    at = view.scopes.labels.index(chosen) if chosen in view.scopes.labels else -1
    return at < 0 or not view.like or view.like[at] >= thresholds.open_below


def _fallback(view: View) -> str:
    return " ".join(view.text.split()[:5])[:40] or "no words"


def _labels(maker: _Maker, picks: Sequence[tuple[Candidates, Sequence[str]]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for candidates, chosen in picks:
        labels, names = candidates.chosen(chosen)
        found |= dict.fromkeys(label.id for label in labels)
        found |= dict.fromkeys(maker.label(candidates.facet, name).id for name in names)
    return tuple(found)


def _act(maker: _Maker, events: Sequence[str], said: str) -> Act:
    """The act that the event type names, such as "proposes option"; else what was said to be it.

    Small models choose well among types that are shown, and say the first of the acts they are given for every turn.
    """
    made = {label.id: label.name for label in maker.made}
    names = (made.get(one) or maker.bank.name(one) for one in events)
    named = next((found for name in names if (found := act(name.split()[0])) != "other"), said)
    return cast(Act, named)


def _resolved(views: Sequence[View], readings: Sequence[Reading]) -> tuple[Resolved, ...]:
    """References whose words stand in the turn, and whose meaning stands in the history that was shown."""
    text, found = one_line(views[0].turn.text).casefold(), dict[str, Resolved]()
    for view, reading in zip(views, readings, strict=True):
        told = set(words(f"{view.before} {view.mentioned}"))
        for one in reading.references:
            said, means = words(one.words), words(one.means)
            stands = 0 < len(said) <= _REFERENCE and one.words.casefold() in text
            if stands and is_name(one.means) and told.issuperset(means) and not set(means) <= set(said):
                found[one.words.casefold()] = Resolved(words=one.words, means=one.means)
    return tuple(found.values())


def _span(turn: Turn, target: str) -> Span:
    """Where the turn names the target, else all of it."""
    at = turn.text.casefold().find(target.casefold()) if target else -1
    if at < 0 or turn.text[at : at + len(target)].casefold() != target.casefold():
        return Span.of(turn)
    return Span.of(turn, at, at + len(target))
