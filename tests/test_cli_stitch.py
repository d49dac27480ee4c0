"""Commands of STITCH: label, eval steps, eval recall, eval oracle, and asking by intent."""

import json
from pathlib import Path
from typing import Any

import pytest
from dspy import lm15
from filelock import FileLock
from stitching import attentive, history_of, label_of, read

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.records import History
from stitchjam.optimizers.publish import write_artifact
from stitchjam.programs.stitch.stitcher import FusedStitcher

CAME = Path(__file__).resolve().parents[2] / "shared" / "data" / "came_bench_site"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(monkeypatch):
    """Put an attentive model behind every command."""

    def replace(**steps: Any) -> Any:
        lm = attentive(**steps)
        monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
        return lm

    return replace


def write_pair(name: str, history: History, *questions: dict[str, Any]) -> None:
    """A history and questions in our own format."""
    rows = [
        {
            "id": session.id,
            "time": session.time,
            "turns": [{"id": f"t{at}", "speaker": t.speaker, "text": t.text} for at, t in enumerate(session.turns)],
        }
        for session in history.sessions
    ]
    Path(f"{name}.sessions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    Path(f"{name}.questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")


@pytest.fixture
def trip():
    """Sixty turns on two topics, in runs of six; Rex is decided on in the last one of each run on the trip."""
    texts = [
        f"{'trip' if at // 6 % 2 == 0 else 'party'}: we {'decide on' if at % 6 > 3 else 'propose'} the hotel Rex{at}"
        for at in range(60)
    ]
    write_pair(
        "trip",
        history_of(*texts),
        {"id": "q1", "text": "Which hotel is it?", "answer": "Rex53", "evidence": ["t53"], "type": "final"},
        {"id": "q2", "text": "Which hotel was first?", "answer": "Rex0", "evidence": ["t0"], "type": "first"},
    )


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


BENCH = ("--bench", "sessions", "--data", ".")


def test_a_memory_is_labelled_bit_by_bit_and_asked_by_intent(run, script, trip):
    lm = script(
        read_intent=lambda call: {"scopes": [label_of(call, "scopes", "trip")], "events": [], "entities": []},
        answer_question={"sources": ["c1"], "answer": "Rex"},
    )
    assert run("ingest", "trip.sessions.jsonl", "--memory", "m")[0] == 0
    code, out, err = run("label", "--memory", "m", "--limit", "25")
    assert code == 0 and "25 turns labelled" in out and "25/25" in err and "26 calls" in err
    assert as_json(run("label", "--memory", "m", "--json"))["m"]["done"] == 35
    assert as_json(run("label", "--memory", "m", "--json"))["m"]["done"] == 0
    found = as_json(run("ask", "Which hotel is it?", "--memory", "m", "--program", "stitch_agent", "--json"))
    assert found["answer"]["text"] == "Rex" and [call.step for call in lm.engine.calls][-2:] == [
        "read_intent",
        "answer_question",
    ]


def test_label_again_drops_the_notes_and_more_waits_for_fifty(run, script, trip):
    lm = script()
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    run("label", "--memory", "m")
    before = len(lm.engine.calls)
    assert as_json(run("label", "--memory", "m", "--again", "--json"))["m"]["done"] == 60
    assert len(lm.engine.calls) == 2 * before  # no reply about a memory is kept where `forget` does not look
    write_pair("few", history_of("trip: hello", session="few"))
    run("ingest", "few.sessions.jsonl", "--memory", "few")
    assert "1 wait until there are 50" in run("label", "--memory", "few", "--more")[1]


def test_notes_are_not_dropped_for_others_that_cannot_be_made(run, script, trip, monkeypatch):
    script()
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    run("label", "--memory", "m")
    labelled = run("show", "--labels", "--memory", "m", "--json")[1]

    def dead(call):
        raise lm15.ServerError("no")

    script(seed_vocabulary=dead)
    assert run("label", "--memory", "m", "--again")[0] == 6
    assert run("label", "--memory", "m", "--again", "--minutes", "0")[0] == 6
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: None)
    assert run("label", "--memory", "m", "--again")[0] == 2  # no model
    lock = FileLock("m/.labelling.lock")
    with lock:
        code, _, err = run("label", "--memory", "m", "--again")
    assert code == 2 and "another process is labelling" in err
    assert run("show", "--labels", "--memory", "m", "--json")[1] == labelled


