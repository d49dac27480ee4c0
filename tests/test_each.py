"""Items are taken as threads are free, results come as they are done, and one that hangs is left behind."""

import threading
import time

import dspy
import pytest

from stitchjam.data.errors import BudgetStop
from stitchjam.programs.each import each


def test_every_item_comes_back_with_its_result():
    assert sorted(each(lambda n: n * n, range(5), threads=3)) == [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]
    assert list(each(lambda n: n, [])) == []


def test_one_thread_keeps_the_order():
    assert [item for item, _ in each(str, range(20))] == list(range(20))


def test_an_item_is_taken_when_a_thread_is_free():
    taken = []
    found = each(lambda n: n, (taken.append(n) or n for n in range(9)), threads=2)
    next(found)
    assert len(taken) <= 2


def test_one_that_hangs_is_given_without_a_result_and_the_others_go_on():
    hung = threading.Event()
    start = time.monotonic()
    found = dict(each(lambda n: hung.wait() if n == 1 else n, range(6), threads=2, patience=lambda n: 0.5))
    assert found == {0: 0, 1: None, 2: 2, 3: 3, 4: 4, 5: 5} and time.monotonic() - start < 5
    hung.set()


def test_a_result_that_comes_too_late_is_not_given():
    late = threading.Event()

    def slow(n):
        if n == 0:
            late.wait()
            return "late"
        late.set()
        time.sleep(0.1)
        return n

    assert list(each(slow, range(3), patience=lambda n: 0.3)) == [(0, None), (1, 1), (2, 2)]


@pytest.mark.parametrize("error", [ValueError("no"), BudgetStop("calls", "3 of 3")])
def test_an_error_is_raised_after_items_under_way_were_given(error):
    started = threading.Barrier(2)

    def one(n):
        started.wait(5)
        if n == 0:
            raise error
        time.sleep(0.1)
        return n

    seen = []
    with pytest.raises(type(error)):
        for item, _ in each(one, range(9), threads=2):
            seen.append(item)
    assert seen == [1]


def test_items_run_in_the_context_of_the_caller():
    with dspy.context(num_threads=77):
        assert list(each(lambda n: dspy.settings.num_threads, [0])) == [(0, 77)]
