"""Turns actions of the Researcher into observations. A wrong action is an observation too, never an exception.

Searches are done first and cost no LM call; the sessions to read are then read in parallel.
"""

import difflib
from dataclasses import dataclass

import dspy

from stitchjam.data.errors import ModelOutputError
from stitchjam.data.records import Turn
from stitchjam.data.text import normalise
from stitchjam.programs.jam.notebook import Notebook
from stitchjam.programs.render import pages, turn_line
from stitchjam.programs.step import map_ordered
from stitchjam.signatures.reply import Action

__all__ = ["act", "describe"]

_PAGE_TOKENS = 1500


@dataclass(frozen=True)
class _Reading:
    """One page that is about to be read."""

    target: str
    head: str
    lines: dict[str, Turn]
    request: str
    pages_left: int


def describe(action: Action) -> str:
    """An action in one line, the form in which repeats are recognised."""
    query = normalise(action.query)
    return f"search {query!r}" if action.tool == "search" else f"browse {action.target} for {query!r}"


def act(actions: list[Action], notebook: Notebook, browse_source: dspy.Module, k: int) -> list[str]:
    """Do the actions of one round and say what came of each, in their order."""
    opened = [_search(a, notebook, k) if a.tool == "search" else _open(a, notebook) for a in actions]
    readings = [item for item in opened if isinstance(item, _Reading)]
    replies = iter(map_ordered(lambda reading: _read(reading, browse_source), readings))
    return [_record(item, next(replies), notebook) if isinstance(item, _Reading) else item for item in opened]


def _search(action: Action, notebook: Notebook, k: int) -> str:
    if not normalise(action.query):
        return "the search had no words; give names or content words"
    hits = notebook.store.search_sessions(action.query, k=k, exclude=notebook.browsed)
    labels = notebook.add_candidates(hits)
    return f"new candidates {', '.join(labels)}" if labels else "no new candidates; use other words"


def _open(action: Action, notebook: Notebook) -> "_Reading | str":
    hit = notebook.candidates.get(action.target)
    if hit is None:
        return f"there is no candidate {action.target!r}; {_nearest(action.target, notebook)}"
    session, liked = hit.session, {turn.id for turn in hit.best}
    # The page that search liked best comes first; asking again brings the next one, so every turn can be reached.
    order = sorted(pages(session, _PAGE_TOKENS), key=lambda page: -sum(turn.id in liked for turn in page))
    read = notebook.pages_read.get(session.id, 0)
    if read >= len(order):
        return f"{action.target} is read to the end; choose another candidate"
    notebook.pages_read[session.id] = read + 1
    return _Reading(
        target=action.target,
        head=f"session of {session.time[:16] or session.id}",
        lines={f"t{number}": turn for number, turn in enumerate(order[read], 1)},
        request=action.query.strip() or notebook.question,
        pages_left=len(order) - read - 1,
    )


def _read(reading: _Reading, browse_source: dspy.Module) -> "list[str] | ModelOutputError":
    source = "\n".join([reading.head, *(turn_line(label, turn) for label, turn in reading.lines.items())])
    try:
        return browse_source(source=source, request=reading.request).reply.lines
    except ModelOutputError as error:
        return error


def _record(reading: _Reading, lines: "list[str] | ModelOutputError", notebook: Notebook) -> str:
    if isinstance(lines, ModelOutputError):
        notebook.fail(lines)
        return f"{reading.target} was opened, but the reader's answer could not be used"
    found = notebook.add_evidence([reading.lines[line] for line in dict.fromkeys(lines) if line in reading.lines])
    rest = f"; {reading.pages_left} more pages" if reading.pages_left else ""
    return (f"found {', '.join(found)}" if found else "nothing relevant in it") + rest


def _nearest(target: str, notebook: Notebook) -> str:
    labels = list(notebook.candidates)
    near = difflib.get_close_matches(target, labels, n=1) or labels[:1]
    return f"the nearest is {near[0]}" if near else "search first"
