"""Turns a history into something that can be looked up and searched, and that programs share without copying it."""

import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.index.lexical import Mask, TurnIndex, terms, top_k
from stitchjam.data.readers import read_history
from stitchjam.data.records import History, Session, Turn

__all__ = ["Hit", "SessionHit", "Store"]

_NEAR = 8  # turns of a session among which its best two are chosen


@dataclass(frozen=True)
class Hit:
    """A turn that was found, with its BM25 score; 0 for a turn that stands beside a hit."""

    turn: Turn
    score: float


@dataclass(frozen=True)
class SessionHit:
    """A session that was found, its score (0 to 2) and its two best turns for the query, best first."""

    session: Session
    score: float
    best: tuple[Turn, ...]


class Store:
    """A history in memory, read-only, with its index.

    The index is built at the first search, once. Copies are the store itself, so that an optimizer that copies
    programs and examples does not copy an index; a pickle holds the history alone.

    Raises:
        DataError: two turns or two sessions have the same id.
    """

    def __init__(self, history: History):
        self.history = history
        self.turns = history.turns
        self._positions = {turn.id: position for position, turn in enumerate(self.turns)}
        self._sessions = {session.id: number for number, session in enumerate(history.sessions)}
        if len(self._positions) < len(self.turns) or len(self._sessions) < len(history.sessions):
            raise DataError(f"history {history.id!r} holds an id twice; build its sessions with data.ids.build_session")
        self.name = "store:" + sha256("\n".join(self._positions).encode()).hexdigest()[:4]
        # Numbers for speakers make a filter over 100k turns a comparison of arrays.
        self._speakers: dict[str, int] = {}
        numbers = [self._speakers.setdefault(turn.speaker.casefold(), len(self._speakers)) for turn in self.turns]
        self._speaker_of = np.array(numbers, dtype=np.int32)
        self._index: TurnIndex | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_file(cls, path: str | Path, format: str | None = None) -> "Store":
        """A store of a file in any format of `data.readers`; raises what `read_history` raises."""
        return cls(read_history(path, format))

    @property
    def sessions(self) -> tuple[Session, ...]:
        """All sessions, oldest first."""
        return self.history.sessions

    def turn(self, turn_id: str) -> Turn:
        """The turn of that id.

        Raises:
            UsageError: there is none; the message names the nearest ids.
        """
        if turn_id not in self._positions:
            raise _unknown("turn", turn_id, self._positions)
        return self.turns[self._positions[turn_id]]

    def session(self, session_id: str) -> Session:
        """The session of that id.

        Raises:
            UsageError: there is none; the message names the nearest ids.
        """
        if session_id not in self._sessions:
            raise _unknown("session", session_id, self._sessions)
        return self.sessions[self._sessions[session_id]]

    def around(self, turn: Turn, distance: int) -> tuple[Turn, ...]:
        """A turn with those at most `distance` before and after it in its session, in order."""
        return tuple(self.turns[at] for at in self._window(self._positions[turn.id], distance))

    def search(
        self,
        query: str,
        k: int = 10,
        sessions: Iterable[str] | None = None,
        speakers: Iterable[str] | None = None,
        neighbours: int = 0,
    ) -> tuple[Hit, ...]:
        """The best turns for a query by BM25, best first; nothing when no word of it occurs.

        Args:
            query: words to look for.
            k: at most so many hits.
            sessions: session ids to search in; None for all.
            speakers: speakers whose turns to search, upper and lower case alike; None for all.
            neighbours: add so many turns before and after each hit, whoever speaks, with score 0. They follow the
                hits in time order, each once, so the hits do not depend on this.

        Raises:
            UsageError: a filter names a session or a speaker that is not in the store.
        """
        found = self.index.search(query, k, self._mask(_names(sessions), _names(speakers)))
        beside = self._beside([position for position, _ in found], neighbours)
        return tuple(Hit(self.turns[position], score) for position, score in [*found, *((at, 0.0) for at in beside)])

    def search_sessions(self, query: str, k: int = 5, exclude: Iterable[str] = ()) -> tuple[SessionHit, ...]:
        """The best sessions for a query, best first: BM25 of the whole session plus that of its best turn.

        Args:
            query: words to look for.
            k: at most so many sessions.
            exclude: ids of sessions to leave out, such as those already read.
        """
        left_out = set(_names(exclude) or ())
        mask = np.array([session.id not in left_out for session in self.sessions], dtype=bool)
        turn_scores, wanted = self.index.turn_scores(query), frozenset(terms(query))
        return tuple(
            SessionHit(self.sessions[number], score, self._best_turns(self.sessions[number], turn_scores, wanted))
            for number, score in top_k(self.index.session_scores(query), k, mask)
        )

    @property
    def index(self) -> TurnIndex:
        """The index; built when first asked for, by one thread while others wait."""
        if self._index is None:
            with self._lock:
                if self._index is None:
                    self._index = TurnIndex(self.turns, self.sessions)
        return self._index

    def _best_turns(self, session: Session, scores: np.ndarray, wanted: frozenset[str]) -> tuple[Turn, ...]:
        start = self._positions[session.turns[0].id]
        near = [session.turns[at] for at, _ in top_k(scores[start : start + len(session.turns)], _NEAR)]
        # Scores are of windows; what is shown of a session should hold the words itself.
        near.sort(key=lambda turn: -len(wanted.intersection(terms(f"{turn.speaker} {turn.text}"))))
        return tuple(near[:2])

    def _mask(self, sessions: Collection[str] | None, speakers: Collection[str] | None) -> Mask | None:
        if sessions is None and speakers is None:
            return None
        mask = np.full(len(self.turns), sessions is None)
        for session_id in sessions or ():
            mask[self._place(self.session(session_id))] = True
        if speakers is not None:
            mask &= np.isin(self._speaker_of, [self._speaker(speaker) for speaker in speakers])
        return mask

    def _speaker(self, speaker: str) -> int:
        if speaker.casefold() not in self._speakers:
            raise _unknown("speaker", speaker, {turn.speaker for turn in self.turns})
        return self._speakers[speaker.casefold()]

    def _place(self, session: Session) -> slice:
        start = self._positions[session.turns[0].id] if session.turns else 0
        return slice(start, start + len(session.turns))

    def _beside(self, hits: list[int], distance: int) -> list[int]:
        around = {at for hit in hits for at in self._window(hit, distance)}
        return sorted(around.difference(hits))

    def _window(self, position: int, distance: int) -> Iterator[int]:
        session_id = self.turns[position].session_id
        for at in range(max(position - distance, 0), min(position + distance + 1, len(self.turns))):
            if self.turns[at].session_id == session_id:
                yield at

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> "Store":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Store":
        return self

    def __reduce__(self) -> tuple[type["Store"], tuple[History]]:
        return Store, (self.history,)


def _names(names: Iterable[str] | None) -> Collection[str] | None:
    if isinstance(names, str):
        return [names]  # a lone string would be read as its letters
    return None if names is None else list(names)


def _unknown(kind: str, wanted: str, known: Iterable[str]) -> UsageError:
    known = sorted(known)
    # Comparing with all of 100k ids takes seconds; those that begin alike are the likely ones.
    alike = [name for name in known if name[:3] == wanted[:3]]
    nearest = get_close_matches(wanted, (alike or known)[:2_000], n=3, cutoff=0.3) or known[:3]
    advice = f"use one of those that exist, such as {', '.join(nearest)}" if nearest else "the store is empty"
    return UsageError(f"there is no {kind} {wanted!r}; {advice}")
