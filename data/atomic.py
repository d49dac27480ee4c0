"""Turns what is written bit by bit into a file or folder that is there completely or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4

__all__ = ["whole_file", "whole_folder", "whole_path"]

_SHOWN = 100  # characters of the name that its unfinished copy has too


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file to write to, which takes its name only when it is complete; until then the old one stays.

    Its folder is made when missing. A pipe or a device is written to as it is.

    Raises:
        OSError: it cannot be written.
    """
    with whole_path(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """The same for a writer that opens the file by itself: the path to write to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))  # through a link, to what it points to
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} is protected against writing")
    # Beside it, since a rename is atomic only within one file system.
    new = path.with_name(f".{path.name[:_SHOWN]}.{uuid4().hex[:8]}.partial")
    try:
        yield new
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which takes its name only when it is complete; there is none of that name, or an empty one.

    Raises:
        OSError: it cannot be written, or holds something.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name[:_SHOWN]}.{uuid4().hex[:8]}.partial")
    new.mkdir()
    try:
        yield new
        if path.exists():
            path.rmdir()
        new.replace(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
