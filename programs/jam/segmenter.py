"""Turns a long history into one with sessions that can be read at once, cut where something new begins (JAM 1.2).

Structure comes first: sessions that are not long stay as they are, and long ones are only cut between turns. Where, a
budget decides; or a model, which is shown the beginnings of turns.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dspy

from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.records import History, Session, Turn
from stitchjam.data.tokens import count_tokens
from stitchjam.programs.render import clip, quoted_line
from stitchjam.programs.step import Program, as_step
from stitchjam.signatures.memorizer import SegmentHistory

__all__ = ["Segmenter"]

_SHOWN, _LETTERS = 24, 140  # turns that are shown at once, and characters of each
_SHORT = 4  # a part has this share of the budget at least, or is joined with the one before


class Segmenter(Program):
    """Cuts long sessions.

    Args:
        tokens: of a session, at most; one turn that is longer is a session of its own.
        by_model: whether a model says where something new begins; else the budget alone decides.
        segment_history: replacement for the step `SegmentHistory`.
    """

    segment_history: dspy.Module

    def __init__(self, tokens: int = 1500, by_model: bool = False, segment_history: Any = None):
        super().__init__()
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
            raise UsageError(f"tokens is a whole number from 1 on, not {tokens!r}")
        if not isinstance(by_model, bool):
            raise UsageError(f"by_model is true or false, not {by_model!r}")
        self.tokens, self.by_model = tokens, by_model
        self.segment_history = as_step(segment_history, SegmentHistory)

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"tokens": self.tokens, "by_model": self.by_model}

    def forward(self, history: History) -> dspy.Prediction:
        """Cut it.

        Returns:
            A prediction with `history`, whose turns are the same words in the same order, and `failures`: parts of
            which the model gave nothing that can be used, so that the budget decided there.

        Raises:
            BackendError: from the step.
        """
        failures: list[str] = []
        taken = {session.id for session in history.sessions}
        sessions = [part for session in history.sessions for part in self._parts(session, failures, taken)]
        return dspy.Prediction(history=history.model_copy(update={"sessions": tuple(sessions)}), failures=failures)

    def _parts(self, session: Session, failures: list[str], taken: set[str]) -> Iterator[Session]:
        costs = [count_tokens(turn.text) for turn in session.turns]
        if sum(costs) <= self.tokens:
            yield session
            return
        starts = self._starts(session, failures) if self.by_model else set[int]()
        groups = _groups(costs, starts, self.tokens)
        for number, group in enumerate(groups, 1):
            turns = [session.turns[at] for at in group]
            rows = [turn.model_dump(include={"speaker", "text", "time", "external_id"}) for turn in turns]
            yield build_session(_new_id(f"{session.id}#{number}", taken), _time(turns, session), rows)

    def _starts(self, session: Session, failures: list[str]) -> set[int]:
        """Places of the turns with which something new begins, as a model sees them."""
        found: set[int] = set()
        for first in range(0, len(session.turns), _SHOWN):
            some = session.turns[first : first + _SHOWN]
            labels = {f"t{number}": first + number - 1 for number in range(1, len(some) + 1)}
            rows = zip(labels, some, strict=True)
            shown = (quoted_line(label, one.speaker, clip(one.text, _LETTERS)) for label, one in rows)
            try:
                reply = self.segment_history(lines="\n".join(shown)).reply
            except ModelOutputError as error:
                failures.append(f"{session.id}: {error.reason}")
                continue
            found.update(labels[label] for label in reply.starts if label in labels)
        return found


def _new_id(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "'"
    taken.add(wanted)
    return wanted


def _groups(costs: Sequence[int], starts: set[int], tokens: int) -> list[list[int]]:
    """Places of turns, part by part: a new one at each start, and wherever the budget is full."""
    groups: list[list[int]] = [[]]
    left = tokens
    for at, cost in enumerate(costs):
        new = at in starts and tokens - left >= tokens // _SHORT
        if groups[-1] and (new or cost > left):
            groups.append([])
            left = tokens
        groups[-1].append(at)
        left -= cost
    return groups


def _time(turns: Sequence[Turn], session: Session) -> str:
    return next((turn.time for turn in turns if turn.time), session.time)
