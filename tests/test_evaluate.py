"""Reports hide nothing: failures count zero and stay, usage is exact, comparisons are repeatable."""

import itertools
import math
import threading
import time

import dspy
import pytest
from dspy import lm15
from jobs import oracle_lm, small_data
from oracle import field

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.engine import make_lm
from stitchjam.backends.scripted import ScriptedEngine, scripted_lm
from stitchjam.backends.usage import Budget, Ledger, metered
from stitchjam.data.errors import BudgetStop, DataError, UsageError
from stitchjam.optimizers.compare import compare, interval
from stitchjam.optimizers.evaluate import Terms, Trial, evaluate, evaluate_kept
from stitchjam.optimizers.metrics import AnswerF1, Judged, Metric, Score
from stitchjam.optimizers.row_file import Rows
from stitchjam.optimizers.rows import Report, Row, Run, read_report, write_rows
from stitchjam.optimizers.task import examples
from stitchjam.programs.answer import Answerer

DATA = small_data()
METRIC = AnswerF1(DATA.questions, DATA.store)
EXAMPLES = examples("answerer", DATA.questions, DATA.store)


def failing_on(number: int, reply):
    """An answer step that fails for one question and is right for the others."""
    text = DATA.questions[number].text

    def answer(call):
        if field(call.prompt, "question") == text:
            if isinstance(reply, Exception):
                raise reply
            return reply
        question = next(q for q in DATA.questions if q.text == field(call.prompt, "question"))
        return {"sources": ["c1"], "answer": question.answer}

    return oracle_lm(DATA, answer_question=answer)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [("no json", "parse_error"), (lm15.InvalidRequestError("too long"), "lm_error")],
)
def test_a_failing_example_counts_zero_and_stays_in_the_report(reply, outcome):
    with dspy.context(lm=failing_on(1, reply)):
        report = evaluate(Answerer(), EXAMPLES, METRIC)
    assert [row.outcome for row in report.rows] == ["ok", outcome, *["ok"] * 6]
    assert report.rows[1].value == 0.0 and "answer_question" in report.rows[1].why
    assert report.score == report.coverage == report.parts["f1"] == 7 / 8


class Plain(dspy.Module):
    """A program without our steps: its errors are dspy's own."""

    def __init__(self):
        super().__init__()
        self.predict = dspy.Predict("question -> answer")

    def forward(self, question, context):
        return self.predict(question=question)


