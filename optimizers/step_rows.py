"""Turns the gold of worlds into labelled rows for each step: {"step", "inputs", "outputs", "group"}, one a line.

Rows of steps that have a signature hold its input fields and the fields of its reply, so they can be given to it as
they are. `group` is the world: rows are split by it, never within it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED, Turn
from stitchjam.data.worlds.folder import World
from stitchjam.data.worlds.query import fits
from stitchjam.data.worlds.records import Fact, TurnGold, WorldQuestion, session_of
from stitchjam.data.worlds.sentences import EVENTS
from stitchjam.programs.render import NOTHING, claim_line, clip, quoted, quoted_line
from stitchjam.programs.stitch.view import clean

__all__ = ["STEPS", "step_rows"]

_BEFORE = 6  # turns shown before the one that is labelled
_SCOPES = 8  # candidates for a scope
_CITED = 3  # lines that an answer names, at most
_SHOWN = 8  # lines of evidence at most, where the evidence itself is not longer
_SEEN = 2  # of them, for the steps of labelling
_TYPES, _LONGEST = 2, 39  # types of a turn, and characters of the name of a topic
_NONE = "none"
_PRONOUN = re.compile(r"\b(it|its|she|he|this|that|they|them|whole thing)\b", re.IGNORECASE)
_NOT_THERE = {"sources": [], "answer": NOT_MENTIONED}
Pair = tuple[dict[str, Any], dict[str, Any]]


class _Labelled(NamedTuple):
    """A turn with its gold and the turns before it in its session."""

    turn: Turn
    gold: TurnGold
    before: tuple[Turn, ...]


def step_rows(worlds: Iterable[World], steps: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """All rows of some worlds, step by step within each.

    Args:
        worlds: where the rows come from.
        steps: names in `STEPS`; none means all.

    Raises:
        UsageError: there are no rows for a step of that name.
    """
    if unknown := set(steps) - set(STEPS):
        raise UsageError(f"no rows for step {sorted(unknown)[0]!r}; there are: {', '.join(STEPS)}")
    return (
        {"step": step, "inputs": inputs, "outputs": outputs, "group": world.name}
        for world in worlds
        for step in dict.fromkeys(steps or STEPS)
        for inputs, outputs in STEPS[step](world)
    )


def _labelled(world: World) -> Iterator[_Labelled]:
    for session, gold in zip(world.history.sessions, world.gold(), strict=True):
        for at, (turn, label) in enumerate(zip(session.turns, gold.turns, strict=True)):
            yield _Labelled(turn, label, session.turns[max(0, at - _BEFORE) : at])


def _lines(turns: Iterable[Turn]) -> str:
    return "\n".join(quoted_line(f"t{number}", turn.speaker, turn.text) for number, turn in enumerate(turns, 1))


def _said(one: _Labelled) -> dict[str, Any]:
    return {"before": "\n".join(map(_turn, one.before[-_SEEN:])) or NOTHING, "turn": _turn(one.turn)}


def _turn(turn: Turn) -> str:
    return f"{clip(turn.speaker, 60)}: {clean(turn.text)}"


def _scopes(world: World) -> Iterator[Pair]:
    """Which of the newest scopes a turn belongs to, or none of them; the one that was last is marked."""
    recent: deque[str] = deque(maxlen=_SCOPES)
    for one in _labelled(world):
        scope = one.gold.scope
        if not scope:
            continue
        names, last = sorted(recent), recent[-1] if recent else ""
        shown = _options("c", [f"{name} | now" if name == last else name for name in names])
        picked = f"c{names.index(scope) + 1}" if scope in names else _NONE
        yield {"scopes": shown, **_said(one)}, {"topic": _name(scope), "scope": picked}
        if scope in recent:
            recent.remove(scope)
        recent.append(scope)


def _events(world: World) -> Iterator[Pair]:
    """What a turn does, where it does one thing; the types are those that worlds know."""
    names = sorted(set(EVENTS.values()))
    for one in _labelled(world):
        if len(one.gold.events) == 1:
            yield {"events": _options("e", names), **_said(one)}, {"event": f"e{names.index(one.gold.events[0]) + 1}"}


def _types(world: World) -> Iterator[Pair]:
    """Which types of things a turn is about, where they are no more than the step may name."""
    names = sorted({name for one in _labelled(world) for name in one.gold.types})
    for one in _labelled(world):
        if 0 < len(one.gold.types) <= _TYPES:
            picked = [f"k{names.index(name) + 1}" for name in one.gold.types]
            yield {"entities": _options("k", names), "turn": _turn(one.turn)}, {"entities": picked}


def _options(letter: str, names: Sequence[str]) -> str:
    """Candidates as labelling shows them, one a line."""
    return "\n".join(f"{letter}{number} | {name}" for number, name in enumerate(names, 1)) or NOTHING


def _name(scope: str) -> str:
    """A scope as the name of a topic, which is cut at a word."""
    return " ".join(scope.split())[:_LONGEST].rpartition(" ")[0] if len(scope) > _LONGEST else scope


def _references(world: World) -> Iterator[Pair]:
    """What words for options and people mean that other turns tell; as many turns with none of them.

    A goal that is called "it" is not among them, so turns without references hold no pronoun at all.
    """
    turns = {turn.external_id: turn for turn in world.history.turns}
    plain = 0
    for one in _labelled(world):
        found = one.gold.references
        if len({reference.text for reference in found}) < len(
            {(reference.text, reference.means) for reference in found}
        ):
            continue  # "this hall" twice, for two halls: what it means depends on where
        plain += len(found) > 0
        if not found and (plain < 1 or not one.gold.statements or _PRONOUN.search(one.turn.text)):
            continue
        plain -= not found
        told = sorted(
            {id for reference in found for id in reference.through} - {turn.external_id for turn in one.before}
        )
        before = (*(turns[id] for id in told if id != one.turn.external_id), *one.before)
        outputs = [{"words": reference.text, "means": reference.means} for reference in found]
        yield (
            {"before": _lines(before), "turn": quoted_line("now", one.turn.speaker, one.turn.text)},
            {"references": outputs},
        )


def _groups(world: World) -> Iterator[Pair]:
    """Which topic group a session belongs to; the first is its main one."""
    golds = list(world.gold())
    labels = sorted({name for gold in golds for name in gold.groups})
    for session, gold in zip(world.history.sessions, golds, strict=True):
        yield {"session": _lines(session.turns), "labels": labels}, {"groups": list(gold.groups)}


def _browsing(world: World) -> Iterator[Pair]:
    """Which lines of a session state what is asked, and a session with none: the step `browse_source`."""
    sessions, dice = {session.id: session for session in world.history.sessions}, Random(f"{world.name}/browse")
    for question in world.asked:
        # Who reads a single session cannot know that what it says was changed later: such a one is no example.
        near = {session_of(one.place.turn) for one in world.known.about(question.query) if _fits(question, one.fact)}
        if others := [id for id in sessions if id not in {one.session for one in question.evidence} | near]:
            yield {"source": _lines(sessions[dice.choice(others)].turns), "request": question.text}, {"lines": []}
        for id in dict.fromkeys(one.session for one in question.evidence if one.role == "states"):
            stated = {one.turn for one in question.evidence if one.role == "states"}
            lines = [f"t{number}" for number, turn in enumerate(sessions[id].turns, 1) if turn.external_id in stated]
            yield {"source": _lines(sessions[id].turns), "request": question.text}, {"lines": lines}


def _fits(question: WorldQuestion, fact: Fact) -> bool:
    return any(fits(pattern, fact) for pattern in question.query.where)


class _Shown(NamedTuple):
    """Turns under the labels e1, e2, ... in time order, and which of the evidence is among them."""

    lines: str
    labels: Mapping[str, str]
    complete: bool


def _states(world: World, question: WorldQuestion, letter: str) -> Iterator[_Shown]:
    """Two states of knowledge: all evidence with other turns around it, and the same without one piece of it.

    Where its sessions are too short, as a single mail is, turns of other sessions are shown as well.
    """
    dice = Random(f"{world.name}/{question.id}")
    turns = {turn.external_id: turn for turn in world.history.turns}
    needed = list(question.turns)
    sessions = {one.session for one in question.evidence}
    near = [id for id in turns if session_of(id) in sessions and id not in needed]
    wanted = max(2, _SHOWN - len(needed))
    if len(near) < wanted:
        near += dice.sample([id for id in turns if id not in {*needed, *near}], wanted - len(near))
    others = dice.sample(near, wanted)
    stated = [one.turn for one in question.evidence if one.role == "states"]
    for missing in ("", dice.choice(stated)):
        shown = sorted({*needed, *others} - {missing})
        labels = {id: f"{letter}{number}" for number, id in enumerate(shown, 1)}
        lines = "\n".join(claim_line(labels[id], quoted(turns[id])) for id in shown)
        yield _Shown(lines, labels, not missing)


def _single(question: WorldQuestion) -> str:
    """The turn that states the answer alone, "" where several do."""
    stated = [one.turn for one in question.evidence if one.role == "states"]
    return stated[0] if len(stated) == 1 else ""


def _covering(world: World) -> Iterator[Pair]:
    """Which piece of evidence states a needed fact, or none: the step `judge_sufficiency`."""
    for question in world.asked:
        if turn := _single(question):
            for shown in _states(world, question, "e"):
                inputs = {"evidence": shown.lines, "question": question.text, "need": question.text}
                yield inputs, {"entry": shown.labels.get(turn, _NONE)}


def _sufficiency(world: World) -> Iterator[Pair]:
    """Whether evidence is enough to answer: coverage of the gold, computed."""
    for question in world.asked:
        if question.evidence:
            for shown in _states(world, question, "e"):
                covered = [shown.labels[turn] for turn in question.turns if turn in shown.labels]
                inputs = {"evidence": shown.lines, "question": question.text}
                yield inputs, {"sufficient": shown.complete, "covered": covered}


def _answers(world: World) -> Iterator[Pair]:
    """The answer and the lines it rests on: the step `answer_question`, when all there is to know is shown.

    That step names three lines at most, so an answer that rests on more has the first three.
    """
    for question in world.asked:
        if not question.evidence:
            yield {"context": _about(world, question), "question": question.text}, _NOT_THERE
        else:
            shown = next(_states(world, question, "c"))
            stated = [shown.labels[one.turn] for one in question.evidence if one.role == "states"]
            yield (
                {"context": shown.lines, "question": question.text},
                {"sources": stated[:_CITED], "answer": question.answer},
            )


def _about(world: World, question: WorldQuestion) -> str:
    """Turns about the goal of a question that nothing in the world answers."""
    goals = {pattern.goal for pattern in question.query.where}
    near = [one.turn for one in _labelled(world) if one.gold.scope in goals and one.gold.statements]
    dice = Random(f"{world.name}/{question.id}")
    chosen = sorted(dice.sample(range(len(near)), min(len(near), _SHOWN)))
    return "\n".join(claim_line(f"c{number}", quoted(near[at])) for number, at in enumerate(chosen, 1))


STEPS: dict[str, Callable[[World], Iterator[Pair]]] = {
    "detect_scope": _scopes,
    "type_event": _events,
    "type_entities": _types,
    "resolve_references": _references,
    "group_session": _groups,
    "browse_source": _browsing,
    "judge_sufficiency": _covering,
    "sufficiency": _sufficiency,
    "answer_question": _answers,
}
