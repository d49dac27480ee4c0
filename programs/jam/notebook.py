"""Turns what a research run meets into labelled state: candidates, evidence, needs and a log of actions.

The prompt of each step is made from this state and stays bounded, however long the run is; nothing is summarised away.
"""

from dataclasses import dataclass, field

from stitchjam.data.errors import ModelOutputError
from stitchjam.data.records import Claim, Session, Turn
from stitchjam.data.store import SessionHit, Store
from stitchjam.programs.render import NOTHING, claim_line, clip, quoted, within

__all__ = ["Notebook"]

_SHOWN_CANDIDATES = 8
_SNIPPET = 180
_EVIDENCE_TOKENS = 1200
_TRIED_TOKENS = 400


@dataclass
class Notebook:
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
    pages_read: dict[str, int] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

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
        """Claims in the order in which their turns stand in the store."""
        cited = {claim.spans[0].turn_id for claim in claims}
        turns = [turn.id for session in self.store.sessions for turn in session.turns if turn.id in cited]
        return sorted(claims, key=lambda claim: turns.index(claim.spans[0].turn_id))

    def fail(self, error: ModelOutputError) -> None:
        """Note a step whose answer could not be used; the run goes on and the context shows it."""
        self.failures.append(f"{error.step}: {error.reason}")

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
        sessions = self.store.sessions
        speakers = dict.fromkeys(turn.speaker for session in sessions for turn in session.turns)
        dates = [session.time[:10] for session in sessions if session.time]
        period = f", from {min(dates)} to {max(dates)}" if dates else ""
        return f"{len(sessions)} sessions{period}\nspeakers: {clip(', '.join(speakers), 200)}"

    def show_candidates(self, unread_only: bool = False) -> str:
        """Candidate sessions with their best lines; the newest labels when there are too many."""
        lines = [
            _candidate_line(label, hit)
            for label, hit in self.candidates.items()
            if not (unread_only and hit.session.id in self.pages_read)
        ]
        return "\n".join(lines[-_SHOWN_CANDIDATES:]) or NOTHING

    def show_evidence(self) -> str:
        """The evidence, within a token budget; the newest is left out first."""
        return "\n".join(within(map(claim_line, self.evidence, self.evidence.values()), _EVIDENCE_TOKENS)) or NOTHING

    def show_tried(self) -> str:
        """Actions and outcomes, newest first when they do not all fit."""
        lines = [f"{action} -> {outcome}" for action, outcome in reversed(self.tried.items())]
        return "\n".join(reversed(within(lines, _TRIED_TOKENS))) or NOTHING


def _candidate_line(label: str, hit: SessionHit) -> str:
    best = " / ".join(f"{turn.speaker}: {clip(turn.text, _SNIPPET)}" for turn in hit.best)
    return f"{label} | {_date(hit.session)} | {best}"


def _date(session: Session) -> str:
    return session.time[:10] or session.id
