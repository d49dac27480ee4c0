"""Turns what a prediction cites into turns and sessions, by name, and by how many tokens of context they take."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.matching import spoken
from stitchjam.data.records import Answer, Context, Question, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import one_line

__all__ = [
    "Level",
    "at_level",
    "cited",
    "ends_of",
    "gold_at",
    "named",
    "place_of",
    "ratio",
    "recall_by_tokens",
    "source",
    "turn_of",
    "turns_of",
]

Level = Literal["session", "turn"]
_SHOWN, _LENGTH = 3, 60
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # tokens


def source(prediction: dspy.Prediction) -> Context | Answer:
    """What a prediction rests on: its context when it has one, else its answer."""
    return prediction.get("context") or prediction.answer


def cited(prediction: dspy.Prediction) -> tuple[str, ...]:
    """Turn ids that a prediction rests on: those of its context when it has one, else those of its answer."""
    return source(prediction).turn_ids


def at_level(turn_ids: Iterable[str], level: Level, store: Store) -> set[str]:
    """Ids at a level; a turn that is not in the store stays itself, so that an invented one counts as wrong."""
    return {_session(turn_id, store) if level == "session" else turn_id for turn_id in turn_ids}


def gold_at(gold: Question, level: Level, store: Store) -> set[str]:
    """Gold ids at a level; some benchmarks name sessions without saying which of their turns count."""
    return at_level(gold.evidence, level, store) | (set(gold.sessions) if level == "session" else set())


def _session(turn_id: str, store: Store) -> str:
    turn = turn_of(turn_id, store)
    return turn.session_id if turn else turn_id


def turn_of(turn_id: str, store: Store) -> Turn | None:
    """The turn of an id, which may be invented."""
    try:
        return store.turn(turn_id)
    except UsageError:
        return None


def ends_of(turn_ids: Iterable[str], store: Store) -> list[tuple[str, int]]:
    """Ids of turns with the tokens of a context up to their end; "speaker: text" and a line break each."""
    turns = turns_of(turn_ids, store)
    ends = accumulate(map(spoken, turns))
    return [(turn.id, end) for turn, end in zip(turns, ends, strict=True)]


def recall_by_tokens(gold: Question, prediction: dspy.Prediction, store: Store) -> dict[int, float]:
    """Share of the gold turns among the cited ones that fit into so many tokens, for several budgets.

    It is empty for a question without gold turns. See `EvidenceAtBudget`.
    """
    wanted, ends = set(gold.evidence), ends_of(cited(prediction), store)
    return {tokens: ratio({one for one, end in ends if end <= tokens} & wanted, wanted) for tokens in BUDGETS if wanted}


def turns_of(turn_ids: Iterable[str], store: Store) -> list[Turn]:
    """Those that exist, in the order given."""
    return [turn for turn in (turn_of(turn_id, store) for turn_id in turn_ids) if turn]


def named(name: str, ids: Sequence[str], store: Store) -> str:
    """Ids in words: where a turn stands, and how it begins."""
    if not ids:
        return ""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"; {name}: {', '.join(place_of(one, store) for one in ids[:_SHOWN])}{more}"


def place_of(id: str, store: Store) -> str:
    """Where a turn stands, and how it begins; the id itself where there is no such turn."""
    turn = turn_of(id, store)
    return f"{turn.session_id} {one_line(turn.text)[:_LENGTH]!r}" if turn else id


def ratio(part: set[str], whole: set[str]) -> float:
    """The share that a part is of the whole, 0 of nothing."""
    return len(part) / len(whole) if whole else 0.0
