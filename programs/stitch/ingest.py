"""Turns what waits in a memory into notes: each turn is labelled once, in the order in which turns were added.

The notebook is folded from what is stored, so a run that was stopped goes on as if it had not been.
"""

from dataclasses import dataclass, field

import dspy

from stitchjam.data.disk.notes import labelling
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.work import Derived
from stitchjam.data.intents.records import Vocabulary
from stitchjam.data.progress import Tick, quiet
from stitchjam.programs.deriving import Start, alone, require_start
from stitchjam.programs.stitch.stitcher import SEED_TURNS, Stitcher

__all__ = ["Labelled", "label_memory"]


@dataclass
class Labelled:
    """What a labelling did: turns noted now, those that failed with why, and those that wait for a vocabulary.

    `given_up`: so many failed three times, now or before, and are not tried again unless it is asked for.
    """

    program: str
    done: int = 0
    waiting: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    given_up: int = 0


def label_memory(
    disk: DiskStore,
    stitcher: Stitcher,
    limit: int | None = None,
    finish: bool = True,
    tick: Tick = quiet,
    start: Start = "on",
) -> Labelled:
    """Label the turns of a memory that have no note of this program yet; the log is left alone.

    Args:
        disk: the memory.
        stitcher: what labels.
        limit: at most so many turns.
        finish: False when more turns may come: then nothing is labelled before there are 50 (N_start of the paper),
            from which a vocabulary is made. True makes it of those that are there.
        tick: is told how many turns are through, of how many.
        start: "on" goes on; "retry" goes on, also with turns that failed three times; "again" drops the notes of this
            program first, but not before its model has answered.

    Raises:
        UsageError: another process labels this memory, or there is no model.
        BackendError: the endpoint gave nothing for three turns in a row.
        BudgetStop: from the steps. What was labelled is kept in each case, and no turn is blamed.
    """
    require_start(limit, start, "turns")
    key = labelling(stitcher.fingerprint)
    disk.register(key)
    store = disk.store
    with alone(disk.path, "labelling"), dspy.context(private=True):
        disk.release(key)
        if start == "retry":
            disk.retry(key)
        elif start == "again":
            _drop(disk, stitcher, key.program, finish)
        notebook = disk.notes.notebook(key.program)
        left = store.size - notebook.size
        if not notebook.size and not finish and store.size < SEED_TURNS:
            return Labelled(key.program, waiting=left)
        todo = min(left, limit or left)
        run = _Run(disk, stitcher, key.program)
        processed = disk.process(key, run, limit, lambda _: tick("label", *run.count(todo)))
    return Labelled(key.program, processed.done, 0, processed.failed, disk.given_up(key))


def _drop(disk: DiskStore, stitcher: Stitcher, program: str, finish: bool) -> None:
    """Drop the notes of a program. Its vocabulary is made before, so that no note is lost to a model that is out."""
    begins = disk.store.size and (finish or disk.store.size >= SEED_TURNS)
    vocabulary = stitcher.vocabulary(disk.store.first(SEED_TURNS), program) if begins else Vocabulary()
    disk.notes.drop(program)
    disk.notes.notebook(program).begin(vocabulary)


@dataclass
class _Run:
    """Labels one turn of a memory, given its id."""

    disk: DiskStore
    stitcher: Stitcher
    program: str
    through: int = 0

    def __call__(self, turn_id: str) -> Derived:
        store, notebook = self.disk.store, self.disk.notes.notebook(self.program)
        turn = store.turn(turn_id)
        near = store.around(turn, self.stitcher.sizes.before)
        before = near[: [one.id for one in near].index(turn_id)]
        if not notebook.entries and not notebook.vocabulary.labels:
            notebook.begin(self.stitcher.vocabulary(store.first(SEED_TURNS), self.program))
        entry = self.stitcher(turn=turn, notebook=notebook, before=before, program=self.program).entry
        return Derived(entry.model_dump(mode="json"), entry.note.intent.ids, made=entry.made, merges=entry.merges)

    def count(self, total: int) -> tuple[int, int]:
        """How many turns are through, of how many."""
        self.through += 1
        return self.through, max(total, self.through)
