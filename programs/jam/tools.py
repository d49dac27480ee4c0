"""Turns actions of the Researcher into observations. A wrong action is an observation too, never an exception.

Folders and searches cost no LM call and are done at once; the sessions to read are then read in parallel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.hits import SessionHit
from stitchjam.data.index.ranking import Weights
from stitchjam.data.index.terms import terms
from stitchjam.data.passages import Passage, pages
from stitchjam.data.records import Outcome, Session
from stitchjam.data.text import is_question, normalise
from stitchjam.programs.jam.places import Place
from stitchjam.programs.jam.state import UNUSABLE, ResearchState
from stitchjam.programs.render import clip, quoted_line
from stitchjam.programs.step import map_ordered
from stitchjam.signatures.reply import NONE, Action

__all__ = ["Done", "Search", "act", "besides", "describe", "moves"]

_PAGE_TOKENS = 1500
_AGAIN = "; asked again in vain"


@dataclass(frozen=True)
class Done:
    """An action in one line, what came of it, and of what kind that is."""

    action: str
    observation: str
    outcome: Outcome


@dataclass(frozen=True)
class Search:
    """How a search is done: sessions at most, and how the parts of a score are weighed."""

    k: int
    weights: Weights | None = None


@dataclass(frozen=True)
class _Reading:
    """One page that is about to be read."""

    target: str
    session: Session
    page: int
    lines: dict[str, Passage]
    request: str
    pages_left: int


_Observed = tuple[str, Outcome]


def describe(action: Action, state: ResearchState) -> str:
    """An action in one line, the form in which repeats are recognised; the next page of what was asked is no repeat."""
    words = normalise(action.words)
    if action.tool == "search":
        line = _search_line(action, state)
        found = state.searched.get(line, [])
        page = len(found) + bool(found and found[-1])  # a page with nothing on it is the last
        return line + (f", page {page}" if page > 1 else "")
    if action.tool == "open":
        return f"open {clip(action.target, 60)}"
    hit = state.candidates.get(action.target)
    read = len(state.pages_read.get(hit.session.id, ())) if hit else 0
    line = f"browse {clip(action.target, 60)} for {words!r}"
    if hit and read == len(_pages(hit.session, state)):
        return f"{line}, again"
    return line + (f", page {read + 1}" if read else "")


def moves(actions: list[Action], state: ResearchState) -> list[Action]:
    """What is meant by a plan: an action on a session reads it, and one on a folder opens it, whatever tool it names.

    Small models mix the tools up.
    """
    return [_meant(action, state) for action in actions]


def _meant(action: Action, state: ResearchState) -> Action:
    if action.target == NONE:
        return action
    if action.target in state.candidates:
        return action.model_copy(update={"tool": "browse"})
    if action.tool != "search" and state.places.folder(action.target) is not None:
        return action.model_copy(update={"tool": "open"})
    session = state.places.session(action.target)
    if session in state.store.session_times:  # a path; the tree may be ahead of the store that is read
        hit = SessionHit(state.store.session(session), 0.0, ())
        label = next(iter(state.add_candidates([hit])), "") or state.label_of(session)
        return action.model_copy(update={"tool": "browse", "target": label})
    return action


def act(
    actions: list[Action], state: ResearchState, browse_source: dspy.Module, most: int, search: Search
) -> list[Done]:
    """Do at most `most` actions of one round; what was asked and what came of it, in the order asked.

    Repeats and actions beyond the limit are not done, and the observation says so.
    """
    asked: list[tuple[str, _Observed | _Reading]] = []
    left = most
    for action in actions:
        line = describe(action, state)
        if line in state.tried and not (line in state.refused and _is_there(action.target, state)):
            asked.append((line, (f"tried before; {_nearest(action.target, state)}", "repeated")))
        elif not left:
            asked.append((line, (f"not done: a round has at most {most} actions", "beyond")))
        else:
            left -= 1
            state.tried[line] = ""
            asked.append((line, _do(action, state, search)))
    readings = [item for _, item in asked if isinstance(item, _Reading)]
    replies = iter(map_ordered(lambda reading: _read(reading, browse_source), readings))
    done = [
        Done(line, *(_record(item, next(replies), state) if isinstance(item, _Reading) else item))
        for line, item in asked
    ]
    for one in done:
        if one.outcome in ("invalid", "found", "nothing"):
            (state.refused.add if one.outcome == "invalid" else state.refused.discard)(one.action)
        if state.tried.get(one.action) == "":
            state.tried[one.action] = one.observation
        elif one.action in state.tried and not state.tried[one.action].endswith(_AGAIN):
            state.tried[one.action] += _AGAIN  # so that a planner without a temperature sees another prompt now
    return done


def besides(state: ResearchState, most: int) -> list[Action]:
    """What is read in a round that read too little, so that it gets on: what its searches found, then other candidates.

    Best first, and what was not opened before what was read in part.
    """
    left, unread = set(state.unfinished), state.unread
    words = {one: said for one, said in state.found.items() if one in left}
    words |= {one: "" for one in (*unread, *state.unfinished) if one not in words}
    return [Action(tool="browse", target=one, query=said) for one, said in words.items()][: max(most, 0)]


def _is_there(target: str, state: ResearchState) -> bool:
    return target in state.candidates or state.places.folder(target) is not None


def _do(action: Action, state: ResearchState, search: Search) -> "_Observed | _Reading":
    if action.tool == "search":
        return _search(action, state, search)
    return _list(action, state) if action.tool == "open" else _open(action, state)


def _search(action: Action, state: ResearchState, search: Search) -> _Observed:
    """Sessions that were not read to the end, nor found by this search before: asked again, it goes on."""
    if not normalise(action.words):
        return "the search had no words; give names or content words", "invalid"
    found, place = state.searched.setdefault(_search_line(action, state), []), state.places.place(action.where)
    shown = {session_id for page in found for session_id in page}
    hits = _found(action.words, state, search, place, shown)
    without = ""
    if not hits and place.where is not None:  # a filter that leaves nothing over must not hide what there is
        hits = _found(action.words, state, search, Place(None, ""), shown)
        without = f"nothing more in {place.called}; without it: "
    found.append(tuple(hit.session.id for hit in hits))
    new = state.add_candidates(hits, action.words)
    for hit in hits:
        state.found.setdefault(state.label_of(hit.session.id), action.words)
    known = [state.label_of(hit.session.id) for hit in hits if state.label_of(hit.session.id) not in new]
    told = f"; there is no filter {clip(', '.join(place.unknown), 40)}" if place.unknown else ""
    if new:
        again = f", and again {', '.join(known)}" if known else ""
        return f"{without}new candidates {', '.join(new)}{again}{told}", "found"
    if known:
        return f"{without}no new candidates; best again: {', '.join(known)}{told}", "nothing"
    return f"no new candidates; use other words{told}", "nothing"


def _search_line(action: Action, state: ResearchState) -> str:
    place = state.places.place(action.where)
    return f"search {normalise(action.words)!r}" + (f" in {place.called}" if place.called else "")


def _found(words: str, state: ResearchState, search: Search, place: Place, shown: set[str]) -> tuple[SessionHit, ...]:
    left_out = {*state.finished, *shown}
    try:
        return state.store.search_sessions(words, search.k, left_out, place.where, search.weights)
    except UsageError:  # the folder or label was there when the run began, and is not any more
        return ()


def _list(action: Action, state: ResearchState) -> _Observed:
    """Open a folder: what lies in it can be read or opened from now on."""
    folder, tree = state.places.folder(action.target), state.places.grown
    if folder is None or tree is None:
        return f"there is no folder {clip(action.target, 60)!r}; {_nearest(action.target, state)}", "invalid"
    state.places.opened.add(folder.id)
    below = state.places.add_folders(tree.ranked(folder))
    known = state.store.session_times  # a session may be forgotten meanwhile
    sessions = [one for one in folder.sessions if one in known]
    state.add_candidates(SessionHit(state.store.session(one), 0.0, ()) for one in sessions)
    listed = [label for one in sessions if (label := state.label_of(one)) in state.unfinished]
    parts = [f"folders {', '.join(below)}" if below else "", f"sessions {', '.join(listed)}" if listed else ""]
    held = "; ".join(filter(None, parts))
    return (f"it holds {held}", "found") if held else (f"all in it is read; {_nearest('', state)}", "nothing")


def _open(action: Action, state: ResearchState) -> "_Observed | _Reading":
    hit = state.candidates.get(action.target)
    if hit is None:
        return f"there is no candidate {clip(action.target, 60)!r}; {_nearest(action.target, state)}", "invalid"
    session, request = hit.session, action.words or state.question
    whole, read = _pages(session, state), state.pages_read.setdefault(session.id, set())
    asked = state.requests.setdefault(session.id, set())
    unread = [number for number in range(len(whole)) if number not in read]
    if not unread and (not action.words or normalise(action.words) in asked):
        return f"{action.target} is read to the end; {_nearest(action.target, state)}", "nothing"
    asked.add(normalise(action.words))
    # The page that fits the request best comes first; asking again brings the next one, so every word can be reached.
    # With other words, what was read can be read again: what was found in it may not be shown any more.
    page = max(unread or range(len(whole)), key=lambda number: _fit(whole[number], request, hit))
    read.add(page)
    return _Reading(
        target=action.target,
        session=session,
        page=page,
        lines={f"t{number}": passage for number, passage in enumerate(whole[page], 1)},
        request=request,
        pages_left=max(len(unread) - 1, 0),
    )


def _pages(session: Session, state: ResearchState) -> list[tuple[Passage, ...]]:
    if session.id not in state.paged:  # to count tokens of a long session takes a while
        state.paged[session.id] = pages(session, _PAGE_TOKENS)
    return state.paged[session.id]


def _fit(page: Sequence[Passage], request: str, hit: SessionHit) -> tuple[int, int]:
    """How many words of a request stand on a page, and how many of the turns that search liked."""
    wanted, liked = set(terms(request)), {turn.id for turn in hit.best}
    found = wanted.intersection(terms(" ".join(f"{one.turn.speaker} {one.text}" for one in page)))
    return len(found), sum(one.turn.id in liked for one in page)


def _read(reading: _Reading, browse_source: dspy.Module) -> "list[str] | Exception":
    lines = (quoted_line(label, one.turn.speaker, one.text) for label, one in reading.lines.items())
    head = f"session of {clip(reading.session.time[:16] or reading.session.id, 40)}"
    source = "\n".join([head, *lines])
    try:
        return browse_source(source=source, request=reading.request).reply.lines
    except UNUSABLE as error:
        return error


def _record(reading: _Reading, lines: "list[str] | Exception", state: ResearchState) -> _Observed:
    if isinstance(lines, Exception):
        state.fail("browse_source", lines)
        state.pages_read[reading.session.id].discard(reading.page)  # so that another request can read it again
        said = f"{reading.target} was opened, but the reader's answer could not be used; ask with other words"
        return said, "failed"
    found = state.add_evidence(
        [*_with_answers([line for line in dict.fromkeys(lines) if line in reading.lines], reading)]
    )
    rest = f"; {reading.pages_left} more pages" if reading.pages_left else ""
    return (f"found {', '.join(found)}{rest}", "found") if found else (f"nothing relevant in it{rest}", "nothing")


def _with_answers(labels: Sequence[str], reading: _Reading) -> Iterator[Passage]:
    """The lines that were pointed to, and behind a question what someone else says next, which answers it as a rule.

    Small models point to the line that asks.
    """
    order = list(reading.lines.values())
    for label in labels:
        one = reading.lines[label]
        yield one
        behind = order[order.index(one) + 1 :][:1]
        if is_question(one.text) and behind and behind[0].turn.speaker != one.turn.speaker:
            yield behind[0]


def _nearest(target: str, state: ResearchState) -> str:
    """What can be done instead: what is called most like the target, else what has the label next to it."""
    if target != NONE and target not in state.candidates and (near := state.places.nearest(target)):
        return f"the nearest is {near}"
    kind = "folder that was not opened" if target.startswith("f") and state.places.closed else "unread one"
    left = state.places.closed if kind.startswith("folder") else state.unread or state.unfinished
    if not left:
        return "search with other words"
    number = int("".join(filter(str.isdecimal, target[:8])) or 0)
    return f"the nearest {kind} is {min(left, key=lambda label: abs(int(label[1:]) - number))}"
