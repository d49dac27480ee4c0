"""Turns what a research run meets into labelled state: candidates, evidence, needs and a log of actions.

The prompt of each step is made from this state and stays bounded, however long the run is; nothing is summarised away.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dspy.utils.exceptions import AdapterParseError

from stitchjam.data.errors import ModelOutputError
from stitchjam.data.index.terms import terms
from stitchjam.data.passages import Passage
from stitchjam.data.records import Claim, Session, Turn
from stitchjam.data.store import SessionHit, Store
from stitchjam.data.text import is_question, normalise, one_line
from stitchjam.data.tokens import truncate
from stitchjam.data.tree.readme import memo_line
from stitchjam.programs.jam.places import Places
from stitchjam.programs.render import NOTHING, claim_line, clip, clip_near, quoted, within

__all__ = ["ResearchState", "UNUSABLE"]

# What a step raises when its answer cannot be used; the second comes from modules that stand in for our steps.
UNUSABLE = (ModelOutputError, AdapterParseError)
_LONGEST_LINE = 400  # tokens: one huge turn must not hide all other evidence
_SHOWN_CANDIDATES = 8
_SNIPPET, _MEMO = 180, 140
_EVIDENCE_TOKENS = 1200
_TRIED_TOKENS = 400


@dataclass
class ResearchState:
    """The state of one research run.

    Labels are given once and never moved: c1, c2 ... for candidate sessions, e1, e2 ... for evidence.
    """

    store: Store
    question: str
    places: Places = None  # type: ignore[assignment]
    candidates: dict[str, SessionHit] = field(default_factory=dict)
    evidence: dict[str, Claim] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    covered: dict[str, str] = field(default_factory=dict)
    judged: set[str] = field(default_factory=set)
    pages_read: dict[str, set[int]] = field(default_factory=dict)
    paged: dict[str, list[tuple[Passage, ...]]] = field(default_factory=dict)
    requests: dict[str, set[str]] = field(default_factory=dict)
    searched: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    sought: dict[str, str] = field(default_factory=dict)  # label of a candidate -> words by which it was found last
    found: dict[str, str] = field(default_factory=dict)  # in this round: label of a candidate -> words of the search
    tried: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)  # of what was tried: it named nothing that was there then
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = self.places or Places(self.store, self.question)

    def set_needs(self, needs: Iterable[str]) -> None:
        """Take the needs of a plan, each once and on one line; without any, the question itself is the need."""
        distinct: dict[str, str] = {}
        for need in filter(None, map(one_line, needs)):
            distinct.setdefault(normalise(need) or need, need)
        self.needs = tuple(distinct.values()) or (self.question,)

    def add_candidates(self, hits: Iterable[SessionHit], words: str = "") -> list[str]:
        """Label sessions found by some words; returns the new labels. A known one shows why it was found now."""
        known, fresh = {hit.session.id: label for label, hit in self.candidates.items()}, []
        for hit in hits:
            if hit.session.id not in known:
                fresh.append(hit)
            elif hit.best:
                self.candidates[known[hit.session.id]] = hit
                self.sought[known[hit.session.id]] = words
        labels = [f"c{len(self.candidates) + number}" for number in range(1, len(fresh) + 1)]
        self.candidates |= dict(zip(labels, fresh, strict=True))
        self.sought |= dict.fromkeys(labels, words)
        return labels

    def label_of(self, session_id: str) -> str:
        """The label of a candidate, "" for a session that is none."""
        return next((label for label, hit in self.candidates.items() if hit.session.id == session_id), "")

    def add_evidence(self, passages: Sequence[Passage]) -> list[str]:
        """Label new passages, each once; returns the labels of all given ones."""
        by_place = {(claim.spans[0].turn_id, claim.spans[0].start): label for label, claim in self.evidence.items()}
        labels = []
        for one in passages:
            place = one.turn.id, one.start
            if place not in by_place:
                by_place[place] = f"e{len(self.evidence) + 1}"
                claim = quoted(one.turn)
                if not one.whole:
                    claim = claim.model_copy(update={"text": one.text, "quote": one.text, "spans": (one.span,)})
                self.evidence[by_place[place]] = claim
            labels.append(by_place[place])
        return labels

    def in_time_order(self, claims: list[Claim]) -> list[Claim]:
        """Claims in the order in which their turns stand in the store, without those of turns forgotten meanwhile."""
        turns = self.store.in_order(claim.spans[0].turn_id for claim in claims)
        rank = {turn.id: place for place, turn in enumerate(turns)}
        known = [claim for claim in claims if claim.spans[0].turn_id in rank]
        return sorted(known, key=lambda claim: (rank[claim.spans[0].turn_id], claim.spans[0].start))

    def fail(self, step: str, error: Exception | str) -> None:
        """Note a step whose answer could not be used; the run goes on and the context shows it."""
        reason = error.reason if isinstance(error, ModelOutputError) else str(error)
        self.failures.append(f"{step}: {one_line(reason)}")

    @property
    def unread(self) -> list[str]:
        """Labels of the candidates that were not opened, in the order they were found."""
        return [label for label, hit in self.candidates.items() if hit.session.id not in self.pages_read]

    @property
    def unfinished(self) -> list[str]:
        """Labels of the candidates that were not read to the end, in the order they were found."""
        return [label for label, hit in self.candidates.items() if self.pages_left(hit.session.id)]

    def pages_left(self, session_id: str) -> int:
        """How many pages of a session were not read; 1 for one that was not opened, however long it is."""
        read = self.pages_read.get(session_id)
        return 1 if read is None else max(0, len(self.paged.get(session_id, ())) - len(read))

    @property
    def finished(self) -> tuple[str, ...]:
        """Ids of the sessions that were read to the end."""
        return tuple(session_id for session_id in self.pages_read if not self.pages_left(session_id))

    def asks(self, entry: str) -> bool:
        """Whether evidence is a question, which states no fact; small models take one for its answer."""
        return is_question(self.evidence[entry].quote)

    def overlap(self, need: str, entry: str) -> float:
        """Share of a need's content words that stand in the evidence, its speaker, or the turn before and after it."""
        wanted, claim = set(terms(need)), self.evidence[entry]
        beside = (f"{near.speaker} {near.text}" for near in self.beside(claim))
        found = wanted.intersection(terms(" ".join([claim.speaker, claim.quote, *beside])))
        return len(found) / len(wanted) if wanted else 1.0

    def beside(self, claim: Claim) -> tuple[Turn, ...]:
        """The turn before that of a claim and the one after it; none when it was forgotten meanwhile."""
        turn_id = claim.spans[0].turn_id
        if not self.store.positions([turn_id]):
            return ()
        return tuple(near for near in self.store.around(self.store.turn(turn_id), 1) if near.id != turn_id)

    @property
    def pages(self) -> int:
        """How many pages were read."""
        return sum(map(len, self.pages_read.values()))

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
        """What the store holds: how much, from when, who speaks, and its first folders; in a few lines."""
        times = self.store.session_times
        dates = [time[:10] for time in times.values() if time]
        period = f", from {clip(min(dates), 10)} to {clip(max(dates), 10)}" if dates else ""
        lines = [f"{len(times)} sessions{period}", f"speakers: {clip(', '.join(self.store.speakers), 200)}"]
        if tree := self.places.grown:
            root = tree.readme(tree.root)
            lines += [clip(root.summary, 240)] if root.summary else []
            lines += [self.places.show_folders()] if self.places.folders else []
        return "\n".join(lines)

    def show_candidates(self, unread_only: bool = False) -> str:
        """Candidate sessions with their best lines. When there are too many, the newest of those that were found by
        words, and of those that lie in a folder that was opened, as many of each as there is room for.
        """
        labels = self.unfinished if unread_only else list(self.candidates)
        found = [label for label in labels if self.candidates[label].best][::-1]
        listed = [label for label in labels if not self.candidates[label].best][::-1]
        half = max(_SHOWN_CANDIDATES // 2, _SHOWN_CANDIDATES - len(listed))
        chosen = {*found[:half], *listed[: _SHOWN_CANDIDATES - len(found[:half])]}
        lines = [self._candidate_line(label, self.candidates[label]) for label in labels if label in chosen]
        return "\n".join(lines) or NOTHING

    def shown_evidence(self, first: Iterable[str] = ()) -> dict[str, str]:
        """Label -> line of the evidence that fits into a token budget, in order of labels.

        When not all fits, the labels `first` go before those that cover a need, and these before those that have more
        of the words of a need, and these before older ones.
        """
        order = list(dict.fromkeys([*first, *self.covered.values(), *self._by_likeness()]))
        lines = within((_evidence_line(label, self.evidence[label]) for label in order), _EVIDENCE_TOKENS)
        shown = dict(zip(order, lines, strict=False))
        return {label: shown[label] for label in self.evidence if label in shown}

    def _by_likeness(self) -> list[str]:
        return sorted(
            self.evidence, key=lambda entry: -max((self.overlap(need, entry) for need in self.needs), default=0.0)
        )

    def show_evidence(self) -> str:
        """The evidence, within a token budget."""
        return "\n".join(self.shown_evidence().values()) or NOTHING

    def show_tried(self) -> str:
        """Actions and outcomes, newest first when they do not all fit."""
        lines = [f"{action} -> {outcome}" for action, outcome in reversed(self.tried.items())]
        return "\n".join(reversed(within(lines, _TRIED_TOKENS))) or NOTHING

    def _candidate_line(self, label: str, hit: SessionHit) -> str:
        tree = self.places.grown
        memo = tree.memos.get(hit.session.id) if tree else None
        left = self.pages_left(hit.session.id) if hit.session.id in self.pages_read else 0
        more = f"{left} page{'s' * (left != 1)} of it not read" if left else ""
        words = self.sought.get(label) or self.question
        parts = [f"{clip(turn.speaker, 40)}: {clip_near(turn.text, words, _SNIPPET)}" for turn in hit.best]
        best = " / ".join(parts)
        if memo is None:
            return " | ".join(filter(None, (label, _date(hit.session), more, best)))
        # Best lines show why it was found; beside a memo one of them is enough.
        return " | ".join(filter(None, (label, clip(memo_line(memo), _MEMO), more, *parts[:1])))


def _evidence_line(label: str, claim: Claim) -> str:
    return truncate(claim_line(label, claim), _LONGEST_LINE)


def _date(session: Session) -> str:
    return clip(session.time[:10] or session.id, 40)
