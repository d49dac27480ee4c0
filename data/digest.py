"""Turns files and texts into their SHA-256."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

__all__ = ["file_hash", "lines_hash"]

_BLOCK = 1 << 20


def file_hash(path: Path) -> str:
    """The SHA-256 of a file in hex, read in blocks."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def lines_hash(lines: Iterable[str]) -> str:
    """The SHA-256 of texts in order, in hex."""
    return sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()
