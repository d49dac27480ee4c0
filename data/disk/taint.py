"""Turns what is forgotten into the notes that have to go with it: those that may hold, or were made of, its words.

A labelling goes from turn to turn: the gist of a scope is told on, the name of a label is shown to whoever may bear it,
and the first vocabulary is read from the first turns. Beyond that any label may be shown with any turn, and a model
copies what it is shown, so that notes are looked through for words that only the forgotten turns held.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import Connection, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import chunked
from stitchjam.data.index.terms import terms
from stitchjam.data.intents.bank import LabelBank
from stitchjam.data.intents.records import Entry, Label, Merge

__all__ = ["LABEL_TURN", "Noted", "Words", "noted", "only_in", "tainted"]

LABEL_TURN = "label_turn"
_ROWS = 500  # notes that are read at once
_CUT = 3  # letters of a word that a model's sentence ends in, when it was cut to its length


@dataclass(frozen=True)
class Noted:
    """What labelling one turn did, without its sentences.

    `borne` are ids of labels as they were then, `scopes` those of them that are scopes. `spoils`: it cannot be read, or
    it holds words that are to be forgotten.
    """

    program: str
    item: str
    borne: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    made: tuple[Label, ...] = ()
    merges: tuple[Merge, ...] = ()
    seen: tuple[str, ...] = ()
    spoils: bool = False


class Words:
    """Words that a text must not hold; the last one of a text may be cut."""

    def __init__(self, words: Collection[str] = ()):
        self._whole = frozenset(words)
        self._begun = frozenset(word[:at] for word in words for at in range(_CUT, len(word)))

    def __bool__(self) -> bool:
        return bool(self._whole)

    def within(self, text: str) -> bool:
        """Whether a text holds one of them."""
        found = terms(text)
        return not self._whole.isdisjoint(found) or found[-1:] != [] and found[-1] in self._begun


def only_in(db: Connection, turns: Collection[int], items: Collection[str]) -> Words:
    """The words of these turns, and of names of labels that were made for these items, that no other turn holds."""
    gone, left = set(turns), _named(db, items)
    for chunk in chunked(turns):
        chosen = select(schema.turn.c.speaker, schema.turn.c.text).where(schema.turn.c.number.in_(chunk))
        left.update(term for row in db.execute(chosen) for term in terms(f"{row.speaker} {row.text}"))
    every = select(schema.turn.c.number, schema.turn.c.speaker, schema.turn.c.text)
    for rows in db.execute(every).partitions(_ROWS):
        if not left:
            break
        for row in rows:
            if row.number not in gone:
                left.difference_update(terms(f"{row.speaker} {row.text}"))
    return Words(left)


def _named(db: Connection, items: Collection[str]) -> set[str]:
    note, found = schema.note.c, set[str]()
    for chunk in chunked(items):
        rows = db.execute(select(note.content).where(note.step == LABEL_TURN, note.item.in_(chunk)))
        made = (label for content in rows.scalars() for label in _noted("", "", content, Words()).made)
        found.update(term for label in made if label.maker for term in terms(label.name))
    return found


def noted(db: Connection, program: str = "", words: Words | None = None) -> Iterator[Noted]:
    """What was noted of turns by a program, "" for all, in the order in which it was; `words` spoil a note."""
    note, words = schema.note.c, words or Words()
    chosen = select(note.program, note.item, note.content).where(note.step == LABEL_TURN)
    mine = chosen.where(note.program == program) if program else chosen
    for rows in db.execute(mine.order_by(note.number)).partitions(_ROWS):
        yield from (_noted(row.program, row.item, row.content, words) for row in rows)


def _noted(program: str, item: str, content: str, words: Words) -> Noted:
    try:
        entry = Entry.model_validate_json(content)
    except ValidationError:
        return Noted(program, item, spoils=True)
    intent = entry.note.intent
    spoils = bool(words) and any(map(words.within, _sentences(entry)))
    return Noted(program, item, intent.ids, intent.scopes, entry.made, entry.merges, entry.seen, spoils)


def _sentences(entry: Entry) -> Iterator[str]:
    note = entry.note
    yield from (note.target, note.summary, note.gist)
    for one in note.references:
        yield from (one.words, one.means)
    for label in entry.made:
        yield from (label.name, label.description)


def tainted(notes: Collection[Noted], items: Iterable[str]) -> set[str]:
    """These turns, and those whose notes have to go with them."""
    bank, found = LabelBank(), set(items)
    for one in notes:
        for label in one.made:
            bank.add(label)
        for merge in one.merges:
            bank.merge(merge)
    of, bearing, by_program = _links(notes, bank)
    left = [*found, *(one.item for one in notes if one.spoils)]
    spoiled = set[str]()
    while left:
        item = left.pop()
        found.add(item)
        for one in of.get(item, ()):
            spread = {bank.canonical(label) for label in (*one.scopes, *(made.id for made in one.made))}
            left += [other for label in spread - spoiled for other in bearing[label] if other not in found]
            spoiled |= spread
        for program, (vocabulary, bearers) in by_program.items():
            if program not in spoiled and item in vocabulary:
                spoiled.add(program)
                left += [other for other in bearers if other not in found]
    return found


def _links(
    notes: Iterable[Noted], bank: LabelBank
) -> tuple[dict[str, list[Noted]], dict[str, list[str]], dict[str, tuple[set[str], list[str]]]]:
    """Notes by turn; turns by label; and for each program the turns of its first vocabulary, and all its turns."""
    of, bearing = defaultdict[str, list[Noted]](list), defaultdict[str, list[str]](list)
    by_program: dict[str, tuple[set[str], list[str]]] = {}
    for one in notes:
        of[one.item].append(one)
        for label in one.borne:
            bearing[bank.canonical(label)].append(one.item)
        # The first note brings the vocabulary: without it, no other one would have a label.
        by_program.setdefault(one.program, ({one.item, *one.seen}, []))[1].append(one.item)
    return of, bearing, by_program
