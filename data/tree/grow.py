"""Turns memos into a tree of folders: each is filed where its neighbours are, and a folder that is full is split.

The tree is a fold of the memos in the order in which their sessions were added, so that one batch and many appends
give the same. It is a view: a session keeps its id wherever it is filed, and so do all spans in it.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.errors import UsageError
from stitchjam.data.index.encoders import Encoder
from stitchjam.data.tree.records import Memo, Readme
from stitchjam.data.tree.split import halves, unit, vectors_of

__all__ = ["Folder", "ROOT", "Sizes", "Tree"]

ROOT = "root"
_GROWTH, _DIGITS = 64, 5


_FEWEST = 3  # with two, memos that are all alike make a list of folders instead of a tree


@dataclass(frozen=True)
class Sizes:
    """Limits of a tree: how much a folder holds, and what decides about a split.

    `sessions` and `folders` are what lies directly in one folder at most. A half that is split off holds a quarter of
    these at least. `drift` weighs time against meaning: sessions of one time rather stay together.
    """

    sessions: int = 8
    folders: int = 8
    drift: float = 0.3

    def __post_init__(self) -> None:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in (self.sessions, self.folders))
        if not whole or self.sessions < 2 or self.folders < _FEWEST:
            raise UsageError(f"a folder holds two sessions or more, and {_FEWEST} folders or more, not {self}")
        if not isinstance(self.drift, (int, float)) or not 0 <= self.drift < math.inf:
            raise UsageError(f"drift is a number from 0 on, not {self.drift!r}")


class Folder:
    """A folder of the tree: of height 0 it holds sessions, else folders.

    Attributes:
        parent: the folder it lies in; None for the root.
        folders, sessions: what lies directly in it, in the order in which it came.
        first: place of its earliest session in the order of all.
        count: sessions below it.
    """

    def __init__(self, height: int, dim: int, parent: "Folder | None" = None):
        self.height, self.parent = height, parent
        self.folders: list[Folder] = []
        self.sessions: list[str] = []
        self.total = np.zeros(dim, np.float32)
        self.first, self.count = -1, 0
        self.founder = ""

    @property
    def counted(self) -> str:
        """How many sessions are below it, in words."""
        return f"{self.count} session{'s' * (self.count != 1)}"

    @property
    def id(self) -> str:
        """Made of its height and its earliest session, which never leaves it."""
        if self.parent is None:
            return ROOT
        return "d" + sha256(f"{self.height} {self.founder}".encode("utf-8", "replace")).hexdigest()[:10]

    @property
    def depth(self) -> int:
        """Folders above it."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def above(self) -> "Iterator[Folder]":
        """The folder and all that it lies in, up to the root."""
        yield self
        if self.parent is not None:
            yield from self.parent.above

    @property
    def below(self) -> "Iterator[Folder]":
        """The folder and all folders in it, each before those in it."""
        yield self
        for folder in self.folders:
            yield from folder.below

    def take(self, session_id: str, place: int, vector: NDArray[np.float32]) -> None:
        """Count one more session below."""
        if not self.count or place < self.first:
            self.first, self.founder = place, session_id
        self.total, self.count = self.total + vector, self.count + 1

    def take_all(self, other: "Folder") -> None:
        """Count all that lies below another one, too."""
        if not self.count or other.first < self.first:
            self.first, self.founder = other.first, other.founder
        self.total, self.count = self.total + other.total, self.count + other.count


