"""Turns lines and rich tables into text on a stream, safe for a terminal, and Ctrl-C into a clean end."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

from rich.console import Console

from stitchjam.data.text import printable

__all__ = ["resumable", "show", "working"]

_WIDE = 1000


def show(stream: IO[str], lines: Iterable[object]) -> None:
    """Write each line or table; text of a memory may hold terminal commands, which are made visible instead."""
    # Where no one looks at a window, a table is as wide as what it holds, so that ids and paths stay whole.
    width = None if stream.isatty() else _WIDE
    console = Console(file=stream, soft_wrap=True, highlight=False, emoji=False, width=width)
    for line in lines:
        console.print(printable(line) if isinstance(line, str) else line, markup=False)


@contextmanager
def working(stream: IO[str], what: str) -> Iterator[None]:
    """Show on a terminal that something takes a while; elsewhere nothing."""
    console = Console(file=stream, highlight=False)
    with console.status(what) if console.is_terminal else nullcontext():
        yield


@contextmanager
def resumable(
    kept: str = "replies so far are kept", then: str = "the same command goes on from here"
) -> Iterator[None]:
    """End the process with code 130 on Ctrl-C, at once, and say what is kept and what comes next."""
    try:
        yield
    except KeyboardInterrupt:
        show(sys.stderr, [f"stopped; {kept}, and {then}"])
        os._exit(130)  # threads that wait for a slow model would keep the process for minutes
