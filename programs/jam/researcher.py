"""Turns a question and a store into a context: rounds of open, search and browse until every need is covered (JAM 2).

Differences from the paper, on purpose: evidence is a ledger of verbatim turns instead of a growing transcript, the
verdict "sufficient" is computed from small answers, and provenance is copied from the turns that were really opened.
"""

from typing import Any, Literal, NamedTuple, get_args

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.index.ranking import DENSE, LEXICAL, Weights
from stitchjam.data.records import Context, Effort, Round, StopReason
from stitchjam.data.store import Store
from stitchjam.programs.jam.composing import Composed, composed
from stitchjam.programs.jam.places import Places
from stitchjam.programs.jam.state import UNUSABLE, ResearchState
from stitchjam.programs.jam.tools import Search, act, besides, moves
from stitchjam.programs.step import Program, as_step, map_ordered
from stitchjam.signatures import step_name
from stitchjam.signatures.jam import BrowseSource, ComposeContext, JudgeSufficiency, PlanFirst, PlanNext
from stitchjam.signatures.reply import Action

__all__ = ["EFFORTS", "Limits", "RANKINGS", "Ranking", "Researcher"]

_STEPS = {step_name(s): s for s in (PlanFirst, PlanNext, BrowseSource, JudgeSufficiency, ComposeContext)}


class Limits(NamedTuple):
    """How hard a run tries: rounds, actions a round, sessions a search."""

    rounds: int
    actions: int
    k: int


Ranking = Literal["hybrid", "bm25", "dense"]
RANKINGS: dict[Ranking, Weights | None] = {"hybrid": None, "bm25": LEXICAL, "dense": DENSE}
EFFORTS: dict[Effort, Limits] = {"low": Limits(2, 3, 3), "medium": Limits(5, 5, 5), "high": Limits(20, 5, 5)}


