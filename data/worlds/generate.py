"""Turns dials into a world in a folder: sessions, questions, gold. Sessions stream to disk, so memory stays flat.

NAME/world.json             dials, split, counts, refused drafts, and the hash of each file
NAME/NAME.sessions.jsonl    what programs see; our sessions format
NAME/NAME.questions.jsonl   questions with answer, aliases and evidence turns; our questions format
NAME/NAME.gold.jsonl        gold of each session: scope, events, types, references, statements of its turns
NAME/NAME.asked.jsonl       gold of each question: its query, hops, evidence places
"""

import glob
import json
import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from stitchjam.data.digest import file_hash
from stitchjam.data.errors import UsageError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.worlds.asking import drafts
from stitchjam.data.worlds.asking.draft import Asker, Ledger
from stitchjam.data.worlds.cast import Cast
from stitchjam.data.worlds.checks import Known
from stitchjam.data.worlds.choose import Chosen, Pool, choose, wanted
from stitchjam.data.worlds.dials import FORMAT, About, Dials, bad_name
from stitchjam.data.worlds.folder import read_world, world_around
from stitchjam.data.worlds.records import SessionGold, Statement, WorldQuestion
from stitchjam.data.worlds.schedule import meetings
from stitchjam.data.worlds.tell import Teller, Told
from stitchjam.data.worlds.wording import open_wording

__all__ = ["generate_world"]

_DEAD = 3600  # seconds without a change after which nobody works on an unfinished world
_RECENT = 8  # finished goals that a question about another one may go back to


def generate_world(folder: Path, name: str, dials: Dials, tick: Tick = quiet) -> About:
    """Write a world to `folder`/`name`; one that is there with the same dials is left as it is.

    Args:
        folder: where worlds lie; it is made when missing.
        name: of the world; also begins its files and the ids of its questions.
        dials: what it is made from.
        tick: is given what is being done, how much is through, and how much there is.

    Returns:
        What world.json holds.

    Raises:
        UsageError: something else has that name, it cannot name a folder, or the language has no templates.
        DataError: the world that is there was changed or is damaged.
    """
    if why := bad_name(name):
        raise UsageError(f"{name!r} cannot name a world: {why}")
    target = folder / name
    if os.path.lexists(target):
        return _same(target, dials)
    if around := world_around(target):
        raise UsageError(f"{folder} lies in the world {around}, which must stay as it is; choose another --out")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    _remove_remains(folder, name)
    own = folder / f".{name}.{uuid4().hex[:8]}.partial"
    own.mkdir()
    try:
        about = _Generator(own, name, dials, tick).run()
        os.replace(own, target)
    except OSError:
        if not target.exists():
            raise
        return _same(target, dials)  # another process has made it meanwhile
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return about


def _remove_remains(folder: Path, name: str) -> None:
    """Remove what runs left that were killed; one that still runs writes all the time."""
    for own in folder.glob(f".{glob.escape(name)}.*.partial"):
        if time.time() - max(path.stat().st_mtime for path in (own, *own.glob("*"))) > _DEAD:
            shutil.rmtree(own, ignore_errors=True)


def _same(target: Path, dials: Dials) -> About:
    if not (target / "world.json").exists():
        raise UsageError(f"{target} exists and is no world; choose another --name or --out")
    about = read_world(target).about
    if about.dials != dials:
        raise UsageError(f"{target} was made with other dials; choose another --name, or remove that folder")
    return about


