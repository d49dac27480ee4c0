"""Turns what was added into items of work for the steps that derive notes and memos, and keeps what they made.

An item is one turn or one session, for one step of one program. It is claimed for a while, so that two workers do not
do the same; when its worker dies it becomes free again. What fails is tried again, and listed until it works.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import Connection, and_, func, or_, select, update

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, chunked, get, insert_missing, put, replace
from stitchjam.data.disk.labels import keep_labels, merged_into
from stitchjam.data.errors import BackendError, StitchjamError, UsageError
from stitchjam.data.intents.records import Label, Merge

__all__ = [
    "Derived",
    "GIVEN_UP",
    "Processed",
    "Run",
    "StepKey",
    "Tick",
    "enqueue",
    "of",
    "process",
    "quiet",
    "register",
    "release",
    "retry",
]

Kind = Literal["turn", "session"]
Run = Callable[[str], "Derived"]
Tick = Callable[[str], None]
MAX_ATTEMPTS = 3
_PATIENCE = 3  # items in a row for which an endpoint gave nothing, before it counts as out
_AHEAD = 200  # items that are looked up at once
GIVEN_UP = (schema.work.c.status == "failed", schema.work.c.attempts >= MAX_ATTEMPTS)
_LEASE = 1800.0  # seconds after which the item of a worker that said nothing is free again


class StepKey(NamedTuple):
    """A step of a program: its name, the fingerprint of the program, and what it is run on."""

    step: str
    program: str
    kind: Kind


@dataclass(frozen=True)
class Derived:
    """What a step made of an item: JSON content, and ids of labels for a turn.

    `made` are labels that did not exist before, and `merges` those that now stand for others.
    """

    content: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    made: tuple[Label, ...] = ()
    merges: tuple[Merge, ...] = ()


@dataclass
class Processed:
    """How many items were done, and the errors of those that failed, by item."""

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def release(database: Database, key: StepKey) -> None:
    """Give back what workers that died had claimed; for a step of which it is sure that no worker is alive."""
    with database.write() as db:
        db.execute(update(schema.work).where(of(key), schema.work.c.status == "running").values(until=0.0))


def retry(database: Database, key: StepKey) -> None:
    """Let items that failed three times be tried again."""
    with database.write() as db:
        db.execute(update(schema.work).where(of(key), *GIVEN_UP).values(attempts=0))


def quiet(item: str) -> None:
    """Show no progress."""


def register(database: Database, key: StepKey) -> None:
    """Make a step part of the memory: items for all that is there, and from now on for all that is added."""
    if key.kind not in get_args(Kind):
        raise UsageError(f"a step runs on a 'turn' or a 'session', not on {key.kind!r}")
    table = schema.turn if key.kind == "turn" else schema.session
    with database.read() as db:
        steps = json.loads(get(db, "steps"))
    if list(key) == next((one for one in reversed(steps) if one[0] == key.step), None):
        return  # it has its work: that of all that was added since came with it
    with database.write() as db:
        steps = json.loads(get(db, "steps"))
        # Last among the programs of its step: it is the one that began last.
        put(db, "steps", json.dumps([*(one for one in steps if one != list(key)), key]))
        if list(key) not in steps:
            _insert(db, key, db.execute(select(table.c.id)).scalars())


def enqueue(db: Connection, items: Mapping[Kind, Iterable[str]]) -> None:
    """Items for new turns and for sessions that grew, for every registered step."""
    for step, program, kind in json.loads(get(db, "steps")):
        key, fresh = StepKey(step, program, kind), list(items[kind])
        for chunk in chunked(fresh):
            db.execute(update(schema.work).where(of(key), schema.work.c.item.in_(chunk)).values(_PENDING))
        _insert(db, key, fresh)


def process(
    database: Database,
    key: StepKey,
    run: Run,
    limit: int | None = None,
    tick: Tick = quiet,
) -> Processed:
    """Run a step on the items that wait for it, and on those that failed less than three times.

    An endpoint that gives nothing for three items in a row, or for the last ones, is out: that ends the run, and is no
    failure of these items. What fails between others that succeed is.

    Args:
        database: where.
        key: the step; it was registered.
        run: gets an item's id. What it raises is recorded; what is no StitchjamError ends the run as well.
        limit: at most so many items.
        tick: is given each item that is through.

    Raises:
        BackendError: the endpoint is out.
        UsageError: from the step, such as that there is no model.
    """
    processed, started, ahead = Processed(), time.time(), deque[str]()
    held: dict[_Claimed, BackendError] = {}
    try:
        while limit is None or processed.done + len(processed.failed) + len(held) < limit:
            claimed = _claim(database, key, started, ahead)
            if claimed is None:
                break
            try:
                _run(database, key, claimed, run, processed)
            except BackendError as error:
                held[claimed] = error
                if len(held) >= _PATIENCE:
                    break
                continue
            _fail(database, key, held, processed)
            tick(claimed.item)
        if held:
            raise next(iter(held.values()))
    finally:
        for one in held:
            _settle(database, key, one, _GIVEN_BACK)
    return processed


class _Claimed(NamedTuple):
    """An item, and until when it is this worker's; the time is also the proof that it still is."""

    item: str
    until: float


