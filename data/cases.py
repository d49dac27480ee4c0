"""Turns a benchmark, or files of the user's own, into histories with the questions to ask, one history at a time."""

from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import NamedTuple

from stitchjam.data.benchmarks import open_benchmark
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.memories import memory_of_history
from stitchjam.data.readers import detect_format, read_locomo
from stitchjam.data.records import History, Question
from stitchjam.data.sample import load_data
from stitchjam.data.store import Store
from stitchjam.data.worlds.folder import is_world, read_worlds

__all__ = ["Case", "Cases", "bench_cases", "labelled_cases", "load_cases", "own_cases", "select"]


class Case(NamedTuple):
    """A history with the questions about it; `problems` names gold that does not fit, one line each."""

    name: str
    store: Store
    questions: tuple[Question, ...]
    problems: tuple[str, ...] = ()


class Cases(NamedTuple):
    """What is to be asked.

    `keys` are the ids of history and question, in order; `digest` is a hash of the histories, the questions and their
    gold, `encoder` what search goes by; `open` reads the histories, each time anew.
    """

    keys: tuple[tuple[str, str], ...]
    digest: str
    encoder: str
    open: Callable[[], Iterator[Case]]

    @classmethod
    def of(cls, told: Iterable[tuple[str, str, Question]], encoder: str, open: Callable[[], Iterator[Case]]) -> "Cases":
        """From history, hash of what it holds, and question, for each question.

        Raises:
            DataError: a history has two questions of one id.
        """
        digest, keys = sha256(), dict[tuple[str, str], None]()
        for history, content, question in told:
            if (history, question.id) in keys:
                raise DataError(f"history {history!r} has two questions {question.id!r}; give each an id of its own")
            keys[history, question.id] = None
            gold = question.model_dump_json(exclude_defaults=True)  # a new optional field changes nothing
            digest.update("\n".join((history, content, gold, "")).encode())
        return cls(tuple(keys), digest.hexdigest(), encoder, open)


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
    # The same from wherever it is read, and as a benchmark of such files names it.
    named = (memory or history or Path("sample")).resolve().name.partition(".")[0]
    return (Case(named, store, data.questions),)


def own_cases(
    history: Path | None,
    questions: Path | None,
    memory: Path | None,
    split: str | None = "all",
    limit: int | None = None,
    encoder: str = "static",
) -> Cases:
    """The cases of `load_cases`, each with the first questions of a split; raises what that and `select` raise.

    Without a split, those held out are asked, or all where none has a split.
    """
    loaded = load_cases(history, questions, memory, encoder)
    split = split or ("held_out" if any(one.split for case in loaded for one in case.questions) else "all")
    cases = [case._replace(questions=select(case.questions, split, limit)) for case in loaded]
    told = ((case.name, case.store.fingerprint, question) for case in cases for question in case.questions)
    return Cases.of(told, cases[0].store.encoder, lambda: iter(cases))


def select(questions: Iterable[Question], split: str, limit: int | None = None) -> tuple[Question, ...]:
    """The first `limit` questions of a split, or of "all".

    Raises:
        UsageError: there are none.
    """
    questions = tuple(questions)
    if not questions:
        raise UsageError("there are no questions; give --questions, or neither a history nor questions for the sample")
    chosen = tuple(question for question in questions if split in ("all", question.split))
    if not chosen:
        known = sorted({question.split for question in questions} - {""})
        hint = f'use one of {", ".join(["all", *known])}, or add "split": "{split}" to questions'
        raise UsageError(f"no question has the split {split!r}; {hint}")
    return chosen[:limit]


def bench_cases(  # noqa: PLR0913
    name: str,
    path: Path | None = None,
    split: str = "all",
    limit: int | None = None,
    seed: int = 0,
    encoder: str = "static",
    memories: Path | None = None,
    only: Collection[str] = (),
) -> Cases:
    """The questions of a split of a benchmark, or as many of them chosen by chance.

    The files are read for it first, so that one that is damaged is found before anything is asked. With `memories`, the
    histories are asked in the memories of that folder, with all that is noted of their turns there; only those that are
    asked need one. `only` keeps those of the chosen questions that are about these histories.

    Raises:
        UsageError: no question has that split, none is about those histories, or from `open_benchmark`.
        DataError: from the readers.
    """
    told = _drawn(name, path, (split, limit, seed), only)
    chosen = {(history, question.id) for history, _, question in told}
    asked = {history for history, _ in chosen}
    if memories:
        noted = {
            loaded.history.id: _remembered(loaded.history, memories) for loaded in open_benchmark(name, path, asked)
        }
        told = [(history, noted[history].fingerprint, question) for history, _, question in told]
        encoder = _encoder_of(noted.values())

    def read() -> Iterator[Case]:
        for loaded in open_benchmark(name, path):
            some = tuple(one for one in loaded.questions if (loaded.history.id, one.id) in chosen)
            if some:
                store = _remembered(loaded.history, memories) if memories else Store.of(loaded.history, encoder)
                yield Case(loaded.history.id, store, some, loaded.problems)

    return Cases.of(told, encoder, read)


def _encoder_of(stores: Iterable[Store]) -> str:
    found = sorted({store.encoder for store in stores})
    if len(found) > 1:
        raise UsageError(f"these memories are searched by {' and '.join(found)}; make them with one encoder")
    return found[0]


def _drawn(
    name: str, path: Path | None, which: tuple[str, int | None, int], only: Collection[str]
) -> list[tuple[str, str, Question]]:
    """History, hash of its turns, and question, for each that is chosen."""
    split, limit, seed = which
    told = [
        (loaded.history.id, content, question)
        for loaded in open_benchmark(name, path)
        for content in [sha256("\n".join(turn.id for turn in loaded.history.turns).encode()).hexdigest()]
        for question in loaded.questions
        if split in ("all", question.split)
    ]
    if not told:
        raise UsageError(f"no question of {name} has the split {split!r}; use --split all")
    if limit is not None and limit < len(told):
        told = [told[at] for at in sorted(Random(seed).sample(range(len(told)), limit))]
    if only:
        told = [one for one in told if one[0] in only]
        if not told:
            raise UsageError(
                f"no chosen question is about {', '.join(sorted(only))}; raise --limit, or leave out --only"
            )
    return told


def labelled_cases(
    name: str, path: Path | None, memories: Path, turns: int | None = None, limit: int | None = None
) -> tuple[Case, ...]:
    """The histories of a benchmark in their memories, each as it was after so many turns.

    Only questions of which these hold all evidence are asked, and of these the first.

    Raises:
        UsageError: a history has no memory in the folder. DataError: it is that of another history.
    """
    cases, left = [], limit
    for loaded in open_benchmark(name, path):
        history = loaded.history.first(turns)
        kept = {turn.id for turn in history.turns}
        asked = tuple(one for one in loaded.questions if one.evidence and kept.issuperset(one.evidence))[:left]
        left = left if left is None else left - len(asked)
        if asked:
            store = memory_of_history(memories, history, create=False).store
            cases.append(Case(history.id, store, asked, loaded.problems))
    return tuple(cases)


def _remembered(history: History, memories: Path) -> Store:
    return memory_of_history(memories, history, create=False).store
