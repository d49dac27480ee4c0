"""Turns a question and a store into a context: rounds of search and browse until every need is covered (JAM section 2).

Differences from the paper, on purpose: evidence is a ledger of verbatim turns instead of a growing transcript, the
verdict "sufficient" is computed from small answers, and provenance is copied from the turns that were really opened.
"""

from typing import Any, NamedTuple

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Claim, Context, Effort, Round, StopReason
from stitchjam.data.store import Store
from stitchjam.programs.jam.state import UNUSABLE, ResearchState
from stitchjam.programs.jam.tools import act, moves
from stitchjam.programs.step import Program, as_step, map_ordered
from stitchjam.signatures import step_name
from stitchjam.signatures.jam import BrowseSource, ComposeContext, JudgeSufficiency, PlanFirst, PlanNext
from stitchjam.signatures.reply import Action

__all__ = ["EFFORTS", "Limits", "Researcher"]

_STEPS = {step_name(s): s for s in (PlanFirst, PlanNext, BrowseSource, JudgeSufficiency, ComposeContext)}


class Limits(NamedTuple):
    """How hard a run tries: rounds, actions a round, sessions a search."""

    rounds: int
    actions: int
    k: int


EFFORTS: dict[Effort, Limits] = {"low": Limits(2, 3, 3), "medium": Limits(5, 5, 5), "high": Limits(20, 5, 5)}


