"""How far a judge agrees with labels: kappa by hand, failures that count, and judges that are compiled on labels."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from oracle import field

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import DataError, ModelError, UsageError
from stitchjam.optimizers.agreement import (
    Agreement,
    Labelled,
    agreement,
    agrees,
    judge_labels,
    kappa,
    label_examples,
    read_labels,
)
from stitchjam.optimizers.compare import compare
from stitchjam.optimizers.publish import write_artifact
from stitchjam.programs.artifact import load
from stitchjam.programs.contract import predictors_of, signed_name
from stitchjam.programs.judge import AnswerJudge

T, F = True, False
ROW = {"question": "When?", "reference": "ten", "answer": "at ten", "correct": True}


def table(both: int, strict: int, lenient: int, wrong: int) -> list[tuple[bool, bool | None]]:
    return [*[(T, T)] * both, *[(T, F)] * strict, *[(F, T)] * lenient, *[(F, F)] * wrong]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (table(20, 5, 10, 15), 0.4),  # 35/50 observed, (25*30 + 25*20)/50^2 = 0.5 expected
        (table(45, 15, 25, 15), (0.60 - 0.54) / 0.46),  # 60*70 + 40*30 of 100^2
        (table(2, 0, 0, 2), 1.0),
        (table(0, 2, 2, 0), -1.0),
        (table(6, 0, 4, 0), 0.0),  # a judge that always says the same
        (table(3, 0, 0, 0), 0.0),  # chance alone would agree as well
        ([(T, T), (T, None), (F, F), (F, None)], (0.5 - 0.25) / 0.75),  # 2*1/16 + 2*1/16
        ([(T, None), (F, None)], 0.0),
    ],
)
def test_kappa_by_hand(pairs, expected):
    assert kappa(pairs) == pytest.approx(expected)


def label(n: int, correct: bool, kind: str = "") -> Labelled:
    return Labelled(question=f"{n}?", reference="ten", answer=f"answer {n}", correct=correct, kind=kind, id=f"q{n}")


def judging(verdicts: dict[str, Any]) -> Any:
    """A model that judges by the answer; what it does not know is judged correct."""

    def reply(call):
        said = verdicts.get(field(call.prompt, "answer"), "CORRECT")
        if isinstance(said, Exception):
            raise said
        return {"missing": "" if said == "CORRECT" else "the hour", "verdict": said}

    return scripted_lm({"judge_answer": reply}, "judge")


def measured(labels: list[Labelled], lm: Any, folder: Path, judge: AnswerJudge | None = None) -> Agreement:
    bindings = Bindings({"task": scripted_lm({}, "task"), "judge": lm})
    report, _ = judge_labels(judge or AnswerJudge(), labels, bindings, folder / "replies.jsonl", threads=2)
    return agreement(labels, report)


LABELS = [label(1, T, "x"), label(2, F, "x"), label(3, T, "y"), label(4, F, "y"), label(5, T, "y")]


def test_all_figures_of_one_judge(tmp_path):
    found = measured(LABELS, judging({"answer 2": "WRONG", "answer 3": "WRONG", "answer 5": "perhaps"}), tmp_path)
    assert (found.both_correct, found.both_wrong, found.lenient, found.strict, found.failed) == (1, 1, 1, 1, 1)
    assert found.n == 5 and found.accuracy == 0.4 and found.kappa == pytest.approx((0.4 - 0.4) / 0.6, abs=1e-6)
    assert (found.kinds["x"].accuracy, found.kinds["x"].kappa) == (1.0, 1.0)
    assert found.kinds["y"].n == 3 and found.kinds["y"].accuracy == 0.0 and found.notes == ()
    assert -1 <= found.low <= found.kappa <= found.high <= 1


def test_the_same_labels_give_the_same_interval_and_more_of_them_a_smaller_one(tmp_path):
    some, more = ([label(n, n % 2 == 0) for n in range(size)] for size in (8, 80))
    wrong = {f"answer {n}": "WRONG" for n in range(80) if n % 4 == 1}
    one, again, larger = (measured(labels, judging(wrong), tmp_path / name)
                          for name, labels in (("a", some), ("b", some), ("c", more)))  # fmt: skip
    assert one == again and one.kappa == larger.kappa == 0.5
    assert larger.high - larger.low < one.high - one.low


def test_a_judge_that_always_says_the_same_has_kappa_0_and_it_is_said(tmp_path):
    found = measured(LABELS, judging({}), tmp_path)
    assert found.accuracy == 0.6 and found.kappa == found.low == found.high == 0.0
    assert "always says CORRECT" in found.notes[0]


def test_labels_of_one_sort_are_said_to_tell_nothing(tmp_path):
    found = measured([label(1, F), label(2, F)], judging({"answer 1": "WRONG"}), tmp_path)
    assert found.kappa == 0.0 and "every label is WRONG" in found.notes[0]


def test_a_stopped_run_goes_on_and_the_judges_model_is_asked(tmp_path):
    lm = judging({})
    measured(LABELS[:2], lm, tmp_path)
    measured(LABELS, lm, tmp_path)
    assert len(lm.engine.calls) == 5


def test_without_one_verdict_there_is_no_figure(tmp_path):
    with pytest.raises(ModelError, match="no answer was judged"):
        measured([label(1, T)], judging({"answer 1": "perhaps"}), tmp_path)
    with pytest.raises(UsageError, match="no labels"):
        measured([], judging({}), tmp_path)


# -- files


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_labels_are_read_and_named_by_their_line(tmp_path):
    read = read_labels(write(tmp_path, ROW, ROW | {"correct": False, "kind": "x", "id": "q7", "answer": ""}))
    assert [(one.id, one.kind, one.correct, one.answer) for one in read] == [
        ("line 1", "", True, "at ten"),
        ("q7", "x", False, ""),
    ]


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (ROW | {"correct": "yes"}, "correct"),
        (ROW | {"correct": 1}, "correct"),
        (ROW | {"reference": ""}, "reference"),
        ({"question": "?"}, "reference"),
        (ROW | {"knid": "x"}, "knid"),
        ([], "at least one record"),
        ("no json\n", "not valid JSON"),
        (ROW | {"id": "line 1"}, "there twice"),
    ],
)
def test_a_line_that_is_no_label_is_named(tmp_path, row, hint):
    with pytest.raises(DataError, match=rf"labels\.jsonl, line 2.*{hint}"):
        read_labels(write(tmp_path, ROW, row))


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="nowhere"):
        read_labels(tmp_path / "nowhere.jsonl")


# -- compiling


def test_a_judge_is_compiled_on_labels_saved_and_loaded_and_judges_the_same(tmp_path):
    known = {"answer 2": "WRONG", "answer 4": "WRONG", "answer 3": "WRONG"}

    def reply(call):  # with demos it has learned that answer 3 is right, too
        said = known.get(field(call.prompt, "answer"), "CORRECT")
        learned = len(call.messages) > 1 and field(call.prompt, "answer") == "answer 3"
        return {"missing": "the hour", "verdict": "CORRECT" if learned else said}

    optimizer = dspy.BootstrapFewShot(metric=agrees, max_bootstrapped_demos=2, max_labeled_demos=0)
    with dspy.context(lm=scripted_lm({"judge_answer": reply})):
        compiled = optimizer.compile(AnswerJudge(), trainset=label_examples([*LABELS[2:3], *LABELS[:2]]))
    [predictor] = predictors_of(compiled).values()
    assert [demo["answer"] for demo in predictor.demos] == ["answer 1", "answer 2"]
    assert all("correct" not in demo for demo in predictor.demos)  # what the label says, the reply says

    lm: Any = scripted_lm({"judge_answer": reply})
    bindings = Bindings({"task": lm})
    before, after = (judge_labels(judge, LABELS, bindings, tmp_path / f"{n}.jsonl")[0]
                     for n, judge in enumerate((AnswerJudge(), compiled)))  # fmt: skip
    assert (agreement(LABELS, before).accuracy, agreement(LABELS, after).kappa) == (0.8, 1.0)

    held_out = compare(before, after)
    facts: dict[str, Any] = {name: {} for name in ("compiled_for", "recipe", "metric", "data")}
    facts |= {"scores": {"held_out": held_out.model_dump(mode="json")}, "published": held_out.gain > 0}
    write_artifact(tmp_path / "judge", "answer_judge", compiled, facts, {})
    loaded = load(tmp_path / "judge")
    assert isinstance(loaded, AnswerJudge) and signed_name(loaded) == signed_name(compiled) != signed_name(
        AnswerJudge()
    )
    sent = len(lm.engine.calls)
    assert judge_labels(loaded, LABELS, bindings, tmp_path / "1.jsonl")[0] == after
    assert len(lm.engine.calls) == sent  # the same prompts, so every reply was kept


def test_the_compile_of_the_docs_runs_as_it_stands(tmp_path, monkeypatch, run):
    text = (Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md").read_text("utf-8")
    code = text.split("## Judges")[1].split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": judging({})}))
    write(tmp_path, *(one.model_dump() for one in LABELS))
    exec(compile(code, "docs", "exec"), {})
    code, out, _ = run("artifact", "show", "judge")
    assert code == 0 and "agreement on 2 held-out questions" in out and "demos" not in out


# -- command line


@pytest.fixture
def labels(tmp_path, monkeypatch):
    """A file with five labels, and a model behind the commands."""
    monkeypatch.chdir(tmp_path)
    lm = judging({"answer 2": "WRONG", "answer 3": "WRONG", "answer 5": "perhaps"})
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
    return write(tmp_path, *(one.model_dump() for one in LABELS))


def test_eval_judge_shows_counts_types_failures_and_kappa(run, labels):
    code, out, err = run("eval", "judge", str(labels))
    assert code == 0 and "judge" in err
    assert "accuracy 0.400 on 5 answers, 1 not judged; kappa 0.000 (95 % interval" in out
    assert "not judged: q5: step 'judge_answer'" in out and "judge CORRECT" in out
    assert [line.split() for line in out.splitlines() if line.startswith("x ")] == [["x", "2", "1.000", "1.000"]]


def test_eval_judge_as_json_and_rows_to_compare(run, labels):
    code, out, _ = run("eval", "judge", str(labels), "--json", "--out", "rows.jsonl", "--judge", "answer_judge")
    found = json.loads(out)
    assert code == 0 and (found["n"], found["strict"], found["not_judged"][0]["id"]) == (5, 1, "q5")
    assert found["usage"][0]["step"] == "judge_answer"
    code, out, _ = run("eval", "compare", "rows.jsonl", "rows.jsonl")
    assert code == 0 and "agreement on 5 questions: first 0.400 -> second 0.400" in out


def test_eval_judge_refuses_what_is_no_answer_judge_and_what_is_no_label(run, labels):
    code, _, err = run("eval", "judge", str(labels), "--judge", "answerer")
    assert code == 2 and "'answerer'" in err and "answer_judge" in err
    labels.write_text("{}\n", encoding="utf-8")
    code, _, err = run("eval", "judge", str(labels))
    assert code == 3 and "labels.jsonl, line 1" in err and len(err.splitlines()) == 1


def test_the_sample_has_answers_of_both_sorts_and_a_judge_by_words_alone_is_no_good():
    labels = read_labels()
    assert len(labels) == 45 and sum(label.correct for label in labels) == 23
    assert {label.kind for label in labels} == {"", "knowledge-update", "temporal-reasoning", "abstention"}
    assert all(label.answer != label.reference for label in labels)