class Researcher(Program):
    """Opens, searches and browses a store and hands back claims with spans.

    With `dspy.context(watch=function)`, the function is called after each round with its number and its `Round`.

    Args:
        effort: "low", "medium" or "high"; sets rounds, actions a round and sessions a search.
        limits: overrides what `effort` sets.
        min_overlap: share of a need's content words that evidence must hold, with the turns beside it, to cover it.
            Small models name some evidence for every need; 0 takes their word.
        least: sessions that are read in the first round at least, as far as `limits` allow. Small models choose one and
            find it enough; what they do not choose is read besides, best first.
        tree: whether folders are shown and can be opened; False is a flat store.
        filters: whether a search can be limited to speakers, folders, periods, and topics and types where turns have
            notes.
        ranking: what search goes by; "bm25" words alone, "dense" meaning alone.
        steps: replacements by step name (plan_first, plan_next, browse_source, judge_sufficiency, compose_context):
            a module, a module class or a signature with the same fields.
    """

    plan_first: dspy.Module
    plan_next: dspy.Module
    browse_source: dspy.Module
    judge_sufficiency: dspy.Module
    compose_context: dspy.Module

    def __init__(  # noqa: PLR0913
        self,
        effort: Effort = "low",
        limits: Limits | None = None,
        min_overlap: float = 0.3,
        least: int = 3,
        tree: bool = True,
        filters: bool = True,
        ranking: Ranking = "hybrid",
        **steps: Any,
    ):
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
        if not isinstance(least, int) or isinstance(least, bool) or least < 1:
            raise UsageError(f"least is a whole number from 1 on, not {least!r}")
        if not isinstance(tree, bool) or not isinstance(filters, bool) or ranking not in get_args(Ranking):
            raise UsageError(
                f"tree and filters are true or false, ranking is one of {', '.join(get_args(Ranking))}; "
                f"not {tree!r}, {filters!r}, {ranking!r}"
            )
        self.min_overlap, self.least, self.tree, self.filters = min_overlap, least, tree, filters
        self.ranking: Ranking = ranking
        for name, signature in _STEPS.items():
            setattr(self, name, as_step(steps.get(name), signature))

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {
            "effort": self.effort,
            "limits": list(self.limits),
            "min_overlap": self.min_overlap,
            "least": self.least,
            "tree": self.tree,
            "filters": self.filters,
            "ranking": self.ranking,
        }

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
            ModelOutputError: neither the first plan nor any reading could be used.
            BackendError: the endpoint failed.
        """
        state = ResearchState(store, question, Places(store, question, self.tree, self.filters))
        search = Search(self.limits.k, RANKINGS[self.ranking])
        state.add_candidates(store.search_sessions(question, search.k, weights=search.weights))
        rounds: list[Round] = []
        actions, failed = self._first_actions(state)
        while actions is not None and len(rounds) < self.limits.rounds:
            rounds.append(self._round(state, actions, search, 1 if rounds else self.least))
            if watch := dspy.settings.get("watch"):
                watch(len(rounds), rounds[-1])
            last = state.sufficient or len(rounds) == self.limits.rounds
            actions = None if last else self._next_actions(state, len(rounds))
        if failed is not None and not state.pages:  # neither a plan nor a page: it is the model, and not the question
            raise failed
        return dspy.Prediction(context=self._compose(state, tuple(rounds)))

    def _first_actions(self, state: ResearchState) -> tuple[list[Action] | None, Exception | None]:
        """What to do first, None when there is nothing to do; and why there is no plan: then what was found is read."""
        planned: list[Action] = []
        failed: Exception | None = None
        try:
            plan = self.plan_first(
                overview=state.show_overview(),
                filters=state.places.show_filters(),
                candidates=state.show_candidates(),
                question=state.question,
            ).reply
            state.set_needs(plan.needs)
            planned = plan.actions
        except UNUSABLE as error:
            failed = error
            state.fail("plan_first", error)
            state.set_needs(())
            planned = [Action(tool="browse", target=label, query="") for label in state.unread]
        return (moves(planned, state) if planned or state.unread else None), failed

    def _round(self, state: ResearchState, actions: list[Action], search: Search, least: int) -> Round:
        most, before, pages = self.limits.actions, len(state.browsed), state.pages
        state.found.clear()
        done = act(actions, state, self.browse_source, most, search)
        read, left = state.pages - pages, most - sum(one.outcome not in ("repeated", "beyond") for one in done)
        more = besides(state, min(least - read, left) if read else max(1, min(least, left)))
        done += act(more, state, self.browse_source, len(more), search)
        self._judge(state)
        return Round(
            actions=tuple(one.action for one in done),
            observations=tuple(one.observation for one in done),
            missing=state.missing,
            outcomes=tuple(one.outcome for one in done),
            read=state.browsed[before:],
        )

    def _judge(self, state: ResearchState) -> None:
        """Ask, for each open need, which evidence covers it; only when there is new evidence, until all was shown."""
        while state.missing and (new := [label for label in state.evidence if label not in state.judged]):
            # An open need was judged against the older evidence before, so the new comes first when not all is shown.
            shown = state.shown_evidence(first=new)
            state.judged.update(shown)
            self._cover(state, shown)

    def _cover(self, state: ResearchState, shown: dict[str, str]) -> None:
        """Ask, for each open need, which of the evidence shown covers it."""
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
            elif entry in shown and not state.asks(entry) and state.overlap(need, entry) >= self.min_overlap:
                state.covered[need] = entry

    def _next_actions(self, state: ResearchState, rounds: int) -> list[Action] | None:
        """What to do next; None when there is nothing more to do."""
        try:
            planned = self.plan_next(
                question=state.question,
                folders=state.places.show_folders(),
                filters=state.places.show_filters(),
                found=state.show_evidence(),
                candidates=state.show_candidates(unread_only=True),
                tried=state.show_tried(),
                missing="\n".join(state.missing),
                rounds_left=self.limits.rounds - rounds,
            ).reply.actions
        except UNUSABLE as error:
            state.fail("plan_next", error)
            return None
        return moves(planned, state) if planned else None

    def _compose(self, state: ResearchState, rounds: tuple[Round, ...]) -> Context:
        found = self._claims(state)
        return Context(
            request=state.question,
            claims=tuple(found.claims),
            stop=self._stop_reason(state, len(rounds)),
            needs=state.needs,
            covered=tuple(need in state.covered for need in state.needs),
            rounds=rounds,
            browsed=state.browsed,
            failures=tuple(state.failures),
            dropped=found.dropped,
            replaced=found.replaced,
            evidence=tuple(state.evidence.values()),
        )

    def _claims(self, state: ResearchState) -> Composed:
        """Composed claims with the quote and span of their evidence.

        When the composer fails, the evidence itself is still verbatim and supported, and is handed back as it is.
        """
        shown = state.shown_evidence()
        if not shown:
            return Composed([])
        try:
            evidence = "\n".join(shown.values())
            lines = self.compose_context(evidence=evidence, question=state.question).reply.claims
        except UNUSABLE as error:
            state.fail("compose_context", error)
            return Composed(state.in_time_order(list(state.evidence.values())))
        found = composed(lines, shown, state)
        if lines and not found.claims:
            state.fail("compose_context", "none of its claims names evidence")
            return found._replace(claims=state.in_time_order(list(state.evidence.values())))
        return found

    def _stop_reason(self, state: ResearchState, rounds: int) -> StopReason:
        if state.sufficient:
            return "sufficient"
        if any(failure.startswith("plan_next:") for failure in state.failures):
            return "failed"
        return "rounds" if rounds == self.limits.rounds else "nothing_more"
