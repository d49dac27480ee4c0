"""Turns records into the labelled lines that prompts show, one record a line, and labels back into records."""

from collections.abc import Iterable

from stitchjam.data.records import Claim, Span, Turn
from stitchjam.data.text import escape, one_line
from stitchjam.data.tokens import count_tokens, truncate

__all__ = ["NOTHING", "claim_line", "clip", "clip_near", "gist_line", "quoted", "quoted_line", "within"]

NOTHING = "(nothing)"
_LONGEST_NAME = 60
_SHORT = 3  # letters of a word that says little


def clip(text: str, characters: int) -> str:
    """One line of at most so many characters."""
    text = _safe(text)
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def clip_near(text: str, words: str, characters: int) -> str:
    """One line of at most so many characters: of a long text the part around the rarest of some words."""
    if len(text) > characters:
        lower = text.lower()
        found = [
            (lower.count(word), word) for word in set(words.lower().split()) if len(word) > _SHORT and word in lower
        ]
        at = lower.index(min(found)[1]) if found else 0
        if at > characters // 2:
            start = text.rfind(" ", 0, at - characters // 4) + 1
            return clip(f"…{text[start : start + 2 * characters]}", characters)
    return clip(text, characters)


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
