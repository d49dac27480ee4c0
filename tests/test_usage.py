"""Counting and limits: exact in threads, exact by step, and not to be swallowed by an optimizer."""

import threading
import time
from itertools import count

import dspy
import pytest
from dspy import lm15

from stitchjam.backends.engine import make_lm
from stitchjam.backends.scripted import ScriptedEngine, scripted_lm
from stitchjam.backends.usage import Budget, Ledger, Usage, metered, settle
from stitchjam.data.errors import BackendError, BudgetStop
from stitchjam.programs.step import Step, map_ordered
from stitchjam.signatures.answer import AnswerQuestion
from stitchjam.signatures.jam import BrowseSource

ANSWER = {"sources": ["c1"], "answer": "yes"}


def lm():
    return scripted_lm({"answer_question": ANSWER, "browse_source": {"lines": []}, "other": "hello"})


def ask(n):
    return Step(AnswerQuestion)(context="c", question=f"q{n}")


def browse(n):
    return Step(BrowseSource)(source="s", request=f"r{n}")


def test_the_ledger_is_exact_by_step_in_eight_threads():
    def work(n):
        for call in range(50):
            (ask if call % 2 else browse)(f"{n}.{call}")

    with dspy.context(lm=lm(), trace=None, disable_history=True), metered() as ledger:
        map_ordered(work, range(8), 8)
    calls = {step: usage.calls for (step, _), usage in ledger.rows().items()}
    assert calls == {"answer_question": 200, "browse_source": 200} and ledger.total().failures == 0
    assert ledger.total().input_tokens > 400 * 50 and ledger.total().tokens > ledger.total().input_tokens


def test_a_call_outside_any_step_is_counted_as_other():
    model = lm()
    with dspy.context(lm=model), metered() as ledger:
        model("hello")
    assert set(ledger.rows()) == {("other", model.model)}


def test_an_inner_ledger_passes_its_rows_on():
    with dspy.context(lm=lm()), metered() as outer:
        ask(1)
        with metered() as inner:
            ask(2)
        with metered(Ledger()) as apart:
            ask(3)
    assert (outer.total().calls, inner.total().calls, apart.total().calls) == (2, 1, 1)


def test_nothing_is_counted_without_a_ledger():
    with dspy.context(lm=lm()):
        assert ask(1).reply.answer == "yes"


def test_usages_add_up():
    assert Usage(calls=1, cost=0.5) + Usage(calls=2, input_tokens=3, output_tokens=4) == Usage(3, 0, 0, 3, 4, 0.0, 0.5)
    assert Ledger().total() == Usage()


@pytest.mark.parametrize("threads", [1, 4])
def test_a_budget_of_calls_is_exact(threads):
    with dspy.context(lm=lm()), metered(budget=Budget(calls=5)) as ledger:
        with pytest.raises(BudgetStop, match=r"stopped \(calls\): 5 of 5 calls used. Raise the budget") as caught:
            map_ordered(ask, range(20), threads)
    assert ledger.total().calls == 5 and caught.value.figures == {"used": 5}


def test_a_budget_of_tokens_stops_before_the_next_call():
    with dspy.context(lm=lm()), metered(budget=Budget(tokens=1)) as ledger:
        ask(1)
        with pytest.raises(BudgetStop, match="tokens"):
            ask(2)
    assert ledger.total().calls == 1


def test_a_budget_of_dollars_stops_before_the_next_call():
    with dspy.context(lm=lm()), metered(budget=Budget(cost=0.01)) as ledger:
        ask(1)
        settle("m", Usage(cost=0.02))
        with pytest.raises(BudgetStop, match="0.02 of 0.01 cost used"):
            ask(2)
    assert ledger.total().cost == 0.02


