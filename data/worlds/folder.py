"""Turns a folder that `generate_world` wrote into a world: its history, questions and gold, if nothing was changed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stitchjam.data.digest import file_hash
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.sessions import read_questions, read_sessions
from stitchjam.data.records import History, Question
from stitchjam.data.worlds.checks import Known
from stitchjam.data.worlds.records import Dials, SessionGold, WorldQuestion

__all__ = ["FORMAT", "World", "is_world", "read_worlds"]

FORMAT = 1
_PARTS = ("sessions", "questions", "gold", "asked")


@dataclass(frozen=True)
class World:
    """A generated world; its parts are read when they are first used."""

    folder: Path
    about: dict[str, Any]

    @property
    def name(self) -> str:
        """The world's name."""
        return self.about["name"]

    @property
    def split(self) -> str:
        """train or held_out."""
        return self.about["split"]

    @property
    def dials(self) -> Dials:
        """What it was made from."""
        return Dials.model_validate(self.about["dials"])

    @cached_property
    def history(self) -> History:
        """What programs see."""
        return read_sessions(self._path("sessions"))

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Questions with answers and the ids of evidence turns in `history`."""
        return read_questions(self._path("questions"), self.history)

    @cached_property
    def asked(self) -> tuple[WorldQuestion, ...]:
        """The same questions with all their gold; turns are named as in the file."""
        with self._path("asked").open(encoding="utf-8") as lines:
            return tuple(WorldQuestion.model_validate_json(line) for line in lines)

    def gold(self) -> Iterator[SessionGold]:
        """The gold of each session, one at a time."""
        with self._path("gold").open(encoding="utf-8") as lines:
            for line in lines:
                yield SessionGold.model_validate_json(line)

    @cached_property
    def known(self) -> Known:
        """All that is stated in it, for the solver and the checks."""
        gold = list(self.gold())
        statements = [one for session in gold for turn in session.turns for one in turn.statements]
        texts = {turn.external_id: turn.text for turn in self.history.turns}
        return Known(statements, texts, {session.id: session.day for session in gold})

    def _path(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}.jsonl"


def is_world(path: Path) -> bool:
    """Whether a path is a world, or a folder that holds some."""
    return bool(_folders(path))


def read_worlds(path: str | Path | None = None) -> tuple[World, ...]:
    """The worlds in a folder, by name; a world's own folder is one of them, and without a path it is the sample.

    Raises:
        UsageError: there is no world.
        DataError: a world was changed after it was made, is damaged, or is of another format.
    """
    path = Path(path or str(files("stitchjam.data") / "samples" / "worlds"))
    folders = _folders(path)
    if not folders:
        raise UsageError(f"{path}: no world here; make some with: stitchjam gym world --out {path}")
    return tuple(_read(folder) for folder in folders)


def _folders(path: Path) -> list[Path]:
    by_number = sorted(path.glob("[!.]*"), key=lambda folder: (len(folder.name), folder.name))
    folders = [path, *by_number] if path.is_dir() else []
    return [folder for folder in folders if (folder / "world.json").is_file()]


def _read(folder: Path) -> World:
    file = folder / "world.json"
    try:
        about = json.loads(file.read_text("utf-8"))
        world = World(folder, about)
        kept, format, _ = dict(about["sha256"]), about["format"], (world.dials, world.split, world.name)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise DataError(f"{file}: not the description of a world ({error}); make the world again") from None
    if format != FORMAT:
        raise DataError(f"{file}: format {format}, this version reads {FORMAT}; make the world again")
    for path in map(world._path, _PARTS):
        if not path.is_file() or file_hash(path) != kept.get(path.name):
            raise DataError(f"{path}: missing or changed since the world was made; make the world again")
    return world
