"""Turns a history into something that can be looked up and searched, and that programs share without copying it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stitchjam.data.digest import lines_hash
from stitchjam.data.errors import UsageError
from stitchjam.data.hits import Hit, SessionHit
from stitchjam.data.index.columns import Columns, Mask
from stitchjam.data.index.ranking import Index, Weights, top_k
from stitchjam.data.index.terms import terms
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Entry
from stitchjam.data.readers import read_history
from stitchjam.data.records import Filter, History, Session, Turn
from stitchjam.data.shelf import HistoryShelf, Shelf, mask_of, unknown
from stitchjam.data.tree.grow import Tree
from stitchjam.data.tree.records import Memo, Readme

__all__ = ["Hit", "SessionHit", "Store"]

_WORD = re.compile(r"\w")
_NEAR = 8  # turns of a session among which its best two are chosen


class Store:
    """What is remembered, read-only: look-up by id, and search.

    Copies are the store itself, so that an optimizer that copies programs and examples does not copy an index; a
    pickle holds what the shelf needs to be opened again.
    """

    def __init__(self, shelf: Shelf):
        self._shelf = shelf
        self._hashed: tuple[tuple[object, ...], str] = (), ""

    @property
    def fingerprint(self) -> str:
        """Hash of what it holds: the same turns in the same order within their sessions, the same notes and memos."""
        notebook, tree = self.notebook, self.tree
        state = (notebook, notebook.size, tree, tree.version)  # turns are labelled and filed while it is open
        if self._hashed[0] != state:
            notes = (f"{note.turn_id} {note.model_dump_json()}" for note in list(notebook.notes.values()))
            views = (one.model_dump_json() for one in (*tree.memos.values(), *tree.readmes.values()))
            held = lines_hash([*sorted(self._shelf.turn_ids()), *sorted(notes), *sorted(views)])
            self._hashed = state, held
        return self._hashed[1]

    @property
    def name(self) -> str:
        """Short form of the fingerprint, such as "store:ab12"."""
        return f"store:{self.fingerprint[:4]}"

    @classmethod
    def of(cls, history: History, encoder: str = "static", entries: Iterable[Entry] = ()) -> "Store":
        """A store of a history in memory; raises DataError when two turns or two sessions have the same id.

        Args:
            history: what it holds.
            encoder: a name that `open_encoder` knows.
            entries: what was noted of its turns, in the order of the notes.
        """
        return cls(HistoryShelf(history, encoder, entries))

    def noted(self, entries: Iterable[Entry]) -> "Store":
        """A store of the same turns with other notes; for histories in memory, UsageError for a memory on disk."""
        return Store(self._in_memory("notes").with_views(entries))

    def filed(self, memos: Iterable[Memo], readmes: Iterable[Readme] = ()) -> "Store":
        """The same with other memos and READMEs."""
        return Store(self._in_memory("memos").with_views(filed=(memos, readmes)))

    def _in_memory(self, what: str) -> HistoryShelf:
        if not isinstance(self._shelf, HistoryShelf):
            raise UsageError(f"a memory on disk keeps its own {what}; make them: stitchjam label, stitchjam memorize")
        return self._shelf

    @classmethod
    def from_file(cls, path: str | Path, format: str | None = None) -> "Store":
        """A store of a file in any format of `data.readers`; raises what `read_history` raises."""
        return cls.of(read_history(path, format))

    @property
    def size(self) -> int:
        """Number of turns."""
        return self._columns.size

    @property
    def sessions(self) -> tuple[Session, ...]:
        """All sessions, oldest first; reads everything."""
        return tuple(self._session(session_id, time) for session_id, time in self._shelf.session_times().items())

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns in time order; reads everything."""
        return tuple(turn for session in self.sessions for turn in session.turns)

    @property
    def history(self) -> History:
        """Everything as one record."""
        return History(id=self.name, sessions=self.sessions)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Who speaks, in order of first appearance."""
        return tuple(self._columns.speaker_names)

    @property
    def session_times(self) -> Mapping[str, str]:
        """Event time by session id, oldest first; "" where it is not known."""
        return self._shelf.session_times()

    def turn(self, turn_id: str) -> Turn:
        """The turn of that id.

        Raises:
            UsageError: there is none; the message names the nearest ids.
        """
        return self._at([self._position(turn_id)])[0]

    def session(self, session_id: str) -> Session:
        """The session of that id.

        Raises:
            UsageError: there is none; the message names the nearest ids.
        """
        times = self._shelf.session_times()
        if session_id not in times:
            raise unknown("session", session_id, times)
        return self._session(session_id, times[session_id])

    def around(self, turn: Turn, distance: int) -> tuple[Turn, ...]:
        """A turn with those at most `distance` before and after it in its session, in order."""
        return tuple(self._at(self._window([self._position(turn.id)], distance)))

    def in_order(self, turn_ids: Iterable[str]) -> tuple[Turn, ...]:
        """These turns, each once, in time order; one that does not exist, or was forgotten, is left out."""
        return tuple(self._at(self._sorted(self.positions(turn_ids).values())))

    def search(
        self,
        query: str,
        k: int = 10,
        where: Filter | None = None,
        neighbours: int = 0,
        weights: Weights | None = None,
    ) -> tuple[Hit, ...]:
        """The best turns for a query, best first; nothing when it holds no word.

        Args:
            query: words to look for.
            k: at most so many hits.
            where: acts before the best are chosen.
            neighbours: add so many turns before and after each hit, whoever speaks, with score 0. They follow the
                hits in time order, each once, so the hits do not depend on this.
            weights: how the parts of a score are weighed; default: as the index does.

        Raises:
            UsageError: the filter names a source, session, speaker, folder or label that does not exist.
        """
        if not _WORD.search(query):
            return ()
        index = replace(self.index, weights=weights) if weights else self.index
        found = dict(top_k(index.score(query, self.mask(where)).turns, k))
        beside = [at for at in self._window(found, neighbours) if at not in found] if neighbours > 0 else []
        turns = self._shelf.turns_at([*found, *beside])
        return tuple(Hit(turns[at], found.get(at, 0.0)) for at in [*found, *beside] if at in turns)

    def search_sessions(
        self,
        query: str,
        k: int = 5,
        exclude: Iterable[str] = (),
        where: Filter | None = None,
        weights: Weights | None = None,
    ) -> tuple[SessionHit, ...]:
        """The best sessions for a query, best first: how they cover its words, plus their best turn.

        Args:
            query: words to look for.
            k: at most so many sessions.
            exclude: ids of sessions to leave out, such as those already read.
            where: only these turns count.
            weights: as for `search`.
        """
        if not _WORD.search(query):
            return ()
        index = replace(self.index, weights=weights) if weights else self.index
        scored, ids = index.score(query, self.mask(where)), list(self._columns.session_ids)
        left_out = set([exclude] if isinstance(exclude, str) else exclude)
        scores = np.where([session_id in left_out for session_id in ids], np.float32(0), scored.sessions)
        wanted, there = frozenset(terms(query)), self._shelf.session_times()  # without what was forgotten since
        return tuple(
            SessionHit(
                self._session(ids[number], there[ids[number]]),
                score,
                self._best_turns(ids[number], scored.turns, wanted),
            )
            for number, score in top_k(scores, k)
            if ids[number] in there
        )

    @property
    def index(self) -> Index:
        """What search ranks by; see `positions`."""
        return self._shelf.index()

    @property
    def notebook(self) -> Notebook:
        """What is noted of the turns by now: their intents, labels, gists and ledgers. Empty when nothing is."""
        return self._shelf.notebook()

    @property
    def tree(self) -> Tree:
        """The folders in which sessions are filed by now, with their memos. Empty when none is."""
        return self._shelf.tree()

    def first(self, count: int) -> tuple[Turn, ...]:
        """The turns that were added first, in that order."""
        return tuple(turn for _, turn in sorted(self.turns_at(range(min(count, self.size))).items()))

    def turns_at(self, positions: Iterable[int]) -> dict[int, Turn]:
        """The turns at these positions of the index; one that was forgotten is left out."""
        return self._shelf.turns_at(positions)

    @property
    def encoder(self) -> str:
        """Name of the encoder, "none" without one."""
        return self.index.encoder.name if self.index.encoder else "none"

    def positions(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Where turns stand in the arrays of the index, by id; one that does not exist is left out."""
        return self._shelf.positions(turn_ids)

    @property
    def _columns(self) -> Columns:
        return self.index.columns

    def _session(self, session_id: str, time: str) -> Session:
        return Session(id=session_id, turns=tuple(self._at(self._positions_of(session_id))), time=time)

    def _best_turns(self, session_id: str, scores: np.ndarray, wanted: frozenset[str]) -> tuple[Turn, ...]:
        places = self._positions_of(session_id)
        near = self._at([places[at] for at, _ in top_k(scores[places], _NEAR)])
        # Scores are of windows; what is shown of a session should hold the words itself.
        near.sort(key=lambda turn: -len(wanted.intersection(terms(f"{turn.speaker} {turn.text}"))))
        return tuple(near[:2])

    def mask(self, where: Filter | None) -> Mask | None:
        """Which turns a filter lets through, by position; None for all."""
        return None if where is None or where == Filter() else mask_of(self._shelf, where)

    def _position(self, turn_id: str) -> int:
        position = self.positions([turn_id]).get(turn_id)
        if position is None:
            raise unknown("turn", turn_id, self._shelf.ids_like(turn_id))
        return position

    def _positions_of(self, session_id: str) -> list[int]:
        columns = self._columns
        places = np.flatnonzero(columns.sessions == columns.session_ids.get(session_id, -1))
        return places[np.argsort(columns.ordinals[places])].tolist()

    def _at(self, positions: Iterable[int]) -> list[Turn]:
        positions = list(positions)
        turns = self._shelf.turns_at(positions)
        return [turns[position] for position in positions if position in turns]

    def _window(self, positions: Iterable[int], distance: int) -> list[int]:
        around = np.zeros(self.size, dtype=bool)
        around[list(positions)] = True
        return self._sorted(np.flatnonzero(self._columns.widened(around, distance)).tolist())

    def _sorted(self, positions: Iterable[int]) -> list[int]:
        columns, rank = self._columns, self._ranks  # without sessions that were forgotten since
        return sorted(positions, key=lambda at: (rank.get(columns.sessions[at], len(rank)), columns.ordinals[at]))

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """Place in time of each session number."""
        numbers = self._columns.session_ids
        return {numbers[name]: rank for rank, name in enumerate(self._shelf.session_times())}

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> "Store":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Store":
        return self

    def __reduce__(self) -> tuple[type["Store"], tuple[Shelf]]:
        return Store, (self._shelf,)
