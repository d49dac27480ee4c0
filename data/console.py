"""Turns lines and rich tables into text on a stream, safe for a terminal, and Ctrl-C into a clean end."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console

from stitchjam.data.text import printable

__all__ = ["resumable", "show"]


def show(stream: IO[str], lines: Iterable[object]) -> None:
    """Write each line or table; text of a memory may hold terminal commands, which are made visible instead."""
    console = Console(file=stream, soft_wrap=True, highlight=False, emoji=False)
    for line in lines:
        console.print(printable(line) if isinstance(line, str) else line, markup=False)


@contextmanager
def resumable(kept: str = "replies so far are kept") -> Iterator[None]:
    """End the process with code 130 on Ctrl-C, at once, and say what is kept and that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        show(sys.stderr, [f"stopped; {kept}, and the same command goes on from here"])
        os._exit(130)  # threads that wait for a slow model would keep the process for minutes
