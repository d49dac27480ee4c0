"""Turns histories of a benchmark into memories on disk, one each in a folder, to be labelled and asked."""

import re
from hashlib import sha256
from pathlib import Path

from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.records import History

__all__ = ["memory_of_history"]


def memory_of_history(folder: Path, history: History, create: bool = True, encoder: str | None = None) -> DiskStore:
    """The memory of a history in a folder of memories.

    Args:
        folder: where they are.
        history: which one; its id names the memory.
        create: make it when it is not there, and add what is missing.
        encoder: see `DiskStore`.

    Raises:
        UsageError: it is not there and must not be made.
        DataError: what is there is the memory of another history.
    """
    path = folder / _name(history.id)
    if not create and not path.exists():
        raise UsageError(
            f"{folder} holds no memory of {history.id!r}; make it first: stitchjam memorize --bench, or label --bench"
        )
    disk = DiskStore(path, encoder, create)
    try:
        _complete(disk, history, create)
    except BaseException:
        disk.close()
        raise
    return disk


def _complete(disk: DiskStore, history: History, create: bool) -> None:
    wanted = {turn.id for turn in history.turns}
    known = disk.store.positions(wanted)
    if disk.store.size > len(known):
        raise DataError(
            f"{disk.path} holds other turns than {history.id!r} has here, or more of them; choose another folder for "
            "memories, or ask for as many turns"
        )
    if len(known) < len(wanted) and not create:
        raise DataError(
            f"{disk.path} holds {len(known)} of the {len(wanted)} turns that {history.id!r} has here; add the "
            "others first: stitchjam memorize --bench, or label --bench"
        )
    if len(known) < len(wanted):
        disk.add_history(history)


def _name(history: str) -> str:
    """The id as the name of a folder; what no name may hold is replaced, and a hash then tells two of them apart."""
    safe = re.sub(r"[^\w.-]+", "_", history)[:60].strip(".") or "history"
    return safe if safe == history else f"{safe}-{sha256(history.encode('utf-8', 'replace')).hexdigest()[:8]}"
