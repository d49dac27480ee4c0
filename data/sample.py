"""Turns files, or the sample inside the package, into a history with questions."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

from stitchjam.data.errors import UsageError
from stitchjam.data.readers import Loaded, read_history, read_questions, read_sessions
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


def load_data(history: Path | None = None, questions: Path | None = None) -> Data:
    """A store with its questions from files; the sample when neither is given.

    Raises:
        UsageError: questions without their history.
        DataError: from the readers.
    """
    if history is None and questions is None:
        sample = load_sample()
        return Data(Store.of(sample.history), sample.questions)
    if history is None:
        raise UsageError("questions need their history; give both, or neither for the sample")
    record = read_history(history)
    return Data(Store.of(record), read_questions(questions, record) if questions else ())
