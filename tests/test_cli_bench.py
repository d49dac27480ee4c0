"""Commands about benchmarks: what a copy of one holds, and how programs and search are judged on it."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_benchmarks import encode, hotpot, instance, trajectory

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.benchmarks import BENCHMARKS
from stitchjam.optimizers.rows import read_report


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def hotpots():
    rows = [hotpot(_id=f"h{at}", type="bridge" if at < 2 else "comparison") for at in range(4)]
    Path("hotpot.json").write_text(json.dumps(rows), encoding="utf-8")
    return ["--bench", "hotpotqa", "--data", "hotpot.json"]


@pytest.fixture
def script(monkeypatch):
    """Put a scripted model behind every command."""

    def replace(**steps: Any) -> Any:
        lm = scripted_lm(steps)
        monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
        return lm

    return replace


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


def test_list_names_all_with_source_and_licence(run):
    out = run("bench", "list")[1]
    assert all(name in out and one.licence in out and one.source in out for name, one in BENCHMARKS.items())
    found = {one["name"]: one for one in as_json(run("bench", "list", "--json"))}
    assert found["locomo"]["complete"] == {"locomo10": {"histories": 10, "questions": 1986}}


def test_look_counts_a_copy_and_names_what_is_missing(run):
    rows = [instance("q1", answer_session_ids=["answer_2", "answer_7"]), instance("q2_abs")]
    Path("oracle.json").write_text(json.dumps(rows), encoding="utf-8")
    code, out, err = run("bench", "look", "longmemeval", "oracle.json")
    assert code == 0 and "a partial copy: 1 of 500 histories, 2 of 500 questions" in out and "licence: MIT" in out
    assert "oracle.json, entry 1: question 'q1': evidence 'answer_7' is no session" in err
    found = as_json(run("bench", "look", "longmemeval", "oracle.json", "--json"))
    assert (found["turns"], found["questions"], found["with_evidence"]) == (3, 2, 1)


def test_a_release_is_decoded_when_its_notice_was_accepted(run, tmp_path):
    trajectory(tmp_path / "plain" / "traj-3", 3)
    encode(tmp_path / "plain", tmp_path / "release")
    code, out, err = run("bench", "decode", "release", "--out", "came")
    assert code == 2 and out == "" and "belongs in no training set" in err and "--accept" in err
    assert not Path("came").exists()
    code, out, err = run("bench", "decode", "release", "--out", "came", "--accept")
    assert code == 0 and "decoded: 2 files in came" in out and "belongs in no training set" in err
    assert as_json(run("bench", "look", "came", "came", "--json"))["questions"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["bench", "look", "squad"], 2, "unknown benchmark 'squad'"),
        (["bench", "look", "locomo"], 2, "get it from snap-research/LoCoMo"),
        (["bench", "look", "locomo", "nowhere.json"], 2, "there is no such file"),
        (["bench", "decode", "nowhere", "--out", "o"], 2, "no encoded release here"),
        (["eval", "--bench", "squad"], 2, "unknown benchmark 'squad'"),
        (["eval", "--bench", "locomo"], 2, "does not ship with this package"),
        (["eval", "--data", "x"], 2, "name it with --bench"),
        (["eval", "--bench", "worlds", "--history", "x"], 2, "leave out --history"),
        (["eval", "--bench", "hotpotqa", "--data", "hotpot.json", "--split", "train"], 2, "has the split 'train'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run, hotpots, arguments, code, part):
    done, out, err = run(*arguments)
    assert done == code and part in err.splitlines()[-1] and out == "" and "Traceback" not in err


def test_search_is_judged_on_a_benchmark(run, hotpots):
    found = as_json(run("eval", "--system", "search", *hotpots, "--json"))
    assert [row["name"] for row in found["histories"]] == ["h0", "h1", "h2", "h3"]
    assert found["together"]["turns"]["5"] == 1 and set(found["together"]["kinds"]) == {"bridge", "comparison"}


def test_a_program_is_judged_on_many_histories_by_the_metric_of_the_benchmark(run, hotpots, script):
    lm = script(answer_question={"sources": ["c1"], "answer": "Norway"})
    found = as_json(run("eval", *hotpots, "--out", "rows.jsonl", "--json"))
    assert (found["metric"], found["n"], found["score"], found["coverage"]) == ("qa_f1", 4, 1.0, 1.0)
    assert found["kinds"] == {"bridge": {"n": 2, "score": 1.0}, "comparison": {"n": 2, "score": 1.0}}
    rows = read_report(Path("rows.jsonl")).rows
    assert [(row.id, row.history, row.kind) for row in rows] == [
        ("h0", "h0", "bridge"),
        ("h1", "h1", "bridge"),
        ("h2", "h2", "comparison"),
        ("h3", "h3", "comparison"),
    ]
    assert len(lm.engine.calls) == 1  # the four have one prompt, and a reply is asked for once
    out = run("eval", *hotpots)[1]
    assert "comparison" in out and "qa_f1 1.000 (95 % interval 1.000 to 1.000) on 4 questions" in out


def test_some_questions_are_chosen_by_chance_and_the_same_each_time(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    ids = []
    for _ in range(2):
        run("eval", *hotpots, "--limit", "2", "--out", "rows.jsonl")
        ids.append([row.id for row in read_report(Path("rows.jsonl")).rows])
    assert ids[0] == ids[1] and len(ids[0]) == 2


def test_of_a_draw_only_the_questions_about_some_histories_are_asked(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    code, _, err = run("eval", *hotpots, "--only", "h2", "--only", "h0", "--out", "rows.jsonl")
    assert code == 0 and [row.id for row in read_report(Path("rows.jsonl")).rows] == ["h0", "h2"], err
    found = as_json(run("eval", "research", *hotpots, "--only", "h1", "--rounds", "1", "-k", "1", "--json"))
    assert {row["history"] for row in found["rows"]} == {"h1"}
    code, _, err = run("eval", *hotpots, "--only", "h9")
    assert code == 2 and "no chosen question is about h9; raise --limit, or leave out --only" in err
    code, _, err = run("eval", "--only", "h9")
    assert code == 2 and "--only names histories of a benchmark" in err


def test_as_many_questions_as_asked_for_where_histories_use_the_same_ids(run, script):
    for name in ("a", "b", "c"):
        session = {"id": name, "turns": [{"id": "t", "speaker": "Ann", "text": "The door is open."}]}
        Path(f"{name}.sessions.jsonl").write_text(json.dumps(session), encoding="utf-8")
        question = {"id": "q1", "text": "What is open?", "answer": "the door"}
        Path(f"{name}.questions.jsonl").write_text(json.dumps(question), encoding="utf-8")
    script(answer_question={"sources": ["c1"], "answer": "the door"})
    found = as_json(run("eval", "--bench", "sessions", "--data", ".", "--limit", "2", "--json"))
    assert (found["n"], found["score"]) == (2, 1.0)


def test_the_sample_of_worlds_is_a_benchmark_that_is_there(run, script):
    script(answer_question={"sources": ["c1"], "answer": "no idea"})
    found = as_json(run("eval", "--bench", "worlds", "--limit", "20", "--json"))
    assert found["n"] == 20 and found["metric"] == "answer_f1" and len(found["kinds"]) > 5


@pytest.mark.parametrize("system", ["closed_book", "full_context", "bm25", "hybrid"])
def test_systems_are_judged_on_a_benchmark_like_programs(run, hotpots, script, system):
    lm = script(answer_question={"sources": ["c1"], "answer": "Norway"}, answer_from_knowledge={"answer": "Norway"})
    found = as_json(run("eval", *hotpots, "--system", system, "--json"))
    assert (found["metric"], found["n"], found["score"]) == ("qa_f1", 4, 1.0) and len(lm.engine.calls) == 1
    [usage] = found["usage"]
    assert usage["step"] == ("answer_from_knowledge" if system == "closed_book" else "answer_question")


def test_a_context_that_was_cut_is_said_in_its_row(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    run("eval", *hotpots, "--system", "full_context", "--tokens", "20", "--out", "rows.jsonl")
    assert {row.note for row in read_report(Path("rows.jsonl")).rows} == {"the newest 1 of 3 turns"}


def test_an_unknown_system_is_refused(run, hotpots):
    code, _, err = run("eval", *hotpots, "--system", "oracle")
    assert code == 2 and "unknown system 'oracle'" in err


def test_two_systems_are_compared_on_the_same_questions(run, hotpots, script):
    for name, answer in (("first", "Oslo"), ("second", "Norway")):
        script(answer_question={"sources": ["c1"], "answer": answer})
        run("eval", *hotpots, "--out", f"{name}.jsonl", "--runs", name)
    code, out, _ = run("eval", "compare", "first.jsonl", "second.jsonl")
    assert code == 0 and "qa_f1 on 4 questions: first 0.000 -> second 1.000" in out and "comparison" in out
    assert "gain +1.000 (95 % interval +1.000 to +1.000 from 4 questions; 4 better, 0 worse)" in out
    found = as_json(run("eval", "compare", "first.jsonl", "second.jsonl", "--json"))
    assert (found["metric"], found["gain"], found["kinds"]["bridge"]) == ("qa_f1", 1.0, [2, 0.0, 1.0])
    run("eval", *hotpots, "--limit", "2", "--out", "fewer.jsonl", "--runs", "second")
    code, out, err = run("eval", "compare", "first.jsonl", "fewer.jsonl")
    assert code == 2 and out == "" and "both hold the same examples: 2 are in both, 2 only in the first" in err


def test_systems_are_set_beside_each_other_on_a_page(run, hotpots, script):
    for name, answer in (("first", "Oslo"), ("second", "Norway")):
        script(answer_question={"sources": ["c1"], "answer": answer})
        run("eval", *hotpots, "--system", "bm25", "--name", name, "--out", f"{name}.jsonl", "--runs", name)
    code, out, err = run("eval", "report", "first.jsonl", "second.jsonl", "--html", "new/page.html")
    assert code == 0 and "second over first: +1.000 (+1.000 to +1.000; n 4)" in out and "wrote new/page.html" in err
    assert "4 of 4  1.000 (1.00 to 1.00)" in out and "comparison" in out
    page = Path("new/page.html").read_text("utf-8")
    assert "hotpotqa" in page and "Norway" in page and "<svg" in page and "src=" not in page
    found = as_json(run("eval", "report", "first.jsonl", "second.jsonl", "--json"))["systems"]
    assert [one["score"]["mean"] for one in found] == [0.0, 1.0] and found[1]["recall"]["64"] > 0


@pytest.mark.parametrize("arguments", [["report"], ["report", "nowhere.jsonl"], ["report", "hotpot.json"]])
def test_a_report_of_no_rows_is_refused(run, hotpots, arguments):
    code, out, err = run("eval", *arguments)
    assert code in (2, 3) and out == "" and "Traceback" not in err


def test_a_run_that_its_budget_ends_is_shown_as_far_as_it_went_and_goes_on(run, script):
    lm = script(answer_question={"sources": ["c1"], "answer": "no idea"})
    asked = ["eval", "--bench", "worlds", "--limit", "5", "--out", "rows.jsonl"]
    code, out, err = run(*asked, "--calls", "2")
    assert code == 6 and "on 2 of 5 questions" in out and "2 of 2 calls used" in err
    assert run(*asked)[0] == 0 and len(lm.engine.calls) == 5


def test_questions_that_failed_are_asked_again_when_told(run, hotpots, script):
    script(answer_question="no json")
    code, _, err = run("eval", *hotpots, "--out", "rows.jsonl")
    assert code == 4 and "no question was answered" in err
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    assert run("eval", *hotpots, "--out", "rows.jsonl")[0] == 4  # what failed is a result
    found = as_json(run("eval", *hotpots, "--out", "rows.jsonl", "--retry-failed", "--json"))
    assert (found["score"], found["outcomes"]) == (1.0, {"ok": 4})


def test_another_system_does_not_write_into_the_rows_of_one(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    run("eval", *hotpots, "--system", "bm25", "--out", "rows.jsonl")
    code, out, err = run("eval", *hotpots, "--system", "hybrid", "--out", "rows.jsonl")
    assert code == 2 and out == "" and "rows.jsonl holds a run with other program" in err


def test_types_that_are_numbers_have_their_names_in_a_report(run, script):
    file = {"sample_id": "c1", "conversation": {"session_1_date_time": "1:00 pm on 8 May, 2023", "session_1": [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "The door is red."}]},
        "qa": [{"question": "Which colour?", "answer": "red", "category": 4, "evidence": ["D1:1"]},
               {"question": "Who is Bob?", "adversarial_answer": "a", "category": 5, "evidence": []}]}  # fmt: skip
    Path("locomo.json").write_text(json.dumps([file]), encoding="utf-8")
    script(answer_question={"sources": ["c1"], "answer": "red"})
    found = as_json(run("eval", "--bench", "locomo", "--data", "locomo.json", "--json"))
    assert found["kinds"] == {"adversarial": {"n": 1, "score": 0.0}, "single-hop": {"n": 1, "score": 1.0}}
    gam = ["--metric", "locomo_gam", "--out", "gam.jsonl"]
    found = as_json(run("eval", "--bench", "locomo", "--data", "locomo.json", *gam, "--json"))
    assert (found["n"], found["asked"], found["outcomes"]) == (1, 2, {"not_rated": 1, "ok": 1})


def test_a_judge_rates_where_words_do_not_settle_it(run, hotpots, script):
    lm = script(
        answer_question={"sources": ["c1"], "answer": "the kingdom of Norway"},
        judge_answer={"missing": "nothing", "verdict": "CORRECT"},
        match_candidates={"pairs": [{"reference": "g1", "answer": "a1"}]},
    )
    found = as_json(run("eval", *hotpots, "--metric", "judged", "--json"))
    assert (found["metric"], found["score"], found["parts"]["asked_judge"]) == ("judged", 1.0, 1.0)
    [row] = [row for row in read_report(next(Path(".stitchjam/runs/eval").glob("answerer-*"))).rows if row.calls]
    assert row.calls == 1 and [call.step for call in lm.engine.calls].count("judge_answer") == 1
    script(
        answer_question={"sources": ["c1"], "answer": "Norge"}, match_candidates=lm.engine.scripts["match_candidates"]
    )
    asked = ["eval", *hotpots, "--metric", "came_f1", "--runs", "new", "--json"]
    assert as_json(run(*asked))["score"] == 0.0
    assert as_json(run(*asked, "--judge", "candidate_judge"))["score"] == 1.0


def test_a_judge_that_fails_leaves_the_answer_to_be_judged_again(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "the kingdom"}, judge_answer="no json")
    asked = ["eval", *hotpots, "--metric", "judged", "--out", "rows.jsonl"]
    assert run(*asked)[0] == 4
    rows = read_report(Path("rows.jsonl")).rows
    assert {(row.outcome, row.answer) for row in rows} == {("metric_error", "the kingdom")}
    script(
        answer_question={"sources": ["c1"], "answer": "the kingdom"},
        judge_answer={"missing": "a name", "verdict": "WRONG"},
    )
    found = as_json(run(*asked, "--retry-failed", "--json"))
    assert (found["score"], found["coverage"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("metric", "judge", "part"),
    [
        ("qa_f1", "answer_judge", "metric 'qa_f1' asks no judge"),
        ("judged", "candidate_judge", "asks a program of the kind 'answer_judge'"),
        ("judged", "nowhere", "'nowhere' is no artifact folder"),
        ("f2", "answer_judge", "unknown metric 'f2'"),
    ],
)
def test_a_judge_that_does_not_fit_is_refused(run, hotpots, metric, judge, part):
    code, out, err = run("eval", *hotpots, "--metric", metric, "--judge", judge)
    assert code == 2 and out == "" and part in err


def test_a_metric_is_set_as_asked(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    asked = ["eval", *hotpots, "--system", "bm25", "--json", "--metric"]
    for level in ("turn", "session"):
        run(*asked, "evidence_recall", "--setting", f"level={level}", "--out", f"{level}.jsonl")
        assert all(f"gold {level}s" in row.why for row in read_report(Path(f"{level}.jsonl")).rows)
    assert as_json(run(*asked, "evidence_at_budget", "--setting", "tokens=1"))["score"] == 0.0
    for metric, wrong in (("evidence_recall", "level=page"), ("evidence_recall", "tokens=3"), ("qa_f1", "x")):
        code, _, err = run(*asked, metric, "--setting", wrong)
        assert code == 2 and f"metric {metric!r} has no setting {wrong!r}; it has: threshold (float)" in err


def test_a_model_that_samples_is_asked_anew_in_another_rollout(run, hotpots, script):
    answers = iter(["Norway", "Oslo", "Norway"])
    lm = script(answer_question=lambda _: {"sources": ["c1"], "answer": next(answers)})
    assert run("eval", *hotpots, "--rollout", "1")[0] == 2  # at temperature 0
    lm.kwargs["temperature"] = 0.7
    for number in (1, 2, 3):
        assert run("eval", *hotpots, "--rollout", str(number), "--out", f"{number}.jsonl")[0] == 0
    assert len(lm.engine.calls) == 3  # one prompt, three rollouts
    out = run("eval", "report", "1.jsonl", "2.jsonl", "3.jsonl")[1]
    assert "answerer: mean 0.667 over 3 rollouts (standard deviation 0.577)" in out


def test_what_is_compared_was_asked_and_rated_alike(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    for tokens in ("1", "4096"):
        asked = ["eval", *hotpots, "--metric", "evidence_at_budget", "--setting", f"tokens={tokens}"]
        assert run(*asked, "--out", f"{tokens}.jsonl")[0] == 0
    code, out, err = run("eval", "compare", "1.jsonl", "4096.jsonl")
    assert code == 2 and out == "" and "the settings of the metric are not the same" in err
    run("eval", "report", "1.jsonl", "4096.jsonl", "--html", "page.html")
    assert "settings of the metric are not the same in all reports" in Path("page.html").read_text("utf-8")


def test_what_search_goes_by_is_part_of_a_run(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    asked = ["eval", *hotpots, "--system", "hybrid", "--out", "rows.jsonl"]
    assert run(*asked)[0] == 0
    code, _, err = run(*asked, "--encoder", "none")
    assert code == 2 and "a run with other encoder" in err


def test_a_page_is_not_written_over_rows(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    run("eval", *hotpots, "--out", "a.jsonl")
    before = Path("a.jsonl").read_bytes()
    code, _, err = run("eval", "report", "--html", "a.jsonl", "a.jsonl")
    assert code == 2 and "--html names the page to write" in err and Path("a.jsonl").read_bytes() == before
    Path("labels.jsonl").write_text('{"question": "q"}', encoding="utf-8")
    assert run("eval", "judge", "labels.jsonl", "--out", "labels.jsonl")[0] == 2
    assert Path("labels.jsonl").read_text("utf-8") == '{"question": "q"}'


def test_own_files_are_the_same_run_however_their_path_is_written(run, script, tmp_path):
    Path("s.jsonl").write_text(
        json.dumps({"id": "s", "turns": [{"id": "t", "speaker": "Ann", "text": "The door is open."}]}), "utf-8"
    )
    Path("q.jsonl").write_text(json.dumps({"id": "q1", "text": "What is open?", "answer": "the door"}), "utf-8")
    script(answer_question={"sources": ["c1"], "answer": "the door"})
    for folder in (Path(), tmp_path):
        files = ["--history", str(folder / "s.jsonl"), "--questions", str(folder / "q.jsonl"), "--split", "all"]
        code, _, err = run("eval", *files, "--out", "rows.jsonl")
        assert code == 0, err
    assert "holds 1 of 1 rows" in err


def test_means_over_rollouts_are_of_the_same_questions(run, hotpots, script):
    lm = script(answer_question={"sources": ["c1"], "answer": "Norway"})
    lm.kwargs["temperature"] = 0.7
    run("eval", *hotpots, "--limit", "2", "--rollout", "1", "--out", "1.jsonl")
    run("eval", *hotpots, "--rollout", "2", "--out", "2.jsonl")
    assert "rollouts" not in run("eval", "report", "1.jsonl", "2.jsonl")[1]


def test_replies_that_were_kept_count_with_their_tokens(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    run("eval", *hotpots, "--system", "bm25", "--out", "paid.jsonl")
    run("eval", *hotpots, "--system", "bm25", "--out", "kept.jsonl", "--name", "again")
    paid, kept = (read_report(Path(f"{name}.jsonl")).rows for name in ("paid", "kept"))
    assert [row.cache_hits for row in kept] == [1] * 4 and {row.calls for row in kept} == {0}
    assert [row.input_tokens for row in kept] == [row.input_tokens for row in paid] and kept[0].input_tokens > 0


def test_a_model_that_judges_itself_is_named(run, hotpots, script, monkeypatch):
    script(answer_question={"sources": ["c1"], "answer": "a"}, judge_answer={"missing": "all", "verdict": "WRONG"})
    asked = ["eval", *hotpots, "--metric", "judged", "--out", "rows.jsonl"]
    assert "scripted judges itself; name another model" in run(*asked)[2]
    assert "judged on hotpotqa, judged by scripted" in run("eval", "report", "rows.jsonl")[1]


def test_a_run_that_was_stopped_is_not_compared_and_told_to_go_on(run, script):
    script(answer_question={"sources": ["c1"], "answer": "no idea"})
    asked = ["eval", "--bench", "worlds", "--limit", "5"]
    run(*asked, "--out", "all.jsonl")
    run(*asked, "--out", "some.jsonl", "--runs", "new", "--calls", "2")
    code, _, err = run("eval", "compare", "all.jsonl", "some.jsonl")
    assert code == 2 and "answerer holds 2 of 5 questions; run the same command to finish it" in err


def test_own_questions_without_a_split_are_all_asked(run, script):
    turn = {"id": "t", "speaker": "Ann", "text": "The door is open."}
    Path("boat.sessions.jsonl").write_text(json.dumps({"id": "s", "turns": [turn]}), "utf-8")
    question = {"id": "q", "text": "What is open?", "answer": "the door"}
    Path("boat.questions.jsonl").write_text(json.dumps(question), "utf-8")
    script(answer_question={"sources": ["c1"], "answer": "the door"})
    run("eval", "--history", "boat.sessions.jsonl", "--questions", "boat.questions.jsonl", "--out", "own.jsonl")
    run("eval", "--bench", "sessions", "--data", ".", "--out", "bench.jsonl")
    assert "first 1.000 -> second 1.000" in run("eval", "compare", "own.jsonl", "bench.jsonl")[1]


def test_rows_go_into_the_file_that_is_named_whatever_its_name(run, hotpots, script):
    script(answer_question={"sources": ["c1"], "answer": "Norway"})
    assert run("eval", *hotpots, "--out", "rows")[0] == 0
    assert len(read_report(Path("rows")).rows) == 4
