"""Turns what a research run meets into labelled state: candidates, evidence, needs and a log of actions.

The prompt of each step is made from this state and stays bounded, however long the run is; nothing is summarised away.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dspy.utils.exceptions import AdapterParseError

from stitchjam.data.errors import ModelOutputError
from stitchjam.data.index.terms import terms
from stitchjam.data.records import Claim, Session, Turn
from stitchjam.data.store import SessionHit, Store
from stitchjam.data.text import normalise, one_line
from stitchjam.data.tokens import truncate
from stitchjam.programs.render import NOTHING, claim_line, clip, quoted, within

__all__ = ["ResearchState", "UNUSABLE"]

# What a step raises when its answer cannot be used; the second comes from modules that stand in for our steps.
UNUSABLE = (ModelOutputError, AdapterParseError)
_LONGEST_LINE = 400  # tokens: one huge turn must not hide all other evidence
_SHOWN_CANDIDATES = 8
_SNIPPET = 180
_EVIDENCE_TOKENS = 1200
_TRIED_TOKENS = 400


@dataclass
class ResearchState:
    """The state of one research run.

    Labels are given once and never moved: c1, c2 ... for candidate sessions, e1, e2 ... for evidence.
    """

    store: Store
    question: str
    candidates: dict[str, SessionHit] = field(default_factory=dict)
    evidence: dict[str, Claim] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    covered: dict[str, str] = field(default_factory=dict)
    judged: int = 0
    pages_read: dict[str, set[int]] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def set_needs(self, needs: Iterable[str]) -> None:
        """Take the needs of a plan, each once and on one line; without any, the question itself is the need."""
        distinct: dict[str, str] = {}
        for need in filter(None, map(one_line, needs)):
            distinct.setdefault(normalise(need) or need, need)
        self.needs = tuple(distinct.values()) or (self.question,)

    def add_candidates(self, hits: tuple[SessionHit, ...]) -> list[str]:
        """Label new sessions; returns their labels."""
        known = {hit.session.id for hit in self.candidates.values()}
        fresh = [hit for hit in hits if hit.session.id not in known]
        labels = [f"c{len(self.candidates) + number}" for number in range(1, len(fresh) + 1)]
        self.candidates |= dict(zip(labels, fresh, strict=True))
        return labels

    def add_evidence(self, turns: list[Turn]) -> list[str]:
        """Label new turns, each once; returns the labels of all given turns."""
        by_turn = {claim.spans[0].turn_id: label for label, claim in self.evidence.items()}
        for turn in turns:
            if turn.id not in by_turn:
                by_turn[turn.id] = f"e{len(self.evidence) + 1}"
                self.evidence[by_turn[turn.id]] = quoted(turn)
        return [by_turn[turn.id] for turn in turns]

    def in_time_order(self, claims: list[Claim]) -> list[Claim]:
        """Claims in the order in which their turns stand in the store, without those of turns forgotten meanwhile."""
        turns = self.store.in_order(claim.spans[0].turn_id for claim in claims)
        rank = {turn.id: place for place, turn in enumerate(turns)}
        known = [claim for claim in claims if claim.spans[0].turn_id in rank]
        return sorted(known, key=lambda claim: rank[claim.spans[0].turn_id])

    def fail(self, step: str, error: Exception | str) -> None:
        """Note a step whose answer could not be used; the run goes on and the context shows it."""
        reason = error.reason if isinstance(error, ModelOutputError) else str(error)
        self.failures.append(f"{step}: {one_line(reason)}")

    def next_page(self, session: Session) -> int:
        """The first page of a session, from 0, that was not read."""
        read = self.pages_read.get(session.id, set())
        return next(page for page in range(len(read) + 1) if page not in read)

    @property
    def unread(self) -> list[str]:
        """Labels of the candidates that were not opened, in the order they were found."""
        return [label for label, hit in self.candidates.items() if hit.session.id not in self.pages_read]

    def overlap(self, need: str, entry: str) -> float:
        """Share of a need's content words that stand in the evidence, its speaker, or the turn before and after it."""
        wanted = set(terms(need))
        turn = self.store.turn(self.evidence[entry].spans[0].turn_id)
        around = self.store.around(turn, 1)
        found = wanted.intersection(terms(" ".join(f"{near.speaker} {near.text}" for near in around)))
        return len(found) / len(wanted) if wanted else 1.0

    @property
    def missing(self) -> tuple[str, ...]:
        """Needs that no evidence covers yet."""
        return tuple(need for need in self.needs if need not in self.covered)

    @property
    def sufficient(self) -> bool:
        """Computed, never asked: there is evidence, and it covers every need."""
        return bool(self.needs) and bool(self.evidence) and not self.missing

    @property
    def browsed(self) -> tuple[str, ...]:
        """Ids of the sessions that were opened, in order."""
        return tuple(self.pages_read)

    def show_overview(self) -> str:
        """What the store holds, in three lines."""
        times = self.store.session_times
        dates = [time[:10] for time in times.values() if time]
        period = f", from {clip(min(dates), 10)} to {clip(max(dates), 10)}" if dates else ""
        return f"{len(times)} sessions{period}\nspeakers: {clip(', '.join(self.store.speakers), 200)}"

    def show_candidates(self, unread_only: bool = False) -> str:
        """Candidate sessions with their best lines; the newest labels when there are too many."""
        lines = [
            _candidate_line(label, hit)
            for label, hit in self.candidates.items()
            if not (unread_only and hit.session.id in self.pages_read)
        ]
        return "\n".join(lines[-_SHOWN_CANDIDATES:]) or NOTHING

    def shown_evidence(self, first: Iterable[str] = ()) -> dict[str, str]:
        """Label -> line of the evidence that fits into a token budget, in order of labels.

        When not all fits, the labels `first` go before those that cover a need, and these before older ones.
        """
        order = list(dict.fromkeys([*first, *self.covered.values(), *self.evidence]))
        lines = within((_evidence_line(label, self.evidence[label]) for label in order), _EVIDENCE_TOKENS)
        shown = dict(zip(order, lines, strict=False))
        return {label: shown[label] for label in self.evidence if label in shown}

    def show_evidence(self) -> str:
        """The evidence, within a token budget."""
        return "\n".join(self.shown_evidence().values()) or NOTHING

    def show_tried(self) -> str:
        """Actions and outcomes, newest first when they do not all fit."""
        lines = [f"{action} -> {outcome}" for action, outcome in reversed(self.tried.items())]
        return "\n".join(reversed(within(lines, _TRIED_TOKENS))) or NOTHING


def _candidate_line(label: str, hit: SessionHit) -> str:
    best = " / ".join(f"{clip(turn.speaker, 40)}: {clip(turn.text, _SNIPPET)}" for turn in hit.best)
    return f"{label} | {_date(hit.session)} | {best}"


def _evidence_line(label: str, claim: Claim) -> str:
    return truncate(claim_line(label, claim), _LONGEST_LINE)


def _date(session: Session) -> str:
    return clip(session.time[:10] or session.id, 40)
