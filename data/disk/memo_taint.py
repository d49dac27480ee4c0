"""Turns what is forgotten into the memos that have to go with it: those that hold, or learned, its words.

A memo is written in sight of a few others. It goes with one of them when it holds a word that it can only have from
there: a word of that session, or one of its memo that no earlier memo had, and that its own session does not hold. What
it learned is then looked for in those that were written in sight of it.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, select

from stitchjam.data.disk import schema
from stitchjam.data.disk.taint import Words
from stitchjam.data.index.terms import terms
from stitchjam.data.tree.records import Memo

__all__ = ["WRITE_MEMO", "tainted_memos"]

WRITE_MEMO = "write_memo"
_Key = tuple[str, str]
"""Ids of a session and of the program that wrote its memo."""


def tainted_memos(db: Connection, items: Iterable[str], words: Words) -> set[str]:
    """Those of these items that are sessions, and all sessions whose memos have to go with theirs.

    So does each memo with one of the `words` that only the forgotten turns held: it may have it from a memo that was
    written anew since. One that cannot be read goes as well.
    """
    gone, memos, found = set(items), dict[_Key, Memo](), set(items)
    for row in _rows(db):
        try:
            memos[row.item, row.program] = Memo.model_validate_json(row.content)
        except ValidationError:
            found.add(row.item)
    fresh = _fresh(memos)
    shown = {(session, key[1]) for key, memo in memos.items() for session in memo.seen}
    left = [(key, set(_words_of(db, key[0])) | fresh.get(key, set())) for key in sorted(shown) if key[0] in gone]
    for key in [key for key, memo in memos.items() if key[0] not in gone and words.within(memo.text)]:
        found.add(key[0])
        left.append((key, fresh[key]))
    return found | _learned(db, memos, left, gone)


def _rows(db: Connection) -> Iterable[Any]:
    memo = schema.memo.c
    chosen = select(memo.item, memo.program, memo.content).where(memo.step == WRITE_MEMO)
    return db.execute(chosen.order_by(memo.number))


def _fresh(memos: dict[_Key, Memo]) -> dict[_Key, set[str]]:
    """The words of each memo that no earlier one of its program had: those that a model always uses are no secret."""
    used, found = defaultdict[str, set[str]](set), dict[_Key, set[str]]()
    for key, memo in memos.items():
        said = set(terms(memo.text))
        found[key] = said - used[key[1]]
        used[key[1]] |= said
    return found


def _learned(db: Connection, memos: dict[_Key, Memo], left: list[tuple[_Key, set[str]]], gone: set[str]) -> set[str]:
    """Sessions whose memos learned words from these, or from others that did."""
    seen_by, known = _seen_by(memos), defaultdict[_Key, set[str]](set)
    while left:
        (source, program), told = left.pop()
        for key in seen_by.get((source, program), ()):
            if key[0] in gone:
                continue
            learned = told.intersection(terms(memos[key].text)).difference(_words_of(db, key[0]))
            if learned - known[key]:
                known[key] |= learned
                left.append((key, set(known[key])))
    return {key[0] for key, learned in known.items() if learned}


def _seen_by(memos: dict[_Key, Memo]) -> dict[_Key, list[_Key]]:
    """The memos that were written in sight of each one."""
    found = defaultdict[_Key, list[_Key]](list)
    for (session, program), memo in memos.items():
        for other in memo.seen:
            found[other, program].append((session, program))
    return found


def _words_of(db: Connection, session: str) -> set[str]:
    turn = schema.turn.c
    rows = db.execute(select(turn.speaker, turn.text).join(schema.session).where(schema.session.c.id == session))
    return {term for row in rows for term in terms(f"{row.speaker} {row.text}")}