@pytest.mark.parametrize(
    ("reply", "outcome"), [("no json", "parse_error"), (lm15.InvalidRequestError("bad"), "lm_error")]
)
def test_a_failing_plain_dspy_module_does_not_end_the_evaluation(reply, outcome):
    def fail(call):
        if isinstance(reply, Exception):
            raise reply
        return reply

    with dspy.context(lm=oracle_lm(DATA, other=fail), adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        assert evaluate(Plain(), EXAMPLES[:1], METRIC).rows[0].outcome == outcome


def test_a_refusal_that_repeats_a_key_is_shown_without_it(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-1")
    with dspy.context(lm=failing_on(0, lm15.InvalidRequestError("wrong key sk-very-secret-1"))):
        why = evaluate(Answerer(), EXAMPLES[:1], METRIC).rows[0].why
    assert "sk-very-secret-1" not in why and "$SOME_API_KEY" in why


def timeless(report: Report) -> list[Row]:
    return [row.model_copy(update={"seconds": 0.0}) for row in report.rows]


def test_rows_and_order_are_equal_for_one_and_four_threads():
    with dspy.context(lm=oracle_lm(DATA)):
        one = evaluate(Answerer(), EXAMPLES, METRIC, threads=1)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)  # a cached call would count as a hit
    with dspy.context(lm=oracle_lm(DATA)):
        four = evaluate(Answerer(), EXAMPLES, METRIC, threads=4)
    assert timeless(one) == timeless(four)
    assert [row.id for row in four.rows] == [example.id for example in EXAMPLES]


def test_examples_run_at_once_and_once_each():
    busy, most, lock = 0, 0, threading.Lock()

    def slow(call):
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1
        return {"sources": [], "answer": "x"}

    lm = oracle_lm(DATA, answer_question=slow)
    with dspy.context(lm=lm):
        evaluate(Answerer(), EXAMPLES, METRIC, threads=4)
    assert 1 < most <= 4 and len(lm.engine.calls) == len(EXAMPLES)


def test_usage_of_a_row_is_its_own_and_the_sum_is_the_ledger():
    with dspy.context(lm=oracle_lm(DATA)), metered() as ledger:
        report = evaluate(Answerer(), EXAMPLES, METRIC, threads=4)
    assert [row.calls for row in report.rows] == [1] * len(EXAMPLES)
    assert sum(row.input_tokens for row in report.rows) == ledger.total().input_tokens
    assert len({row.input_tokens for row in report.rows}) > 1
    assert sum(row.output_tokens for row in report.rows) == ledger.total().output_tokens


@pytest.mark.parametrize("threads", [1, 4])
def test_a_spent_budget_passes_through(threads):
    lm = oracle_lm(DATA)
    with dspy.context(lm=lm), metered(Ledger(), Budget(calls=3)), pytest.raises(BudgetStop, match="3 of 3 calls"):
        evaluate(Answerer(), EXAMPLES, METRIC, threads)
    assert len(lm.engine.calls) == 3


def test_an_example_without_gold_is_an_error_and_not_a_zero():
    stranger = dspy.Example(id="?", question="?", context=EXAMPLES[0].context).with_inputs("question", "context")
    with dspy.context(lm=oracle_lm(DATA, answer_question={"sources": [], "answer": "x"})), pytest.raises(UsageError):
        evaluate(Answerer(), [stranger], METRIC)


def test_progress_is_called_once_an_example():
    seen: list[Row] = []
    with dspy.context(lm=oracle_lm(DATA)):
        report = evaluate(Answerer(), EXAMPLES, METRIC, progress=seen.append)
    assert tuple(seen) == report.rows


def test_an_evaluation_keeps_no_trace_of_its_prompts():
    with dspy.context(lm=oracle_lm(DATA), trace=[]):
        evaluate(Answerer(), EXAMPLES, METRIC)
        assert dspy.settings.trace == []


def test_rows_are_written_as_jsonl_and_folders_are_made(tmp_path):
    report = scored(1, 0.5)
    write_rows(tmp_path / "new" / "rows.jsonl", report)
    lines = (tmp_path / "new" / "rows.jsonl").read_text().splitlines()[1:]
    assert [Row.model_validate_json(line) for line in lines] == list(report.rows)


def test_rows_that_cannot_be_written_are_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        write_rows(tmp_path / "file" / "rows.jsonl", scored(1))


def scored(*values: float, ids: str = "abcdefgh") -> Report:
    rows = tuple(
        Row(id=key, metric="m", outcome="ok", value=value, why="") for key, value in zip(ids, values, strict=False)
    )
    return Report(metric="m", rows=rows)


def test_a_report_without_rows_scores_zero():
    assert (scored().score, scored().coverage, scored().parts) == (0.0, 0.0, {})


def test_a_comparison_by_hand():
    c = compare(scored(0.0, 0.5, 1.0, 0.5), scored(1.0, 0.5, 0.5, 1.0))
    assert (c.n, c.before, c.after, c.gain, c.better, c.worse) == (4, 0.5, 0.75, 0.25, 2, 1)
    # Of the 256 ways to draw 4 of the gains 1, 0, -0.5, 0.5, five (2 %) lie beyond each of these two means.
    assert (c.low, c.high) == (-0.25, 0.75)


def test_whole_histories_are_drawn_where_there_are_several():
    # Three questions about "a" gain 1, three about "b" nothing: of the four ways to draw two histories, a quarter are
    # two of "a" and a quarter two of "b". As single questions the interval would be narrower.
    def told(*values: float) -> Report:
        rows = tuple(row.model_copy(update={"history": "aaabbb"[at]}) for at, row in enumerate(scored(*values).rows))
        return Report(metric="m", rows=rows)

    before, after = (0.0,) * 6, (1.0,) * 3 + (0.0,) * 3
    clustered, single = compare(told(*before), told(*after)), compare(scored(*before), scored(*after))
    assert (clustered.low, clustered.gain, clustered.high, clustered.clusters) == (0.0, 0.5, 1.0, 2)
    assert (single.gain, single.clusters) == (0.5, 0) and 0 < single.low < single.high < 1


def test_a_mean_of_drawn_histories_counts_questions():
    rows = [scored(0.0, 0.0, 0.0).rows, scored(1.0, 0.0, 0.0).rows]
    before, after = (
        Report(metric="m", rows=tuple(row.model_copy(update={"history": "abb"[at]}) for at, row in enumerate(some)))
        for some in rows
    )
    c = compare(before, after)  # a: one question with gain 1; b: two without
    assert (c.low, c.gain, c.high) == (0.0, round(1 / 3, 6), 1.0)


def test_scores_of_each_type_stand_beside_one_another():
    def typed(*values: float) -> Report:
        rows = tuple(row.model_copy(update={"kind": "xxy"[at]}) for at, row in enumerate(scored(*values).rows))
        return Report(metric="m", rows=rows)

    assert compare(typed(0.0, 1.0, 1.0), typed(1.0, 1.0, 0.0)).kinds == {"x": (2, 0.5, 1.0), "y": (1, 1.0, 0.0)}


def test_reports_in_other_metrics_are_not_compared():
    with pytest.raises(UsageError, match="use the same --metric"):
        compare(scored(1.0), scored(1.0).model_copy(update={"metric": "other"}))


def test_a_report_is_read_as_it_was_written(tmp_path):
    rows = tuple(row.model_copy(update={"metric": "m", "kind": "x"}) for row in scored(0.5, 1.0).rows)
    write_rows(tmp_path / "rows.jsonl", Report(metric="m", rows=rows))
    assert read_report(tmp_path / "rows.jsonl") == Report(metric="m", rows=rows)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no rows of an evaluation"),
        (b"\n", "no rows of an evaluation"),
        (b'{"id": "a", "outcome": "ok", "value": 1, "why": ""}\n', "no rows of an evaluation, or of an older version"),
        (b"\xff\n", "no rows of an evaluation"),
        (b'{"run": {"metric": "m"}}\n{"id": "a"}\n', "line 2: no row of an evaluation"),
        (b'{"run": {"metric": "m"}}\n{"id"\n', "line 2: no row"),
        (b'{"run": {"metric": "m"}}\n\xff\n', "line 2: no row"),
        (
            b'{"run": {"metric": "m"}}\n{"id": "a", "metric": "n", "outcome": "ok", "value": 1, "why": ""}\n',
            "line 2: a row in 'n' among rows in 'm'",
        ),
    ],
)
def test_a_file_that_is_no_report_is_named(tmp_path, content, part):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=part):
        read_report(tmp_path / "rows.jsonl")
    with pytest.raises(UsageError, match="write it with: stitchjam eval --out"):
        read_report(tmp_path / "nowhere.jsonl")


