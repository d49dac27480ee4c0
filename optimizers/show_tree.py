"""Turns the tree of a memory into lines and JSON for people: folders with their READMEs, and the memos of sessions."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.tree import Tree as Branches

from stitchjam.data.errors import UsageError
from stitchjam.data.store import Store
from stitchjam.data.tree.grow import Folder, Tree
from stitchjam.data.tree.paths import Paths, name_of, paths_of
from stitchjam.data.tree.readme import entities_of, memo_line, memo_text, period_of, readme_text

__all__ = ["tree_json", "tree_lines", "unfiled"]


def tree_json(store: Store, path: str = "") -> dict[str, Any]:
    """A folder of the tree with all below it, as JSON; the root for "". A path of a session gives its memo.

    Raises:
        UsageError: nothing is filed, or nothing lies at the path.
    """
    tree = store.tree
    if not tree.size:
        raise UsageError("no session is filed yet; file them: stitchjam memorize")
    with tree.lock:
        paths = paths_of(tree)
        kind, found = paths.find(path) if path.strip("/ ") else ("folder", tree.root.id)
        if not kind and path in tree.memos:
            kind, found = "session", path
        if kind == "session":
            memo = tree.memos[found]
            return {"path": paths.sessions[found], **memo.model_dump(), "text": memo_text(memo)}
        if kind != "folder":
            raise UsageError(f"nothing lies at {path!r}; `stitchjam show --tree` lists what there is")
        return _folder(tree, tree.folders()[found], paths)


def tree_lines(value: Mapping[str, Any]) -> list[Any]:
    """The same for people; `value` is that of `tree_json`."""
    if "folders" not in value:
        return [value["path"], value["text"]]
    return [value["readme"], "", _branches(value)]


def unfiled(store: Store) -> int:
    """How many sessions have no memo."""
    known = store.tree.memos
    return sum(one not in known for one in store.session_times)


def _folder(tree: Tree, folder: Folder, paths: Paths) -> dict[str, Any]:
    about = tree.readme(folder)
    return {
        "id": folder.id,
        "path": paths.folders[folder.id],
        "name": name_of(tree, folder),
        "about": about.about,
        "summary": about.summary,
        "error": about.error,
        "period": period_of(tree, folder),
        "entities": entities_of(tree, folder),
        "count": folder.count,
        "readme": readme_text(tree, folder, paths),
        "folders": [_folder(tree, one, paths) for one in tree.ranked(folder)],
        "sessions": [
            {"path": paths.sessions[one], "line": memo_line(tree.memos[one]), **tree.memos[one].model_dump()}
            for one in folder.sessions
        ],
    }


def _branches(value: Mapping[str, Any], into: Branches | None = None) -> Branches:
    counted = f"{value['count']} session{'s' * (value['count'] != 1)}"
    told = ", ".join(filter(None, (counted, value["period"])))
    label = escape(f"{value['path'].rpartition('/')[2] or '.'}/  ({told})")
    branch = Branches(label) if into is None else into.add(label)
    for folder in value["folders"]:
        _branches(folder, branch)
    for session in value["sessions"]:
        branch.add(escape(session["line"]))
    return branch
