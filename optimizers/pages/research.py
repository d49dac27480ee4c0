"""Turns a research run into one HTML page that opens without network: rounds, and evidence marked in its sources."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stitchjam.data.records import Answer, Context, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import printable
from stitchjam.optimizers.pages.sheet import inline, write_sheet
from stitchjam.optimizers.show_research import research_json

__all__ = ["write_research"]

_NEAR = 3  # turns beside evidence that are shown of a session; the others are counted
_AROUND = 1_500  # characters of a long turn before and behind what is marked
_WHOLE = 30  # turns of a session that is shown whole


class _Piece(NamedTuple):
    """Words of a turn; `label` is that of the evidence they are, "" for none."""

    text: str
    label: str = ""


class _Said(NamedTuple):
    """A turn of a source, or so many turns that are left out."""

    speaker: str
    time: str
    pieces: Sequence[_Piece]
    left_out: int = 0


class _Source(NamedTuple):
    """A session that was read, with its evidence marked."""

    id: str
    time: str
    title: str
    turns: Sequence[_Said]
    labels: Sequence[str]


def write_research(path: Path, context: Context, store: Store, answer: Answer | None = None) -> None:
    """Write the page; the same run gives the same bytes.

    Args:
        path: an .html file; one that is there is replaced.
        context: the run.
        store: where it researched.
        answer: what was answered from it.

    Raises:
        UsageError: the file cannot be written.
    """
    value = research_json(context, store, answer)
    content = {
        **inline("page.css", "research.css", script="research.js"),
        "run": value,
        "sources": [_source(session_id, value["evidence"], store) for session_id in _there(context, store)],
        "marked": {one["label"] for one in value["evidence"] if one["holds"]},
    }
    write_sheet(path, "research.html", content, {})


def _there(context: Context, store: Store) -> list[str]:
    """Sessions that were read: those with evidence first."""
    cited = {claim.spans[0].session_id for claim in context.evidence}
    known = [one for one in context.browsed if one in store.session_times]
    return [one for one in known if one in cited] + [one for one in known if one not in cited]


def _source(session_id: str, evidence: Sequence[Mapping[str, Any]], store: Store) -> _Source:
    session, tree = store.session(session_id), store.tree
    memo = tree.memos.get(session_id)
    mine = [one for one in evidence if one["session"] == session_id and one["holds"]]
    places = {turn.id: at for at, turn in enumerate(session.turns)}
    marks: dict[str, list[tuple[int, int, str]]] = {}
    for one in mine:
        turn_id, _, place = one["span"].rpartition(":")
        start, _, end = place.partition("-")
        marks.setdefault(turn_id, []).append((int(start), int(end), one["label"]))
    near = {at for turn_id in marks for at in range(places[turn_id] - _NEAR, places[turn_id] + _NEAR + 1)}
    shown = range(len(session.turns)) if len(session.turns) <= _WHOLE else sorted(near) or range(_WHOLE)
    return _Source(
        id=session_id,
        time=session.time[:16],
        title=memo.title if memo else "",
        turns=_turns(session.turns, set(shown), marks),
        labels=[one["label"] for one in mine],
    )


def _turns(turns: Sequence[Turn], shown: set[int], marks: Mapping[str, Sequence[tuple[int, int, str]]]) -> list[_Said]:
    said: list[_Said] = []
    for at, turn in enumerate(turns):
        if at in shown:
            said.append(_Said(turn.speaker, turn.time[:16], _pieces(turn.text, marks.get(turn.id, ()))))
        elif said and said[-1].left_out:
            said[-1] = said[-1]._replace(left_out=said[-1].left_out + 1)
        else:
            said.append(_Said("", "", (), 1))
    return said


def _pieces(text: str, marks: Sequence[tuple[int, int, str]]) -> list[_Piece]:
    """The text with what is evidence in it; of a long text, what stands around that."""
    text = printable(text)  # places stay where they are
    pieces, end = [], 0
    for start, stop, label in sorted(marks):
        if start < end or stop > len(text):
            continue
        pieces += [_Piece(_shortened(text[end:start], bool(pieces))), _Piece(text[start:stop], label)]
        end = stop
    rest = text[end:]
    pieces.append(_Piece(rest if len(rest) <= 2 * _AROUND else f"{rest[:_AROUND]} …"))
    return [piece for piece in pieces if piece.text]


def _shortened(text: str, between: bool) -> str:
    """What stands before a mark: its end, and its beginning too when it stands between two."""
    if len(text) <= 2 * _AROUND:
        return text
    return f"{text[:_AROUND]} … {text[-_AROUND:]}" if between else f"… {text[-_AROUND:]}"
