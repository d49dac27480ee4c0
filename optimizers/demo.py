"""Turns a small model and the shipped sample into the whole story: ask, compile, judge, save, reload, ask again."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from stitchjam.backends import models
from stitchjam.backends.bindings import Bindings, bind_model
from stitchjam.backends.replay import replies
from stitchjam.backends.usage import Budget
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.records import Question
from stitchjam.data.sample import load_sample
from stitchjam.data.store import Store
from stitchjam.optimizers.compile import Compiled, Job, Progress, compile_program
from stitchjam.optimizers.metrics import AnswerF1
from stitchjam.optimizers.recipes.bootstrap import Bootstrap
from stitchjam.optimizers.report import answer_lines, comparison_lines, usage_table
from stitchjam.optimizers.task import Task
from stitchjam.programs.answer import Answerer, OneShot
from stitchjam.programs.artifact import load
from stitchjam.programs.step import Program, settings_for
from stitchjam.programs.systems import asker

__all__ = ["MODEL", "run_demo"]

MODEL = "smollm2-135m"
Shown = Callable[[Mapping[str, int]], AbstractContextManager[Progress]]
_ASKED = 2
_CALLS = 60
WARNING = (
    "SmolLM2 has 135 million parameters. It shows that everything works, not how well: most of its answers are wrong."
)


@dataclass(frozen=True)
class _Sample:
    store: Store
    questions: tuple[Question, ...]

    @property
    def asked(self) -> tuple[Question, ...]:
        """Held-out questions, so that no demo holds them."""
        return tuple(q for q in self.questions if q.split == "held_out")[:_ASKED]


def run_demo(folder: Path, say: Callable[[object], None], shown: Shown) -> Compiled:
    """Run the demo; everything it writes is below `folder`.

    Args:
        folder: where to write.
        say: is given lines and rich tables as they come up.
        shown: shows progress for stage totals while its context lasts (`progress_shown` on some stream).

    Raises:
        BackendError: the model could not be fetched. MissingExtra: xllamacpp is not installed.
    """
    models.pull(MODEL, progress=say)
    say(WARNING)
    sample = _remember(folder / "memory")
    bindings = bind_model(f"local:{MODEL}")
    say(f"\n1. Ask a memory on disk: {len(sample.store.session_times)} sessions, {sample.store.size} turns")
    for line in _ask(OneShot(), sample, bindings):
        say(line)
    say(f"\n2. Compile the Answerer with at most {_CALLS} calls")
    job = _job(sample, bindings, folder)
    with shown(job.totals) as tick:
        compiled = compile_program(job, Budget(calls=_CALLS), tick)
    for line in comparison_lines(compiled.comparison, "answer F1"):
        say(line)
    say(usage_table(compiled.ledger))
    manifest = compiled.manifest
    say("published" if manifest.published else f"saved, not published: {'; '.join(manifest.refused)}")
    say(f"\n3. Load {compiled.path} and ask again")
    for line in _ask(asker(load(compiled.path)), sample, bindings):
        say(line)
    say(f"\nRead the compiled prompts in {compiled.path / 'prompts.md'}. {WARNING}")
    return compiled


def _remember(path: Path) -> _Sample:
    """The sample in a memory on disk; there already when the demo runs again."""
    loaded, disk = load_sample(), DiskStore(path)
    disk.add_history(loaded.history, "the sample")
    return _Sample(disk.store, loaded.questions)


def _job(sample: _Sample, bindings: Bindings, folder: Path) -> Job:
    return Job(
        program=Answerer(),
        task=Task.of("answerer", sample.questions, sample.store),
        questions=sample.questions,
        metric=AnswerF1(sample.questions, sample.store),
        recipe=Bootstrap(max_demos=2),
        bindings=bindings,
        out=folder / "answerer",
        runs=folder / "runs",
    )


def _ask(program: Program, sample: _Sample, bindings: Bindings) -> Iterator[str]:
    for question in sample.asked:
        with replies(None), settings_for(bindings):
            answer = program(question=question.text, store=sample.store).answer
        yield f"> {question.text}"
        yield from answer_lines(answer, sample.store)
        yield f"  (expected: {question.answer})"
