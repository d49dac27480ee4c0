"""Turns calls into a ledger by step and model, and holds them to a budget.

Counted where the call is made, under a lock: dspy's own usage tracker comes back empty when an evaluation runs in
threads. Both reach worker threads through `dspy.context`.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

import dspy

from stitchjam.data.errors import BudgetStop

__all__ = ["Budget", "Ledger", "Usage", "caller", "metered", "settle"]


@dataclass(frozen=True)
class Usage:
    """What some calls cost. Tokens as the backend reports them; seconds of waiting, summed; cost in US dollars.

    Replies from a cache are `cache_hits`; their tokens, paid for before, stand apart in `kept_...`.
    """

    calls: int = 0
    cache_hits: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    kept_input_tokens: int = 0
    kept_output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


class Ledger:
    """Usage by (step, model). A ledger with a parent passes every row on, so a question inside a run counts in both."""

    def __init__(self, parent: "Ledger | None" = None):
        self._parent, self._lock = parent, threading.Lock()
        self._rows: dict[tuple[str, str], Usage] = {}

    def add(self, step: str, model: str, usage: Usage) -> None:
        """Add what one call cost."""
        with self._lock:
            self._rows[step, model] = self._rows.get((step, model), Usage()) + usage
        if self._parent is not None:
            self._parent.add(step, model, usage)

    def rows(self) -> dict[tuple[str, str], Usage]:
        """A copy of all rows, ordered by step and model."""
        with self._lock:
            return dict(sorted(self._rows.items()))

    def total(self) -> Usage:
        """All rows summed."""
        return sum(self.rows().values(), Usage())

    def __deepcopy__(self, memo: dict) -> "Ledger":
        return self


class Budget:
    """Upper limits for the backend calls made under it; reaching one raises BudgetStop before the next call.

    Args:
        calls: backend calls, retries included; replies from a cache are free.
        tokens: input plus output tokens.
        seconds: wall-clock seconds from the moment the budget is made.
        cost: US dollars.
        patience: so many requests in a row to one backend may fail, all their attempts, before it counts as out.
        outer: a budget that this one is part of; what is spent here is spent there.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
        cost: float | None = None,
        patience: int = 0,
        outer: "Budget | None" = None,
    ):
        self.calls, self.tokens, self.seconds, self.cost = calls, tokens, seconds, cost
        self.patience, self.outer = patience, outer
        self.spent, self._lock, self._start = Usage(), threading.Lock(), time.monotonic()
        self._failed: dict[str, int] = {}  # requests in a row, by endpoint

    def reserve(self) -> None:
        """Take one call from the budget.

        Raises:
            BudgetStop: a limit is reached; nothing was sent.
        """
        with self._lock:
            if reached := self._reached():
                what, limit, used = reached[0]
                raise BudgetStop(
                    what, f"{round(used, 2):g} of {limit:g} {what} used. Raise the budget to go on", used=used
                )
            if self.outer is not None:
                self.outer.reserve()
            self.spent += Usage(calls=1)

    @property
    def ended(self) -> bool:
        """Whether a limit of its own is reached, whatever those of `outer` are."""
        with self._lock:
            return bool(self._reached())

    def end(self) -> None:
        """No further call is made under it: for work that nobody waits for any more."""
        self.calls = 0

    def _reached(self) -> list[tuple[str, float, float]]:
        return [(what, limit, used) for what, limit, used in self._limits() if limit is not None and used >= limit]

    def _limits(self) -> tuple[tuple[str, float | None, float], ...]:
        elapsed = time.monotonic() - self._start
        return (
            ("calls", self.calls, self.spent.calls),
            ("tokens", self.tokens, self.spent.tokens),
            ("seconds", self.seconds, elapsed),
            ("cost", self.cost, self.spent.cost),
        )

    def settle(self, usage: Usage) -> None:
        """Add tokens and cost of a call that was reserved before."""
        with self._lock:
            self.spent += Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=usage.cost)
        if self.outer is not None:
            self.outer.settle(usage)

    @property
    def limits_cost(self) -> bool:
        """Whether dollars are limited, here or in `outer`."""
        return self.cost is not None or (self.outer is not None and self.outer.limits_cost)

    def answered(self, endpoint: str) -> None:
        """A request got its reply."""
        if self.outer is not None:
            return self.outer.answered(endpoint)
        with self._lock:
            self._failed.pop(endpoint, None)

    def failed(self, endpoint: str) -> bool:
        """A request failed with all its attempts; whether the backend counts as out now."""
        if self.outer is not None:
            return self.outer.failed(endpoint)
        with self._lock:
            self._failed[endpoint] = self._failed.get(endpoint, 0) + 1
            return self._failed[endpoint] > self.patience

    @property
    def failing(self) -> bool:
        """Whether the last request to some backend failed: it may be out."""
        return self.outer.failing if self.outer is not None else bool(self._failed)

    @property
    def seconds_left(self) -> float | None:
        """Until its time, or that of `outer`, is used up; None without such a limit."""
        own = None if self.seconds is None else max(0.0, self._start + self.seconds - time.monotonic())
        outer = None if self.outer is None else self.outer.seconds_left
        return own if outer is None else outer if own is None else min(own, outer)

    def __deepcopy__(self, memo: dict) -> "Budget":
        return self


@contextmanager
def metered(ledger: Ledger | None = None, budget: Budget | None = None) -> Iterator[Ledger]:
    """Count all calls made inside into `ledger` (default: a new one below the ambient one), under `budget`."""
    ledger = Ledger(dspy.settings.get("ledger")) if ledger is None else ledger
    with dspy.context(ledger=ledger, budget=budget or dspy.settings.get("budget")):
        yield ledger


def caller() -> str:
    """Name of the step that is calling, or "other" for an optimizer's own predictors."""
    modules = dspy.settings.get("caller_modules") or []
    return next((module.step for module in reversed(modules) if hasattr(module, "step")), "other")


def settle(model: str, usage: Usage) -> None:
    """Write one call into the ambient ledger and budget, if there are any."""
    ledger, budget = dspy.settings.get("ledger"), dspy.settings.get("budget")
    if ledger is not None:
        ledger.add(caller(), model, usage)
    if budget is not None:
        budget.settle(usage)