def test_turns_that_failed_three_times_are_not_passed_over_in_silence(run, script, trip):
    script(label_turn="garbage")
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    assert "tries them again" in run("label", "--memory", "m", "--limit", "2")[2]
    for _ in range(3):
        run("label", "--memory", "m")
    code, out, err = run("label", "--memory", "m")
    assert code == 4 and "0 turns labelled; 60 failed three times" in out and "--retry-failed" in err
    script()
    assert run("label", "--memory", "m")[0] == 4
    assert run("label", "--memory", "m", "--again", "--retry-failed")[0] == 2
    assert as_json(run("label", "--memory", "m", "--retry-failed", "--json"))["m"]["done"] == 60


@pytest.mark.parametrize("nothing", [None, {"words": "it", "means": "Rex"}])
def test_null_for_a_list_does_not_cost_the_note(run, script, trip, nothing):
    script(
        label_turn=lambda call: read(call) | {"references": nothing, "entities": None},
        seed_vocabulary={"events": {"name": "asks", "meaning": ""}, "entities": None},
        merge_labels={"same": None},
    )
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    assert as_json(run("label", "--memory", "m", "--json"))["m"]["done"] == 60


def test_half_of_a_surrogate_pair_in_a_reply_does_not_cost_the_note(run, script, trip):
    script(label_turn=lambda call: {name: _halved(value) for name, value in read(call).items()})
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    assert as_json(run("label", "--memory", "m", "--json", "--limit", "3"))["m"]["done"] == 3


def _halved(value: Any) -> Any:
    return [_halved(one) for one in value] if isinstance(value, list) else f"\ud800{value}"


def test_figures_of_stitch_do_not_come_from_memories_without_labels(run, script, trip):
    """Without labels it is search by similarity, which was reported as stitch."""
    script(
        read_intent={"scopes": [], "events": [], "entities": []},
        answer_question={"sources": ["c1"], "answer": "Rex53"},
    )
    for system in ("stitch", "stitch no-scope", "released"):
        code, out, err = run("eval", *BENCH, "--system", system)
        assert code == 2 and "nothing is noted of 'trip'; label it first" in err and not out
    assert run("eval", *BENCH, "--system", "stitch similarity-only")[0] == 0
    run("label", *BENCH, "--limit", "25")
    said = "trip: 25 of 60 turns are labelled"
    assert said in run("eval", *BENCH, "--memories", ".stitchjam/memories", "--system", "stitch")[2]
    assert said in run("eval", "recall", *BENCH)[2]


def test_labelling_anew_that_was_stopped_says_how_to_go_on(run, script, trip):
    script()
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    run("label", "--memory", "m")
    code, _, err = run("label", "--memory", "m", "--again", "--calls", "20")
    assert code == 6 and "go on without --again" in err
    assert as_json(run("label", "--memory", "m", "--json"))["m"]["done"] == 41


def test_an_artifact_without_coreference_stays_without_it(run, script, trip, tmp_path):
    lm = script(label_turn=lambda call: read(call) | {"references": [{"words": "hotel", "means": "Rex0"}]})
    facts: dict[str, Any] = dict.fromkeys(("compiled_for", "recipe", "metric", "data", "scores"), {})
    write_artifact(tmp_path / "a", "stitch", FusedStitcher(coreference=False), facts | {"published": True}, {})
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    for program in ("a", "stitch"):
        assert run("label", "--memory", "m", "--limit", "9", "--program", program)[0] == 0
        notes = DiskStore("m").notes.notebook().notes.values()
        assert any(note.references for note in notes) == (program == "stitch")
    assert lm


def test_a_benchmark_is_labelled_recalled_and_answered_in_its_memories(run, script, trip):
    script(
        read_intent=lambda call: {"scopes": [label_of(call, "scopes", "trip")], "events": [], "entities": []},
        answer_question={"sources": ["c1"], "answer": "Rex53"},
    )
    code, _, err = run("eval", "recall", *BENCH)
    assert code == 2 and "make it first" in err
    assert "trip: 60 turns labelled" in run("label", *BENCH)[1]
    report = as_json(run("eval", "recall", *BENCH, "-k", "6", "--json"))
    ways = {row["way"] for row in report["rows"]}
    ablations = {"stitch no-scope", "stitch no-event", "stitch no-entity"}
    assert ways == {"bm25", "hybrid", "stitch", "stitch as in the paper"} | ablations
    assert report["intents"]["q1"]["scope"] == ["trip"] and len(report["rows"]) == 2 * len(ways)
    out = run("eval", "recall", *BENCH)[1]
    assert "evidence recall, in percent" in out and "over hybrid" in out and "scope 2, event 0" in out
    scored = as_json(run("eval", *BENCH, "--memories", ".stitchjam/memories", "--system", "stitch", "--json"))
    assert scored["n"] == 2 and scored["usage"]


