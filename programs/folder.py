"""Finds the folder of an artifact, also while another process replaces it or after one was killed doing so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stitchjam.data.errors import StitchjamError

__all__ = ["set_aside", "steady", "whole"]


def set_aside(folder: Path) -> Path:
    """Where the older artifact stands while a newer one takes its place."""
    return folder.with_name(f".{folder.name}.old")


def whole(folder: Path) -> Path:
    """The folder, or the older artifact when its writer was killed before the newer one was in place."""
    return folder if folder.exists() or not set_aside(folder).is_dir() else set_aside(folder)


def steady(folder: Path, look: Callable[[], Any]) -> Any:
    """What `look` returns or raises; it looks again when another process replaced the folder meanwhile."""
    while True:
        before = _identity(folder)
        try:
            return look()
        except (StitchjamError, FileNotFoundError):
            if _identity(folder) == before:
                raise


def _identity(folder: Path) -> tuple[str, int, int] | None:
    """What changes when a writer replaces an artifact; None when there is nothing."""
    place = whole(folder)
    try:
        found = place.stat()
    except OSError:
        return None
    return place.name, found.st_ino, found.st_mtime_ns
