"""Turns a path that a user gave into the files of a set."""

from collections.abc import Sequence
from pathlib import Path

from stitchjam.data.errors import UsageError

__all__ = ["files_of"]


def files_of(path: Path, patterns: Sequence[str], expected: str) -> list[Path]:
    """The file itself, or those files of a folder that match a pattern, by name.

    Args:
        path: a file or a folder.
        patterns: for names within a folder.
        expected: what a folder should hold, for the error.

    Raises:
        UsageError: there is none.
    """
    if not path.is_dir():
        return [path]
    found = sorted({file for pattern in patterns for file in path.glob(pattern) if file.is_file()})
    if not found:
        raise UsageError(f"{path}: no such file here; expected {expected}")
    return found
