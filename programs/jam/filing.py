"""Turns what waits in a memory into memos, and the tree that grows of them into names and READMEs of folders.

One batch and many appends do the same: memos in the order of sessions, then what is stale, from the leaves up.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import dspy

from stitchjam.data.disk.memos import filing
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.work import Derived
from stitchjam.data.errors import ModelOutputError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.records import Session
from stitchjam.data.tree.grow import Folder, Tree
from stitchjam.data.tree.records import Readme
from stitchjam.programs.deriving import Start, alone, require_start
from stitchjam.programs.jam.memorizer import Memorizer, content_of

__all__ = ["Filed", "memorize", "refreshed", "stale"]

_LOOKED_AT = 6_000  # characters of a session by which related memos are found


@dataclass
class Filed:
    """What a filing did: sessions that got a memo now, those that failed with why, and folders that were written.

    `given_up`: so many sessions failed three times, now or before, and are not tried again unless it is asked for.
    """

    program: str
    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    given_up: int = 0
    folders: int = 0
    written: int = 0
    unwritten: dict[str, str] = field(default_factory=dict)


def memorize(
    disk: DiskStore,
    memorizer: Memorizer,
    limit: int | None = None,
    tick: Tick = quiet,
    start: Start = "on",
) -> Filed:
    """File the sessions of a memory that have no memo of this program yet; the log is left alone.

    Args:
        disk: the memory.
        memorizer: what writes memos and READMEs.
        limit: at most so many sessions.
        tick: is told how many sessions and folders are through, of how many.
        start: "on" goes on; "retry" goes on, also with sessions that failed three times; "again" drops memos and
            READMEs of this program first, but not before its model has answered.

    Raises:
        UsageError: another process files this memory.
        BackendError, BudgetStop: from the steps. What was written is kept.
    """
    require_start(limit, start, "sessions")
    key = filing(memorizer.fingerprint)
    disk.register(key)
    run = _Run(disk, memorizer, key.program, tick)
    with alone(disk.path, "filing"), dspy.context(private=True):
        disk.release(key)
        if start == "retry":
            disk.retry(key)
        elif start == "again":
            run.drop()
        disk.memos.begin(key.program, memorizer.sizes)
        run.total = min(len(disk.store.session_times) - disk.memos.tree(key.program).size, limit or 1 << 62)
        processed = disk.process(key, run, limit, run.count)
        written = _write(disk, memorizer, key.program, tick)
        tree = disk.memos.tree(key.program)
    failed = {one.folder: one.error for one in written.values() if one.error}
    return Filed(
        program=key.program,
        done=processed.done,
        failed=processed.failed,
        given_up=disk.given_up(key),
        folders=len(tree.folders()) if tree.size else 0,
        written=len(written) - len(failed),
        unwritten=failed,
    )


@dataclass
class _Run:
    """Writes the memo of one session of a memory, given its id."""

    disk: DiskStore
    memorizer: Memorizer
    program: str
    tick: Tick
    total: int = 0
    through: int = 0

    def __call__(self, session_id: str) -> Derived:
        tree, session = self.disk.memos.tree(self.program, behind=True), self.disk.store.session(session_id)
        before = self.disk.memos.before(self.program, session_id)
        related = tree.near(_beginning(session), self.memorizer.related, before)
        return Derived(self.memorizer(session=session, related=related).memo.model_dump(mode="json"))

    def count(self, session_id: str) -> None:
        """Tell that one more session is through."""
        self.through += 1
        self.tick("memos", self.through, max(self.total, self.through))

    def drop(self) -> None:
        """Drop what this program wrote, once its model has shown that it answers."""
        store = self.disk.store
        for session_id in list(store.session_times)[:1]:
            with suppress(ModelOutputError):  # it answers, if not in a way that can be used
                self.memorizer(session=store.session(session_id))
        self.disk.memos.drop(self.program)


def stale(tree: Tree) -> list[Folder]:
    """Folders whose name or summary is of before something changed below them, each after those in it."""
    folders = sorted(tree.folders().values(), key=lambda one: -one.depth) if tree.size else []
    return [one for one in folders if _is_stale(tree, one)]


def refreshed(tree: Tree, folder: Folder, memorizer: Memorizer) -> Readme:
    """The README of a folder as it should be now; with an `error` where the model gave nothing that can be used.

    Raises:
        BackendError: from the steps.
    """
    readme = tree.readme(folder).model_copy(update={"error": "", "digest": ""})
    try:
        if _unnamed(tree, folder):
            name, about = memorizer.name(tree, folder)
            readme = readme.model_copy(update={"name": name, "about": about, "members": tuple(_members(folder))})
            tree.write(readme)  # the summary is of the folder under its name
        summary = memorizer.summary(tree, folder)
        return readme.model_copy(update={"summary": summary, "digest": content_of(tree, folder)})
    except ModelOutputError as error:
        return readme.model_copy(update={"error": str(error)})


def _write(disk: DiskStore, memorizer: Memorizer, program: str, tick: Tick) -> dict[str, Readme]:
    """Write what is stale, and what becomes stale by it, from the leaves up; what was written, by folder.

    When something is forgotten meanwhile, what is being written may hold it: it is dropped, and the rest is looked at
    anew.
    """
    written: dict[str, Readme] = {}
    whole = False
    while not whole:
        epoch = disk.memos.epoch
        tree = disk.memos.tree(program)
        # A new summary makes those above it stale as well.
        above = {one.id: one for folder in stale(tree) for one in folder.above}
        order = sorted(above.values(), key=lambda one: -one.depth)
        whole = all(_renew(disk, tree, folder, memorizer, (program, epoch), written) for folder in _told(order, tick))
    return written


def _told(order: Sequence[Folder], tick: Tick) -> Iterator[Folder]:
    for number, folder in enumerate(order, 1):
        yield folder
        tick("folders", number, len(order))


def _renew(
    disk: DiskStore, tree: Tree, folder: Folder, memorizer: Memorizer, of: tuple[str, int], written: dict[str, Readme]
) -> bool:
    """Write about one folder, if that is due; False when something was forgotten meanwhile."""
    if not _is_stale(tree, folder):
        return True
    program, epoch = of
    readme = refreshed(tree, folder, memorizer)
    if not disk.memos.write(program, [readme], epoch):
        return False
    disk.memos.tree(program)  # reads what was written into the tree
    written[folder.id] = readme
    return True


def _is_stale(tree: Tree, folder: Folder) -> bool:
    return _unnamed(tree, folder) or content_of(tree, folder) != tree.readme(folder).digest


def _unnamed(tree: Tree, folder: Folder) -> bool:
    """Whether a folder needs a name: it has none, or half of it is no longer what it was named for."""
    if folder.parent is None:
        return False
    readme, members = tree.readme(folder), set(_members(folder))
    named_for = set(readme.members)
    return not readme.name or bool(named_for - members) or len(members) >= 2 * len(named_for)


def _members(folder: Folder) -> Iterable[str]:
    return [one.id for one in folder.folders] or folder.sessions


def _beginning(session: Session) -> str:
    return " ".join(turn.text for turn in session.turns)[:_LOOKED_AT]
