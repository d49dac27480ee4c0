"""Turns a file into bytes with a name, its lines, and the ids that are made from its name."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from stitchjam.data.errors import DataError, UsageError

__all__ = ["Origin", "Source", "new_session_id"]

_LONGEST_SLUG = 60


@dataclass(frozen=True)
class Source:
    """The bytes of a file that was read, and its path: for errors, and for the ids that come from it."""

    name: str
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, origin: "Origin") -> "Source":
        """A file's source; a source is its own.

        Raises:
            UsageError: the file cannot be opened.
        """
        if isinstance(origin, Source):
            return origin
        path = Path(origin)
        try:
            return cls(str(path), path.read_bytes())
        except (OSError, ValueError) as error:  # a ValueError is a NUL byte in the path
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{path}: cannot be read ({reason}); check the path and its permissions") from None

    @property
    def stem(self) -> str:
        """The name up to its first dot; that of the folder for turns.jsonl, which every STITCH trajectory has."""
        path = Path(self.name)
        stem = path.name.split(".")[0]
        # No file is asked where it stands: bytes that are kept elsewhere must give the ids that the file gave.
        return Path(os.path.abspath(path)).parent.name if stem == "turns" else stem or path.name

    def lines(self) -> Iterator[tuple[int, str]]:
        """Stream the lines with their numbers, from 1; without a byte order mark, with their line ends.

        Raises:
            DataError: a line is not UTF-8; the message names file, byte and line.
        """
        start = 0
        for number, line in enumerate(BytesIO(self.content), 1):
            yield number, self._decode(number, start, line)
            start += len(line)

    def text_lines(self) -> list[str]:
        """The lines of a text, without their line ends.

        Raises:
            DataError: there is no line with text, or it is not text; the message names file and line.
        """
        if b"\0" in self.content:
            line = self.content.count(b"\n", 0, self.content.index(b"\0")) + 1
            raise DataError(f"{self.name}, line {line}: expected text, found a NUL byte; save it as UTF-8 text")
        lines = [line.removesuffix("\n").removesuffix("\r") for _, line in self.lines()]
        if not any(line.strip() for line in lines):
            raise DataError(f"{self.name}, line 1: the file is empty; expected text, so give a file with some")
        return lines

    def _decode(self, number: int, start: int, line: bytes) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            place = f"byte {start + error.start} (line {number})"
            raise DataError(f"{self.name}: {place} is not UTF-8; save the file as text with UTF-8 encoding") from None
        return text.removeprefix("\ufeff") if number == 1 else text


Origin = str | Path | Source


def new_session_id(stem: str, title: str, taken: dict[str, int]) -> str:
    """STEM/words-of-the-title, or STEM without a title; with a number behind it when it was taken before.

    Args:
        stem: of the file, so that sessions of two files stay apart in one memory.
        title: of the session, "" for none.
        taken: the ids so far, each with the last number given to it; the new one is added.
    """
    slug = "-".join(re.findall(r"[^\W_]+", title.casefold()))[:_LONGEST_SLUG]
    base = f"{stem}/{slug}" if slug else stem
    number, name = taken.get(base, 0), base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken[base] = max(number, 1)
    taken.setdefault(name, 1)
    return name
