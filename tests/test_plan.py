"""A plan bounds the compile that follows it and costs nothing twice."""

import dspy
import pytest
from jobs import make_job, oracle_lm, small_data
from oracle import field

from stitchjam.backends.usage import Budget
from stitchjam.data.errors import BudgetStop
from stitchjam.data.records import History
from stitchjam.data.sample import Data
from stitchjam.data.store import Store
from stitchjam.optimizers.compile import compile_program, plan_only

DATA = small_data()


@pytest.mark.parametrize(("program", "metric"), [("answerer", "answer_f1"), ("memory_agent", "end")])
def test_the_plan_bounds_the_calls_tokens_and_runs_of_the_compile(tmp_path, program, metric):
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm, program, metric)
    plan = plan_only(job)
    rehearsed = len(lm.engine.calls)
    used = compile_program(job).ledger.total()
    assert rehearsed == plan.measured * plan.calls_a_run
    assert used.calls + rehearsed <= plan.calls and used.tokens <= plan.tokens
    assert plan.runs == 4 + 4 + 4


def test_the_dearest_rehearsed_run_decides(tmp_path):
    first = next(q.text for q in DATA.questions if q.split == "train")

    def plan_first(call):
        needs = ["x"] if field(call.prompt, "question") == first else ["x", "y"]
        return {"needs": needs, "actions": [{"tool": "browse", "target": "c1", "query": ""}]}

    lm = oracle_lm(DATA, plan_first=plan_first)
    plan = plan_only(make_job(tmp_path, DATA, lm, "memory_agent", "end"))
    calls = len(lm.engine.calls)
    assert plan.calls_a_run > calls / 2  # more than the mean


def test_replies_of_the_rehearsal_are_used_again(tmp_path):
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm)
    plan_only(job)
    assert len(lm.engine.calls) == 2
    done = compile_program(job)
    assert done.ledger.total().cache_hits == 2
    prompts = [call.messages for call in lm.engine.calls]
    assert len(prompts) == len(set(prompts))


def test_a_second_plan_of_the_same_run_is_the_first_and_costs_nothing(tmp_path):
    lm = oracle_lm(DATA)
    job = make_job(tmp_path, DATA, lm)
    first = plan_only(job)
    compile_program(job)
    calls = len(lm.engine.calls)
    assert plan_only(job) == first and len(lm.engine.calls) == calls


def test_a_plan_from_replies_on_disk_still_counts_their_calls(tmp_path):
    job = make_job(tmp_path, DATA, oracle_lm(DATA))
    first = plan_only(job)
    (job.folder / "plan.json").write_text("{")
    again = plan_only(job)
    assert (again.calls, again.calls_a_run, again.tokens) == (first.calls, first.calls_a_run, 0)


def test_demos_make_prompts_longer(tmp_path):
    one = plan_only(make_job(tmp_path / "1", DATA, oracle_lm(DATA), max_demos=1))
    four = plan_only(make_job(tmp_path / "4", DATA, oracle_lm(DATA), max_demos=4))
    assert four.tokens > one.tokens and four.calls == one.calls


def test_a_rehearsal_that_fails_still_counts_its_calls(tmp_path):
    plan = plan_only(make_job(tmp_path, DATA, oracle_lm(DATA, answer_question="no json")))
    assert plan.calls == 12


def test_a_program_that_calls_nothing_cannot_be_planned(tmp_path):
    nothing = Data(Store.of(History(id="h", sessions=())), DATA.questions)
    with pytest.raises(BudgetStop, match="no LM call"):
        plan_only(make_job(tmp_path, nothing, oracle_lm(DATA)))


def test_a_dead_backend_stops_a_plan_also_without_a_budget(tmp_path):
    def dead(call):
        raise dspy.lm15.TransportError("connection refused")

    with pytest.raises(BudgetStop, match="backend out"):
        plan_only(make_job(tmp_path, DATA, oracle_lm(DATA, answer_question=dead)))


def test_the_budget_holds_for_the_plan_too(tmp_path):
    with pytest.raises(BudgetStop, match="1 of 1 calls"):
        plan_only(make_job(tmp_path, DATA, oracle_lm(DATA)), Budget(calls=1))


def test_progress_names_the_rehearsed_examples(tmp_path):
    seen = []
    plan_only(make_job(tmp_path, DATA, oracle_lm(DATA)), progress=lambda *event: seen.append(event[:2]))
    assert seen == [("plan", "q01"), ("plan", "q02")]
