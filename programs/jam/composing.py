"""Turns the claims of a composer into claims with quotes and spans; what their evidence does not say is not kept.

Code attaches the quote and the span of the evidence that a claim names. A claim that names none is dropped. One with a
number or a name that stands neither in its evidence nor beside it gives way to the words that were said.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stitchjam.data.records import Claim
from stitchjam.data.text import normalise
from stitchjam.programs.jam.state import ResearchState
from stitchjam.signatures.jam import ClaimLine

__all__ = ["Composed", "composed"]

_NAME = re.compile(r"(?<=[^.!?:\s]\s)[^\W\d_a-z][^\W\d_][\w'-]*")  # a capital letter that begins no sentence


class Composed(NamedTuple):
    """Claims in the order of the store; how many named no evidence, and how many gave way to what was said."""

    claims: list[Claim]
    dropped: int = 0
    replaced: int = 0


def composed(lines: Sequence[ClaimLine], labels: Iterable[str], state: ResearchState) -> Composed:
    """What is kept of a composer's claims.

    Args:
        lines: as it wrote them, best first.
        labels: of the evidence that it was shown.
        state: where the evidence is.
    """
    shown, claims, replaced = set(labels), dict[tuple[str, str], Claim](), 0
    for line in lines:
        if line.entry in shown:
            evidence = state.evidence[line.entry]
            told = line.claim if _is_said(line.claim, evidence, state) else evidence.quote
            replaced += told != line.claim
            claims.setdefault((line.entry, normalise(told)), evidence.model_copy(update={"text": told}))
    dropped = sum(line.entry not in shown for line in lines)
    return Composed(state.in_time_order(list(claims.values())), dropped, replaced)


def _is_said(claim: str, evidence: Claim, state: ResearchState) -> bool:
    beside = " ".join(f"{turn.speaker} {turn.text}" for turn in state.beside(evidence))
    known = " ".join((evidence.quote, evidence.speaker, evidence.time, beside, state.question))
    words = set(normalise(known).split())
    names = (normalise(name.removesuffix("'s")) for name in _NAME.findall(claim))
    return _numbers(claim) <= _numbers(known) and all(set(name.split()) <= words for name in names)


def _numbers(text: str) -> set[str]:
    """The numbers in a text, without leading zeros."""
    return {number.lstrip("0") for number in re.findall(r"\d+", text)}
