"""Turns a history into positions: where turns stand, the index over them, and what is noted of them."""

import threading
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from math import nan
from typing import Any, Protocol

import numpy as np

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.index.columns import Mask, Place
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.index.ranking import Entry, Index
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Entry as NoteEntry
from stitchjam.data.records import Filter, History, Turn
from stitchjam.data.times import seconds
from stitchjam.data.tree.grow import Tree
from stitchjam.data.tree.paths import paths_of
from stitchjam.data.tree.records import Memo, Readme

__all__ = ["HistoryShelf", "Shelf", "entry", "mask_of", "require_known", "unknown"]


class Shelf(Protocol):
    """Where a store's turns stand: in memory or in a database. A position names a turn for as long as it lives."""

    def turn_ids(self) -> Iterable[str]:
        """Ids of all turns, in any order."""
        ...

    def index(self) -> Index:
        """The index over all positions; made when first asked for, and then kept."""
        ...

    def turns_at(self, positions: Iterable[int]) -> dict[int, Turn]:
        """The turns at these positions; one that was forgotten is left out."""
        ...

    def positions(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Where turns stand, by id; one that does not exist is left out."""
        ...

    def ids_like(self, turn_id: str) -> Collection[str]:
        """Some ids of turns that look like one that does not exist."""
        ...

    def session_times(self) -> Mapping[str, str]:
        """Event time by session id, oldest first."""
        ...

    def mask(self, field: str, names: Collection[str]) -> Mask:
        """Turns in these "sources" or with these "labels"; raises UsageError for a name that is unknown."""
        ...

    def notebook(self) -> Notebook:
        """What is noted of the turns by now; empty when nothing is."""
        ...

    def tree(self) -> Tree:
        """The folders in which sessions are filed by now; empty when none is."""
        ...


class HistoryShelf:
    """A history in memory; it is the only source, under its own id."""

    def __init__(
        self,
        history: History,
        encoder: str,
        entries: Iterable[NoteEntry] = (),
        filed: tuple[Iterable[Memo], Iterable[Readme]] = ((), ()),
    ):
        self.history, self._encoder = history, encoder
        self._notebook: Notebook | None = None
        self._filed = tuple(filed[0]), tuple(filed[1])
        self._tree: Tree | None = None
        self._entries = tuple(entries)
        self._turns = history.turns
        self._positions = {turn.id: position for position, turn in enumerate(self._turns)}
        self._times = {session.id: session.time for session in history.sessions}
        if len(self._positions) < len(self._turns) or len(self._times) < len(history.sessions):
            raise DataError(f"history {history.id!r} holds an id twice; build its sessions with data.ids.build_session")
        self._index: Index | None = None
        self._lock = threading.Lock()

    def turn_ids(self) -> Iterable[str]:
        """In the order of the history."""
        return self._positions

    def index(self) -> Index:
        """Built by one thread while others wait."""
        if self._index is None:
            with self._lock:
                if self._index is None:
                    entries = [
                        entry(turn, at) for session in self.history.sessions for at, turn in enumerate(session.turns)
                    ]
                    self._index = Index(open_encoder(self._encoder)).extended(entries)
        return self._index

    def turns_at(self, positions: Iterable[int]) -> dict[int, Turn]:
        """By position in the history."""
        return {position: self._turns[position] for position in positions}

    def positions(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Places in the history."""
        return {turn_id: self._positions[turn_id] for turn_id in turn_ids if turn_id in self._positions}

    def ids_like(self, turn_id: str) -> Collection[str]:
        """All ids."""
        return self._positions

    def session_times(self) -> Mapping[str, str]:
        """In the order of the history."""
        return self._times

    def mask(self, field: str, names: Collection[str]) -> Mask:
        """All turns for the one source, those that bear a label."""
        if field == "labels":
            require_known("label", names, self.notebook().bank.labels)
            mask = np.zeros(len(self._turns), dtype=bool)
            mask[list(self.positions(self.notebook().bearers(names)).values())] = True
            return mask
        require_known(field[:-1], names, [self.history.id])
        return np.full(len(self._turns), bool(names))

    def notebook(self) -> Notebook:
        """Folded from the entries when first asked for."""
        if self._notebook is None:
            with self._lock:
                if self._notebook is None:
                    self._notebook = Notebook(open_encoder(self._encoder), self._entries)
        return self._notebook

    def tree(self) -> Tree:
        """Grown from the memos when first asked for."""
        if self._tree is None:
            with self._lock:
                if self._tree is None:
                    self._tree = Tree(open_encoder(self._encoder), *self._filed)
        return self._tree

    def with_views(
        self, entries: Iterable[NoteEntry] | None = None, filed: tuple[Iterable[Memo], Iterable[Readme]] | None = None
    ) -> "HistoryShelf":
        """The same turns and the same index, with other notes, or with other memos and READMEs."""
        known = self.notebook().entries if entries is None else entries
        other = HistoryShelf(self.history, self._encoder, known, self._filed if filed is None else filed)
        other._index = self.index()
        return other

    def __reduce__(self) -> tuple[type["HistoryShelf"], tuple[Any, ...]]:
        return HistoryShelf, (self.history, self._encoder, tuple(self.notebook().entries), self._filed)


def entry(turn: Turn, ordinal: int) -> Entry:
    """What the index is told of a turn that stands at `ordinal` in its session."""
    known = seconds(turn.time)
    return Entry(Place(turn.session_id, ordinal, turn.speaker, nan if known is None else known), turn.text)


def mask_of(shelf: Shelf, where: Filter) -> Mask:
    """Which turns a filter lets through, by position.

    Raises:
        UsageError: it names something that is not there.
    """
    columns = shelf.index().columns
    mask = np.ones(columns.size, dtype=bool)
    if where.sessions is not None:
        require_known("session", where.sessions, shelf.session_times())
        mask &= columns.session_mask(where.sessions)
    if where.speakers is not None:
        require_known("speaker", where.speakers, columns.speaker_names)
        mask &= columns.speaker_mask(where.speakers)
    if where.after or where.before:
        mask &= columns.time_mask(seconds(where.after), seconds(where.before))
    if where.folders is not None:
        mask &= columns.session_mask(_filed_in(shelf.tree(), where.folders))
    if where.sources is not None:
        mask &= shelf.mask("sources", where.sources)
    if where.labels is not None:
        for names in _by_facet(shelf.notebook(), where.labels):
            mask &= shelf.mask("labels", names)
    return mask


def _by_facet(notebook: Notebook, labels: Collection[str]) -> list[list[str]]:
    """Labels of one facet each: a turn bears one of each, as in any faceted search. None at all lets no turn pass."""
    groups: dict[str, list[str]] = {}
    for name in labels:
        known = notebook.bank.labels.get(notebook.bank.canonical(name))
        groups.setdefault(known.facet if known else "", []).append(name)
    return list(groups.values()) or [[]]


def _filed_in(tree: Tree, names: Collection[str]) -> set[str]:
    """Ids of the sessions below these folders, which are named by path or id."""
    with tree.lock:
        folders, paths, found = tree.folders(), paths_of(tree), set[str]()
        for name in names:
            kind, there = paths.find(name)
            if kind != "folder" and name in folders:
                kind, there = "folder", name
            if kind != "folder" or not tree.size:
                raise unknown("folder", name, filter(None, paths.folders.values()))
            found.update(tree.sessions_below(folders[there]))
        return found


def require_known(kind: str, names: Collection[str], known: Collection[str]) -> None:
    """Raise UsageError for the first name that is not known; speakers are compared without regard to case."""
    folded = {name.casefold() for name in known} if kind == "speaker" else known
    for name in names:
        if (name.casefold() if kind == "speaker" else name) not in folded:
            raise unknown(kind, name, known)


def unknown(kind: str, wanted: str, known: Iterable[str]) -> UsageError:
    """The error for something that does not exist; its message names the nearest that do."""
    known = sorted(known)
    # Comparing with all of 100k ids takes seconds; those that begin alike are the likely ones.
    alike = [name for name in known if name[:3] == wanted[:3]]
    nearest = get_close_matches(wanted, (alike or known)[:2_000], n=3, cutoff=0.3) or known[:3]
    advice = f"use one of those that exist, such as {', '.join(nearest)}" if nearest else "nothing like it is there"
    return UsageError(f"there is no {kind} {wanted!r}; {advice}")