class _Generator:
    def __init__(self, folder: Path, name: str, dials: Dials, tick: Tick):
        self.folder, self.name, self.dials, self.tick = folder, name, dials, tick
        self.wording = open_wording(dials.language)
        self.cast = Cast(dials, self.wording)
        self.teller = Teller(name, dials, self.cast, self.wording)
        self.pool = Pool(dials)
        self.ledgers: dict[str, Ledger] = {}
        self.recent: deque[Ledger] = deque(maxlen=_RECENT)
        self.general: list[Statement] = []  # about people and words; each is told once, so this is bounded

    def run(self) -> About:
        counts = self._tell()
        chosen = self._choose()
        self._write("asked", (one.model_dump(mode="json") for one in chosen.questions))
        self._write("questions", (_question_row(one, self.dials.split) for one in chosen.questions))
        about = self._about(counts, chosen)
        described = json.dumps(about.model_dump(mode="json"), indent=2)
        (self.folder / "world.json").write_text(f"{described}\n", "utf-8")
        return about

    def _tell(self) -> Counter[str]:
        """Write the sessions and their gold, and draft questions whenever a goal is finished."""
        counts, teller = Counter[str](), self.teller
        with self._open("sessions") as sessions, self._open("gold") as gold:
            for meeting in meetings(self.dials, self.cast):
                for segment in meeting.segments:
                    self.ledgers.setdefault(segment.plot.goal.name, Ledger(segment.plot))
                told = teller.tell(meeting)
                _line(sessions, _session_row(told))
                _line(gold, told.gold.model_dump(mode="json", exclude_defaults=True))
                self._remember(told)
                for segment in meeting.segments:
                    if segment.last:
                        self._draft(segment.plot.goal.name)
                counts.update(sessions=1, turns=len(told.lines), **{f"style {meeting.style}": 1})
                self.tick("sessions", meeting.number + 1, self.dials.sessions)
        return counts

    def _remember(self, told: Told) -> None:
        for turn in told.gold.turns:
            for one in turn.statements:
                (self.ledgers[one.fact.goal].statements if one.fact.goal else self.general).append(one)

    def _draft(self, goal: str) -> None:
        """Draft questions about a finished goal; it stays among the recent ones for a while."""
        ledger = self.ledgers.pop(goal)
        ask = Asker(ledger, list(self.recent), self.general, self.wording, self.pool.dice)
        for draft in drafts(ask):
            self.pool.add(draft)
        self.recent.append(ledger)

    def _choose(self) -> Chosen:
        """Read the gold back for what the drafts are about, and keep those that pass all checks."""
        fits = wanted([draft for kept in self.pool.kept.values() for draft in kept])
        statements: list[Statement] = []
        days, styles = {}, {}
        for gold in self._gold():
            statements += [one for turn in gold.turns for one in turn.statements if fits(one.fact)]
            days[gold.id], styles[gold.id] = gold.day, gold.style
        known = Known(statements, self._texts(statements), days)
        told = {name for name, _ in self.teller.listener.other_names}
        kinds = self.wording["kinds"].values()
        names = {name: other for kind in kinds for name, other in kind["names"] if name in told}
        return choose(self.pool, self.dials.questions, self.name, known, styles, names)

    def _gold(self) -> Iterator[SessionGold]:
        with self._path("gold").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                self.tick("checks", number, self.dials.sessions)
                yield SessionGold.model_validate_json(line)

    def _texts(self, statements: list[Statement]) -> dict[str, str]:
        """The turns that statements stand in."""
        needed = {one.place.turn for one in statements}
        with self._path("sessions").open(encoding="utf-8") as lines:
            return {
                turn["id"]: turn["text"] for line in lines for turn in json.loads(line)["turns"] if turn["id"] in needed
            }

    def _about(self, counts: Counter[str], chosen: Chosen) -> About:
        types = Counter(question.type for question in chosen.questions)
        return About(
            format=FORMAT,
            name=self.name,
            split=self.dials.split,
            dials=self.dials,
            counts={**dict(sorted(counts.items())), "questions": len(chosen.questions)},
            types=dict(sorted(types.items())),
            refused=dict(chosen.refused),
            sha256={path.name: file_hash(path) for path in sorted(self.folder.glob("*.jsonl"))},
        )

    def _path(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}.jsonl"

    def _open(self, what: str) -> TextIO:
        return self._path(what).open("w", encoding="utf-8", newline="\n")

    def _write(self, what: str, rows: Iterator[dict[str, Any]]) -> None:
        with self._open(what) as file:
            for row in rows:
                _line(file, row)


def _line(file: TextIO, row: dict[str, Any]) -> None:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _session_row(told: Told) -> dict[str, Any]:
    turns = [{"id": line.id, "speaker": line.speaker, "text": line.text} for line in told.lines]
    return {"id": told.id, "time": told.time, "turns": turns}


def _question_row(question: WorldQuestion, split: str) -> dict[str, Any]:
    row = question.model_dump(mode="json", include={"id", "text", "answer", "aliases", "type"})
    return row | {"evidence": list(question.turns), "split": split}
