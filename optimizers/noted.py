"""Turns a store with notes into its turns in time order, each with what is noted of it, and its topics by number."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Move, Note
from stitchjam.data.records import Turn
from stitchjam.data.store import Store

__all__ = ["Noted", "Told", "Topic", "find_turn", "noted_json", "place", "require_notes", "told"]


@dataclass(frozen=True)
class Topic:
    """A scope; topics are counted from 1 on in the order in which they are first turned to."""

    number: int
    id: str
    name: str
    gist: str
    turns: int


@dataclass(frozen=True)
class Noted:
    """A turn and its note with the labels in use now, None when it has none.

    `move` is how its topic follows from the one before in the session, by the labels in use now and in time order: what
    the note says of it was true before labels were merged and earlier sessions were added. `replaced_by` is the turn
    that decided otherwise, "" when none did; `replaces` are those whose decisions it replaced.
    """

    turn: Turn
    note: Note | None = None
    topic: Topic | None = None
    move: Move = "continue"
    events: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    replaced_by: str = ""
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Told:
    """Turns in time order, and the topics that they are about by id, in the order of their numbers."""

    rows: tuple[Noted, ...]
    topics: Mapping[str, Topic]

    @property
    def noted(self) -> int:
        """How many turns have a note."""
        return sum(row.note is not None for row in self.rows)


def require_notes(store: Store) -> None:
    """Raise UsageError when no turn of the store has a note."""
    if not store.notebook.size:
        raise UsageError("nothing is labelled yet; label it first: stitchjam label")


def told(store: Store, session: str = "") -> Told:
    """What is noted of the turns of a store, or of those of one session; topics keep the numbers of the whole.

    Raises:
        UsageError: nothing is labelled yet.
    """
    require_notes(store)
    turns, notebook = store.turns, store.notebook
    with notebook.lock:
        notes = {turn.id: note for turn in turns if (note := notebook.of(turn.id))}
        topics, moves, replaces = _topics(notebook, notes.values()), _moves(notes), _replaces(notebook, turns)
        rows = [
            _noted(notebook, turn, notes.get(turn.id), topics, moves, replaces)
            for turn in turns
            if session in ("", turn.session_id)
        ]
    used = {row.topic.id for row in rows if row.topic}
    return Told(tuple(rows), {one: topic for one, topic in topics.items() if one in used})


def _topics(notebook: Notebook, notes: Iterable[Note]) -> dict[str, Topic]:
    counts = Counter(note.scope for note in notes if note.scope)
    bank = notebook.bank
    return {
        one: Topic(number, one, bank.name(one), bank.gists.get(one) or bank.labels[one].description, turns)
        for number, (one, turns) in enumerate(counts.items(), 1)
    }


def _moves(notes: Mapping[str, Note]) -> dict[str, Move]:
    """How each turn follows from the one before in its session; notes are in time order."""
    moves: dict[str, Move] = {}
    known, here = set[str](), dict[str, str]()
    for turn_id, note in notes.items():
        if note.scope:
            same = here.get(note.session_id) == note.scope
            moves[turn_id] = "continue" if same else "return" if note.scope in known else "open"
            here[note.session_id] = note.scope
            known.add(note.scope)
    return moves


def _replaces(notebook: Notebook, turns: Iterable[Turn]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for turn in turns:
        if new := notebook.ledger.replaced_by(turn.id):
            found[new] = (*found.get(new, ()), turn.id)
    return found


def _noted(
    notebook: Notebook,
    turn: Turn,
    note: Note | None,
    topics: Mapping[str, Topic],
    moves: Mapping[str, Move],
    replaces: Mapping[str, tuple[str, ...]],
) -> Noted:
    if note is None:
        return Noted(turn)
    name = notebook.bank.name
    return Noted(
        turn,
        note,
        topics.get(note.scope),
        moves.get(turn.id, "continue"),
        tuple(map(name, note.intent.events)),
        tuple(map(name, note.intent.entities)),
        notebook.ledger.replaced_by(turn.id),
        replaces.get(turn.id, ()),
    )


def place(turn: Turn) -> str:
    """How people name a turn: by the id in its source where it has one."""
    return turn.external_id or turn.id


def find_turn(name: str, turns: Iterable[Turn]) -> Turn:
    """The turn with that id of ours or of its source.

    Raises:
        UsageError: there is none, or there are several; the message says what to name instead.
    """
    found = [turn for turn in turns if name in (turn.id, turn.external_id)]
    if len(found) > 1:
        ids = ", ".join(f"{turn.id} (session {turn.session_id})" for turn in found[:5])
        raise UsageError(f"{name!r} is the id of several turns; name one of these: {ids}")
    if not found:
        raise UsageError(f"there is no turn {name!r}; `stitchjam show SESSION` lists the turns of a session")
    return found[0]


def noted_json(row: Noted) -> dict[str, Any]:
    """A turn with its note as one JSON object; `note` is null when it has none."""
    note = row.note
    value: dict[str, Any] = row.turn.model_dump() | {"note": None}
    if note is None:
        return value
    topic = row.topic and {"number": row.topic.number, "id": row.topic.id, "name": row.topic.name}
    return value | {
        "note": {
            "topic": topic,
            "move": row.move,
            "act": note.act,
            "target": note.target,
            "span": [note.span.start, note.span.end],
            "summary": note.summary,
            "events": list(row.events),
            "entities": list(row.entities),
            "references": [one.model_dump() for one in note.references],
            "replaced_by": row.replaced_by,
            "replaces": list(row.replaces),
        }
    }
