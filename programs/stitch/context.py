"""Turns turns that were recalled into a context, as whoever answers is shown it: what is taken fits, all of it.

Costs are those of rendered lines. Were they those of the words alone, the lines would not fit, and the answering step
would leave out the last ones in time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stitchjam.data.index.terms import terms
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.records import Claim, Context, Span, Turn
from stitchjam.data.text import one_line
from stitchjam.data.tokens import count_tokens, truncate
from stitchjam.programs.render import claim_line, clip, gist_line, quoted

__all__ = ["Shown"]

_LABEL = "c40"  # a label as long as any that is shown
_GISTS, _GIST = 5, 140
_PART = 4  # part of the budget that a passage may take, of a turn that is longer than all of it
_LETTERS = 4  # of a token, about


@dataclass(frozen=True)
class Shown:
    """How turns are shown for a request: whole, or the passage that fits it best where a turn is beyond the budget."""

    request: str
    tokens: int

    def cost(self, turn: Turn) -> int:
        """Tokens of the line of a turn."""
        return _cost(self.claim(turn))

    def claim(self, turn: Turn, meaning: str = "") -> Claim:
        """A turn as a claim; `meaning` is what a reader needs beside its words."""
        whole = quoted(turn, meaning)
        # A token is at least a character, so that most turns need not be counted twice.
        if len(turn.text) < self.tokens // 2 or _cost(quoted(turn)) <= self.tokens:
            return whole
        start, end = _passage(turn.text, self.request, max(self.tokens // _PART, 1))
        quote = turn.text[start:end]
        return whole.model_copy(
            update={"text": meaning or quote, "quote": quote, "spans": (Span.of(turn, start, end),)}
        )

    def context(self, turns: Sequence[Turn], notebook: Notebook) -> Context:
        """Turns with what their references mean, and the gists of their scopes, as far as the budget holds both."""
        left = self.tokens - sum(map(self.cost, turns))
        claims, scopes = [], dict[str, None]()
        for turn in turns:
            note, meaning, plain = notebook.of(turn.id), _meaning(turn, notebook), self.claim(turn)
            told = plain.model_copy(update={"text": meaning}) if meaning else plain
            more = _cost(told) - _cost(plain)
            claims.append(told if more <= left else plain)
            left -= more if more <= left else 0
            scopes |= {note.scope: None} if note and note.scope else {}
        gists = []
        for scope in list(scopes)[:_GISTS]:
            line = f"{notebook.bank.name(scope)}: {clip(notebook.bank.gists.get(scope, ''), _GIST)}"
            left -= count_tokens(gist_line(line)) + 1
            gists += [line] if left >= 0 else []
        return Context(request=self.request, claims=tuple(claims), gists=tuple(gists))


def _cost(claim: Claim) -> int:
    return count_tokens(claim_line(_LABEL, claim)) + 1


def _passage(text: str, request: str, tokens: int) -> tuple[int, int]:
    """Where the passage of a text stands that shares the most words with a request; the first of several."""
    size, wanted = _LETTERS * tokens, set(terms(request))
    starts = range(0, max(len(text) - size // 2, 1), max(size // 2, 1))
    start = max(starts, key=lambda at: len(wanted.intersection(terms(text[at : at + size]))))
    return start, start + len(truncate(text[start : start + size], tokens))


def _meaning(turn: Turn, notebook: Notebook) -> str:
    """What a reader needs who sees this turn alone: what its words mean, and whether it was decided otherwise later."""
    note = notebook.of(turn.id)
    said = [f"{one.words} = {one.means}" for one in note.references] if note else []
    return one_line("; ".join(said + ["decided otherwise later"] * bool(notebook.ledger.replaced_by(turn.id))))