class Researcher(Program):
    """Searches and browses a store and hands back claims with spans.

    Args:
        effort: "low", "medium" or "high"; sets rounds, actions a round and sessions a search.
        limits: overrides what `effort` sets.
        min_overlap: share of a need's content words that evidence must hold, with the turns beside it, to cover it.
            Small models name some evidence for every need; 0 takes their word.
        steps: replacements by step name (plan_first, plan_next, browse_source, judge_sufficiency, compose_context):
            a module, a module class or a signature with the same fields.
    """

    plan_first: dspy.Module
    plan_next: dspy.Module
    browse_source: dspy.Module
    judge_sufficiency: dspy.Module
    compose_context: dspy.Module

    def __init__(self, effort: Effort = "low", limits: Limits | None = None, min_overlap: float = 0.3, **steps: Any):
        super().__init__()
        unknown = sorted(set(steps) - set(_STEPS))
        if unknown or effort not in EFFORTS:
            known = f"steps are {sorted(_STEPS)}, efforts are {sorted(EFFORTS)}"
            raise UsageError(f"Researcher does not know {unknown or effort!r}; {known}")
        self.effort, self.limits = effort, Limits(*(limits or EFFORTS[effort]))
        if not all(isinstance(limit, int) and limit > 0 for limit in self.limits):
            raise UsageError(f"limits are whole numbers from 1 on, not {tuple(self.limits)}")
        if not 0 <= min_overlap <= 1:
            raise UsageError(f"min_overlap is a share from 0 to 1, not {min_overlap!r}")
        self.min_overlap = min_overlap
        for name, signature in _STEPS.items():
            setattr(self, name, as_step(steps.get(name), signature))

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"effort": self.effort, "limits": list(self.limits), "min_overlap": self.min_overlap}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "Researcher":
        """See `Program.build`."""
        limits: dict[str, Any] = {"limits": Limits(*hparams["limits"])}
        return cls(**(hparams | limits))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Research a question.

        Returns:
            A prediction with `context`. `context.stop` says why the run ended; steps whose answer could not be used
            are in `context.failures`.

        Raises:
            ModelOutputError: the first plan could not be used, so there was no research.
            BackendError: the endpoint failed.
        """
        state = ResearchState(store, question)
        state.add_candidates(store.search_sessions(question, k=self.limits.k))
        plan = self.plan_first(
            overview=state.show_overview(), candidates=state.show_candidates(), question=question
        ).reply
        state.set_needs(plan.needs)
        rounds: list[Round] = []
        actions = moves(plan.actions, state, self.limits.actions)
        while actions and len(rounds) < self.limits.rounds:
            rounds.append(self._round(state, actions))
            last = state.sufficient or len(rounds) == self.limits.rounds
            actions = [] if last else self._next_actions(state, len(rounds))
        return dspy.Prediction(context=self._compose(state, tuple(rounds)))

    def _round(self, state: ResearchState, actions: list[Action]) -> Round:
        done = act(actions, state, self.browse_source, self.limits.actions, self.limits.k)
        self._judge(state)
        return Round(
            actions=tuple(action for action, _ in done),
            observations=tuple(observation for _, observation in done),
            missing=state.missing,
        )

    def _judge(self, state: ResearchState) -> None:
        """Ask, for each open need, which evidence covers it; only when there is new evidence."""
        if len(state.evidence) == state.judged:
            return
        # An open need was judged against the older evidence before, so the new comes first when not all can be shown.
        shown = state.shown_evidence(first=list(state.evidence)[state.judged :])
        state.judged = len(state.evidence)
        evidence = "\n".join(shown.values())

        def covering(need: str) -> str | Exception:
            try:
                return self.judge_sufficiency(evidence=evidence, question=state.question, need=need).reply.entry
            except UNUSABLE as error:
                return error

        needs = state.missing
        for need, entry in zip(needs, map_ordered(covering, needs), strict=True):
            if isinstance(entry, Exception):
                state.fail("judge_sufficiency", entry)
            elif entry in shown and state.overlap(need, entry) >= self.min_overlap:
                state.covered[need] = entry

    def _next_actions(self, state: ResearchState, rounds: int) -> list[Action]:
        try:
            planned = self.plan_next(
                question=state.question,
                found=state.show_evidence(),
                candidates=state.show_candidates(unread_only=True),
                tried=state.show_tried(),
                missing="\n".join(state.missing),
                rounds_left=self.limits.rounds - rounds,
            ).reply.actions
        except UNUSABLE as error:
            state.fail("plan_next", error)
            return []
        return moves(planned, state, self.limits.actions) if planned else []

    def _compose(self, state: ResearchState, rounds: tuple[Round, ...]) -> Context:
        claims, dropped = self._claims(state)
        return Context(
            request=state.question,
            claims=tuple(claims),
            stop=self._stop_reason(state, len(rounds)),
            needs=state.needs,
            covered=tuple(need in state.covered for need in state.needs),
            rounds=rounds,
            browsed=state.browsed,
            failures=tuple(state.failures),
            dropped=dropped,
        )

    def _claims(self, state: ResearchState) -> tuple[list[Claim], int]:
        """Composed claims with the quote and span of their evidence, and how many had none and were dropped.

        When the composer fails, the evidence itself is still verbatim and supported, and is handed back as it is.
        """
        shown = state.shown_evidence()
        if not shown:
            return [], 0
        try:
            evidence = "\n".join(shown.values())
            lines = self.compose_context(evidence=evidence, question=state.question).reply.claims
        except UNUSABLE as error:
            state.fail("compose_context", error)
            return state.in_time_order(list(state.evidence.values())), 0
        supported = {line.entry: line for line in reversed(lines) if line.entry in shown}
        dropped = sum(line.entry not in shown for line in lines)
        if lines and not supported:
            state.fail("compose_context", "none of its claims names evidence")
            return state.in_time_order(list(state.evidence.values())), dropped
        claims = [state.evidence[e].model_copy(update={"text": line.claim}) for e, line in supported.items()]
        return state.in_time_order(claims), dropped

    def _stop_reason(self, state: ResearchState, rounds: int) -> StopReason:
        if state.sufficient:
            return "sufficient"
        if any(failure.startswith("plan_next:") for failure in state.failures):
            return "failed"
        return "rounds" if rounds == self.limits.rounds else "nothing_more"
