"""What a search finds: turns and sessions with their scores."""

from dataclasses import dataclass

from stitchjam.data.records import Session, Turn

__all__ = ["Hit", "SessionHit"]


@dataclass(frozen=True)
class Hit:
    """A turn that was found, with its score from 0 to 1.1; 0 for a turn that stands beside a hit."""

    turn: Turn
    score: float


@dataclass(frozen=True)
class SessionHit:
    """A session that was found, its score (0 to 2) and its two best turns for the query, best first."""

    session: Session
    score: float
    best: tuple[Turn, ...]
