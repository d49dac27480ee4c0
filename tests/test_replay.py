"""Recorded replies: resume after a crash, and runs without a model."""

import json
import threading
from collections.abc import Iterable
from typing import Any

import dspy
import pytest
from dspy.clients.cache import Cache

from stitchjam.backends.replay import Mode, ReplayCache, replies
from stitchjam.backends.scripted import scripted_lm
from stitchjam.backends.usage import Budget, metered
from stitchjam.data.errors import BudgetStop, DataError, UsageError
from stitchjam.programs.step import Step, map_ordered
from stitchjam.signatures.answer import AnswerQuestion


def lm(text="yes") -> Any:
    return scripted_lm({"answer_question": lambda call: {"sources": ["c1"], "answer": f"{text} {call.prompt[-2:]}"}})


def ask(n, **options):
    return Step(AnswerQuestion)(context="c", question=f"q{n}", **options).reply.answer


def run(file, mode: Mode = "record", numbers: Iterable[int] = range(3), model: Any = None, **options: Any):
    """Answers, backend calls made, and usage."""
    model = model or lm()
    with replies(file, mode), dspy.context(lm=model), metered() as ledger:
        answers = [ask(n, **options) for n in numbers]
    return answers, len(model.engine.calls), ledger.total()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "runs" / "replies.jsonl"


def test_what_was_recorded_is_replayed_without_a_call(file):
    answers, calls, _ = run(file)
    again, more, usage = run(file, "replay")
    assert again == answers == ["yes q0", "yes q1", "yes q2"] and (calls, more) == (3, 0)
    assert (usage.calls, usage.cache_hits, usage.tokens, usage.cost) == (0, 3, 0, 0.0)


def test_a_line_names_its_step(file):
    run(file)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows] == ["answer_question"] * 3 and set(rows[0]) == {"key", "step", "value"}


def test_recording_goes_on_where_it_stopped(file):
    run(file, numbers=range(2))
    answers, calls, usage = run(file, numbers=range(4))
    assert len(answers) == 4 and calls == 2 and (usage.calls, usage.cache_hits) == (2, 2)


def test_a_miss_in_replay_is_wrong_data_that_names_the_step(file):
    run(file)
    with pytest.raises(DataError, match="no recorded reply .* step 'answer_question'.*mode='record'"):
        run(file, "replay", numbers=[7])


def test_nothing_to_replay_is_said_before_the_first_call(file):
    with pytest.raises(DataError, match="no recorded replies"):
        run(file, "replay")


def test_a_rollout_is_another_reply(file):
    hot: dict[str, Any] = {"config": {"rollout_id": 1, "temperature": 1.0}}
    assert run(file, numbers=[0], **hot)[1] == run(file, numbers=[0])[1] == 1
    assert run(file, numbers=[0], **hot)[1] == 0


def test_another_model_is_another_reply(file):
    run(file)
    assert run(file, model=scripted_lm(lm().engine.scripts, alias="other"))[1] == 3


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_line_cut_by_a_crash_is_asked_for_again(file, cut):
    run(file)
    file.write_bytes(file.read_bytes()[:-cut])
    whole = cut == 1  # only the line break is missing
    assert run(file, numbers=range(4))[1] == (1 if whole else 2)
    assert run(file, "replay", numbers=range(4))[1] == 0


def test_a_cut_line_is_left_alone_in_replay(file):
    run(file)
    file.write_bytes(file.read_bytes()[:-9])
    before = file.read_bytes()
    assert run(file, "replay", numbers=range(2))[1] == 0 and file.read_bytes() == before


@pytest.mark.parametrize(
    "bad", [b"{", b"3", b"[]", b'{"key": []}', b'{"key": "k"}', b"\xff", b'{"key": [], "value": 1}']
)
def test_a_damaged_line_in_the_middle_is_named(file, bad):
    run(file)
    lines = file.read_bytes().split(b"\n")
    file.write_bytes(b"\n".join([lines[0], bad, *lines[1:]]))
    with pytest.raises(DataError, match=r"replies\.jsonl, line 2: not a recorded reply .*delete the line"):
        run(file)


