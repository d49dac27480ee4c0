"""Bootstrapping keeps good runs only, knows where each demo comes from, and hides no error."""

import sys
from typing import Any

import dspy
import pytest
from dspy import lm15
from jobs import make_job, oracle_lm, small_data
from oracle import Oracle

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import UsageError
from stitchjam.optimizers.recipes import make_recipe
from stitchjam.optimizers.recipes.bootstrap import Bootstrap
from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.contract import predictors_of
from stitchjam.programs.step import settings_for

DATA = small_data()


def compile_with(tmp_path, lm, program=None, max_demos=2, progress=None, **settings):
    name = "memory_agent" if isinstance(program, MemoryAgent) else "answerer"
    job = make_job(tmp_path, DATA, lm, name, **settings)
    with settings_for(job.bindings):
        return Bootstrap(max_demos).compile(program or job.program, job.task, job.metric, job.bindings, progress)


def test_only_runs_above_the_threshold_become_demos(tmp_path):
    seen = []
    candidate = compile_with(tmp_path, oracle_lm(DATA), max_demos=4, progress=lambda *event: seen.append(event))
    assert seen == [("q01", 1.0), ("q02", 0.0), ("q03", 1.0), ("q04", 0.0)]
    assert candidate.sources == {"answer_question": ("q01", "q03")}


def test_it_ends_when_there_are_enough(tmp_path):
    lm = oracle_lm(DATA)
    compile_with(tmp_path, lm, max_demos=1)
    assert len(lm.engine.calls) == 1


def test_a_demo_holds_inputs_and_reply_only(tmp_path):
    program = compile_with(tmp_path, oracle_lm(DATA)).program
    for demo in predictors_of(program)["answer_question"].demos:
        assert set(demo.keys()) == {"augmented", "context", "question", "reply"}


def test_the_student_stays_as_it_was(tmp_path):
    student = Answerer()
    compile_with(tmp_path, oracle_lm(DATA), student)
    assert predictors_of(student)["answer_question"].demos == []


def test_the_result_of_a_compile_can_be_compiled_again(tmp_path):
    first = compile_with(tmp_path / "1", oracle_lm(DATA)).program
    again = compile_with(tmp_path / "2", oracle_lm(DATA), first)
    assert again.sources == {"answer_question": ("q01", "q02")}  # with its demos the oracle is always right


def test_a_child_that_was_compiled_before_keeps_its_demos(tmp_path):
    child: Any = compile_with(tmp_path / "1", oracle_lm(DATA)).program
    candidate = compile_with(tmp_path / "2", oracle_lm(DATA), MemoryAgent(answerer=child))
    assert candidate.sources["answerer.answer_question"] == ("an earlier compile",) * 2
    assert candidate.sources["researcher.plan_first"] == ("q01", "q02")


def test_sources_name_the_good_example_when_a_bad_one_had_the_same_call(tmp_path):
    data = DATA._replace(questions=(DATA.questions[1], *DATA.questions))
    twin = data.questions[0].model_copy(update={"id": "bad", "answer": "something else", "aliases": ()})
    good = DATA.questions[0]
    questions = (good, twin.model_copy(update={"text": good.text}), *DATA.questions[4:])
    job = make_job(tmp_path, data, Oracle(DATA, always_right=True).lm(), questions=questions)
    with settings_for(job.bindings):
        candidate = Bootstrap(2).compile(job.program, job.task, job.metric, job.bindings)
    assert candidate.sources == {"answer_question": (good.id,)}


def test_the_teacher_answers_every_step_of_the_training_runs(tmp_path):
    task: Any = oracle_lm(DATA)
    teacher: Any = scripted_lm(Oracle(DATA, always_right=True).scripts(), "teacher")
    candidate = compile_with(tmp_path, None, bindings=Bindings({"task": task, "teacher": teacher}, {}))
    assert (len(task.engine.calls), len(teacher.engine.calls)) == (0, 2)
    assert candidate.sources == {"answer_question": ("q01", "q02")}


def test_unusable_answers_are_examples_that_do_not_count(tmp_path):
    candidate = compile_with(tmp_path, oracle_lm(DATA, answer_question="no json"))
    assert candidate.sources == {} and not predictors_of(candidate.program)["answer_question"].demos


def test_a_refused_request_is_an_example_that_does_not_count(tmp_path):
    def refuse(call):
        raise lm15.InvalidRequestError("too long")

    assert compile_with(tmp_path, oracle_lm(DATA, answer_question=refuse)).sources == {}


def test_an_error_of_the_caller_is_raised_and_not_taken_for_a_bad_example(tmp_path):
    class Broken(Answerer):
        def forward(self, question, context):
            raise UsageError("$KEY is not set")

    with pytest.raises(UsageError, match="KEY"):
        compile_with(tmp_path, oracle_lm(DATA), Broken())


def test_a_metric_without_gold_is_an_error_and_not_a_bad_example(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    job.metric.gold.clear()
    with settings_for(job.bindings), pytest.raises(UsageError, match="no gold"):
        Bootstrap(2).compile(job.program, job.task, job.metric, job.bindings)


def test_dspy_prints_nothing_and_progress_may_print(tmp_path, capsys):
    compile_with(tmp_path, oracle_lm(DATA), progress=lambda key, value: sys.stdout.write(f"{key} {value}\n"))
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["q01 1.0", "q02 0.0", "q03 1.0"] and shown.err == ""


def test_without_bindings_the_ambient_model_answers(tmp_path):
    lm = oracle_lm(DATA)
    with dspy.context(lm=lm):
        compile_with(tmp_path, None, bindings=None)
    assert len(lm.engine.calls) == 3


def test_an_unknown_recipe_names_the_known_ones():
    with pytest.raises(UsageError, match="known: bootstrap"):
        make_recipe("gepa")
