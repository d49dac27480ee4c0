"""Turns labels that were made and merged into rows: what search and people look up, and the audit trail.

The notes hold all of it as well; these tables can be made anew from them, and are when some of them are forgotten.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import chunked, delete, get, insert_missing, put
from stitchjam.data.disk.taint import LABEL_TURN, Noted, noted
from stitchjam.data.intents.bank import LabelBank
from stitchjam.data.intents.records import FACETS, Label, Merge

__all__ = ["drop_notes", "forget_labels", "keep_labels", "label_events", "labels_anew", "labels_of", "merged_into"]

_Times = dict[tuple[str, str, str], float]


def keep_labels(db: Connection, item: str, made: Iterable[Label], merges: Sequence[Merge]) -> None:
    """Enter labels that were made for a turn, and merges; turns that bore a merged label bear the other one."""
    for one in made:
        (now,) = merged_into(db, [one.id])
        if now == one.id:
            insert_missing(db, schema.label, [_row(one, ())])
        else:  # what made it first was forgotten, and what merged it was not
            into = db.execute(select(schema.label).where(schema.label.c.id == now)).one_or_none()
            if into is not None and _described(one) not in json.loads(into.aliases):
                _add_aliases(db, into, [_described(one)])
        _enter(db, _made(item, one))
    moved: dict[str, str] = {}
    for merge in merges:
        old, into = moved.get(merge.old, merge.old), moved.get(merge.into, merge.into)
        if old != into and _rename(db, old, into):
            moved |= {old: into} | {one: into for one, other in moved.items() if other == old}
            _enter(db, _merged(item, old, into, merge.similarity))


def forget_labels(db: Connection, items: list[str], kept: set[str]) -> None:
    """Labels that only these items bear go, and the words of those that others bear as well; not those in `kept`."""
    label, note_label, event = schema.label, schema.note_label.c, schema.label_event
    borne: set[str] = set()
    for chunk in chunked(items):
        borne.update(db.execute(select(note_label.label).where(note_label.item.in_(chunk))).scalars())
    delete(db, schema.note_label, note_label.item, items)
    for chunk in chunked(borne - kept):
        db.execute(update(label).where(label.c.id.in_(chunk)).values(description="", aliases="[]"))
    used = set(db.execute(select(note_label.label).distinct()).scalars()) | kept
    known = set(db.execute(select(label.c.id)).scalars())
    told = set(db.execute(select(event.c.label).distinct()).scalars())
    delete(db, event, event.c.label, (borne - kept) | (told - used))
    delete(db, label, label.c.id, known - used)


def labels_of(notes: Iterable[Noted]) -> set[str]:
    """Ids of all labels that were made or borne."""
    return {one for note in notes for one in (*note.borne, *(label.id for label in note.made))}


def labels_anew(db: Connection, program: str, owned: set[str]) -> None:
    """Make the rows of the labels of a program anew from the notes that are left of it.

    Args:
        db: where.
        program: its fingerprint.
        owned: ids of all labels it had; those that no note speaks of any more are removed.
    """
    times = _drop(db, program, owned)
    bank, borne = LabelBank(), list[tuple[str, str]]()
    for one in noted(db, program):
        for label in one.made:
            bank.add(label)
            _enter(db, _made(one.item, label), times)
        for merge in one.merges:
            old, into = bank.canonical(merge.old), bank.canonical(merge.into)
            bank.merge(merge)
            if old != into == bank.canonical(old):
                _enter(db, _merged(one.item, old, into, merge.similarity), times)
        borne += [(label_id, one.item) for label_id in one.borne]
    stands = {(bank.canonical(label_id), item): None for label_id, item in borne}
    bears = [{"label": one, "item": item, "program": program} for one, item in stands if one in bank.labels]
    insert_missing(db, schema.note_label, bears)
    merged: dict[str, list[Label]] = defaultdict(list)
    for label in bank.labels.values():
        merged[bank.canonical(label.id)].append(label)
    insert_missing(db, schema.label, [_row(one, merged[one.id]) for facet in FACETS for one in bank.live(facet)])


def drop_notes(db: Connection, program: str) -> None:
    """Remove what a program noted of turns, so that it can be noted anew; the log is left alone."""
    note, work = schema.note, schema.work
    mine = (note.c.program == program, note.c.step == LABEL_TURN)
    borne = db.execute(select(schema.note_label.c.label).where(schema.note_label.c.program == program))
    _drop(db, program, labels_of(noted(db, program)) | set(borne.scalars()))
    fresh = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}
    db.execute(update(work).where(work.c.program == program, work.c.step == LABEL_TURN).values(fresh))
    if db.execute(note.delete().where(*mine)).rowcount:
        put(db, "epoch", int(get(db, "epoch")) + 1)


def merged_into(db: Connection, label_ids: Iterable[str]) -> set[str]:
    """The ids that labels are known by now, after merges."""
    event, now = schema.label_event.c, set(label_ids)
    live = select(schema.label.c.id).where(schema.label.c.id.in_(sorted(now)))
    if len(now) == len(db.execute(live).all()):  # what was merged into others has no row
        return now
    rows = db.execute(select(event.label, event.detail).where(event.event == "merged"))
    into = {json.loads(row.detail)["old"]: row.label for row in rows}
    while moved := {one for one in now if one in into}:
        now = (now - moved) | {into.pop(one) for one in moved}
    return now


def label_events(db: Connection) -> list[dict[str, Any]]:
    """What happened to labels, in order: made or merged, when, and for which turn."""
    rows = db.execute(select(schema.label_event).order_by(schema.label_event.c.number))
    return [dict(row._mapping) | json.loads(row.detail) for row in rows]


def _drop(db: Connection, program: str, owned: set[str]) -> _Times:
    """Remove the rows of the labels of a program; returns when what happened to them did."""
    event, label = schema.label_event.c, schema.label.c
    times: _Times = {}
    for chunk in chunked(owned):
        for row in db.execute(select(schema.label_event).where(event.label.in_(chunk))):
            times[row.label, row.event, row.detail] = row.happened
    delete(db, schema.label_event, event.label, owned)
    delete(db, schema.label, label.id, owned)
    db.execute(schema.note_label.delete().where(schema.note_label.c.program == program))
    return times


def _row(label: Label, merged: Iterable[Label]) -> dict[str, str]:
    aliases = json.dumps([_described(one) for one in merged if one.id != label.id])
    return {"id": label.id, "kind": label.facet, "description": _described(label), "aliases": aliases}


def _described(label: Label) -> str:
    return f"{label.name}: {label.description}" if label.description else label.name


def _rename(db: Connection, old_id: str, into_id: str) -> bool:
    """Let turns that bear one label bear another; False when there is no such other."""
    borne, label = schema.note_label, schema.label.c
    old = db.execute(select(schema.label).where(label.id == old_id)).one_or_none()
    into = db.execute(select(schema.label).where(label.id == into_id)).one_or_none()
    if into is None:
        return False
    for row in db.execute(select(borne).where(borne.c.label == old_id)).all():
        insert_missing(db, borne, [{"label": into_id, "item": row.item, "program": row.program}])
    db.execute(borne.delete().where(borne.c.label == old_id))
    if old is not None:
        _add_aliases(db, into, [old.description, *json.loads(old.aliases)])
        db.execute(schema.label.delete().where(label.id == old.id))
    return True


def _add_aliases(db: Connection, into: Any, said: Iterable[str]) -> None:
    """Add to the aliases of a label, given its row."""
    aliases = json.dumps([*json.loads(into.aliases), *said])
    db.execute(update(schema.label).where(schema.label.c.id == into.id).values(aliases=aliases))


def _made(item: str, label: Label) -> tuple[str, str, str]:
    return label.id, "made", json.dumps({"name": label.name, "turn": item})


def _merged(item: str, old: str, into: str, similarity: float) -> tuple[str, str, str]:
    return into, "merged", json.dumps({"old": old, "similarity": similarity, "turn": item})


def _enter(db: Connection, event: tuple[str, str, str], times: _Times | None = None) -> None:
    label, kind, detail = event
    happened = (times or {}).get(event) or time.time()
    db.execute(schema.label_event.insert().values(label=label, event=kind, detail=detail, happened=happened))
