"""Turns text that is written bit by bit into a file that is there completely or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to write to, which takes its name only when it is complete; until then the old one stays as it is.

    Its folder is made when missing. A pipe or a device is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    path = path.resolve()  # through a link, to what it points to
    new = path.with_name(f".{uuid4().hex}.partial")  # beside it: a rename is atomic only within one file system
    try:
        with new.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
