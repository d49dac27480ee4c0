"""Turns long work into calls that say how far it is: the one form in which this package reports counted progress."""

from collections.abc import Callable

__all__ = ["Tick", "quiet"]

Tick = Callable[[str, int, int], None]  # what is being done, how much is through, how much there is


def quiet(what: str, done: int, total: int) -> None:
    """Show no progress."""
