"""Turns the states of schema-guided dialogues into questions: what was settled in the end, in which dialogue.

A question names the service, the slot, and so many other settled values as no other dialogue has in common. It is
asked where the answer stands literally in the turn that settled it, or in the offer before that was accepted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from stitchjam.data.readers.rows import Row
from stitchjam.data.records import Question, Session

__all__ = ["Dialogue", "Service", "ask_slots"]

_NO_NAMES = {"dontcare", "true", "false"}  # told in other words, and no one would describe a booking by them


class Service(NamedTuple):
    """A service of the schema; `slots` are descriptions by name."""

    name: str
    description: str
    slots: Mapping[str, str]


class Dialogue(NamedTuple):
    """A dialogue as it is read, and as the file has it: `turns` hold the gold."""

    id: str
    session: Session
    turns: tuple[Row, ...]


class _Settled(NamedTuple):
    """The final value of a slot: its forms, as the state has them and with canonical ones, and the turn that set it."""

    forms: tuple[str, ...]
    every: set[str]
    at: int


class _Booking(NamedTuple):
    """All that was settled with a service in a dialogue, by slot."""

    dialogue: Dialogue
    service: str
    slots: Mapping[str, _Settled]


def ask_slots(dialogues: Sequence[Dialogue], schema: Mapping[str, Service]) -> Iterator[Question]:
    """The questions about all dialogues of a history, in their order.

    The evidence is the turn with the value; an alias is each other form of it.
    """
    by_service: dict[str, list[_Booking]] = {}
    bookings = [booking for dialogue in dialogues for booking in _bookings(dialogue)]
    for booking in bookings:
        by_service.setdefault(booking.service, []).append(booking)
    for booking in bookings:
        rivals = [other for other in by_service[booking.service] if other is not booking]
        for slot in booking.slots:
            if question := _question(booking, slot, rivals, schema[booking.service]):
                yield question


def _bookings(dialogue: Dialogue) -> Iterator[_Booking]:
    forms: dict[str, dict[str, tuple[str, ...]]] = {}
    at: dict[tuple[str, str], int] = {}
    plain = _canonical(dialogue)
    for number, turn in enumerate(dialogue.turns):
        for frame in turn.entries("frames"):
            service, state = frame.name("service"), frame.part("state")
            if state.value is not None:
                new, old = _state(state), forms.get(service, {})
                # Another form of the same value, such as "Seattle" beside "Seattle, WA", does not set it again.
                at |= {(service, slot): number for slot in new if not set(new[slot]) & set(old.get(slot, ()))}
                forms[service] = new
    for service, slots in forms.items():
        settled = {}
        for slot, some in slots.items():
            every = {plain.get((service, slot, form)) or plain.get(("", "", form), form) for form in some}
            settled[slot] = _Settled(some, every | set(some), at[service, slot])
        yield _Booking(dialogue, service, settled)


def _canonical(dialogue: Dialogue) -> dict[tuple[str, str, str], str]:
    """Canonical forms by service, slot and form; by form alone for values that another service brought in."""
    found: dict[tuple[str, str, str], str] = {}
    for turn in dialogue.turns:
        for frame in turn.entries("frames"):
            for slot, form, plain in _values(frame):
                found[frame.name("service"), slot, form] = plain
                found.setdefault(("", "", form), plain)
    return found


def _state(state: Row) -> dict[str, tuple[str, ...]]:
    values = state.part("slot_values")
    return {slot: values.labels(slot) for slot in values.fields() if values.labels(slot)}


def _values(frame: Row) -> Iterator[tuple[str, str, str]]:
    """Slot, form and canonical form of each value that an act names."""
    for action in frame.entries("actions"):
        forms = action.labels("values")
        plain = action.labels("canonical_values") or forms  # the first release has none
        yield from ((action.text("slot", ""), *pair) for pair in zip(forms, plain, strict=False))


def _question(booking: _Booking, slot: str, rivals: Sequence[_Booking], service: Service) -> Question | None:
    found = _place(booking, slot)
    clues = _clues(booking, slot, rivals) if found else None
    if not found or clues is None:
        return None
    turn, answer = found
    return Question(
        id=f"{booking.dialogue.id}/{booking.service}/{slot}",
        text=_text(booking, slot, clues, service),
        answer=answer,
        aliases=tuple(sorted(booking.slots[slot].every - {answer})),
        evidence=(booking.dialogue.session.turns[turn].id,),
        sessions=(booking.dialogue.session.id,),
        kind="slot",
    )


def _place(booking: _Booking, slot: str) -> tuple[int, str] | None:
    """The turn that holds the value, and its form there: the one that set it, or the offer that it accepted."""
    settled, turns = booking.slots[slot], booking.dialogue.turns
    if _nameless(settled):
        return None
    said = booking.dialogue.session.turns
    longest = sorted(settled.forms, key=lambda form: (-len(form), form))
    for at in (settled.at, settled.at - 1):
        told = at == settled.at or (at >= 0 and settled.every & _offered(turns[at], booking.service, slot))
        form = next((form for form in longest if told and _holds(said[at].text, form)), None)
        if form is not None:
            return at, form
    return None


def _offered(turn: Row, service: str, slot: str) -> set[str]:
    frames = [frame for frame in turn.entries("frames") if frame.name("service") == service]
    return {form for frame in frames for named, *forms in _values(frame) if named == slot for form in forms}


def _holds(text: str, form: str) -> bool:
    """Whether a form stands in a text, not within a longer word or number such as the 1 of 11:20."""
    return re.search(rf"(?<![\w.,:$]){re.escape(form)}(?![\w:]|[.,]\d)", text) is not None


def _clues(booking: _Booking, slot: str, rivals: Sequence[_Booking]) -> list[str] | None:
    """As few other slots as exclude all rivals, found greedily; None where that cannot be."""
    free = [name for name in booking.slots if name != slot and _may_tell(booking.slots[name], booking.slots[slot])]
    chosen: list[str] = []
    left = list(rivals)
    while left:
        best = min(free, key=lambda name: (len(_matching(booking, name, left)), name), default=None)
        if best is None or len(_matching(booking, best, left)) == len(left):
            return None
        left = _matching(booking, best, left)
        chosen.append(best)
        free.remove(best)
    return chosen


def _nameless(value: _Settled) -> bool:
    return bool({form.lower() for form in value.every} & _NO_NAMES)


def _may_tell(clue: _Settled, asked: _Settled) -> bool:
    return not _nameless(clue) and not any(_holds(one, form) for one in clue.every for form in asked.every)


def _matching(booking: _Booking, slot: str, rivals: Sequence[_Booking]) -> list[_Booking]:
    forms = booking.slots[slot].every
    return [one for one in rivals if slot in one.slots and one.slots[slot].every & forms]


def _text(booking: _Booking, slot: str, clues: Sequence[str], service: Service) -> str:
    settled = [f'"{booking.slots[clue].forms[0]}" ({service.slots.get(clue, clue)})' for clue in clues]
    who = f"Of the user who settled on {' and '.join(settled)}" if settled else "Of the only user of it"
    asked = service.slots.get(slot, slot)
    return f'About this service: "{service.description}". {who}: what did this user settle on in the end for "{asked}"?'
