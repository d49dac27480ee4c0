"""Turns a memory into real folders: READMEs, and each session as text, for people and for tools that read files.

Names are made by code from letters, digits and hyphens; no text of the memory becomes part of a path.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stitchjam.data.atomic import whole_folder
from stitchjam.data.errors import UsageError
from stitchjam.data.records import Session
from stitchjam.data.store import Store
from stitchjam.data.tree.paths import Paths, paths_of
from stitchjam.data.tree.readme import memo_text, readme_text
from stitchjam.data.tree.records import Memo

__all__ = ["Exported", "export_tree", "session_text"]

_README, _UNFILED = "README.md", "_unfiled"  # no folder of a tree has a name that begins so
_TOKENS = 4_000  # of a README, for people: a folder holds few things


@dataclass(frozen=True)
class Exported:
    """How many folders and sessions were written; `unfiled` of these have no memo yet."""

    folders: int
    sessions: int
    unfiled: int


def export_tree(store: Store, target: Path) -> Exported:
    """Write the tree of a store to a folder; whole, or not at all.

    Args:
        store: what to write.
        target: a folder that does not exist, or is empty.

    Raises:
        UsageError: there is something in the folder, or it cannot be written.
    """
    target = Path(os.path.realpath(target))
    if target == Path.cwd():
        raise UsageError(f"{target} is where you are; name a folder below it")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} holds something; name a new or empty folder")
    try:
        with whole_folder(target) as new:
            return _write(store, new)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}); name another folder") from None


def session_text(session: Session, memo: Memo | None = None) -> str:
    """A session as Markdown: its memo, then every turn with speaker, time and id, word for word."""
    head = [memo_text(memo), ""] if memo else []
    turns = (f"[{turn.id}] {turn.time} {turn.speaker}:\n{turn.text}\n" for turn in session.turns)
    return "\n".join([*head, f"session {session.id} {session.time}".rstrip(), "", *turns])


def _write(store: Store, target: Path) -> Exported:
    tree = store.tree
    with tree.lock:
        paths, folders = paths_of(tree), tree.folders()
        for folder_id, folder in folders.items():
            place = target.joinpath(*paths.folders[folder_id].split("/"))
            place.mkdir(parents=True, exist_ok=True)
            _put(place / _README, readme_text(tree, folder, paths, _TOKENS) + "\n")
        memos = dict(tree.memos)
    there, number = list(store.session_times), 0
    for path, session_id in _places(there, paths):
        place = target.joinpath(*path.split("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        _put(place.with_name(f"{place.name}.md"), session_text(store.session(session_id), memos.get(session_id)))
        number += 1
    return Exported(len(folders), number, sum(one not in paths.sessions for one in there))


def _places(there: list[str], paths: Paths) -> Iterator[tuple[str, str]]:
    for at, session_id in enumerate(there, 1):
        yield paths.sessions.get(session_id, f"{_UNFILED}/session-{at}"), session_id


def _put(place: Path, text: str) -> None:
    place.write_bytes(text.encode("utf-8", "replace"))  # as it was ingested: line ends stay what they are