_GIVEN_BACK = {"status": "pending", "until": 0.0, "attempts": schema.work.c.attempts - 1}
_PENDING = {"status": "pending", "attempts": 0, "error": "", "until": 0.0}


def _run(database: Database, key: StepKey, claimed: _Claimed, run: Run, processed: Processed) -> None:
    try:
        derived = run(claimed.item)
        if not isinstance(derived, Derived):
            raise UsageError(f"step {key.step!r} gave {type(derived).__name__}; it has to give a Derived")
        _settle(database, key, claimed, {"status": "done", "error": "", "until": 0.0}, derived)
        processed.done += 1
    except BackendError:
        raise
    except UsageError:  # no model, or wrong settings: no item can help it
        _settle(database, key, claimed, _GIVEN_BACK)
        raise
    except StitchjamError as error:
        _fail(database, key, {claimed: error}, processed)
    except Exception as error:  # noqa: BLE001 - whatever a step raises is listed, and ends the run
        _settle(database, key, claimed, _failed(f"{type(error).__name__}: {error}"))
        raise
    except BaseException:  # an interrupt or a budget says nothing about the item
        _settle(database, key, claimed, _GIVEN_BACK)
        raise


def _fail(database: Database, key: StepKey, errors: dict[_Claimed, Any], processed: Processed) -> None:
    """List items that failed; they are tried again later."""
    for claimed, error in errors.items():
        processed.failed[claimed.item] = str(error)
        _settle(database, key, claimed, _failed(str(error)))
    errors.clear()


def _failed(error: str) -> dict[str, Any]:
    return {"status": "failed", "error": error[:500], "until": time.time()}


def _settle(
    database: Database, key: StepKey, claimed: _Claimed, values: Mapping[str, Any], derived: Derived | None = None
) -> None:
    work = schema.work.c
    mine = and_(of(key), work.item == claimed.item, work.status == "running", work.until == claimed.until)
    with database.write() as db:
        # It may have been forgotten or have grown while the step ran; what was made of it is then worth nothing.
        if db.execute(update(schema.work).where(mine).values(values)).rowcount and derived:
            _keep(db, key, claimed.item, derived)


def _keep(db: Connection, key: StepKey, item: str, derived: Derived) -> None:
    content = json.dumps(derived.content)  # ASCII, for a model may answer with half of a surrogate pair
    row = {"item": item, "program": key.program, "step": key.step, "content": content}
    table = schema.memo if key.kind == "session" else schema.note
    number = db.execute(select(func.coalesce(func.max(table.c.number), 0) + 1)).scalar_one()
    replace(db, table, row | {"number": number})
    if key.kind == "session":
        return
    labels = schema.note_label
    db.execute(labels.delete().where(labels.c.item == item, labels.c.program == key.program))
    now = merged_into(db, derived.labels) if derived.labels else ()
    insert_missing(db, labels, [{"label": x, "item": item, "program": key.program} for x in now])
    keep_labels(db, item, derived.made, derived.merges)


def _claim(database: Database, key: StepKey, started: float, ahead: deque[str]) -> _Claimed | None:
    """The next free item, in the order in which turns or sessions were added; those that failed come last."""
    now, work = time.time(), schema.work.c
    died = and_(of(key), work.status == "running", work.until < now, work.attempts >= MAX_ATTEMPTS)
    free = or_(
        work.status == "pending",
        and_(work.status == "failed", work.attempts < MAX_ATTEMPTS, work.until < started),
        and_(work.status == "running", work.until < now),
    )
    with database.write() as db:
        db.execute(
            update(schema.work).where(died).values(status="failed", error="its worker died each time", until=now)
        )
        taken = {"status": "running", "until": now + _LEASE, "attempts": work.attempts + 1}
        for item in _waiting(db, key, free, ahead):
            if db.execute(update(schema.work).where(of(key), work.item == item, free).values(taken)).rowcount:
                return _Claimed(item, now + _LEASE)
    return None


def _waiting(db: Connection, key: StepKey, free: Any, ahead: deque[str]) -> Iterator[str]:
    """Free items in order; some are looked up ahead, for the more wait, the longer it takes to find the first."""
    work, table = schema.work.c, schema.turn if key.kind == "turn" else schema.session
    waiting = select(work.item).join(table, table.c.id == work.item).where(of(key), free)
    # Not by attempts: an item whose worker was stopped keeps its place, so that a resumed run does the same.
    in_order = waiting.order_by(work.status == "failed", table.c.number).limit(_AHEAD)
    while True:
        if not ahead:
            ahead.extend(db.execute(in_order).scalars())
        if not ahead:
            return
        yield ahead.popleft()


def of(key: StepKey) -> Any:
    """Whether a row of the table is of a step of a program."""
    return and_(schema.work.c.step == key.step, schema.work.c.program == key.program)


def _insert(db: Connection, key: StepKey, items: Iterable[str]) -> None:
    row = {"step": key.step, "program": key.program, "kind": key.kind, **_PENDING}
    insert_missing(db, schema.work, [row | {"item": item} for item in items])
