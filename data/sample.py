"""Turns files, or the sample inside the package, into a history with questions."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple, cast

from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import UsageError
from stitchjam.data.readers import (
    Loaded,
    read_history,
    read_questions,
    read_sessions,
)
from stitchjam.data.records import Question
from stitchjam.data.store import Store

__all__ = ["Data", "load_data", "load_sample"]


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