def test_the_same_rows_give_the_same_interval():
    before, after = scored(0.1, 0.4, 0.2, 0.9), scored(0.3, 0.2, 0.8, 0.9)
    assert compare(before, after) == compare(before, after)


def test_equal_gains_leave_no_doubt():
    c = compare(scored(0.0, 0.0), scored(0.5, 0.5))
    assert (c.low, c.gain, c.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("after", [scored(1.0), scored(1.0, 1.0, ids="bc"), scored()])
def test_reports_of_other_examples_are_not_compared(after):
    with pytest.raises(UsageError, match="same examples"):
        compare(scored(0.0, 0.0), after)


def test_no_rows_are_not_compared():
    with pytest.raises(UsageError, match="same examples"):
        compare(scored(), scored())


def test_rows_are_compared_by_their_question_whatever_their_order():
    c = compare(scored(0.0, 1.0), scored(1.0, 0.5, ids="ba"))
    assert (c.better, c.worse, c.gain) == (1, 0, 0.25)


def test_an_interval_draws_whole_histories_where_there_are_several():
    assert interval({"a": [1.0, 1.0, 1.0], "b": [0.0, 0.0]}) == (0.0, 1.0)
    single = interval({"a": [1.0, 1.0, 1.0, 0.0, 0.0], "b": []})
    assert single == (0.2, 1.0)
    assert interval({"a": [0.5]}) == (0.5, 0.5)


def kept(tmp_path, lm, program=None, metric: Metric = METRIC, **terms) -> Report:
    """The report of a run on the small data; rows and replies stay in the folder."""
    keys = [("", example.id) for example in EXAMPLES]
    rows = Rows(tmp_path / "rows.jsonl", Run(metric=metric.name, asked=len(keys)), keys)
    how = Terms(Bindings({"task": lm}), tmp_path / "replies.jsonl", **terms)
    try:
        evaluate_kept(program or Answerer(), [Trial(EXAMPLES, metric)], rows, how)
    finally:
        report = rows.settle()
    return report


def answering(reply) -> dict:
    """A step that replies so."""
    return {"answer_question": reply}


RIGHT = {"sources": ["c1"], "answer": "x"}


def test_an_outage_leaves_no_zeros_and_the_same_command_goes_on(tmp_path):
    numbers = itertools.count()

    def failing(call):
        if next(numbers) >= 3:
            raise lm15.ServerError("down")
        return RIGHT

    for _ in range(2):  # each attempt would leave four more
        with pytest.raises(BudgetStop, match="backend out"):
            kept(tmp_path, scripted_lm(answering(failing)))
    assert [row.outcome for row in read_report(tmp_path / "rows.jsonl").rows] == ["ok"] * 3
    assert kept(tmp_path, scripted_lm(answering(RIGHT))).outcomes == {"ok": 8}


def test_a_failure_now_and_then_is_a_result(tmp_path):
    numbers = itertools.count()

    def failing(call):
        if next(numbers) % 2:
            raise lm15.ServerError("busy")
        return RIGHT

    assert kept(tmp_path, scripted_lm(answering(failing))).outcomes == {"lm_error": 4, "ok": 4}


def test_a_judge_that_is_down_stops_the_run(tmp_path):
    def down(call):
        raise lm15.ServerError("down")

    judge = scripted_lm({"judge_answer": down}, "judge")
    keys = [("", example.id) for example in EXAMPLES]
    rows = Rows(tmp_path / "rows.jsonl", Run(metric="judged", asked=len(keys)), keys)
    bindings = Bindings({"task": scripted_lm(answering(RIGHT)), "judge": judge})
    trial = Trial(EXAMPLES, Judged(DATA.questions, DATA.store))
    with pytest.raises(BudgetStop, match="backend out"):
        evaluate_kept(Answerer(), [trial], rows, Terms(bindings, tmp_path / "replies.jsonl"))
    assert rows.settle().rows == ()


def test_a_hung_call_does_not_keep_the_turn_of_others(tmp_path):
    first = threading.Event()

    def hanging(call):
        if not first.is_set():
            first.set()
            threading.Event().wait()
        return RIGHT

    engine = ScriptedEngine(answering(hanging), parallel=1)
    report = kept(tmp_path, make_lm(engine.endpoint, engine), threads=4, deadline=1.5)
    assert report.outcomes == {"budget": 1, "ok": 7}


def test_waiting_for_other_questions_is_no_time_of_a_question(tmp_path):
    def slow(call):
        time.sleep(0.3)
        return RIGHT

    engine = ScriptedEngine(answering(slow), parallel=1)
    assert kept(tmp_path, make_lm(engine.endpoint, engine), threads=8, deadline=1.5).outcomes == {"ok": 8}


def test_the_time_of_a_run_ends_a_hung_call(tmp_path):
    def hanging(call):
        threading.Event().wait()

    start = time.monotonic()
    with pytest.raises(BudgetStop, match="seconds used"):
        kept(tmp_path, scripted_lm(answering(hanging)), deadline=60, seconds=0.5)
    assert time.monotonic() - start < 20 and read_report(tmp_path / "rows.jsonl").rows == ()


class Fragile(Answerer):
    """Fails on one question as a program of a user may."""

    def forward(self, question, context):
        if question == DATA.questions[2].text:
            raise KeyError("a bug")
        return super().forward(question, context)


def test_a_program_that_fails_on_a_question_ends_no_run(tmp_path):
    report = kept(tmp_path, scripted_lm(answering(RIGHT)), Fragile())
    assert report.outcomes == {"ok": 7, "program_error": 1} and "KeyError" in report.rows[2].why


class Wild(AnswerF1):
    """A metric of a user's own that gives what is no score."""

    def score(self, gold, prediction):
        return Score(math.nan, "what?")


def test_a_metric_that_gives_no_score_is_a_metric_error(tmp_path):
    report = kept(tmp_path, scripted_lm(answering(RIGHT)), metric=Wild(DATA.questions, DATA.store))
    assert report.outcomes == {"metric_error": 8} and {row.answer for row in report.rows} == {"x"}


def test_a_judge_that_hangs_leaves_the_answer(tmp_path):
    def hanging(call):
        threading.Event().wait()

    lm = scripted_lm(answering(RIGHT) | {"judge_answer": hanging})
    report = kept(tmp_path, lm, metric=Judged(DATA.questions[:8], DATA.store), deadline=1.0, threads=8)
    assert report.outcomes == {"metric_error": 8} and {row.answer for row in report.rows} == {"x"}
