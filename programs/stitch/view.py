"""Turns the state of a labelling and a turn into what the steps are shown: a few candidates and the lines before.

All of it is bounded, so that a turn costs the same at the end of a long memory as at its beginning.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Note
from stitchjam.data.records import Turn
from stitchjam.data.text import one_line
from stitchjam.data.tokens import truncate
from stitchjam.programs.render import NOTHING, clip
from stitchjam.programs.stitch.candidates import Candidates

__all__ = ["Sizes", "View", "clean", "said", "view_of", "windows"]

_STAMP = re.compile(r"\s*-{3,}\s*TIMESTAMP:?\s*\d{4}-\d{2}-\d{2}[T ]?[\d:.+Z-]*\s*", re.IGNORECASE)
_CLIPPED, _NOTED = 160, 60  # characters of a turn before, and of the note of one


@dataclass(frozen=True)
class Sizes:
    """How much a prompt shows: candidates of a facet, notes of the scope, turns before, mentions, tokens of a turn."""

    scopes: int = 5
    events: int = 8
    entities: int = 8
    notes: int = 4
    before: int = 2
    mentions: int = 4
    window: int = 900

    def __post_init__(self) -> None:
        for name, size in vars(self).items():
            least = int(name == "window")
            if not isinstance(size, int) or isinstance(size, bool) or size < least:
                raise UsageError(f"{name} of Sizes is a whole number from {least} on, not {size!r}")


@dataclass(frozen=True)
class View:
    """One window of a turn and all that the steps are shown with it."""

    turn: Turn
    text: str
    part: str
    here: str
    scopes: Candidates
    like: tuple[float, ...]
    events: Candidates
    entities: Candidates
    before: str
    mentioned: str

    @property
    def line(self) -> str:
        """The window with who speaks."""
        return f"{clip(self.turn.speaker, 60)}{self.part}: {self.text}"

    def fields(self) -> dict[str, str]:
        """What all steps choose their inputs from."""
        return {
            "events": self.events.lines(),
            "entities": self.entities.lines(),
            "scopes": self.scopes.lines(self.here, self.like),
            "before": self.before,
            "mentioned": self.mentioned,
            "turn": self.line,
        }


def view_of(notebook: Notebook, turn: Turn, window: tuple[str, str], before: Sequence[Turn], sizes: Sizes) -> View:
    """What is shown with a window of a turn.

    Args:
        notebook: what was noted so far.
        turn: the turn.
        window: its words, and which part of the turn it is, as `windows` gives them.
        before: turns before it in its session, in order.
        sizes: how much is shown.
    """
    bank, here = notebook.bank, notebook.current(turn.session_id)
    text, part = window
    context = " ".join([*(clean(one.text)[-_CLIPPED:] for one in before[-1:]), text])
    scopes = bank.shortlist("scope", context, sizes.scopes, [here] if here else [])
    like = tuple(bank.similarity(label.id, context) for label in scopes) if bank.encoder else ()
    return View(
        turn=turn,
        text=text,
        part=part,
        here=here,
        scopes=Candidates(bank, "scope", tuple(scopes)),
        like=like,
        events=Candidates(bank, "event", tuple(bank.shortlist("event", text, sizes.events))),
        entities=Candidates(bank, "entity", tuple(bank.shortlist("entity", text, sizes.entities))),
        before=_before(notebook, turn, before, here, sizes),
        mentioned=_mentioned(notebook, here, sizes.mentions),
    )


def clean(text: str) -> str:
    """The words of a turn on one line, without time stamps: they are stored beside it, and say nothing of its topic."""
    return one_line(_STAMP.sub(" ", text))


def windows(turn: Turn, tokens: int) -> list[tuple[str, str]]:
    """The words of a turn in pieces of at most so many tokens, each with which part it is; every word is in one."""
    text, pieces, at = clean(turn.text), list[str](), 0
    while at < len(text) or not pieces:
        ahead = text[at : at + 8 * tokens]
        head = truncate(ahead, tokens)
        if len(head) < len(text) - at and (space := head.rfind(" ")) > len(head) // 2:
            head = head[:space]
        head = head or ahead[:1]
        pieces.append(head.strip())
        at += max(len(head), 1)
    if len(pieces) == 1:
        return [(pieces[0], "")]
    return [(piece, f" (part {number} of {len(pieces)})") for number, piece in enumerate(pieces, 1)]


def said(note: Note) -> str:
    """A note as a line of history: who did what to what. Small models copy whole summaries that they are shown."""
    return f"{clip(note.speaker, 60)} {note.act}: {clip(note.target or note.summary or '(no words)', _NOTED)}"


def _before(notebook: Notebook, turn: Turn, before: Sequence[Turn], here: str, sizes: Sizes) -> str:
    """The last notes of the scope, then the last turns of the session in their own words; none of them twice."""
    recent = list(before)[-sizes.before :] if sizes.before else []
    shown = {one.id for one in recent} | {turn.id}
    last = notebook.notes.get(recent[-1].id) if recent else None
    kept = notebook.last_in(here, sizes.notes + len(shown), last.intent.events if last else ()) if here else []
    notes = [said(note) for note in kept if note.turn_id not in shown][-sizes.notes :]
    words = [f"{clip(one.speaker, 60)}: {clip(clean(one.text), _CLIPPED)}" for one in recent]
    return "\n".join([*notes, *words]) or NOTHING


def _mentioned(notebook: Notebook, here: str, last: int) -> str:
    rows: dict[str, list[str]] = {}
    for speaker, place, mention in notebook.ledger.told(here, last):
        rows.setdefault(speaker, []).append(f"{place}. {clip(mention.target, 40)}")
    newest = list(rows.items())[-4:]  # speakers
    return "\n".join(f"{clip(speaker, 60)}: {'; '.join(names)}" for speaker, names in newest) or NOTHING
