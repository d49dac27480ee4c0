"""Turns a session into passages and pages: every letter of it stands in exactly one, however long its turns are."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stitchjam.data.records import Session, Span, Turn
from stitchjam.data.tokens import count_tokens, truncate

__all__ = ["PIECE", "Passage", "pages", "passages"]

PIECE = 200  # tokens of a passage: a turn that has at most twice as many is one, a longer one is cut at sentences
_LETTERS = 8  # of a token, at most, nearly always
_LINE = 8  # tokens that a line costs beside its words: label, speaker, end of line
_END = re.compile(r"[.!?。!?…][\"')\]]*\s|\n")


@dataclass(frozen=True)
class Passage:
    """Code points `start` to `end` of a turn."""

    turn: Turn
    start: int
    end: int

    @property
    def text(self) -> str:
        """Its words."""
        return self.turn.text[self.start : self.end]

    @property
    def span(self) -> Span:
        """Where it stands."""
        return Span.of(self.turn, self.start, self.end)

    @property
    def whole(self) -> bool:
        """Whether it is the turn."""
        return self.end - self.start == len(self.turn.text)


def passages(turns: Iterable[Turn], tokens: int = PIECE) -> Iterator[Passage]:
    """Turns in order, and long ones in pieces of at most so many tokens, cut at the ends of sentences."""
    for turn in turns:
        start, whole = 0, len(turn.text)
        # A token is at least a character, so that most turns need not be counted.
        if whole <= 2 * tokens or (whole <= 2 * tokens * _LETTERS and count_tokens(turn.text) <= 2 * tokens):
            yield Passage(turn, 0, whole)
            continue
        while start < whole:
            end = start + _cut(turn.text[start : start + tokens * _LETTERS], tokens)
            yield Passage(turn, start, end)
            start = end


def pages(session: Session, tokens: int, piece: int = PIECE) -> list[tuple[Passage, ...]]:
    """The passages of a session in runs that fit into a token budget each, in order."""
    result: list[list[Passage]] = [[]]
    left = tokens
    for passage in passages(session.turns, min(piece, tokens)):
        cost = count_tokens(passage.text) + _LINE
        if result[-1] and cost > left:
            result.append([])
            left = tokens
        result[-1].append(passage)
        left -= cost
    return [tuple(page) for page in result if page]


def _cut(text: str, tokens: int) -> int:
    """Where the first piece of a text ends: behind a sentence, else behind a word, else anywhere; at least 1."""
    most = len(truncate(text, tokens)) or 1
    if most == len(text):
        return most
    ends = [match.end() for match in _END.finditer(text[: most + 1]) if most // 3 <= match.end() <= most]
    return ends[-1] if ends else text.rfind(" ", most // 2, most) + 1 or most
