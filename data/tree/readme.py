"""Turns a folder into its README: name, purpose, summary, period, names, and a line for what lies in it.

All but the two sentences of the summary is made by code from memos that were written once, so nothing in it fades.
"""

from collections.abc import Iterator, Sequence

from stitchjam.data.digest import lines_hash
from stitchjam.data.text import one_line
from stitchjam.data.tokens import count_tokens
from stitchjam.data.tree.grow import Folder, Tree
from stitchjam.data.tree.paths import Paths, most, name_of, period
from stitchjam.data.tree.records import Memo

__all__ = ["child_lines", "content_hash", "entities_of", "memo_line", "memo_text", "period_of", "readme_text"]

_ENTITIES = 8


def readme_text(tree: Tree, folder: Folder, paths: Paths, tokens: int = 600) -> str:
    """The README of a folder as Markdown, within a token budget: lines that do not fit are counted at its end."""
    readme = tree.readme(folder)
    head = [f"# {one_line(name_of(tree, folder))}", *filter(None, (readme.about, readme.summary)), _facts(tree, folder)]
    lines, left = list(map(one_line, head)), tokens - sum(count_tokens(line) + 1 for line in head)
    rows = list(child_lines(tree, folder, paths))
    for number, line in enumerate(rows):
        left -= count_tokens(line) + 1
        if left < 0:
            return "\n".join([*lines, f"... and {len(rows) - number} more"])
        lines.append(f"- {line}")
    return "\n".join(lines)


def child_lines(tree: Tree, folder: Folder, paths: Paths | None = None) -> Iterator[str]:
    """A line for each folder in a folder, those that hold most first, and for each session, oldest first."""
    for below in tree.ranked(folder):
        about = tree.readme(below)
        told = about.summary or about.about
        parts = [f"{paths.folders[below.id]}/" if paths else "", name_of(tree, below), period_of(tree, below)]
        yield " | ".join(one_line(part) for part in (*parts, below.counted, told) if part)
    for session_id in folder.sessions:
        memo = tree.memos[session_id]
        yield f"{paths.sessions[session_id]} | {memo_line(memo)}" if paths else memo_line(memo)


def memo_line(memo: Memo) -> str:
    """`2026-03-02 | title: gist`."""
    said = f"{memo.title}: {memo.gist}" if memo.gist else memo.title
    return " | ".join(filter(None, (memo.time[:10], one_line(said))))


def memo_text(memo: Memo) -> str:
    """A memo as Markdown."""
    lines = [f"# {memo.title}", memo.gist, *(f"- {fact.text}" for fact in memo.facts)]
    lines += [f"- {one.phrase} = {one.date}" for one in memo.dates]
    if memo.entities:
        lines.append(f"names: {', '.join(memo.entities)}")
    return "\n".join(one_line(line) for line in lines if line)


def entities_of(tree: Tree, folder: Folder) -> list[str]:
    """What the memos below a folder name most often, at most eight."""
    memos = (tree.memos[one] for one in tree.sessions_below(folder))
    return most(entity for memo in memos for entity in memo.entities)[:_ENTITIES]


def period_of(tree: Tree, folder: Folder) -> str:
    """From when to when the sessions below a folder are."""
    return period(tree.memos[one].time for one in tree.sessions_below(folder))


def content_hash(lines: Sequence[str]) -> str:
    """The hash of what a summary is written of: when it is another now, the summary is stale."""
    return lines_hash(lines)[:16]


def _facts(tree: Tree, folder: Folder) -> str:
    names = ", ".join(entities_of(tree, folder))
    return "; ".join(filter(None, (folder.counted, period_of(tree, folder), names and f"about {names}")))
