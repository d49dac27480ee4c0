"""Turns what a memory holds into places that an action can name: folders f1, f2 ..., and filters of a search.

Text of a model is only ever compared with names that are known. What is not among them is answered with the nearest.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

from stitchjam.data.intents.records import FACETS, Facet
from stitchjam.data.records import Filter
from stitchjam.data.store import Store
from stitchjam.data.tree.grow import Folder, Tree
from stitchjam.data.tree.paths import Paths, name_of, paths_of
from stitchjam.data.tree.readme import period_of
from stitchjam.programs.jam.periods import period_in
from stitchjam.programs.render import NOTHING, clip

__all__ = ["Place", "Places"]

_FOLDERS, _ABOUT, _SPEAKERS, _LABELS = 8, 130, 6, 4
_FACET: dict[Facet, str] = {"scope": "topic", "event": "what is done", "entity": "kind of thing"}
_LABEL = re.compile(r"[a-z]\d{1,3}")
# Words in a filter that say nothing of where.
_IDLE = frozenset(
    "and by folder for from in kind of on only session sessions speaker speakers the thing to topic where with".split()
) | {"none", "all", "any", "everywhere"}


@dataclass(frozen=True)
class Place:
    """Where a search looks: a filter, None for everywhere, how it is called, and names in it that mean nothing."""

    where: Filter | None
    called: str
    unknown: tuple[str, ...] = ()


@dataclass
class Places:
    """The folders and filters of one research run. Labels are given once and never moved.

    Args:
        store: what is researched.
        question: decides which topics and types can be chosen.
        tree: whether folders are shown.
        filters: whether a search can be limited.
    """

    store: Store
    question: str
    tree: bool = True
    filters: bool = True
    folders: dict[str, str] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.grown is not None:
            with self.grown.lock:
                self.add_folders(self.grown.ranked(self.grown.root)[:_FOLDERS])

    @cached_property
    def grown(self) -> Tree | None:
        """The tree, which may grow during the run; None where there is none, or it is not shown."""
        found = self.store.tree if self.tree else None
        return found if found is not None and found.size else None

    @cached_property
    def paths(self) -> Paths:
        """Where folders and sessions lie."""
        return paths_of(self.grown) if self.grown else Paths({}, {})

    @cached_property
    def _choices(self) -> dict[str, tuple[str, str, str]]:
        """Label of a filter -> field of `Filter`, its value there, and how it reads."""
        if not self.filters:
            return {}
        speakers = self.store.speakers
        found = {
            f"s{at}": ("speakers", name, f"speaker {clip(name, 40)}")
            for at, name in enumerate(speakers[:_SPEAKERS] if len(speakers) > 1 else (), 1)
        }
        notebook = self.store.notebook
        if notebook.size:
            with notebook.lock:
                near = [label for facet in FACETS for label in notebook.bank.shortlist(facet, self.question, _LABELS)]
            found |= {
                f"i{at}": ("labels", label.id, f"{_FACET[label.facet]}: {clip(label.name, 40)}")
                for at, label in enumerate(near, 1)
            }
        return found

    def add_folders(self, folders: Iterable[Folder]) -> list[str]:
        """Label folders, each once; returns the labels of all of them."""
        known = {folder_id: label for label, folder_id in self.folders.items()}
        labels = []
        for folder in folders:
            if folder.id not in known:
                known[folder.id] = f"f{len(known) + 1}"
                self.folders[known[folder.id]] = folder.id
            labels.append(known[folder.id])
        return labels

    def folder(self, target: str) -> Folder | None:
        """The folder that a label or a path names; None when it names none."""
        if self.grown is None:
            return None
        kind, found = ("folder", self.folders[target]) if target in self.folders else self.paths.find(target)
        return self.grown.folders().get(found) if kind == "folder" else None

    def session(self, target: str) -> str:
        """The id of the session that a path names, "" when it names none."""
        kind, found = self.paths.find(target)
        return found if kind == "session" else ""

    def nearest(self, target: str) -> str:
        """The path of the folder, with its label, or of the session, that is called most like a path."""
        if _LABEL.fullmatch(target):
            return ""
        known = [path for path in (*self.paths.folders.values(), *self.paths.sessions.values()) if path]
        near = get_close_matches(target.casefold()[:200], known[:2_000], n=1, cutoff=0.4)
        folder = self.folder(near[0]) if near else None
        return f"{near[0]!r}" + (f", {self.add_folders([folder])[0]}" if folder else "") if near else ""

    @property
    def closed(self) -> list[str]:
        """Labels of the folders that were not opened."""
        return [label for label, folder in self.folders.items() if folder not in self.opened]

    def place(self, where: str) -> Place:
        """What the words of a filter mean, by label or by name; what means nothing is told, and leaves the others."""
        if not where.strip() or not self.filters:
            return Place(None, "")
        after, before, rest = period_in(where)
        fields: dict[str, list[str]] = {}
        called = []
        for label, name, value, reads in self._named():
            without = _without(rest, label) or _without(rest, reads)
            if without is not None:
                rest = without
                fields.setdefault(name, []).append(value)
                called.append(label)
        unknown = tuple(word for word in re.findall(r"[\w./'-]+", rest) if word.lower() not in _IDLE)
        if after or before:
            called.append(
                f"{after} to {before}" if after and before else f"from {after}" if after else f"before {before}"
            )
        if not called:
            return Place(None, "", unknown)
        return Place(Filter.of(**fields, after=after, before=before), ", ".join(called), unknown)

    def _named(self) -> Iterator[tuple[str, str, str, str]]:
        """Label, field of `Filter`, value there, and name of each choice; paths before names, long ones first."""
        for label, folder_id in self.folders.items():
            if folder := self.folder(label):
                yield label, "folders", folder_id, self.paths.folders.get(folder_id, "")
                yield label, "folders", folder_id, name_of(self.grown, folder) if self.grown else ""
        choices = sorted(self._choices.items(), key=lambda one: -len(one[1][2]))
        for label, (name, value, reads) in choices:
            yield label, name, value, reads.partition(": ")[2] or reads.removeprefix("speaker ")

    def show_filters(self) -> str:
        """What a search can be limited to, a line each."""
        return "\n".join(f"{label} {reads}" for label, (_, _, reads) in self._choices.items()) or NOTHING

    def show_folders(self, among: Sequence[str] | None = None) -> str:
        """Folders that were not opened, or those of some labels: name, period, how many sessions, what is in them."""
        if self.grown is None:
            return NOTHING
        with self.grown.lock:
            lines = [self._line(label) for label in (self.closed[-_FOLDERS:] if among is None else among)]
        return "\n".join(filter(None, lines)) or NOTHING

    def _line(self, label: str) -> str:
        tree, folder = self.grown, self.folder(label)
        if tree is None or folder is None:  # the tree was made anew meanwhile
            return ""
        readme = tree.readme(folder)
        parts = (
            clip(name_of(tree, folder), 60),
            period_of(tree, folder),
            folder.counted,
            clip(readme.summary or readme.about, _ABOUT),
        )
        return " | ".join([label, *filter(None, parts)])


def _without(text: str, name: str) -> str | None:
    """A text without the words of a name; None when they do not stand in it."""
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) if name.strip() else None
    return f"{text[: found.start()]} {text[found.end() :]}" if found else None
