"""Turns actions of the Researcher into observations. A wrong action is an observation too, never an exception.

Searches cost no LM call and are done at once; the sessions to read are then read in parallel.
"""

from dataclasses import dataclass

import dspy

from stitchjam.data.records import Session, Turn
from stitchjam.data.text import normalise
from stitchjam.data.tokens import truncate
from stitchjam.programs.jam.state import UNUSABLE, ResearchState
from stitchjam.programs.render import clip, pages, turn_line
from stitchjam.programs.step import map_ordered
from stitchjam.signatures.reply import Action

__all__ = ["act", "describe", "moves"]

_PAGE_TOKENS = 1500
_AGAIN = "; asked again in vain"


@dataclass(frozen=True)
class _Reading:
    """One page that is about to be read."""

    target: str
    session: Session
    page: int
    lines: dict[str, Turn]
    request: str
    pages_left: int


def describe(action: Action, state: ResearchState) -> str:
    """An action in one line, the form in which repeats are recognised; the next page of a session is no repeat."""
    words = normalise(action.words)
    if action.tool == "search":
        return f"search {words!r}"
    hit = state.candidates.get(action.target)
    page = state.next_page(hit.session) if hit else 0
    return f"browse {action.target} for {words!r}" + (f", page {page + 1}" if page else "")


def moves(actions: list[Action], state: ResearchState, most: int) -> list[Action]:
    """What is done with a plan: a search that names a listed session reads it, as small models mix the two up.

    When a plan would open nothing, the best unread candidate is opened besides, so that every round gets on.
    """
    named = [action.tool == "search" and action.target in state.candidates for action in actions]
    meant = [a.model_copy(update={"tool": "browse"}) if n else a for a, n in zip(actions, named, strict=True)]
    if any(action.tool == "browse" for action in meant[:most]) or not state.unread:
        return meant
    return [*meant[: most - 1], Action(tool="browse", target=state.unread[0], query="")]


def act(
    actions: list[Action], state: ResearchState, browse_source: dspy.Module, most: int, k: int
) -> list[tuple[str, str]]:
    """Do at most `most` actions of one round; what was asked and what came of it, in the order asked.

    Repeats and actions beyond the limit are not done, and the observation says so.
    """
    asked: list[tuple[str, str | _Reading]] = []
    left = most
    for action in actions:
        line = describe(action, state)
        if line in state.tried:
            asked.append((line, f"tried before; {_nearest(action.target, state)}"))
        elif not left:
            asked.append((line, f"not done: a round has at most {most} actions"))
        else:
            left -= 1
            state.tried[line] = ""
            asked.append((line, _search(action, state, k) if action.tool == "search" else _open(action, state)))
    readings = [item for _, item in asked if isinstance(item, _Reading)]
    replies = iter(map_ordered(lambda reading: _read(reading, browse_source), readings))
    done = [(line, _record(i, next(replies), state) if isinstance(i, _Reading) else i) for line, i in asked]
    for line, outcome in done:
        if state.tried.get(line) == "":
            state.tried[line] = outcome
        elif line in state.tried and not state.tried[line].endswith(_AGAIN):
            state.tried[line] += _AGAIN  # so that a planner without a temperature sees another prompt now
    return done


def _search(action: Action, state: ResearchState, k: int) -> str:
    if not normalise(action.words):
        return "the search had no words; give names or content words"
    hits = state.store.search_sessions(action.words, k=k, exclude=state.browsed)
    labels = state.add_candidates(hits)
    return f"new candidates {', '.join(labels)}" if labels else "no new candidates; use other words"


def _open(action: Action, state: ResearchState) -> "_Reading | str":
    hit = state.candidates.get(action.target)
    if hit is None:
        return f"there is no candidate {action.target!r}; {_nearest(action.target, state)}"
    session, liked = hit.session, {turn.id for turn in hit.best}
    # The page that search liked best comes first; asking again brings the next one, so every turn can be reached.
    order = sorted(pages(session, _PAGE_TOKENS), key=lambda page: -sum(turn.id in liked for turn in page))
    page = state.next_page(session)
    if page >= len(order):
        return f"{action.target} is read to the end; {_nearest(action.target, state)}"
    state.pages_read.setdefault(session.id, set()).add(page)
    return _Reading(
        target=action.target,
        session=session,
        page=page,
        lines={f"t{number}": turn for number, turn in enumerate(order[page], 1)},
        request=action.words or state.question,
        pages_left=len(order) - page - 1,
    )


def _read(reading: _Reading, browse_source: dspy.Module) -> "list[str] | Exception":
    # Only a turn that is longer than a page is cut; a page holds nothing else then.
    lines = (truncate(turn_line(label, turn), _PAGE_TOKENS) for label, turn in reading.lines.items())
    head = f"session of {clip(reading.session.time[:16] or reading.session.id, 40)}"
    source = "\n".join([head, *lines])
    try:
        return browse_source(source=source, request=reading.request).reply.lines
    except UNUSABLE as error:
        return error


def _record(reading: _Reading, lines: "list[str] | Exception", state: ResearchState) -> str:
    if isinstance(lines, Exception):
        state.fail("browse_source", lines)
        state.pages_read[reading.session.id].discard(reading.page)  # so that another request can read it again
        return f"{reading.target} was opened, but the reader's answer could not be used; ask with other words"
    found = state.add_evidence([reading.lines[line] for line in dict.fromkeys(lines) if line in reading.lines])
    rest = f"; {reading.pages_left} more pages" if reading.pages_left else ""
    return (f"found {', '.join(found)}" if found else "nothing relevant in it") + rest


def _nearest(target: str, state: ResearchState) -> str:
    unread = state.unread
    if not unread:
        return "search with other words"
    number = int("".join(filter(str.isdecimal, target)) or 0)
    return f"the nearest unread one is {min(unread, key=lambda label: abs(int(label[1:]) - number))}"
