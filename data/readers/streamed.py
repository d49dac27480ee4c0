"""Turns a JSON file that may be larger than memory into rows, one at a time."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import ijson

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.rows import DEEPEST, Row, require_sane
from stitchjam.data.readers.source import Origin, Source

__all__ = ["stream_records"]

_STARTS, _ENDS = ("start_map", "start_array"), ("end_map", "end_array")


def stream_records(origin: Origin) -> Iterator[Row]:
    """The entries of the list that a file holds, or its values one after the other, as in jsonlines.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is empty, not JSON, or ends too early; the message names file and entry.
    """
    name = origin.name if isinstance(origin, Source) else str(origin)
    number = 0
    with _opened(origin) as file:
        try:
            for number, value in enumerate(_values(file), 1):
                where = f"{name}, entry {number}"
                require_sane(where, value)
                yield Row(where, value)
        except (ijson.JSONError, ValueError, RecursionError) as error:
            raise DataError(f"{name}, entry {number + 1}: {_why(error)}; download the file again") from None
    if not number:
        raise DataError(f"{name}: there is no record in it; expected a list of records, so download the file again")


def _opened(origin: Origin) -> BinaryIO:
    if isinstance(origin, Source):
        return BytesIO(origin.content)
    try:
        return Path(origin).open("rb")
    except (OSError, ValueError) as error:  # a ValueError is a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{origin}: cannot be read ({reason}); check the path and its permissions") from None


def _values(file: BinaryIO) -> Iterator[object]:
    """The values of a file, those of a list one by one; `ijson.items` needs gigabytes for a thousand open brackets."""
    if file.read(len(BOM_UTF8)) != BOM_UTF8:
        file.seek(0)
    depth, listed, builder = 0, False, ijson.ObjectBuilder()
    for event, value in ijson.basic_parse(file, use_float=True, multiple_values=True):
        depth -= event in _ENDS
        if depth == listed and event not in _ENDS:
            builder = ijson.ObjectBuilder()
        if depth == 0 and event in ("start_array", "end_array"):
            listed = event == "start_array"
        else:
            builder.event(event, value)
            if depth == listed and event not in _STARTS:
                yield builder.value
        depth += event in _STARTS
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} levels deep")


def _why(error: Exception) -> str:
    reason = str(error).partition("\\n")[0].partition("\n")[0].removeprefix("b'")
    return "the file ends in the middle of it" if "premature EOF" in reason else f"not valid JSON ({reason})"
