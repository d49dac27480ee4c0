"""Turns a stream of items into results as they come: so many at once, each within a deadline."""

import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["each"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Crew(Generic[Item, Result]):
    """Threads at work, one an item. Daemons, so that one that hangs does not keep the process."""

    def __init__(self, function: Callable[[Item], Result], patience: Callable[[Item], float | None]):
        self.function, self.patience = function, patience
        self.done: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()
        self.busy: dict[int, tuple[Item, float]] = {}

    def start(self, number: int, item: Item) -> None:
        """Start on an item, in a copy of the caller's context."""
        seconds = self.patience(item)
        self.busy[number] = item, math.inf if seconds is None else time.monotonic() + seconds
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._work, number, item), daemon=True, name=f"each-{number}").start()

    def _work(self, number: int, item: Item) -> None:
        try:
            self.done.put((number, self.function(item), None))
        except BaseException as error:  # raised again where the results are taken
            self.done.put((number, None, error))

    def take(self) -> tuple[Item, Result | None, BaseException | None]:
        """The next item that is done, with its result or its error; or one that is overdue, with neither."""
        while True:
            first = min(self.busy, key=lambda number: self.busy[number][1])
            left = self.busy[first][1] - time.monotonic()
            try:
                number, result, error = self.done.get(timeout=None if left == math.inf else max(left, 0))
            except queue.Empty:
                return self.busy.pop(first)[0], None, None
            if number in self.busy:  # else it was given up before
                return self.busy.pop(number)[0], result, error


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int = 1,
    patience: Callable[[Item], float | None] = lambda item: None,
) -> Iterator[tuple[Item, Result | None]]:
    """Apply `function` to items, and give each with its result in the order in which they are done.

    Args:
        function: called once an item, in a copy of the caller's context.
        items: taken one by one, when a thread is free.
        threads: at most so many at once.
        patience: seconds for an item; after them it is given with None, and left alone in its thread. None waits.

    Raises:
        BaseException: the first one of `function`, after items under way were given.
    """
    crew, failure, waiting = _Crew(function, patience), None, enumerate(items)
    while True:
        while failure is None and len(crew.busy) < threads and (one := next(waiting, None)):
            crew.start(*one)
        if not crew.busy:
            break
        item, result, error = crew.take()
        if error is None:
            yield item, result
        failure = failure or error
    if failure is not None:
        raise failure
