"""Turns labels that were made and merged into rows: what search and people look up, and the audit trail.

The notes hold all of it as well; these tables can be made anew from them.
"""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import chunked, delete, get, insert_missing, put
from stitchjam.data.intents.records import Label, Merge

__all__ = ["drop_notes", "forget_labels", "keep_labels", "label_events", "tainted"]


def keep_labels(db: Connection, item: str, made: Iterable[Label], merges: Sequence[Merge]) -> None:
    """Enter labels that were made for a turn, and merges; turns that bore a merged label bear the other one."""
    for one in made:
        row = {"id": one.id, "kind": one.facet, "description": _described(one), "aliases": "[]"}
        insert_missing(db, schema.label, [row])
        _event(db, one.id, "made", {"name": one.name, "turn": item})
    for merge in merges:
        _rename(db, merge)
        _event(db, merge.into, "merged", {"old": merge.old, "similarity": merge.similarity, "turn": item})


def tainted(db: Connection, items: Iterable[str]) -> set[str]:
    """These turns, and those whose notes may hold words of theirs: all that was noted of them is to be forgotten.

    A gist goes from turn to turn of a scope; the name of a label is shown to whoever may bear it; and the first
    vocabulary was read from the first turns.
    """
    found, makers = set(items), _makers(db)
    while True:
        made = {label for label, maker in makers.items() if maker in found}
        size = len(found)
        found |= _bearing(db, _scopes(db, found) | made)
        for program, seen in _vocabularies(db):
            if not found.isdisjoint(seen):
                found |= set(db.execute(select(schema.note.c.item).where(schema.note.c.program == program)).scalars())
        if len(found) == size:
            return found


def forget_labels(db: Connection, items: list[str]) -> None:
    """Labels that only these items bear go; others keep what was not made for these items."""
    label, note_label, event = schema.label, schema.note_label.c, schema.label_event
    borne: set[str] = set()
    for chunk in chunked(items):
        borne.update(db.execute(select(note_label.label).where(note_label.item.in_(chunk))).scalars())
    delete(db, schema.note_label, note_label.item, items)
    for chunk in chunked(borne):
        db.execute(update(label).where(label.c.id.in_(chunk)).values(description="", aliases="[]"))
    delete(db, event, event.c.label, borne)
    used = select(note_label.label)
    db.execute(event.delete().where(event.c.label.not_in(used)))
    db.execute(label.delete().where(label.c.id.not_in(used)))


def drop_notes(db: Connection, program: str, step: str) -> None:
    """Remove what a program noted, so that it can be noted anew; the log is left alone."""
    note, borne, work = schema.note, schema.note_label, schema.work
    items = list(db.execute(select(note.c.item).where(note.c.program == program, note.c.step == step)).scalars())
    mine = set(db.execute(select(borne.c.label).where(borne.c.program == program).distinct()).scalars())
    db.execute(borne.delete().where(borne.c.program == program))
    db.execute(note.delete().where(note.c.program == program, note.c.step == step))
    for label in (schema.label.c.id, schema.label_event.c.label):
        delete(db, label.table, label, mine)
    fresh = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}
    db.execute(update(work).where(work.c.program == program, work.c.step == step).values(fresh))
    if items:
        put(db, "epoch", int(get(db, "epoch")) + 1)


def _makers(db: Connection) -> dict[str, str]:
    event = schema.label_event.c
    rows = db.execute(select(event.label, event.detail).where(event.event == "made"))
    return {row.label: json.loads(row.detail).get("turn", "") for row in rows}


def _scopes(db: Connection, items: Iterable[str]) -> set[str]:
    label, borne, found = schema.label.c, schema.note_label.c, set[str]()
    for chunk in chunked(items):
        mine = select(borne.label).join(schema.label, label.id == borne.label)
        found.update(db.execute(mine.where(label.kind == "scope", borne.item.in_(chunk))).scalars())
    return found


def _bearing(db: Connection, labels: Iterable[str]) -> set[str]:
    borne, found = schema.note_label.c, set[str]()
    for chunk in chunked(labels):
        found.update(db.execute(select(borne.item).where(borne.label.in_(chunk))).scalars())
    return found


def _vocabularies(db: Connection) -> list[tuple[str, list[str]]]:
    """For each program, the turns that its first vocabulary was read from."""
    note = schema.note.c
    first = select(note.program, func.min(note.number).label("number")).group_by(note.program).subquery()
    chosen = select(note.program, note.content).join(first, note.number == first.c.number)
    return [(row.program, json.loads(row.content).get("seen", [])) for row in db.execute(chosen)]


def label_events(db: Connection) -> list[dict[str, Any]]:
    """What happened to labels, in order: made or merged, when, and for which turn."""
    rows = db.execute(select(schema.label_event).order_by(schema.label_event.c.number))
    return [dict(row._mapping) | json.loads(row.detail) for row in rows]


def _described(label: Label) -> str:
    return f"{label.name}: {label.description}" if label.description else label.name


def _rename(db: Connection, merge: Merge) -> None:
    borne, label = schema.note_label, schema.label.c
    for row in db.execute(select(borne).where(borne.c.label == merge.old)).all():
        insert_missing(db, borne, [{"label": merge.into, "item": row.item, "program": row.program}])
    db.execute(borne.delete().where(borne.c.label == merge.old))
    old = db.execute(select(schema.label).where(label.id == merge.old)).one_or_none()
    into = db.execute(select(schema.label).where(label.id == merge.into)).one_or_none()
    if old is not None and into is not None:
        aliases = [*json.loads(into.aliases), old.description, *json.loads(old.aliases)]
        db.execute(update(schema.label).where(label.id == into.id).values(aliases=json.dumps(aliases)))
        db.execute(schema.label.delete().where(label.id == old.id))


def _event(db: Connection, label: str, event: str, detail: dict[str, Any]) -> None:
    row = {"label": label, "event": event, "detail": json.dumps(detail), "happened": time.time()}
    db.execute(schema.label_event.insert().values(row))
