"""Turns a number of requests at once into turns that threads wait for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stitchjam.backends.usage import Budget

__all__ = ["Turns"]

_LOOK = 0.5  # seconds after which a waiting thread looks whether a turn was given up


class Turns:
    """At most so many requests at once; None does not limit them.

    A request whose budget has ended holds no turn: nobody waits for it any more, and others must not wait behind it.
    """

    def __init__(self, most: int | None):
        self.most, self._free = most, threading.Condition()
        self._busy: dict[int, Budget | None] = {}

    @contextmanager
    def turn(self, budget: Budget | None) -> Iterator[None]:
        """Wait for a turn and hold it."""
        if self.most is None:
            yield
            return
        key = threading.get_ident()
        with self._free:
            while self._held() >= self.most:
                self._free.wait(_LOOK)
            self._busy[key] = budget
        try:
            yield
        finally:
            with self._free:
                del self._busy[key]
                self._free.notify()

    def _held(self) -> int:
        return sum(budget is None or not budget.ended for budget in self._busy.values())