def test_rows_of_a_run_are_not_continued_with_other_notes(run, script, trip):
    script(read_intent={"scopes": [], "events": [], "entities": []}, answer_question={"sources": [], "answer": "x"})
    asked = ("eval", *BENCH, "--memories", ".stitchjam/memories", "--system", "stitch", "--out", "rows.jsonl")
    run("label", *BENCH, "--limit", "30")
    assert run(*asked)[0] == 0
    run("label", *BENCH)
    code, _, err = run(*asked)
    assert code == 2 and "other questions" in err


def test_steps_are_judged_on_gold_and_only_those_that_are_named(run, script):
    lm = script()
    report = as_json(run("eval", "steps", "--turns", "20", "--histories", "1", "--json"))
    assert report["together"]["turns"] == 20 and "scope.v_measure" in report["together"]["figures"]
    calls = len(lm.engine.calls)
    out = run("eval", "steps", "--turns", "20", "--histories", "1", "--step", "write_note")[1]
    assert "what notes keep" in out and "V-measure" not in out and "scope" not in out.split("what notes keep")[0][40:]
    assert len(lm.engine.calls) == calls  # the labels are kept
    code, _, err = run("eval", "steps", "--step", "read_intent")
    assert code == 2 and "detect_scope, type_event, type_entities, write_note" in err


@pytest.mark.skipif(not CAME.exists(), reason="../shared/data/came_bench_site is not here")
def test_notes_are_judged_on_the_names_of_came(run, script):
    script()
    data = str(CAME / "travel_plan_example")
    report = as_json(
        run("eval", "steps", "--gold", "came", "--data", data, "--turns", "12", "--step", "write_note", "--json")
    )
    assert set(report["together"]["figures"]) == {"note.key_tokens_kept"}


def test_oracle_shows_designs_and_wrong_labels(run):
    worlds = ("gym", "world", "--sessions", "30", "--overlap", "0.9", "--questions", "12", "--out", "worlds")
    assert run(*worlds)[0] == 0
    report = as_json(run("eval", "oracle", "--data", "worlds", "-k", "10", "--seeds", "1", "--json"))
    by = {(one["design"], one["damage"], one["rate"]): one["recall"] for one in report["levels"]}
    ours, paper = "in turns, if trusted", "density alone (paper)"
    assert by[ours, "", 0.0] > report["similarity"] and by[paper, "turns", 1.0] < report["similarity"]
    assert by[ours, "turns", 1.0] > report["similarity"] - 0.03
    out = run("eval", "oracle", "--data", "worlds", "-k", "10", "--seeds", "1", "--kind", "nothing")
    assert out[0] == 2 and "leave out --kind" in out[2]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["label", "--memory", "nowhere"], "no memory"),
        (["label", "--bench", "worlds", "--memory", "m"], "leave out --memory"),
        (["label", "--turns", "3"], "give --limit"),
        (["label", "--program", "answerer"], "does not label turns"),
        (["eval", "oracle", "--gold", "squad"], "unknown kind"),
        (["eval", "oracle", "--gold", "came"], "does not ship"),
        (["eval", "recall", "--reader", "answerer"], "reads no intents"),
        (["eval", "--memories", "m", "--system", "stitch"], "name it with --bench"),
        (["eval", "--program", "stitch"], "labels turns"),
        (["compile", "--program", "stitch"], "labels turns"),
        (["ask", "x", "--program", "stitch"], "labels turns"),
    ],
)
def test_what_the_caller_did_wrong_is_one_line(run, script, arguments, part):
    script()
    code, _, err = run(*arguments)
    assert code == 2 and part in err and "Traceback" not in err


def test_an_endpoint_that_is_out_stops_the_labelling_and_the_rest_waits(run, script, trip):
    def out(call):
        raise lm15.ServerError("down")

    script(label_turn=out)
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    code, _, err = run("label", "--memory", "m")
    assert code == 6 and "down" in err
    script()
    done = as_json(run("label", "--memory", "m", "--json"))["m"]
    assert done["done"] == 60


def test_a_budget_ends_labelling_and_the_same_command_goes_on(run, script, trip):
    script()
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    code, _, err = run("label", "--memory", "m", "--calls", "10")
    assert code == 6 and "9/60" in err
    assert as_json(run("label", "--memory", "m", "--json"))["m"]["done"] == 51


def test_turns_that_cannot_be_noted_are_named(run, script, trip):
    script(label_turn="nonsense")
    run("ingest", "trip.sessions.jsonl", "--memory", "m")
    code, out, err = run("label", "--memory", "m")
    assert code == 4 and "60 failed" in out and "no note of" in err and "tries them again" in err
