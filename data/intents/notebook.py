"""Turns entries, one a labelled turn, into the state of a labelling: notes, labels, gists and ledgers."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from stitchjam.data.index.encoders import Encoder
from stitchjam.data.intents.bank import LabelBank
from stitchjam.data.intents.ledger import Ledger
from stitchjam.data.intents.records import FACETS, Entry, Facet, Intent, Label, Merge, Note, Vocabulary
from stitchjam.data.intents.structure import structure

__all__ = ["Notebook"]


class Notebook:
    """What is noted of turns so far. It is a fold of its entries: the same ones in order give the same state.

    Several threads may share one: `add` holds `lock`, and so does whoever reads it while another adds.

    Args:
        encoder: what nearness of labels goes by.
        entries: what was labelled already, in order.
    """

    def __init__(self, encoder: Encoder | None = None, entries: Iterable[Entry] = ()):
        self.lock = threading.RLock()
        self.bank, self.ledger = LabelBank(encoder), Ledger()
        self.notes: dict[str, Note] = {}
        self.entries: list[Entry] = []
        self._bearers: dict[str, dict[str, None]] = defaultdict(dict)
        self._scope_of: dict[str, str] = {}
        self._structure: tuple[int, Mapping[Facet, float]] = (-1, {})
        self.vocabulary = Vocabulary()
        for entry in entries:
            self.add(entry)

    @property
    def size(self) -> int:
        """Number of notes."""
        return len(self.notes)

    @property
    def next_number(self) -> int:
        """The number of the next note."""
        return self.entries[-1].note.number + 1 if self.entries else 0

    def begin(self, vocabulary: Vocabulary) -> None:
        """Make labels known before the first turn is noted; the entry of that turn brings them along."""
        with self.lock:
            self.vocabulary = vocabulary
            for label in vocabulary.labels:
                self.bank.add(label)

    def add(self, entry: Entry) -> None:
        """Take over what labelling one turn did."""
        with self.lock:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        for label in entry.made:
            self.bank.add(label)
        note = entry.note.model_copy(update={"intent": self.canonical(entry.note.intent)})
        self.notes[note.turn_id] = note
        if note.scope:
            self._scope_of[note.session_id] = note.scope
        for label_id in note.intent.ids:
            self._bearers[label_id][note.turn_id] = None
            self.bank.use(label_id, note.gist if label_id == note.scope else "")
        self.ledger.apply(note)
        changed = {scope for merge in entry.merges for scope in self._merge(merge)}
        if changed:
            self._enter_again(changed)
        if entry.checked:
            self.bank.checked()

    @property
    def structure(self) -> Mapping[Facet, float]:
        """How far the labels of each facet can be trusted; see `data.intents.structure`."""
        size, found = self._structure
        if size < 0 or self.size - size > size // 20:  # it changes slowly, and costs a pass over all notes
            with self.lock:
                intents = ((note.session_id, self.canonical(note.intent)) for note in self.notes.values())
                size, found = self._structure = self.size, structure(intents)
        return found

    def of(self, turn_id: str) -> Note | None:
        """The note of a turn with the labels that are in use now; None when it has none."""
        note = self.notes.get(turn_id)
        return note and note.model_copy(update={"intent": self.canonical(note.intent)})

    def bearers(self, label_ids: Iterable[str]) -> dict[str, None]:
        """Ids of the turns that bear one of these labels."""
        found: dict[str, None] = {}
        for label_id in label_ids:
            found |= self._bearers.get(self.bank.canonical(label_id), {})
        return found

    def current(self, session_id: str) -> str:
        """The scope that a session was last in, "" when it was in none."""
        return self.bank.canonical(self._scope_of.get(session_id, ""))

    def last_in(self, scope: str, count: int, events: Iterable[str] = ()) -> list[Note]:
        """The last notes of a scope in order; those that share an event type with `events` come before others."""
        wanted = {self.bank.canonical(one) for one in events}
        near = islice(reversed(self._bearers.get(self.bank.canonical(scope), {})), 4 * count)
        notes = [note for note in map(self.of, near) if note]
        ahead = sorted(notes, key=lambda note: not wanted.intersection(note.intent.events))
        return sorted(ahead[:count], key=lambda note: note.number)

    def labels(self, note: Note) -> Iterator[Label]:
        """The labels of a note, scope first."""
        return (self.bank.labels[one] for one in self.canonical(note.intent).ids)

    def names(self, intent: Intent) -> dict[Facet, tuple[str, ...]]:
        """The names of the labels of an intent, by facet."""
        return {facet: tuple(map(self.bank.name, intent.of(facet))) for facet in FACETS}

    def canonical(self, intent: Intent) -> Intent:
        """The intent with the labels that are in use now."""

        def now(ids: tuple[str, ...]) -> tuple[str, ...]:
            known = dict.fromkeys(self.bank.canonical(one) for one in ids)
            return tuple(one for one in known if one in self.bank.labels)  # its maker may be forgotten

        return Intent(scopes=now(intent.scopes), events=now(intent.events), entities=now(intent.entities))

    def __copy__(self) -> "Notebook":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Notebook":
        return self  # optimizers copy examples; labelling does not change the notebook that it is shown

    def _merge(self, merge: Merge) -> set[str]:
        """Merge two labels; returns the scopes whose part of the ledger is another now."""
        old, into = self.bank.canonical(merge.old), self.bank.canonical(merge.into)
        self.bank.merge(merge)
        if old == into or self.bank.canonical(old) != into:
            return set()
        few, many = sorted((self._bearers.pop(old, {}), self._bearers.pop(into, {})), key=len)
        many.update(few)  # a type may be borne by half of the memory
        scope = self.bank.labels[into].facet == "scope"
        numbers = {turn_id: self.notes[turn_id].number for turn_id in many} if scope else {}
        self._bearers[into] = dict.fromkeys(sorted(many, key=numbers.__getitem__)) if scope else many
        decided = {scope for scope, types in self.ledger.decisions if {old, into}.intersection(types)}
        return {old, into} if scope else decided

    def _enter_again(self, scopes: set[str]) -> None:
        """Enter the notes of some scopes in the ledger again, under the labels that are in use now."""
        scopes.discard("")
        self.ledger.drop(scopes)
        for scope in sorted({self.bank.canonical(one) for one in scopes}):
            for note in filter(None, map(self.of, self._bearers.get(scope, {}))):
                self.ledger.apply(note)
