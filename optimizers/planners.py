"""Turns gold evidence, the words of a question, or chance into the steps of a Researcher, so that it needs no model.

What a planner finds that knows the words of each gold turn shows whether search and reading work at all; what one
finds that only has the words of the question is the least; and one that writes nonsense must end within its budget.
"""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal, get_args

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.index.terms import terms
from stitchjam.data.records import Question, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import normalise, words
from stitchjam.programs.jam.researcher import Limits, Researcher
from stitchjam.signatures.jam import BrowseReply, ClaimLine, ComposeReply, CoverReply, NextReply, PlanReply
from stitchjam.signatures.reply import NONE, Action

__all__ = ["Planner", "planned"]

Planner = Literal["ideal", "words", "garbage"]
_LABELLED = re.compile(r"^([te]\d+) \| (.*)$", re.MULTILINE)
_CLAIMS, _LINES = 6, 4
_PIECE = 200  # letters of a piece of a turn
_QUERY, _LONGEST = 24, 118  # words and characters of a query


def planned(kind: Planner, question: Question, store: Store, limits: Limits, **switches: Any) -> Researcher:
    """A Researcher whose steps are made by code.

    Args:
        kind: "ideal" searches with the words of each gold turn, without those of the answer, one source a round;
            "words" with words of the question, ever fewer; "garbage" does what makes no sense.
        question: with gold evidence; only "ideal" and the reader look at it.
        store: where the gold turns are.
        limits: rounds, actions and sessions a search.
        switches: of `Researcher`, such as tree=False.

    Raises:
        UsageError: there is no such planner.
    """
    if kind not in get_args(Planner):
        raise UsageError(f"there is no planner {kind!r}; choose one of: {', '.join(get_args(Planner))}")
    gold = list(store.in_order(question.evidence))
    queries = {"ideal": _ideal(question, gold, store), "words": _words(question)}.get(kind, [])
    plan = _Garbage(question.id) if kind == "garbage" else _Plan(queries)
    steps = {
        "plan_first": plan.first,
        "plan_next": plan.next,
        "browse_source": _reader(gold),
        "judge_sufficiency": _judge(len(gold) if kind == "ideal" else 0),
        "compose_context": _Step(_compose),
    }
    return Researcher(limits=limits, min_overlap=0.0, **steps, **switches)


def _ideal(question: Question, gold: Sequence[Turn], store: Store) -> list[str]:
    """A query for each session with gold turns: their content words, without those of the answer."""
    hidden = {term for text in (question.answer, *question.aliases) for term in terms(text)}
    by_session: dict[str, list[str]] = {}
    for turn in gold:
        said = [word for word in words(turn.text) if not hidden.intersection(terms(word))]
        by_session.setdefault(turn.session_id, []).extend(said)
    return [" ".join(list(dict.fromkeys(said))[:_QUERY])[:_LONGEST] for said in by_session.values()]


def _words(question: Question) -> list[str]:
    """The question, then its words one by one, longest first; asked again, a search goes on where it stopped."""
    content = [word for word in dict.fromkeys(words(question.text)) if terms(word)]
    return [question.text, *sorted(content, key=len, reverse=True), *[question.text] * 20]


class _Plan:
    """Plans a search a round; the Researcher reads what it finds."""

    def __init__(self, queries: Sequence[str]):
        self.left = iter(queries)
        self.first, self.next = _Step(self._first), _Step(self._next)

    def _first(self, question: str, **_: Any) -> PlanReply:
        return PlanReply(needs=[question[:_LONGEST]], actions=self._actions())

    def _next(self, **_: Any) -> NextReply:
        return NextReply(actions=self._actions())

    def _actions(self) -> list[Action]:
        query = next(self.left, "")
        return [Action(tool="search", target=NONE, query=query)] if query else []


class _Garbage(_Plan):
    """Plans what makes no sense, the same for the same question."""

    def __init__(self, seed: str):
        super().__init__(())
        self.chance = Random(seed)

    def _actions(self) -> list[Action]:
        return [
            Action(
                tool=self.chance.choice(("open", "search", "browse")),
                target=self.chance.choice(("f99", "c99", "../../etc/passwd", "e1", NONE, "$(id)")),
                query=self.chance.choice(("", "?!", "zzz qqq", "[[ ## reply ## ]]")),
                where=self.chance.choice(("", "s9", "2026-99", "f1 f2 i9")),
            )
            for _ in range(3)
        ]


class _Step(dspy.Module):
    """A function as a step."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, **inputs: Any) -> dspy.Prediction:
        """Call it."""
        return dspy.Prediction(reply=self.function(**inputs))


def _reader(gold: Sequence[Turn]) -> _Step:
    """Points to the lines of gold turns, as anyone would who reads."""
    said = {normalise(turn.text) for turn in gold}

    def read(source: str, **_: Any) -> BrowseReply:
        lines = [(label, normalise(text.partition(": ")[2])) for label, text in _LABELLED.findall(source)]
        return BrowseReply(lines=[label for label, text in lines if _is_of(text, said)][:_LINES])

    return _Step(read)


def _is_of(text: str, said: set[str]) -> bool:
    """Whether a line is a gold turn, or a piece of a long one; "yes" stands in many."""
    return text in said or (len(text) > _PIECE and any(text in one for one in said))


def _judge(sources: int) -> _Step:
    """Finds a need covered once there is evidence for so many turns; never for 0, so that all rounds are used."""

    def judge(evidence: str, **_: Any) -> CoverReply:
        labels = [label for label, _ in _LABELLED.findall(evidence)]
        return CoverReply(entry=labels[-1] if sources and len(labels) >= sources else NONE)

    return _Step(judge)


def _compose(evidence: str, **_: Any) -> ComposeReply:
    found = _LABELLED.findall(evidence)[:_CLAIMS]
    return ComposeReply(claims=[ClaimLine(entry=label, claim=text[:_LONGEST]) for label, text in found])
