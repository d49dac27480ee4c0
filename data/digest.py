"""Turns a file into its SHA-256."""

from hashlib import sha256
from pathlib import Path

__all__ = ["file_hash"]

_BLOCK = 1 << 20


def file_hash(path: Path) -> str:
    """The SHA-256 of a file in hex, read in blocks."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
