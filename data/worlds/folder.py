"""Turns a folder that `generate_world` wrote into a world: its history, questions and gold, if nothing was changed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from stitchjam.data.digest import file_hash
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.sessions import read_questions, read_sessions
from stitchjam.data.records import History, Question, first_error
from stitchjam.data.worlds.checks import Known
from stitchjam.data.worlds.dials import About, Dials
from stitchjam.data.worlds.records import SessionGold, WorldQuestion, session_of

__all__ = ["World", "is_world", "read_world", "read_worlds", "world_around"]

T = TypeVar("T", bound=BaseModel)
_PARTS = ("sessions", "questions", "gold", "asked")


@dataclass(frozen=True)
class World:
    """A generated world; its parts are read when they are first used."""

    folder: Path
    about: About

    @property
    def name(self) -> str:
        """The world's name."""
        return self.about.name

    @property
    def split(self) -> str:
        """train or held_out."""
        return self.about.split

    @property
    def dials(self) -> Dials:
        """What it was made from."""
        return self.about.dials

    @cached_property
    def history(self) -> History:
        """What programs see."""
        return read_sessions(self._path("sessions"))

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Questions with answers and the ids of evidence turns in `history`."""
        return read_questions(self._path("questions"), self.history) if self.about.counts["questions"] else ()

    @cached_property
    def asked(self) -> tuple[WorldQuestion, ...]:
        """The same questions with all their gold; turns are named as in the file.

        Raises:
            DataError: a line is no such question, or not the one in the questions file.
        """
        named = {turn.id: turn.external_id for turn in self.history.turns}
        wanted = [(one.id, tuple(named[turn] for turn in one.evidence)) for one in self.questions]
        found: list[WorldQuestion] = []
        for where, one in _records(self._path("asked"), WorldQuestion):
            at = len(found)
            if (one.id, one.turns) != (wanted[at] if at < len(wanted) else None):
                raise DataError(f"{where}: not the question of that line in the questions file; {self._again}")
            if any(each.session != session_of(each.turn) for each in one.evidence):
                raise DataError(f"{where}: evidence is not in the session that it names; {self._again}")
            found.append(one)
        if len(found) < len(wanted):
            raise DataError(f"{self._path('asked')}: no gold for question {wanted[len(found)][0]}; {self._again}")
        return tuple(found)

    def gold(self) -> Iterator[SessionGold]:
        """The gold of each session, one at a time.

        Raises:
            DataError: a line is no such gold, or not that of the session in the sessions file.
        """
        sessions = iter(self.history.sessions)
        for where, gold in _records(self._path("gold"), SessionGold):
            session = next(sessions, None)
            turns = [turn.external_id for turn in session.turns] if session else []
            if not session or (gold.id, [turn.id for turn in gold.turns]) != (session.id, turns):
                raise DataError(f"{where}: not the gold of that session in the sessions file; {self._again}")
            if unknown := {id for turn in gold.turns for id in turn.through} - self._turns:
                raise DataError(f"{where}: goes back to {min(unknown)!r}, which is no turn; {self._again}")
            yield gold
        if missing := next(sessions, None):
            raise DataError(f"{self._path('gold')}: no gold for session {missing.id}; {self._again}")

    @cached_property
    def known(self) -> Known:
        """All that is stated in it, for the solver and the checks."""
        gold = list(self.gold())
        statements = [one for session in gold for turn in session.turns for one in turn.statements]
        texts = {turn.external_id: turn.text for turn in self.history.turns}
        return Known(statements, texts, {session.id: session.day for session in gold})

    @cached_property
    def _turns(self) -> frozenset[str]:
        return frozenset(turn.external_id for turn in self.history.turns)

    @property
    def _again(self) -> str:
        return _again(self.folder)

    def _path(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}.jsonl"


def is_world(path: Path) -> bool:
    """Whether a path is a world, or a folder that holds some."""
    return bool(_folders(path))


def read_worlds(path: str | Path | None = None) -> tuple[World, ...]:
    """The worlds in a folder, by name; a world's own folder is one of them, and without a path it is the sample.

    Raises:
        UsageError: there is no world.
        DataError: a world was changed after it was made, is damaged, of another format, or there twice.
    """
    path = Path(path or str(files("stitchjam.data") / "samples" / "worlds"))
    folders = _folders(path)
    if not folders and path.exists() and not path.is_dir():
        raise UsageError(f"{path} is no folder; name a world or a folder of worlds")
    if not folders:
        raise UsageError(f"{path}: no world here; make some with: stitchjam gym world --out {path}")
    worlds: dict[str, World] = {}
    for folder in folders:
        world = read_world(folder)
        if (other := worlds.setdefault(world.name, world)) is not world:
            raise DataError(f"{folder} and {other.folder} are both the world {world.name!r}; remove one of them")
    return tuple(worlds.values())


def read_world(folder: Path) -> World:
    """The world in a folder of its own.

    Raises:
        DataError: it was changed after it was made, is damaged, or is of another format.
    """
    file = folder / "world.json"
    try:
        world = World(folder, About.model_validate_json(file.read_bytes()))
    except ValidationError as error:
        raise DataError(f"{file}: {first_error(error)}; {_again(folder)}") from None
    for path in map(world._path, _PARTS):
        if not path.is_file() or file_hash(path) != world.about.sha256.get(path.name):
            raise DataError(f"{path}: missing or changed since the world was made; {_again(folder)}")
    return world


def world_around(path: Path) -> Path | None:
    """The folder of the world that a path lies in, through links; nothing else may be written there."""
    inside = Path(os.path.realpath(path)).parents
    return next((folder for folder in inside if (folder / "world.json").is_file()), None)


def _folders(path: Path) -> list[Path]:
    by_number = sorted(path.glob("[!.]*"), key=lambda folder: (len(folder.name), folder.name))
    folders = [path, *by_number] if path.is_dir() else []
    return [folder for folder in folders if (folder / "world.json").is_file()]


def _records(path: Path, record: type[T]) -> Iterator[tuple[str, T]]:
    """The records of a file, each with its place in words."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield f"{path}, line {number}", record.model_validate_json(line)
            except ValidationError as error:
                raise DataError(f"{path}, line {number}: {first_error(error)}; {_again(path.parent)}") from None


def _again(folder: Path) -> str:
    return f"make the world again, under another name or after removing {folder}"
