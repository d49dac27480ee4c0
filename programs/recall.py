"""Turns a question into a context in one shot, without an LM: the baseline of research, and the input of `Answerer`."""

from stitchjam.data.index.ranking import Weights
from stitchjam.data.records import Context, Filter
from stitchjam.data.store import Store
from stitchjam.programs.render import quoted

__all__ = ["recall"]


def recall(
    question: str, store: Store, k: int = 10, where: Filter | None = None, weights: Weights | None = None
) -> Context:
    """The `k` turns that fit the question best, in time order, each quoted whole with its span."""
    turns = store.in_order(hit.turn.id for hit in store.search(question, k, where, weights=weights))
    return Context(request=question, claims=tuple(quoted(turn) for turn in turns))
