"""A compile ends with a judged artifact, or with nothing but replies from which the same command goes on."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15
from jobs import make_job, oracle_lm, small_data
from oracle import Oracle

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.backends.usage import Budget
from stitchjam.data.errors import BudgetStop, UsageError
from stitchjam.optimizers.compile import compile_program, plan_only
from stitchjam.optimizers.recipes import make_recipe
from stitchjam.optimizers.rows import read_report
from stitchjam.programs.artifact import load, open_program, read_manifest
from stitchjam.programs.contract import predictors_of, signature_of

DATA = small_data()
TESTS = Path(__file__).parent


def all_text(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


def calls_of_a_whole_run(tmp_path, threads: int = 1) -> int:
    lm = oracle_lm(DATA)
    compile_program(make_job(tmp_path / "whole", DATA, lm, threads=threads))
    return len(lm.engine.calls)


# -- the ways it can end


def test_a_gain_is_published(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    done = compile_program(job)
    assert (done.comparison.before, done.comparison.after) == (0.5, 1.0)
    assert done.manifest == read_manifest(job.out) and done.manifest.published
    assert done.manifest.demos == {"answer_question": ("q01", "q03")}
    assert predictors_of(load(job.out))["answer_question"].demos


def test_a_gain_of_the_memory_agent_is_published(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA), "memory_agent", "end")
    assert compile_program(job).manifest.published
    assert len(predictors_of(load(job.out))) == 6


def test_no_gain_is_refused_with_the_reason_and_can_still_be_loaded(tmp_path):
    job = make_job(tmp_path, DATA, Oracle(DATA, always_right=True).lm())
    manifest = compile_program(job).manifest
    assert not manifest.published and "no gain on held-out data (1.000 -> 1.000, n 4)" in manifest.refused[0]
    assert read_manifest(job.out).refused == manifest.refused
    load(job.out)


def test_zero_demos_are_refused(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA, answer_question={"sources": [], "answer": "wrong"}))
    refused = compile_program(job).manifest.refused
    assert any("no training example was answered well enough" in reason for reason in refused)


def test_a_failing_example_in_the_compiled_program_is_refused(tmp_path):
    oracle, last = Oracle(DATA), DATA.questions[-1].text

    def answer(call):
        return "no json" if len(call.messages) > 1 and last in call.prompt else oracle.answer(call)

    done = compile_program(make_job(tmp_path, DATA, oracle_lm(DATA, answer_question=answer)))
    assert done.comparison.gain > 0 and done.compiled.coverage == 0.75
    [reason] = done.manifest.refused
    assert "1 of 4 held-out examples failed" in reason and DATA.questions[-1].id in reason


def test_the_run_folder_holds_both_reports(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    compile_program(job)
    rows = read_report(job.folder / "compiled.jsonl").rows
    assert [row.id for row in rows] == [example.id for example in job.task.held_out]
    assert (job.folder / "seed.jsonl").exists()


def test_progress_tells_stage_example_and_score(tmp_path):
    seen = []
    compile_program(make_job(tmp_path, DATA, oracle_lm(DATA)), progress=lambda *event: seen.append(event))
    assert [stage for stage, _, _ in seen] == ["seed"] * 4 + ["compile"] * 3 + ["compiled"] * 4
    assert seen[4] == ("compile", "q01", 1.0)


def test_an_artifact_can_be_compiled_again(tmp_path):
    first = make_job(tmp_path, DATA, oracle_lm(DATA))
    compile_program(first)
    lm = oracle_lm(DATA)
    again = replace(make_job(tmp_path, DATA, lm), program=open_program(str(first.out))[1])
    assert again.folder != first.folder
    assert "no gain" in compile_program(again).manifest.refused[0]


# -- outages, budgets, kills: resume


def dying(after: int, threads: int = 1):
    """An oracle whose backend is out from the call after `after` on."""
    oracle, lock, made = Oracle(DATA), threading.Lock(), []

    def answer(call):
        with lock:
            made.append(call)
            dead = len(made) > after
        if dead:
            raise lm15.TransportError("connection refused")
        return oracle.answer(call)

    return oracle_lm(DATA, answer_question=answer)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("after", [0, 2, 6, 9])
def test_an_outage_stops_the_run_and_mended_it_asks_for_what_is_missing_only(tmp_path, after, threads):
    whole = calls_of_a_whole_run(tmp_path, threads)
    job = make_job(tmp_path, DATA, dying(after), threads=threads)
    with pytest.raises(BudgetStop, match="Mend the backend"):
        compile_program(job)
    assert not job.out.exists()
    lm = oracle_lm(DATA)
    done = compile_program(make_job(tmp_path, DATA, lm, threads=threads))
    assert done.manifest.published and len(lm.engine.calls) == whole - after


@pytest.mark.parametrize("threads", [1, 4])
def test_a_budget_of_ten_calls_makes_ten_and_more_goes_on(tmp_path, threads):
    whole = calls_of_a_whole_run(tmp_path, threads)
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm, threads=threads)
    with pytest.raises(BudgetStop, match="10 of 10 calls used"):
        compile_program(job, Budget(calls=10))
    assert len(lm.engine.calls) == 10 and not job.out.exists()
    assert compile_program(job, Budget(calls=whole)).manifest.published
    assert len(lm.engine.calls) == whole


def test_a_stopped_compile_leaves_an_older_artifact_alone(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    compile_program(job)
    before = all_text(job.out)
    other = make_job(tmp_path, DATA, oracle_lm(DATA), max_demos=1)
    with pytest.raises(BudgetStop):
        compile_program(other, Budget(calls=1))
    assert all_text(job.out) == before


KILLED = """
    import os, sys, time
    from pathlib import Path
    from jobs import make_job, oracle_lm, small_data
    from oracle import Oracle
    from stitchjam.optimizers.compile import compile_program

    data, folder = small_data(), Path(sys.argv[1])
    oracle, made = Oracle(data), []

    def answer(call):
        made.append(call)
        if len(made) > 6:
            (folder / "ready").touch()
            time.sleep(60)
        return oracle.answer(call)

    compile_program(make_job(folder, data, oracle_lm(data, answer_question=answer)))
