"""Turns a question and a store into a context: rounds of search and browse until every need is covered (JAM section 2).

Differences from the paper, on purpose: evidence is a ledger of verbatim turns instead of a growing transcript, the
verdict "sufficient" is computed from small answers, and provenance is copied from the turns that were really opened.
"""

from typing import Any, NamedTuple

import dspy

from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.records import Claim, Context, Effort, Round, StopReason
from stitchjam.data.store import Store
from stitchjam.programs.jam.notebook import Notebook
from stitchjam.programs.jam.tools import act, describe
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
        steps: replacements by step name (plan_first, plan_next, browse_source, judge_sufficiency, compose_context):
            a module, a module class or a signature with the same fields.
    """

    plan_first: dspy.Module
    plan_next: dspy.Module
    browse_source: dspy.Module
    judge_sufficiency: dspy.Module
    compose_context: dspy.Module

    def __init__(self, effort: Effort = "low", limits: Limits | None = None, **steps: Any):
        super().__init__()
        unknown = sorted(set(steps) - set(_STEPS))
        if unknown or effort not in EFFORTS:
            known = f"steps are {sorted(_STEPS)}, efforts are {sorted(EFFORTS)}"
            raise UsageError(f"Researcher does not know {unknown or effort!r}; {known}")
        self.effort, self.limits = effort, limits or EFFORTS[effort]
        for name, signature in _STEPS.items():
            setattr(self, name, as_step(steps.get(name), signature))

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"effort": self.effort, "limits": list(self.limits)}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "Researcher":
        """See `Program.build`."""
        return cls(effort=hparams["effort"], limits=Limits(*hparams["limits"]))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Research a question.

        Returns:
            A prediction with `context`. `context.stop` says why the run ended; steps whose answer could not be used
            are in `context.failures`.

        Raises:
            ModelOutputError: the first plan could not be used, so there was no research.
            BackendError: the endpoint failed.
        """
        notebook = Notebook(store, question)
        notebook.add_candidates(store.search_sessions(question, k=self.limits.k))
        plan = self.plan_first(
            overview=notebook.show_overview(), candidates=notebook.show_candidates(), question=question
        ).reply
        notebook.needs = tuple(dict.fromkeys(plan.needs))
        rounds: list[Round] = []
        actions: list[Action] | None = plan.actions
        while actions and len(rounds) < self.limits.rounds:
            rounds.append(self._round(notebook, actions))
            last = notebook.sufficient or len(rounds) == self.limits.rounds
            actions = None if last else self._next_actions(notebook, len(rounds))
        return dspy.Prediction(context=self._compose(notebook, tuple(rounds)))

    def _round(self, notebook: Notebook, actions: list[Action]) -> Round:
        fresh = {describe(action): action for action in actions[: self.limits.actions]}
        fresh = {line: action for line, action in fresh.items() if line not in notebook.tried}
        observations = act(list(fresh.values()), notebook, self.browse_source, self.limits.k)
        notebook.tried |= dict(zip(fresh, observations, strict=True))
        self._judge(notebook)
        return Round(actions=tuple(fresh), observations=tuple(observations), missing=notebook.missing)

    def _judge(self, notebook: Notebook) -> None:
        """Ask, for each open need, which evidence covers it; only when there is new evidence."""
        if len(notebook.evidence) == notebook.judged:
            return
        notebook.judged = len(notebook.evidence)
        evidence = notebook.show_evidence()

        def covering(need: str) -> str | ModelOutputError:
            try:
                return self.judge_sufficiency(evidence=evidence, question=notebook.question, need=need).reply.entry
            except ModelOutputError as error:
                return error

        needs = notebook.missing
        for need, entry in zip(needs, map_ordered(covering, needs), strict=True):
            if isinstance(entry, ModelOutputError):
                notebook.fail(entry)
            elif entry in notebook.evidence:
                notebook.covered[need] = entry

    def _next_actions(self, notebook: Notebook, rounds: int) -> list[Action] | None:
        try:
            return self.plan_next(
                question=notebook.question,
                found=notebook.show_evidence(),
                candidates=notebook.show_candidates(unread_only=True),
                tried=notebook.show_tried(),
                missing="\n".join(notebook.missing),
                rounds_left=self.limits.rounds - rounds,
            ).reply.actions
        except ModelOutputError as error:
            notebook.fail(error)
            return None

    def _compose(self, notebook: Notebook, rounds: tuple[Round, ...]) -> Context:
        claims, dropped = self._claims(notebook)
        return Context(
            request=notebook.question,
            claims=tuple(claims),
            stop=self._stop_reason(notebook, len(rounds)),
            needs=notebook.needs,
            covered=tuple(need in notebook.covered for need in notebook.needs),
            rounds=rounds,
            browsed=notebook.browsed,
            failures=tuple(notebook.failures),
            dropped=dropped,
        )

    def _claims(self, notebook: Notebook) -> tuple[list[Claim], int]:
        """Composed claims with the quote and span of their evidence, and how many had none and were dropped."""
        if not notebook.evidence:
            return [], 0
        try:
            lines = self.compose_context(evidence=notebook.show_evidence(), question=notebook.question).reply.claims
        except ModelOutputError as error:  # the evidence itself is still verbatim and supported
            notebook.fail(error)
            return notebook.in_time_order(list(notebook.evidence.values())), 0
        supported = {line.entry: line for line in reversed(lines) if line.entry in notebook.evidence}
        claims = [notebook.evidence[e].model_copy(update={"text": line.claim}) for e, line in supported.items()]
        dropped = sum(line.entry not in notebook.evidence for line in lines)
        return notebook.in_time_order(claims), dropped

    def _stop_reason(self, notebook: Notebook, rounds: int) -> StopReason:
        if notebook.sufficient:
            return "sufficient"
        if any(failure.startswith("plan_next:") for failure in notebook.failures):
            return "failed"
        return "rounds" if rounds == self.limits.rounds else "nothing_more"