def test_a_budget_of_seconds_runs_by_the_clock(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr("stitchjam.backends.usage.time.monotonic", lambda: now)
    with dspy.context(lm=lm()), metered(budget=Budget(seconds=60)):
        ask(1)
        now += 61
        with pytest.raises(BudgetStop, match="seconds"):
            ask(2)


def test_replies_from_the_cache_are_free():
    with dspy.context(lm=lm()), metered(budget=Budget(calls=1)) as ledger:
        for _ in range(3):
            ask("the same")
    assert ledger.total().calls == 1


def test_an_inner_block_keeps_the_outer_budget():
    with dspy.context(lm=lm()), metered(budget=Budget(calls=1)):
        ask(1)
        with metered(), pytest.raises(BudgetStop):
            ask(2)


def test_a_budget_of_nothing_stops_the_first_call():
    with dspy.context(lm=lm()), metered(budget=Budget(calls=0)) as ledger, pytest.raises(BudgetStop):
        ask(1)
    assert ledger.total().calls == 0


EXAMPLES = [dspy.Example(context="c", question=f"q{n}").with_inputs("context", "question") for n in range(12)]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stop_leaves_dspys_evaluator(threads, capfd):
    run = dspy.Evaluate(devset=EXAMPLES, metric=lambda *_: 1.0, num_threads=threads, display_progress=False)
    with dspy.context(lm=lm()), metered(budget=Budget(calls=3)) as ledger, pytest.raises(BudgetStop):
        run(Step(AnswerQuestion))
    assert calls_in_the_end(ledger, 3) == 3


def calls_in_the_end(ledger, granted):
    """A thread may still be in the call that it was granted when the budget stops the others."""
    end = time.monotonic() + 5
    while ledger.total().calls < granted and time.monotonic() < end:
        time.sleep(0.01)
    return ledger.total().calls


def test_a_stop_leaves_bootstrapping(capfd):
    optimizer = dspy.BootstrapFewShot(metric=lambda *_: False, max_labeled_demos=0, max_errors=100)
    with dspy.context(lm=lm()), metered(budget=Budget(calls=3)) as ledger, pytest.raises(BudgetStop):
        optimizer.compile(Step(AnswerQuestion), trainset=EXAMPLES)
    assert ledger.total().calls == 3


@pytest.mark.parametrize("threads", [1, 4])
def test_a_stop_leaves_random_search(threads, capfd):
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=lambda *_: True, max_labeled_demos=0, num_candidate_programs=2, num_threads=threads, max_errors=100
    )
    with dspy.context(lm=lm()), metered(budget=Budget(calls=15)) as ledger, pytest.raises(BudgetStop):
        optimizer.compile(Step(AnswerQuestion), trainset=EXAMPLES, valset=EXAMPLES)
    assert calls_in_the_end(ledger, 15) == 15


def test_what_a_part_of_a_budget_spends_is_spent_by_the_whole():
    whole = Budget(calls=3)
    with dspy.context(lm=lm()), metered(budget=Budget(calls=2, outer=whole)):
        ask(1)
        ask(2)
        with pytest.raises(BudgetStop, match="2 of 2 calls"):
            ask(3)
    assert (whole.spent.calls, whole.ended) == (2, False) and whole.spent.output_tokens > 0
    part = Budget(calls=2, outer=whole)
    with dspy.context(lm=lm()), metered(budget=part):
        ask(4)
        with pytest.raises(BudgetStop, match="3 of 3 calls"):
            ask(5)
    assert whole.ended and not part.ended


def test_nothing_more_is_called_under_a_budget_that_was_ended():
    part = Budget(seconds=60, outer=Budget())
    part.end()
    with dspy.context(lm=lm()), metered(budget=part) as ledger, pytest.raises(BudgetStop):
        ask(1)
    assert part.ended and ledger.total().calls == 0


def failing(*fail: int):
    """A model whose requests of these numbers time out."""
    numbers = count()

    def answer(call):
        if next(numbers) in fail:
            raise lm15.TimeoutError("too slow")
        return ANSWER

    return scripted_lm({"answer_question": answer})


def test_a_request_that_fails_now_and_then_is_no_outage():
    with dspy.context(lm=failing(1, 2, 4, 5)), metered(budget=Budget(patience=2, outer=None)):
        outcomes = []
        for n in range(7):
            try:
                outcomes.append(ask(n).reply.answer)
            except BackendError as error:
                outcomes.append(str(error))
    assert [outcome == "yes" for outcome in outcomes] == [True, False, False, True, False, False, True]


def test_a_backend_that_fails_too_often_in_a_row_is_out_for_all_parts_of_a_budget():
    whole = Budget(patience=2)
    with dspy.context(lm=failing(*range(9))):
        for n in range(2):
            with metered(budget=Budget(seconds=60, outer=whole)), pytest.raises(BackendError):
                ask(n)
        with metered(budget=Budget(seconds=60, outer=whole)), pytest.raises(BudgetStop, match="backend out"):
            ask(3)


def test_a_budget_has_no_patience_unless_told():
    with dspy.context(lm=failing(0)), metered(budget=Budget()), pytest.raises(BudgetStop, match="backend out"):
        ask(1)


def test_a_key_that_is_refused_is_an_outage_at_once():
    def refuse(call):
        raise lm15.AuthError("who are you")

    refusing = scripted_lm({"answer_question": refuse})
    with dspy.context(lm=refusing), metered(budget=Budget(patience=9)), pytest.raises(BudgetStop):
        ask(1)


def test_an_endpoint_gets_as_many_requests_at_once_as_it_can_take():
    busy, most, lock = 0, 0, threading.Lock()

    def slow(call):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1
        return ANSWER

    engine = ScriptedEngine({"answer_question": slow}, parallel=2)
    with dspy.context(lm=make_lm(engine.endpoint, engine)), metered() as ledger:
        map_ordered(ask, range(8), threads=8)
    assert most == 2 and ledger.total().calls == 8
    assert ledger.total().seconds < 8 * 0.05  # waiting for a turn is no time of the model
