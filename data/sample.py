"""Turns files, or the sample inside the package, into a history with questions."""

from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

from stitchjam.data.benchmarks import open_benchmark
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import UsageError
from stitchjam.data.readers import (
    Loaded,
    detect_format,
    read_history,
    read_locomo,
    read_questions,
    read_sessions,
)
from stitchjam.data.records import Question
from stitchjam.data.store import Store
from stitchjam.data.worlds.folder import is_world, read_worlds

__all__ = ["Case", "Data", "bench_cases", "load_cases", "load_data", "load_sample"]


def load_sample() -> Loaded:
    """The sample "harbor": sessions with 40 questions, 24 of them in the split "train" and 16 in "held_out"."""
    folder = files("stitchjam.data").joinpath("samples")
    with as_file(folder.joinpath("harbor.sessions.jsonl")) as sessions:
        history = read_sessions(sessions)
    with as_file(folder.joinpath("harbor.questions.jsonl")) as questions:
        return Loaded(history, read_questions(questions, history))


class Data(NamedTuple):
    """A store and the questions about it."""

    store: Store
    questions: tuple[Question, ...]


def load_data(history: Path | None = None, questions: Path | None = None, memory: Path | None = None) -> Data:
    """A store with its questions, from a memory or from files; the sample when nothing is given.

    Raises:
        UsageError: questions without their history, both a history and a memory, or no memory where one was named.
        DataError: from the readers.
    """
    if history is None and memory is None:
        if questions is not None:
            raise UsageError("questions need their history; give both, or neither for the sample")
        sample = load_sample()
        return Data(Store.of(sample.history), sample.questions)
    if history is not None and memory is not None:
        raise UsageError("give a history or a memory, not both; to put a file into a memory: stitchjam ingest FILE")
    if memory is not None:
        store = DiskStore(memory, create=False).store
        return Data(store, read_questions(questions, store.history) if questions else ())
    history = cast(Path, history)
    if history.is_dir():
        raise UsageError(f"{history} is a folder; give the file of a history, such as NAME.sessions.jsonl of a world")
    record = read_history(history)
    return Data(Store.of(record), read_questions(questions, record) if questions else ())


class Case(NamedTuple):
    """A history with the questions about it; `problems` names gold that does not fit, one line each."""

    name: str
    store: Store
    questions: tuple[Question, ...]
    problems: tuple[str, ...] = ()


def load_cases(
    history: Path | None = None, questions: Path | None = None, memory: Path | None = None, encoder: str = "static"
) -> tuple[Case, ...]:
    """Like `load_data`; a LoCoMo file gives a case for each conversation, a folder of worlds one for each world."""
    if history is not None and is_world(history):
        return tuple(
            Case(world.name, Store.of(world.history, encoder), world.questions) for world in read_worlds(history)
        )
    if history is not None and questions is None and detect_format(history) == "locomo":
        return tuple(
            Case(one.history.id, Store.of(one.history, encoder), one.questions, one.problems)
            for one in read_locomo(history)
        )
    data = load_data(history, questions, memory)
    store = data.store if memory else Store.of(data.store.history, encoder)
    return (Case(str(memory or history or "sample"), store, data.questions),)


def bench_cases(
    name: str,
    path: Path | None = None,
    split: str = "all",
    limit: int | None = None,
    seed: int = 0,
    encoder: str = "static",
) -> Iterator[Case]:
    """The histories of a benchmark one at a time, with the questions of a split, or as many of them chosen by chance.

    Raises:
        UsageError: no question has that split, or from `open_benchmark`.
        DataError: from the readers.
    """
    chosen, some = None if limit is None else _by_chance(name, path, split, limit, seed), False
    for loaded in open_benchmark(name, path):
        questions = tuple(
            question
            for question in loaded.questions
            if split in ("all", question.split) and (chosen is None or (loaded.history.id, question.id) in chosen)
        )
        if questions:
            some = True
            yield Case(loaded.history.id, Store.of(loaded.history, encoder), questions, loaded.problems)
    if not some:
        raise UsageError(f"no question of {name} has the split {split!r}; use --split all")


def _by_chance(name: str, path: Path | None, split: str, limit: int, seed: int) -> set[tuple[str, str]]:
    """Some questions by the ids of history and question; the files are read once more for them."""
    asked = [
        (loaded.history.id, question.id)
        for loaded in open_benchmark(name, path)
        for question in loaded.questions
        if split in ("all", question.split)
    ]
    return set(Random(seed).sample(asked, min(limit, len(asked))))
