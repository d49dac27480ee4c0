"""Turns, labels, notes and an encoder for tests of labelling, made with as few words as possible."""

from typing import Any
from zlib import crc32

import numpy as np

from stitchjam.data.ids import build_session
from stitchjam.data.intents.records import Entry, Facet, Intent, Label, Merge, Note
from stitchjam.data.records import History, Span

FACET: dict[str, Facet] = {"s": "scope", "e": "event", "k": "entity"}


class WordEncoder:
    """Texts are as alike as they share words; a blank one is like none."""

    name, dim = "words", 512

    def __init__(self):
        self.encoded = 0

    def encode(self, texts) -> Any:
        self.encoded += len(texts)
        return np.stack([self._vector(text) for text in texts])

    def encode_query(self, text) -> Any:
        return self._vector(text)

    def _vector(self, text):
        vector = np.zeros(self.dim, np.float32)
        for word in text.lower().split():
            vector[crc32(word.encode()) % self.dim] += 1
        length = np.linalg.norm(vector)
        return vector / length if length else vector


def label(label_id, name="", description="", maker=""):
    """A label whose id begins with s, e or k, for scope, event or entity."""
    return Label(id=label_id, facet=FACET[label_id[0]], name=name or label_id, description=description, maker=maker)


def history(*texts, session="s", name="h", size=10_000):
    """A history that Ann and Bob tell in turns, in sessions of so many turns."""
    rows = [{"speaker": ("Ann", "Bob")[at % 2], "text": text} for at, text in enumerate(texts)]
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    sessions = (build_session(f"{session}{at}" if at else session, "", part) for at, part in enumerate(parts))
    return History(id=name, sessions=tuple(sessions))


def entry(turn, number, *labels, made=(), merges=(), checked=False, **noted):
    """What labelling a turn did; `labels` are ids, `merges` pairs of ids."""
    of = {facet: tuple(one for one in labels if FACET[one[0]] == facet) for facet in FACET.values()}
    said = {"move": "continue", "act": "tell", "target": "", "summary": "", "span": Span.of(turn)} | noted
    note = Note(
        turn_id=turn.id,
        session_id=turn.session_id,
        speaker=turn.speaker,
        number=number,
        intent=Intent(scopes=of["scope"], events=of["event"], entities=of["entity"]),
        **said,
    )
    pairs = tuple(Merge(old=old, into=into, similarity=0.9) for old, into in merges)
    return Entry(note=note, made=tuple(made), merges=pairs, checked=checked)


def entries(told, *rows):
    """An entry for each turn of a history from rows of labels; a label is made where it is first borne."""
    known, found = set(), []
    for number, (turn, row) in enumerate(zip(told.turns, rows, strict=True)):
        labels = row.split()
        made = [label(one, maker=turn.id) for one in labels if one not in known]
        known.update(labels)
        found.append(entry(turn, number, *labels, made=made))
    return found
