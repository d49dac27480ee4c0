"""Turns actions of the Researcher into observations. A wrong action is an observation too, never an exception.

Searches cost no LM call and are done at once; the sessions to read are then read in parallel.
"""

from dataclasses import dataclass

import dspy

from stitchjam.data.records import Session, Turn
from stitchjam.data.text import normalise
from stitchjam.data.tokens import truncate
from stitchjam.programs.jam.notebook import UNUSABLE, Notebook
from stitchjam.programs.render import clip, pages, turn_line
from stitchjam.programs.step import map_ordered
from stitchjam.signatures.reply import Action

__all__ = ["act", "describe"]

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


def describe(action: Action, notebook: Notebook) -> str:
    """An action in one line, the form in which repeats are recognised; the next page of a session is no repeat."""
    words = normalise(action.words)
    if action.tool == "search":
        return f"search {words!r}"
    hit = notebook.candidates.get(action.target)
    page = notebook.next_page(hit.session) if hit else 0
    return f"browse {action.target} for {words!r}" + (f", page {page + 1}" if page else "")


def act(
    actions: list[Action], notebook: Notebook, browse_source: dspy.Module, most: int, k: int
) -> list[tuple[str, str]]:
    """Do at most `most` actions of one round; what was asked and what came of it, in the order asked.

    Repeats and actions beyond the limit are not done, and the observation says so. A round that would open nothing
    opens the best unread candidate, so that every round gets on.
    """
    actions = [_meant(action, notebook) for action in actions]
    if not any(action.tool == "browse" for action in actions[:most]) and (unread := notebook.unread):
        actions = [*actions[: most - 1], Action(tool="browse", target=unread[0], query="")]
    asked: list[tuple[str, str | _Reading]] = []
    left = most
    for action in actions:
        line = describe(action, notebook)
        if line in notebook.tried:
            asked.append((line, f"tried before; {_nearest(action.target, notebook)}"))
        elif not left:
            asked.append((line, f"not done: a round has at most {most} actions"))
        else:
            left -= 1
            notebook.tried[line] = ""
            asked.append((line, _search(action, notebook, k) if action.tool == "search" else _open(action, notebook)))
    readings = [item for _, item in asked if isinstance(item, _Reading)]
    replies = iter(map_ordered(lambda reading: _read(reading, browse_source), readings))
    done = [(line, _record(i, next(replies), notebook) if isinstance(i, _Reading) else i) for line, i in asked]
    for line, outcome in done:
        if notebook.tried.get(line) == "":
            notebook.tried[line] = outcome
        elif line in notebook.tried and not notebook.tried[line].endswith(_AGAIN):
            notebook.tried[line] += _AGAIN  # so that a planner without a temperature sees another prompt now
    return done


def _meant(action: Action, notebook: Notebook) -> Action:
    """A search that names a listed session is a wish to read it; small models mix the two up."""
    named = action.tool == "search" and action.target in notebook.candidates
    return action.model_copy(update={"tool": "browse"}) if named else action


def _search(action: Action, notebook: Notebook, k: int) -> str:
    if not normalise(action.words):
        return "the search had no words; give names or content words"
    hits = notebook.store.search_sessions(action.words, k=k, exclude=notebook.browsed)
    labels = notebook.add_candidates(hits)
    return f"new candidates {', '.join(labels)}" if labels else "no new candidates; use other words"


def _open(action: Action, notebook: Notebook) -> "_Reading | str":
    hit = notebook.candidates.get(action.target)
    if hit is None:
        return f"there is no candidate {action.target!r}; {_nearest(action.target, notebook)}"
    session, liked = hit.session, {turn.id for turn in hit.best}
    # The page that search liked best comes first; asking again brings the next one, so every turn can be reached.
    order = sorted(pages(session, _PAGE_TOKENS), key=lambda page: -sum(turn.id in liked for turn in page))
    page = notebook.next_page(session)
    if page >= len(order):
        return f"{action.target} is read to the end; {_nearest(action.target, notebook)}"
    notebook.pages_read.setdefault(session.id, set()).add(page)
    return _Reading(
        target=action.target,
        session=session,
        page=page,
        lines={f"t{number}": turn for number, turn in enumerate(order[page], 1)},
        request=action.words or notebook.question,
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


def _record(reading: _Reading, lines: "list[str] | Exception", notebook: Notebook) -> str:
    if isinstance(lines, Exception):
        notebook.fail("browse_source", lines)
        notebook.pages_read[reading.session.id].discard(reading.page)  # so that another request can read it again
        return f"{reading.target} was opened, but the reader's answer could not be used; ask with other words"
    found = notebook.add_evidence([reading.lines[line] for line in dict.fromkeys(lines) if line in reading.lines])
    rest = f"; {reading.pages_left} more pages" if reading.pages_left else ""
    return (f"found {', '.join(found)}" if found else "nothing relevant in it") + rest


def _nearest(target: str, notebook: Notebook) -> str:
    unread = notebook.unread
    if not unread:
        return "search with other words"
    number = int("".join(filter(str.isdecimal, target)) or 0)
    return f"the nearest unread one is {min(unread, key=lambda label: abs(int(label[1:]) - number))}"
