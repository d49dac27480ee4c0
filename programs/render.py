"""Turns records into the labelled lines that prompts show, one record a line, and labels back into records."""

from collections.abc import Iterable

from stitchjam.data.records import Claim, Span, Turn
from stitchjam.data.text import escape, one_line
from stitchjam.data.tokens import count_tokens, truncate

__all__ = ["NOTHING", "claim_line", "clip", "gist_line", "quoted", "quoted_line", "within"]

NOTHING = "(nothing)"
_LONGEST_NAME = 60


def clip(text: str, characters: int) -> str:
    """One line of at most so many characters."""
    text = _safe(text)
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def quoted_line(label: str, speaker: str, text: str) -> str:
    """`t3 | Mira: words` inside a session, where the date is shown once."""
    return f"{label} | {clip(speaker, _LONGEST_NAME)}: {_safe(text)}"


def claim_line(label: str, claim: Claim) -> str:
    """`c1 | 2026-03-02 | Mira: quote`; a claim that says more than its quote is put in front of it."""
    date = clip(claim.time[:10], 10)
    head = f"{label} | {date} | " if date else f"{label} | "
    said = f"{clip(claim.speaker, _LONGEST_NAME)}: {_safe(claim.quote)}"
    return head + (said if claim.text == claim.quote else f"{_safe(claim.text)} | {said}")


def gist_line(gist: str) -> str:
    """`about | gist`: it has no label, so that it cannot be cited."""
    return f"about | {_safe(gist)}"


def _safe(text: str) -> str:
    # `Step` escapes its inputs; a module of the user's in its place does not. Escaping twice changes nothing more.
    return escape(one_line(text))


def quoted(turn: Turn, text: str = "") -> Claim:
    """A claim that rests on one whole turn; its words are the turn's own unless `text` says otherwise."""
    return Claim(text=text or turn.text, quote=turn.text, speaker=turn.speaker, spans=(Span.of(turn),), time=turn.time)


def within(lines: Iterable[str], tokens: int) -> list[str]:
    """The first lines that fit into a token budget; the very first is cut to it, so that something is shown."""
    kept: list[str] = []
    left = tokens
    for line in lines:
        left -= count_tokens(line) + 1
        if left < 0:
            return kept or [truncate(line, max(tokens, 1))]
        kept.append(line)
    return kept
