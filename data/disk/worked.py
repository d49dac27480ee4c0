"""Turns the table of work into what is known of it: how much is done, what was given up, and who worked last."""

import json
from typing import Any

from sqlalchemy import Connection, func, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.database import Database, get
from stitchjam.data.disk.work import GIVEN_UP, StepKey, of

__all__ = ["counts", "given_up", "last_program", "leading_program"]


def given_up(database: Database, key: StepKey) -> int:
    """How many items failed three times, so that they are not tried again unless it is asked for."""
    with database.read() as db:
        failed = select(func.count()).where(of(key), *GIVEN_UP)
        return int(db.execute(failed).scalar_one())


def last_program(db: Connection, step: str) -> str:
    """The program that last began a step in this memory and has done something of it; "" when none has."""
    work = schema.work.c
    for one, program, _ in reversed(json.loads(get(db, "steps"))):
        done = select(work.item).where(work.step == step, work.program == program, work.status == "done")
        if one == step and db.execute(done.limit(1)).first():
            return program
    return ""


def leading_program(db: Connection, step: str) -> str:
    """The program that has done most of a step, the last to begin among several; "" when none has done anything.

    One that is on its way does not take the place of one that is through.
    """
    work = schema.work.c
    done = select(work.program, func.count().label("items")).where(work.step == step, work.status == "done")
    by_program = {row.program: row.items for row in db.execute(done.group_by(work.program))}
    begun = [program for one, program, _ in json.loads(get(db, "steps")) if one == step and program in by_program]
    return max(reversed(begun), key=lambda program: by_program[program], default="")


def counts(db: Connection) -> list[dict[str, Any]]:
    """Items by step, program and status, with the newest error of those that failed."""
    work = schema.work.c
    grouped = select(
        work.step, work.program, work.status, func.count().label("items"), func.max(work.error).label("error")
    )
    return [dict(row._mapping) for row in db.execute(grouped.group_by(work.step, work.program, work.status))]
