"""Turns what is known of each turn beside its words into arrays: session, place in it, speaker, event time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns", "Mask", "Place"]

Mask = NDArray[np.bool_]
Ints = NDArray[np.int32]


class Place(NamedTuple):
    """Where a turn stands: session id, number in the session from 0, speaker, seconds since 1970 (nan: unknown)."""

    session: str
    ordinal: int
    speaker: str
    seconds: float


@dataclass(frozen=True)
class Columns:
    """One entry a turn, by position; a position is never given to another turn.

    `sessions` and `speakers` are numbers into `session_ids` and `speaker_names`; `before` and `after` are positions of
    the turns beside it in its session, -1 where there is none.
    """

    session_ids: dict[str, int] = field(default_factory=dict)
    speaker_names: dict[str, int] = field(default_factory=dict)
    sessions: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    ordinals: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    speakers: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    before: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    after: Ints = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def size(self) -> int:
        """Number of turns."""
        return len(self.sessions)

    def extended(
        self, sessions: Sequence[str], ordinals: Sequence[int], speakers: Sequence[str], seconds: Sequence[float]
    ) -> "Columns":
        """With more turns behind; each sequence holds one field of their places."""
        ids, names = dict(self.session_ids), dict(self.speaker_names)
        numbers = np.concatenate([self.sessions, _numbers(sessions, ids)])
        places = np.concatenate([self.ordinals, np.array(ordinals, np.int32)])
        return Columns(
            ids,
            names,
            numbers,
            places,
            np.concatenate([self.speakers, _numbers(speakers, names)]),
            np.concatenate([self.seconds, np.array(seconds, np.float64)]),
            *self._neighbours(numbers, places),
        )

    def hop(self, positions: NDArray[np.integer], distance: int) -> Ints:
        """Positions of the turns `distance` further in the same session (negative: before); -1 where there is none."""
        step = self.after if distance > 0 else self.before
        for _ in range(abs(distance)):
            positions = np.where(positions >= 0, step[positions], np.int32(-1))
        return positions.astype(np.int32, copy=False)

    def widened(self, mask: Mask, distance: int) -> Mask:
        """With the turns at most `distance` before or after one of the mask, in the same session."""
        wide = mask.copy()
        for step in (-1, 1):
            positions = np.flatnonzero(mask)
            for _ in range(distance):
                positions = self.hop(positions, step)
                positions = positions[positions >= 0]
                if not len(positions):  # beyond the ends of all sessions
                    break
                wide[positions] = True
        return wide

    def session_mask(self, ids: Iterable[str]) -> Mask:
        """Turns of these sessions; ids that are not there match nothing."""
        return np.isin(self.sessions, [self.session_ids[name] for name in ids if name in self.session_ids])

    def speaker_mask(self, names: Iterable[str]) -> Mask:
        """Turns of these speakers, upper and lower case alike."""
        wanted = {name.casefold() for name in names}
        return np.isin(self.speakers, [at for name, at in self.speaker_names.items() if name.casefold() in wanted])

    def time_mask(self, after: float | None, before: float | None) -> Mask:
        """Turns from `after` on and before `before`; a turn without a time lies in no period."""
        mask = ~np.isnan(self.seconds)
        if after is not None:
            mask &= self.seconds >= after
        return mask if before is None else mask & (self.seconds < before)

    def _neighbours(self, sessions: Ints, ordinals: Ints) -> tuple[Ints, Ints]:
        """`before` and `after` of all turns, from the order of (session, ordinal); only new turns are looked at."""
        old, new = self.size, len(sessions) - self.size
        before = np.concatenate([self.before, np.full(new, -1, np.int32)])
        after = np.concatenate([self.after, np.full(new, -1, np.int32)])
        # The last turn of each session that grows is old; the rest of what can be a neighbour is new.
        grown = np.isin(sessions[:old], sessions[old:]) if new < old else np.ones(old, bool)
        some = np.concatenate([np.flatnonzero(grown), np.arange(old, old + new)])
        order = some[np.lexsort((ordinals[some], sessions[some]))]
        beside = (sessions[order[1:]] == sessions[order[:-1]]) & (ordinals[order[1:]] == ordinals[order[:-1]] + 1)
        before[order[1:][beside]] = order[:-1][beside]
        after[order[:-1][beside]] = order[1:][beside]
        return before, after


def _numbers(names: Iterable[str], known: dict[str, int]) -> Ints:
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int32)