class Tree:
    """Memos and the folders in which their sessions are filed, with what was written about these.

    Several threads may share one: `add` holds `lock`, and so does whoever reads it while another adds.

    Args:
        encoder: what nearness goes by; None: the words of the memos.
        memos: in the order in which their sessions were added.
        readmes: what was written about folders.
        sizes: limits.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        memos: Iterable[Memo] = (),
        readmes: Iterable[Readme] = (),
        sizes: Sizes | None = None,
    ):
        self.lock = threading.RLock()
        self.encoder, self.sizes = encoder, sizes or Sizes()
        self.memos: dict[str, Memo] = {}
        self.readmes = {readme.folder: readme for readme in readmes}
        self._places: dict[str, int] = {}
        self._home: dict[str, Folder] = {}
        self._vectors = np.zeros((0, vectors_of(encoder, [""]).shape[1]), np.float32)
        self.root = Folder(0, self._vectors.shape[1])
        self.version = 0
        self.add(*memos)

    @property
    def size(self) -> int:
        """Number of memos."""
        return len(self.memos)

    def add(self, *memos: Memo) -> None:
        """File sessions, in the order in which they were added.

        Raises:
            UsageError: one is filed already.
        """
        with self.lock:
            for memo, vector in zip(memos, vectors_of(self.encoder, [memo.topic for memo in memos]), strict=True):
                if memo.session_id in self.memos:
                    raise UsageError(f"session {memo.session_id!r} is filed already; make the tree anew")
                self._file(memo, vector)
            self.version += 1

    def write(self, readme: Readme) -> None:
        """Take over what was written about a folder."""
        with self.lock:
            self.readmes[readme.folder] = readme
            self.version += 1

    def home(self, session_id: str) -> Folder:
        """The folder in which a session is filed."""
        return self._home[session_id]

    def folders(self) -> dict[str, Folder]:
        """All folders by id, each before those in it."""
        return {folder.id: folder for folder in self.root.below}

    def sessions_below(self, folder: Folder) -> list[str]:
        """Ids of all sessions below a folder, in the order in which they were added."""
        found = (session for one in folder.below for session in one.sessions)
        return sorted(found, key=self._places.__getitem__)

    def near(self, text: str, k: int, among: Iterable[str] | None = None) -> list[Memo]:
        """The memos most like a text, best first.

        Args:
            text: what to compare with.
            k: at most so many.
            among: ids of the sessions that may be chosen; default: all.
        """
        with self.lock:
            ids = list(self.memos) if among is None else [one for one in among if one in self.memos]
            if not ids or k < 1:
                return []
            rows = self._vectors[[self._places[one] for one in ids]]
            scores = rows @ vectors_of(self.encoder, [text])[0]
            return [self.memos[ids[at]] for at in np.argsort(-scores, kind="stable")[:k] if scores[at] > 0]

    def readme(self, folder: Folder) -> Readme:
        """What was written about a folder so far."""
        return self.readmes.get(folder.id, Readme(folder=folder.id))

    def ranked(self, folder: Folder) -> list[Folder]:
        """The folders in a folder, those that hold most first, and of these the newest."""
        return sorted(folder.folders, key=lambda one: (-one.count, -one.first))

    def _file(self, memo: Memo, vector: NDArray[np.float32]) -> None:
        place = len(self.memos)
        if place == len(self._vectors):
            more = np.zeros((max(_GROWTH, place), self._vectors.shape[1]), np.float32)
            self._vectors = np.concatenate([self._vectors, more])
        self._vectors[place], self._places[memo.session_id] = vector, place
        self.memos[memo.session_id] = memo
        home = self.root
        while home.folders:
            nearness = (unit(np.array([one.total for one in home.folders])) @ vector).round(_DIGITS)
            home = home.folders[int(np.flatnonzero(nearness == nearness.max())[-1])]  # of equals, the newest
        home.sessions.append(memo.session_id)
        self._home[memo.session_id] = home
        for folder in home.above:
            folder.take(memo.session_id, place, vector)
        self._split(home)

    def _split(self, folder: Folder) -> None:
        """Split a folder that is full, and those above it that are full then."""
        limit = self.sizes.folders if folder.folders else self.sizes.sessions
        held: Sequence[Any] = folder.folders or folder.sessions
        if len(held) <= limit:
            return
        parts = self._parts(folder, held)
        if folder.parent is None:
            folder.folders, folder.sessions = [], []
            made = [Folder(folder.height, len(folder.total), folder) for _ in parts]
            folder.height += 1
            folder.folders = made
            for one, part in zip(made, parts, strict=True):
                self._fill(one, part)
            return
        parent, other = folder.parent, Folder(folder.height, len(folder.total), folder.parent)
        for one, part in zip((folder, other), parts, strict=True):
            self._fill(one, part)
        parent.folders.insert(parent.folders.index(folder) + 1, other)
        self._split(parent)

    def _parts(self, folder: Folder, held: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """What lies in a folder, in two parts; the earliest session is in the first, so that this keeps its id."""
        if folder.folders:
            vectors, places = unit(np.array([one.total for one in held])), [one.first for one in held]
        else:
            places = [self._places[one] for one in held]
            vectors = self._vectors[places]
        side = halves(vectors, places, self.sizes.drift, max(2, len(held) // 4))
        if not side[int(np.argmin(places))]:
            side = ~side
        parts: tuple[list[Any], list[Any]] = [], []
        for one, first in zip(held, side, strict=True):
            parts[0 if first else 1].append(one)
        return parts

    def _fill(self, folder: Folder, held: Sequence[Any]) -> None:
        """Let a folder hold these, and nothing else."""
        folder.folders, folder.sessions = [], []
        folder.total, folder.first, folder.count = np.zeros_like(folder.total), -1, 0
        for one in held:
            if isinstance(one, Folder):
                one.parent = folder
                folder.folders.append(one)
                folder.take_all(one)
            else:
                place = self._places[one]
                self._home[one] = folder
                folder.sessions.append(one)
                folder.take(one, place, self._vectors[place])

    def __copy__(self) -> "Tree":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tree":
        return self  # optimizers copy examples; research does not change the tree that it is shown
