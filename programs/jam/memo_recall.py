"""Turns a question into a context from memos alone, with one search over them: what retrieval of summaries gives."""

from math import nan
from typing import Any

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.index.columns import Place
from stitchjam.data.index.ranking import Entry, Index, top_k
from stitchjam.data.records import Claim, Context
from stitchjam.data.store import Store
from stitchjam.data.tree.grow import Tree
from stitchjam.data.tree.records import Memo
from stitchjam.programs.answer import Answerer
from stitchjam.programs.render import quoted
from stitchjam.programs.step import Program

__all__ = ["MemoAgent", "recall_memos"]


def recall_memos(question: str, store: Store, k: int) -> Context:
    """The facts of the `k` memos that fit a question best, in time order, each with the words it rests on."""
    tree = store.tree
    with tree.lock:
        memos = _best(question, tree, k)
    claims = [claim for memo in memos for claim in _claims(memo, store)]
    order = {turn.id: at for at, turn in enumerate(store.in_order(claim.spans[0].turn_id for claim in claims))}
    claims = sorted(
        (one for one in claims if one.spans[0].turn_id in order), key=lambda one: order[one.spans[0].turn_id]
    )
    return Context(request=question, claims=tuple(claims), gists=tuple(f"{memo.title}: {memo.gist}" for memo in memos))


class MemoAgent(Program):
    """Answers from memos, without a look at the sessions: the baseline that needs no Researcher.

    Args:
        answerer: answers from what they say; default: `Answerer()`.
        k: memos to find.
    """

    def __init__(self, answerer: Answerer | None = None, k: int = 10):
        super().__init__()
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise UsageError(f"k is a whole number from 1 on, not {k!r}")
        self.answerer, self.k = answerer or Answerer(), k

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"answerer": self.answerer.hparams(), "k": self.k}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "MemoAgent":
        """See `Program.build`."""
        answerer: dict[str, Any] = {"answerer": Answerer.build(hparams["answerer"])}
        return cls(**(hparams | answerer))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Search memos once and answer; returns `answer` and `context` as `MemoryAgent` does."""
        context = recall_memos(question, store, self.k)
        return dspy.Prediction(answer=self.answerer(question=question, context=context).answer, context=context)


def _best(question: str, tree: Tree, k: int) -> list[Memo]:
    memos = list(tree.memos.values())
    entries = [Entry(Place(memo.session_id, 0, "", nan), memo.text) for memo in memos]
    scores = Index(tree.encoder).extended(entries).score(question).turns
    return [memos[at] for at, _ in top_k(scores, k)]


def _claims(memo: Memo, store: Store) -> list[Claim]:
    spans = [(fact.text, fact.span) for fact in memo.facts]
    there = store.positions(span.turn_id for _, span in spans)
    claims = []
    for text, span in spans:
        if span.turn_id in there:  # else it was forgotten since
            turn = store.turn(span.turn_id)
            quote = turn.text[span.start : span.end]
            claims.append(quoted(turn).model_copy(update={"text": text, "quote": quote, "spans": (span,)}))
    return claims
