"""Lines and tables for people say what the figures say."""

import io

import pytest
from rich.console import Console

from stitchjam.backends.probe import Probe
from stitchjam.backends.usage import Ledger, Usage
from stitchjam.data.errors import ArtifactError
from stitchjam.data.records import Answer
from stitchjam.data.sample import load_data
from stitchjam.optimizers.compare import Comparison
from stitchjam.optimizers.plan import Plan
from stitchjam.optimizers.report import (
    answer_lines,
    comparison_lines,
    manifest_lines,
    plan_line,
    probe_table,
    usage_line,
    usage_rows,
    usage_table,
)
from stitchjam.optimizers.rows import Report, Row
from stitchjam.optimizers.tables import report_line, report_table
from stitchjam.programs.artifact import SCHEMA, Manifest
from stitchjam.programs.render import quoted

COMPARISON = Comparison(n=16, before=0.5, after=0.75, gain=0.25, low=-0.05, high=0.5, better=5, worse=1)


def shown(table) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(table)
    return out.getvalue()


def ledger() -> Ledger:
    made = Ledger()
    made.add("plan_next", "m@1", Usage(calls=2, input_tokens=1500, output_tokens=20, seconds=3.0, cost=0.5))
    made.add("plan_next", "m@1", Usage(cache_hits=3))
    made.add("answer_question", "n@2", Usage(calls=1, failures=1, input_tokens=100, output_tokens=1, seconds=1.0))
    return made


def test_usage_in_one_line():
    assert usage_line(ledger()) == "3 calls (and 3 from replies on disk), 1,621 tokens, 4 s"


def test_usage_without_calls():
    assert usage_line(Ledger()) == "0 calls, 0 tokens, 0 s"


def test_usage_rows_are_ordered_and_hold_all_figures():
    first, second = usage_rows(ledger())
    assert (first["step"], first["failures"]) == ("answer_question", 1)
    assert (second["model"], second["calls"], second["cache_hits"], second["cost"]) == ("m@1", 2, 3, 0.5)


def test_the_usage_table_has_a_sum():
    *_, total = shown(usage_table(ledger())).splitlines()
    assert total.split() == ["sum", "3", "3", "1", "1,600", "21", "4.0", "$0.5000"]


@pytest.mark.parametrize(("seconds", "cost", "part"), [(30, 0.0, "30 s ("), (600, 1.5, "10.0 min, $1.50 (")])
def test_the_plan_in_one_line(seconds, cost, part):
    plan = Plan(
        runs=56, calls=392, tokens=379500, seconds=seconds, cost=cost, measured=2, calls_a_run=7, seconds_a_call=0.5,
        tokens_a_second=1200,
    )  # fmt: skip
    line = plan_line(plan)
    assert line.startswith("plan: at most 56 program runs, about 392 calls, 379,500 tokens, ") and part in line
    assert "measured on 2 runs: 7.0 calls a run, 0.5 s a call, 1200 tokens a second" in line


def manifest(**more) -> Manifest:
    facts = {
        "format": SCHEMA, "program": "answerer", "version": "1", "hparams": {"context_tokens": 10}, "predictors": {},
        "adapter": {}, "compiled_for": {"role:task": "m@1"}, "recipe": {"name": "bootstrap"},
        "metric": {"name": "answer_f1"}, "data": {}, "scores": {"held_out": COMPARISON.model_dump()},
        "published": True, "demos": {"answer_question": ("q1", "q2")}, "files": {},
    }  # fmt: skip
    return Manifest.model_validate(facts | more)


def test_a_manifest_for_people():
    assert manifest_lines(manifest()) == [
        "answerer {'context_tokens': 10}, compiled with bootstrap",
        "published",
        "answer_f1 on 16 held-out questions: seed 0.500 -> compiled 0.750",
        "gain +0.250 (95 % interval -0.050 to +0.500; 5 better, 1 worse)",
        "compiled for role:task m@1",
        "answer_question: 2 demos from q1, q2",
    ]


def test_a_refused_manifest_says_why():
    lines = manifest_lines(manifest(published=False, refused=("no gain", "a leak")))
    assert lines[1] == "not published: no gain; a leak"


@pytest.mark.parametrize("scores", [{}, {"held_out": {"n": 1}}])
def test_a_manifest_without_scores_is_an_artifact_error(scores):
    with pytest.raises(ArtifactError, match="no held-out scores"):
        manifest_lines(manifest(scores=scores))


def test_a_comparison_in_two_lines():
    assert comparison_lines(COMPARISON, "end")[0] == "end on 16 held-out questions: seed 0.500 -> compiled 0.750"


def test_a_report_counts_failures():
    rows = (
        Row(id="q1", outcome="ok", value=1.0, why="right", parts={"f1": 1.0}),
        Row(id="q2", outcome="parse_error", value=0.0, why="no [json]"),
    )
    report = Report(metric="answer_f1", rows=rows)
    assert (
        report_line(report) == "answer_f1 0.500 (95 % interval 0.000 to 1.000) on 2 questions; answered 50%; f1 0.500"
    )
    assert "parse_error" in shown(report_table(report))


def test_an_answer_with_the_turns_it_cites():
    store = load_data().store
    turn = store.turns[3]
    lines = answer_lines(Answer(text="31,000 euros", claims=(quoted(turn),)), store)
    assert lines == ["31,000 euros", f"  [s01t04] {turn.time[:10]} {turn.speaker}: {turn.text}"]


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (Answer(text="x"), ["x", "  (no turn cited)"]),
        (Answer(text="not mentioned", abstained=True), ["not mentioned (the memory does not say)"]),
    ],
)
def test_an_answer_that_cites_nothing_says_so(answer, lines):
    assert answer_lines(answer, load_data().store) == lines


def test_a_probe_that_found_nothing_says_so():
    assert shown(probe_table([Probe("m", "x", None, note="hm")])).splitlines()[1].split()[:2] == ["m", "nothing"]
