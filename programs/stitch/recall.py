"""Turns a request and a store with notes into a context: its intent is read, turns that fit are put in time order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.intents.matching import Limits, Matched, match_intent
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import FACETS, Facet, Intent
from stitchjam.data.records import Context, Turn
from stitchjam.data.store import Store
from stitchjam.programs.answer import Answerer
from stitchjam.programs.render import clip
from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.context import Shown
from stitchjam.programs.stitch.intent import IntentReader
from stitchjam.signatures.stitch import RankTurns

__all__ = ["ABLATIONS", "IntentRecall", "Recall", "StitchAgent"]

# Switches of recall, by the name of what is left out (the ablations of the paper).
ABLATIONS: dict[str, frozenset[Facet]] = {
    "": frozenset(),
    "no-scope": frozenset({"scope"}),
    "no-event": frozenset({"event"}),
    "no-entity": frozenset({"entity"}),
    "similarity-only": frozenset(FACETS),
}
_RANKED, _CLIPPED = 12, 200  # turns that the ranking step sees, and characters of each


@dataclass(frozen=True)
class Recall:
    """How a context came to be: the intent that was read, the names of its labels, and what was matched with it."""

    intent: Intent
    names: dict[Facet, tuple[str, ...]]
    matched: Matched


class IntentRecall(Program):
    """Recalls by contextual intent: at most one call, two with `rank`.

    Args:
        reader: reads the intent of a request; default: `IntentReader()`.
        k: turns at most (k_retrieve of the paper).
        tokens: budget of the context (CAME-Bench: 4,096).
        ablate: what to leave out, in `ABLATIONS`.
        rank: let a model drop those of the best turns that do not help.
        rank_turns: replacement for the step `RankTurns`.
    """

    rank_turns: dspy.Module

    def __init__(
        self,
        reader: IntentReader | None = None,
        k: int = 40,
        tokens: int = 4096,
        ablate: str = "",
        rank: bool = False,
        rank_turns: Any = None,
    ):
        super().__init__()
        if not isinstance(ablate, str) or ablate not in ABLATIONS:
            raise UsageError(f"there is no ablation {ablate!r}; choose one of: {', '.join(filter(None, ABLATIONS))}")
        for name, limit in {"k": k, "tokens": tokens}.items():
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                raise UsageError(f"{name} is a whole number from 1 on, not {limit!r}")
        if not isinstance(rank, bool):
            raise UsageError(f"rank is true or false, not {rank!r}")
        self.reader = reader or IntentReader()
        self.k, self.tokens, self.ablate, self.rank = k, tokens, ablate, rank
        self.rank_turns = as_step(rank_turns, RankTurns)

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"k": self.k, "tokens": self.tokens, "ablate": self.ablate, "rank": self.rank}

    def forward(
        self, question: str, store: Store, now: Sequence[Turn] = (), tokens: int | None = None
    ) -> dspy.Prediction:
        """Recall what fits a question, or the next step of an agent.

        Args:
            question: the request, in words.
            store: where; without notes, similarity alone decides.
            now: the last turns of the agent whose next step it is, in order.
            tokens: what whoever reads the context has room for, where it is less than the budget.

        Returns:
            A prediction with `context` and `recall`, a `Recall` that tells why.

        Raises:
            BackendError: from the steps. A reply that cannot be used is listed in the context's `failures`.
        """
        notebook, failures = store.notebook, list[str]()
        intent = self._intent(question, notebook, now, failures)
        shown = Shown(question, min(self.tokens, tokens or self.tokens))
        limits = Limits(self.k, shown.tokens, cost=shown.cost)
        with notebook.lock:
            matched = match_intent(question, intent, store, limits, ABLATIONS[self.ablate])
            recall = Recall(intent, notebook.names(intent), matched)
            turns = store.in_order(turn.id for turn in matched.turns)
            context = shown.context(turns, notebook)
        if self.rank and context.claims:
            context = self._ranked(context, matched, failures)
        return dspy.Prediction(context=context.model_copy(update={"failures": tuple(failures)}), recall=recall)

    def _intent(self, request: str, notebook: Notebook, now: Sequence[Turn], failures: list[str]) -> Intent:
        if not notebook.size or len(ABLATIONS[self.ablate]) == len(FACETS):
            return Intent()
        try:
            return self.reader(request=request, notebook=notebook, now=now).intent
        except ModelOutputError as error:  # what to look for is not known then; similarity still finds something
            failures.append(str(error))
            return Intent()

    def _ranked(self, context: Context, matched: Matched, failures: list[str]) -> Context:
        """The context without those of the best turns that do not help; as it is when the step names none."""
        best = {turn.id for turn in matched.turns[:_RANKED]}
        asked = {f"t{number}": claim for number, claim in enumerate((c for c in context.claims if _id(c) in best), 1)}
        rows = (
            f"{label} | {one.time[:10]} | {one.speaker}: {clip(one.quote, _CLIPPED)}" for label, one in asked.items()
        )
        try:
            useful = self.rank_turns(turns="\n".join(rows), request=context.request).reply.useful
        except ModelOutputError as error:
            failures.append(str(error))
            return context
        kept = {_id(asked[label]) for label in useful if label in asked}
        claims = tuple(claim for claim in context.claims if _id(claim) in kept or _id(claim) not in best)
        return context.model_copy(update={"claims": claims}) if kept else context


class StitchAgent(Program):
    """Recalls by intent and answers: two calls a question, three when the recall ranks.

    Args:
        recall: finds the context; default: `IntentRecall()`.
        answerer: answers from it; default: `Answerer()`.
    """

    def __init__(self, recall: IntentRecall | None = None, answerer: Answerer | None = None):
        super().__init__()
        self.recall, self.answerer = recall or IntentRecall(), answerer or Answerer()

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"recall": self.recall.hparams(), "answerer": self.answerer.hparams()}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "StitchAgent":
        """See `Program.build`."""
        kinds = {"recall": IntentRecall, "answerer": Answerer}
        parts: dict[str, Any] = {name: kind.build(hparams[name]) for name, kind in kinds.items()}
        return cls(**(hparams | parts))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Recall and answer; returns `answer` and `context` as `MemoryAgent` does, and `recall`."""
        room = getattr(self.answerer, "context_tokens", None)
        found = self.recall(question=question, store=store, tokens=room)
        answer = self.answerer(question=question, context=found.context).answer
        return dspy.Prediction(answer=answer, context=found.context, recall=found.recall)


def _id(claim: Any) -> str:
    return claim.spans[0].turn_id
