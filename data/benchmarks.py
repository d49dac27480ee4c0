"""Turns the name of a benchmark and files that the user downloaded into histories with questions, one at a time."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import read_questions, read_sessions
from stitchjam.data.readers.came import COMPLETE, came_digest, read_came
from stitchjam.data.readers.hotpotqa import read_hotpotqa
from stitchjam.data.readers.locomo import read_locomo
from stitchjam.data.readers.longmemeval import read_longmemeval
from stitchjam.data.readers.rows import Loaded
from stitchjam.data.records import Record
from stitchjam.data.worlds.folder import read_worlds

__all__ = ["BENCHMARKS", "Benchmark", "Copy", "Sizes", "look", "open_benchmark"]


class Sizes(NamedTuple):
    """Histories and questions."""

    histories: int
    questions: int


@dataclass(frozen=True)
class Benchmark:
    """A set of histories with questions that a user can download.

    Attributes:
        title: what it is.
        source: where its authors offer it.
        licence: under which.
        metric: that its figures are given in.
        complete: sizes of a complete copy, by variant; none where there is no such thing.
        variant: which one a copy is of; "" where there is one.
        read: gives its histories one by one.
        kinds: what its types of questions are called, where they are numbers.
    """

    title: str
    source: str
    licence: str
    read: Callable[[Any], Iterator[Loaded]]
    metric: str = "answer_f1"
    complete: Mapping[str, Sizes] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    variant: Callable[[Mapping[str, int]], str] = lambda sizes: ""


def _worlds(path: Path | None) -> Iterator[Loaded]:
    return (Loaded(world.history, world.questions) for world in read_worlds(path))


def _sessions(path: Path) -> Iterator[Loaded]:
    """NAME.sessions.jsonl with NAME.questions.jsonl beside it; all such pairs of a folder."""
    files = sorted(path.glob("*.sessions.jsonl")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path}: no NAME.sessions.jsonl here")
    for file in files:
        if not file.name.endswith(".sessions.jsonl"):
            raise UsageError(f"{file}: expected a NAME.sessions.jsonl, which has its NAME.questions.jsonl beside it")
        history = read_sessions(file)
        yield Loaded(history, read_questions(file.with_name(file.name.replace(".sessions.", ".questions.")), history))


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "worlds": Benchmark("worlds with exact gold", "stitchjam gym world", "Apache-2.0", _worlds),
        "locomo": Benchmark(
            "LoCoMo: long conversations of two people",
            "snap-research/LoCoMo on GitHub, data/locomo10.json",
            "CC BY-NC 4.0",
            lambda path: iter(read_locomo(path)),
            "locomo_f1",
            {"locomo10": Sizes(10, 1986)},
            {"1": "multi-hop", "2": "temporal", "3": "open-domain", "4": "single-hop", "5": "adversarial"},
        ),
        "longmemeval": Benchmark(
            "LongMemEval: chats with an assistant, a haystack for each question",
            "xiaowu0162/LongMemEval on GitHub: longmemeval_oracle, _s, _m",
            "MIT",
            read_longmemeval,
            "longmemeval",
            {"each": Sizes(500, 500)},
        ),
        "came": Benchmark(
            "CAME-Bench: trips and debates with recurring entities under many goals",
            "Seattleyrz/CAME-Bench on Hugging Face",
            "none stated; keep it out of training data",
            read_came,
            "came_f1",
            {"release": Sizes(14, 373)},
        ),
        "hotpotqa": Benchmark(
            "HotpotQA: questions over two of ten paragraphs, or of some hundreds",
            "hotpotqa.github.io (distractor, dev); BytedTsinghua-SIA/hotpotqa on Hugging Face (long)",
            "CC BY-SA 4.0",
            read_hotpotqa,
            "qa_f1",
            {"distractor": Sizes(7405, 7405), "long": Sizes(128, 128)},
            # The long versions do not say which of their paragraphs count.
            variant=lambda sizes: "distractor" if sizes["with_evidence"] else "long",
        ),
        "sessions": Benchmark(
            "your own: NAME.sessions.jsonl with NAME.questions.jsonl",
            "files of yours; docs/benchmarks.md tells how others become such",
            "yours",
            _sessions,
        ),
    }
)


def open_benchmark(name: str, path: Path | None = None, only: Collection[str] = ()) -> Iterator[Loaded]:
    """The histories of a benchmark, each with its questions, in the order of the files.

    Args:
        name: in `BENCHMARKS`.
        path: its file or folder; only worlds have a sample that ships with the package.
        only: ids of histories; others are passed over.

    Raises:
        UsageError: there is no such benchmark or history, or nothing at the path.
        DataError: from the readers.
    """
    if name not in BENCHMARKS:
        raise UsageError(f"unknown benchmark {name!r}; choose one of: {', '.join(BENCHMARKS)}")
    if path is None and name != "worlds":
        raise UsageError(
            f"{name} does not ship with this package; get it from {BENCHMARKS[name].source} and give its path"
        )
    if path is not None and not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    return _only(_read(name, path), name, only) if only else _read(name, path)


def _only(found: Iterator[Loaded], name: str, only: Collection[str]) -> Iterator[Loaded]:
    missing = set(only)
    for loaded in found:
        if loaded.history.id in only:
            missing.discard(loaded.history.id)
            yield loaded
    if missing:
        raise UsageError(f"{name} has no history {min(missing)!r} here")


def _read(name: str, path: Path | None) -> Iterator[Loaded]:
    """Where not even the first history can be read, the file may be of another benchmark."""
    try:
        found = BENCHMARKS[name].read(path)
        first = next(found, None)
    except DataError as error:
        raise DataError(f"{error}. If it is no file of {name}, name the right benchmark") from None
    if first is not None:
        yield first
    yield from found


class Copy(Record):
    """What a user's copy of a benchmark holds. `note` says whether it is complete; "" where that means nothing."""

    name: str
    histories: int
    sessions: int
    turns: int
    questions: int
    with_evidence: int
    kinds: dict[str, int]
    problems: tuple[str, ...]
    note: str


def look(name: str, path: Path | None = None) -> Copy:
    """Read a whole copy once and count; raises what `open_benchmark` raises."""
    sizes, kinds, problems = Counter[str](), Counter[str](), []
    for loaded in open_benchmark(name, path):
        history, questions = loaded.history, loaded.questions
        sizes.update(histories=1, sessions=len(history.sessions), questions=len(questions))
        sizes.update(turns=sum(len(session.turns) for session in history.sessions))
        sizes.update(with_evidence=sum(bool(one.evidence or one.sessions) for one in questions))
        kinds.update(one.kind for one in questions)
        problems += loaded.problems
    note = _note(name, path, sizes)
    return Copy(name=name, kinds=dict(sorted(kinds.items())), problems=tuple(problems), note=note, **_plain(sizes))


def _plain(sizes: Counter[str]) -> dict[str, int]:
    return {key: sizes[key] for key in ("histories", "sessions", "turns", "questions", "with_evidence")}


def _note(name: str, path: Path | None, sizes: Mapping[str, int]) -> str:
    benchmark, found = BENCHMARKS[name], Sizes(sizes["histories"], sizes["questions"])
    if not benchmark.complete:
        return ""
    variant = benchmark.variant(sizes)
    whole = benchmark.complete.get(variant) or next(iter(benchmark.complete.values()))
    if found == whole:
        changed = name == "came" and path is not None and came_digest(path) != COMPLETE
        return "complete in number, but not the text that others published" if changed else "complete"
    return (
        f"a partial copy: {found.histories:,} of {whole.histories:,} histories, "
        f"{found.questions:,} of {whole.questions:,} questions"
    )