def test_empty_lines_do_no_harm(file):
    run(file)
    file.write_bytes(b"\n" + file.read_bytes().replace(b"\n", b"\n\n"))
    assert run(file, "replay")[1] == 0


def test_any_text_survives(file):
    model = scripted_lm({"answer_question": '{"sources": [], "answer": "caf\u00e9 \u65e5 \\ud83d\\ude00 \u2028"}'})
    first = run(file, numbers=[0], model=model)[0]
    assert run(file, "replay", numbers=[0])[0] == first == ["caf\u00e9 \u65e5 \U0001f600 \u2028"]


def test_half_a_surrogate_pair_from_a_model_is_recorded(file):
    with replies(file), dspy.context(lm=scripted_lm({"other": "torn \ud83d"})):
        dspy.settings.lm("hello")
        with pytest.raises(DataError), replies(file, "replay"):
            assert dspy.settings.lm("hello") == ["torn \ud83d"]
            dspy.settings.lm("something else")


def test_four_threads_write_whole_lines(file):
    with replies(file), dspy.context(lm=lm()):
        map_ordered(ask, range(40), 4)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len({row["key"] for row in rows}) == 40
    assert run(file, "replay", numbers=range(40))[1] == 0


def test_the_cache_of_dspy_comes_back_whatever_happens(file):
    before = dspy.cache
    for error in (ValueError, KeyboardInterrupt, lambda: BudgetStop("calls", "used up")):
        with pytest.raises((ValueError, KeyboardInterrupt, BudgetStop)), replies(file):
            assert isinstance(dspy.cache, ReplayCache)
            raise error()
        assert dspy.cache is before
    file.write_text("{\n{\n")
    with pytest.raises(DataError), replies(file):
        pass
    assert dspy.cache is before and isinstance(before, Cache)


def test_a_reply_is_on_disk_before_the_next_call(file):
    with replies(file), dspy.context(lm=lm()), metered(budget=Budget(calls=2)), pytest.raises(BudgetStop):
        for n in range(5):
            ask(n)
    assert run(file, numbers=range(5))[1] == 3


def test_without_a_file_replies_are_kept_in_memory(tmp_path):
    model = lm()
    with replies(None), dspy.context(lm=model):
        assert ask(1) == ask(1)
    assert len(model.engine.calls) == 1 and list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_found_out_before_the_first_call(tmp_path):
    (tmp_path / "file").write_text("")
    model = lm()
    for path in (tmp_path / "file" / "replies.jsonl", tmp_path):
        with pytest.raises(UsageError, match="cannot be kept in .*choose another folder"):
            run(path, model=model)
    assert model.engine.calls == []


def test_another_thread_sees_the_same_replies(file):
    run(file)
    model, answers = lm(), []

    def work():
        with dspy.context(lm=model):
            answers.append(ask(0))

    with replies(file, "replay"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert answers == ["yes q0"] and model.engine.calls == []


def test_a_value_that_json_cannot_hold_does_not_break_the_call(file):
    with replies(file) as cache:
        cache.put({"model": "m", "prompt": "p"}, object())
        assert cache.get({"model": "m", "prompt": "p"}) is not None
    assert file.read_bytes() == b""


def test_a_reply_that_is_asked_for_again_stands_for_the_one_before(file):
    def asked(reply, mode):
        with replies(file, mode), dspy.context(lm=scripted_lm({"other": reply}), adapter=dspy.ChatAdapter()):
            return [dspy.settings.lm(prompt)[0] for prompt in ("a", "a")]

    assert asked("one", "record") == asked("two", "record") == ["one", "one"]
    assert asked("two", "again") == asked("three", "record") == ["two", "two"]
