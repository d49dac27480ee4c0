"""Turns a tree into paths that people and models can read: folders by their names, sessions by date and title.

Paths are a view of today's names. Nothing is kept under one: sessions have ids, and so have folders.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from stitchjam.data.text import normalise
from stitchjam.data.tree.grow import ROOT, Folder, Tree

__all__ = ["Paths", "most", "name_of", "paths_of", "period", "slug"]

_WORDS, _LONGEST = 6, 48
_PORTS = (f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))
_TAKEN = frozenset(["readme", "con", "prn", "aux", "nul", *_PORTS])  # of ours, and of Windows


@dataclass(frozen=True)
class Paths:
    """Paths by id of a folder, "" for the root, and by id of a session; such as `suppers/2026-03-02-the-hall`."""

    folders: dict[str, str]
    sessions: dict[str, str]

    def find(self, path: str) -> tuple[str, str]:
        """What lies at a path: ("folder", id) or ("session", id), or ("", "") when there is nothing.

        Case, white space and a slash too many do not count; a path is only ever compared, never followed.
        """
        wanted = _key(path)
        for kind, known in (("folder", self.folders), ("session", self.sessions)):
            for one, its in known.items():
                if _key(its) == wanted:
                    return kind, one
        return "", ""


def paths_of(tree: Tree) -> Paths:
    """The paths of all folders and sessions."""
    with tree.lock:
        folders, sessions = {ROOT: ""}, dict[str, str]()
        for folder in tree.root.below:
            path, taken = folders[folder.id], set[str]()
            for below in folder.folders:
                folders[below.id] = _join(path, _free(slug(name_of(tree, below)), taken))
            for session_id in folder.sessions:
                memo = tree.memos[session_id]
                named = "-".join(filter(None, (slug(memo.time[:10]), slug(memo.title))))
                sessions[session_id] = _join(path, _free(named, taken))
        return Paths(folders, sessions)


def name_of(tree: Tree, folder: Folder) -> str:
    """The name of a folder: what it was given, or else the things that its memos name most often."""
    readme = tree.readmes.get(folder.id)
    if readme and readme.name:
        return readme.name
    if folder.parent is None:
        return "all sessions"
    memos = [tree.memos[one] for one in tree.sessions_below(folder)]
    return ", ".join(most(entity for memo in memos for entity in memo.entities)[:2]) or memos[0].title


def most(names: Iterable[str]) -> list[str]:
    """Names without repeats, those that were given most often first; case does not count."""
    spelled, counts = dict[str, str](), Counter[str]()
    for name in names:
        spelled.setdefault(normalise(name), name)
        counts[normalise(name)] += 1
    return [spelled[key] for key, _ in counts.most_common() if key]


def slug(text: str) -> str:
    """A text as part of a path on any file system, without an ending: words and hyphens, "" when it has no word."""
    words = re.findall(r"[^\W_]+", text.casefold())
    short = "-".join(words[:_WORDS])[:_LONGEST].strip("-")
    return f"{short}-1" if short in _TAKEN else short


def period(times: Iterable[str]) -> str:
    """From when to when, in days, such as "2026-03-02 to 2026-04-01"; "" where nothing is known."""
    days = sorted(time[:10] for time in times if time)
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _key(path: str) -> str:
    return "/".join(part.casefold() for part in PurePosixPath(path.strip().strip("/") or ".").parts if part != ".")


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _free(name: str, taken: set[str]) -> str:
    """A name that nothing else in the folder has."""
    name = name or "untitled"
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    taken.add(free)
    return free