"""


def test_a_killed_run_goes_on(tmp_path):
    code = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    process = subprocess.Popen(code, cwd=TESTS, env=os.environ | {"PYTHONPATH": str(TESTS)})
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    lm = oracle_lm(DATA)
    assert compile_program(make_job(tmp_path, DATA, lm)).manifest.published
    assert len(lm.engine.calls) == calls_of_a_whole_run(tmp_path) - 6


# -- run folders


def test_the_same_job_has_the_same_run_folder(tmp_path):
    assert make_job(tmp_path, DATA, oracle_lm(DATA)).folder == make_job(tmp_path, DATA, oracle_lm(DATA)).folder


def reworded() -> tuple:
    return (DATA.questions[0].model_copy(update={"text": "What?"}), *DATA.questions[1:])


def with_instruction(job):
    predictor = predictors_of(job.program)["answer_question"]
    predictor.signature = signature_of(predictor).with_instructions("Answer.")
    return job


@pytest.mark.parametrize(
    "other",
    [
        lambda folder: make_job(folder, DATA, oracle_lm(DATA), questions=reworded()),
        lambda folder: make_job(folder, DATA, oracle_lm(DATA), metric="evidence_recall"),
        lambda folder: make_job(folder, DATA, oracle_lm(DATA), threshold=0.5),
        lambda folder: make_job(folder, DATA, oracle_lm(DATA), max_demos=1),
        lambda folder: make_job(folder, DATA, scripted_lm(Oracle(DATA).scripts(), "another")),
        lambda folder: make_job(folder, DATA, oracle_lm(DATA), "memory_agent"),
        lambda folder: with_instruction(make_job(folder, DATA, oracle_lm(DATA))),
    ],
    ids=["question", "metric", "threshold", "recipe", "model", "program", "instruction"],
)
def test_another_job_has_another_run_folder(tmp_path, other):
    assert other(tmp_path).folder != make_job(tmp_path, DATA, oracle_lm(DATA)).folder


@pytest.mark.parametrize("text", ['{"metric": 1}', "[]", "", '{"metric'])
def test_a_run_folder_of_another_fingerprint_is_refused(tmp_path, text):
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm)
    job.folder.mkdir(parents=True)
    (job.folder / "fingerprint.json").write_text(text)
    with pytest.raises(UsageError, match="belongs to another run"):
        compile_program(job)
    assert lm.engine.calls == []


@pytest.mark.parametrize("start", [plan_only, compile_program])
def test_an_output_folder_that_is_no_artifact_is_refused_before_any_call(tmp_path, start):
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm)
    job.out.mkdir()
    (job.out / "thesis.txt").touch()
    with pytest.raises(UsageError, match="not an artifact"):
        start(job)
    assert lm.engine.calls == []


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_an_output_folder_that_cannot_be_made_is_refused_before_any_call(tmp_path, place):
    (tmp_path / "file").touch()
    lm = oracle_lm(DATA)
    with pytest.raises(UsageError, match="choose another --out"):
        compile_program(replace(make_job(tmp_path, DATA, lm), out=tmp_path / place))
    assert lm.engine.calls == []


# -- models


def test_the_teacher_is_asked_on_training_questions_only(tmp_path):
    task: Any = oracle_lm(DATA)
    teacher: Any = scripted_lm(Oracle(DATA, always_right=True).scripts(), "teacher")
    done = compile_program(make_job(tmp_path, DATA, None, bindings=Bindings({"task": task, "teacher": teacher})))
    calls = {model: usage.calls for (_, model), usage in done.ledger.rows().items()}
    assert calls == {task.model: 8, teacher.model: 2}
    trained = {q.text for q in DATA.questions if q.split == "train"}
    assert all(any(text in call.prompt for text in trained) for call in teacher.engine.calls)
    assert done.manifest.compiled_for == {"role:task": task.model, "role:teacher": teacher.model}


def test_without_bindings_the_ambient_model_is_compiled_for(tmp_path):
    lm = oracle_lm(DATA)
    with dspy.context(lm=lm):
        done = compile_program(make_job(tmp_path, DATA, None, bindings=None))
    assert done.manifest.published and done.manifest.compiled_for == {"role:task": lm.model}


def test_two_addresses_of_the_same_model_do_not_share_replies(tmp_path):
    job = make_job(tmp_path, DATA, None, bindings=None)
    folders = set()
    for address in ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"):
        with dspy.context(lm=dspy.LM("openai/m", api_base=address)):
            folders.add(job.folder)
    assert len(folders) == 2


def test_a_teacher_without_a_key_is_not_taken_for_bad_examples(tmp_path):
    def no_key(call):
        raise UsageError("model 'teacher' needs its key in $TEACHER_KEY")

    teacher = scripted_lm({"answer_question": no_key}, "teacher")
    with pytest.raises((UsageError, BudgetStop), match="TEACHER_KEY"):
        compile_program(
            make_job(tmp_path, DATA, None, bindings=Bindings({"task": oracle_lm(DATA), "teacher": teacher}))
        )


def test_no_secret_reaches_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-1")

    def leak(call):
        if len(call.messages) > 1:
            raise lm15.InvalidRequestError("bad request with key sk-very-secret-1")
        return Oracle(DATA).answer(call)

    done = compile_program(make_job(tmp_path, DATA, oracle_lm(DATA, answer_question=leak)))
    assert done.compiled.coverage == 0
    assert "sk-very-secret-1" not in all_text(tmp_path) and "$SOME_API_KEY" in all_text(tmp_path)


# -- what the manifest says


def test_the_recipe_is_recorded_with_the_hash_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    manifest = compile_program(make_job(tmp_path, DATA, oracle_lm(DATA))).manifest
    assert manifest.recipe == {**make_recipe("bootstrap", max_demos=2).describe(), "pythonhashseed": "0"}


def test_cost_and_host_stay_out_of_the_manifest(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    compile_program(job)
    run = json.loads((job.out / "run.json").read_text())
    assert sum(row["calls"] for row in run["usage"]) == 11 and "python" in run["host"]
    assert "seconds" not in (job.out / "manifest.json").read_text()


def test_a_refused_artifact_spares_a_published_one_whose_writer_was_killed(tmp_path):
    data = small_data()
    out = tmp_path / "out"
    published = compile_program(make_job(tmp_path, data, oracle_lm(data)))
    assert published.path == out and published.manifest.published
    out.rename(tmp_path / ".out.old")  # as a kill between the two renames leaves it
    wrong = oracle_lm(data, answer_question={"sources": [], "answer": "wrong"})
    refused = compile_program(replace(make_job(tmp_path / "second", data, wrong), out=out))
    assert not refused.manifest.published and refused.path != out
    assert read_manifest(out).published
