"""The whole chain on a real, small model: what it answers is not judged, only that everything it does holds."""

import pytest

from stitchjam.backends import models
from stitchjam.backends.bindings import bind_model
from stitchjam.backends.usage import Budget, metered
from stitchjam.data.cases import select
from stitchjam.data.sample import load_data
from stitchjam.optimizers.compile import Job, compile_program
from stitchjam.optimizers.demo import MODEL
from stitchjam.optimizers.metrics import AnswerF1, EndMetric
from stitchjam.optimizers.recipes import make_recipe
from stitchjam.optimizers.task import Task
from stitchjam.programs.answer import Answerer, MemoryAgent, OneShot
from stitchjam.programs.artifact import load
from stitchjam.programs.memory import Memory
from stitchjam.programs.step import settings_for
from stitchjam.programs.stitch.recall import StitchAgent
from stitchjam.programs.stitch.stitcher import FusedStitcher, StepwiseStitcher

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def bindings():
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    if not (models.models_dir() / f"{MODEL}.gguf").exists():
        pytest.skip(f"the model is not here; run: stitchjam models pull {MODEL}")
    return bind_model(f"local:{MODEL}")


@pytest.fixture(scope="module")
def data():
    return load_data()


def test_one_shot_answer_comes_back_in_the_steps_form(bindings, data):
    with settings_for(bindings), metered() as ledger:
        answer = OneShot(k=4)(question=data.questions[0].text, store=data.store).answer
    assert answer.text
    assert all(span.holds_in(data.store.turn(span.turn_id)) for claim in answer.claims for span in claim.spans)
    assert ledger.total().calls == 1
    assert ledger.total().input_tokens > 100


def test_research_ends_and_forges_nothing(bindings, data):
    with settings_for(bindings), metered(budget=Budget(calls=30)):
        prediction = MemoryAgent()(question=data.questions[1].text, store=data.store)
    score = EndMetric(data.questions, data.store).score(data.questions[1], prediction)
    assert "forged" not in score.why
    assert 1 <= len(prediction.context.rounds) <= 2


@pytest.mark.parametrize("labeler", [FusedStitcher, StepwiseStitcher])
def test_turns_are_labelled_and_recalled_by_intent(bindings, data, tmp_path, labeler):
    memory = Memory.open(tmp_path / "m", agent=StitchAgent(), labeler=labeler())
    memory.add(data.store.history.first(2))
    with settings_for(bindings), metered(budget=Budget(calls=60)):
        done = memory.label()
        answer = memory.ask(data.questions[0].text)
    notebook = memory.store.notebook
    assert done.done + len(done.failed) == 2 and notebook.size == done.done >= 1
    assert all(note.scope in notebook.bank.labels for note in notebook.notes.values())
    assert all(note.span.holds_in(memory.store.turn(note.turn_id)) for note in notebook.notes.values())
    assert answer.text and {*answer.turn_ids} <= {turn.id for turn in memory.store.turns}


def test_compile_saves_an_artifact_that_loads_and_resumes_without_calls(bindings, data, tmp_path):
    some = select(data.questions, "train", 3) + select(data.questions, "held_out", 2)
    job = Job(
        program=Answerer(),
        task=Task.of("answerer", some, data.store, k=4),
        questions=some,
        metric=AnswerF1(some, data.store, threshold=0.01),
        recipe=make_recipe("bootstrap", max_demos=1),
        bindings=bindings,
        out=tmp_path / "answerer",
        runs=tmp_path / "runs",
    )
    first = compile_program(job, Budget(calls=7))
    again = compile_program(job, Budget(calls=0))
    assert isinstance(load(job.out), Answerer)
    assert 0 < first.ledger.total().calls <= 7
    assert again.ledger.total().calls == 0
    assert again.manifest == first.manifest
