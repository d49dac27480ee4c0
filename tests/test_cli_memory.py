"""Commands on a memory: what they print, what they refuse, and that they leave the rest alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from jobs import oracle_lm, small_data

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.cli.memory import FORMAT_NAMES
from stitchjam.data.readers import FORMATS, write_questions, write_sessions
from stitchjam.data.sample import load_data

TALK = "[2026-03-02 18:30] Mira: Henrik mends the tiller on Friday.\n[2026-03-02 18:31] Tomas: I bring the varnish.\n"
LOCOMO = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "locomo" / "locomo_dev6.json"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    Path("talk.txt").write_text(TALK, encoding="utf-8")


@pytest.fixture
def full(run):
    """A run with a memory in the default place."""
    assert run("ingest", "talk.txt")[0] == 0
    return run


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


def test_the_formats_that_help_names_are_those_that_can_be_read():
    assert FORMAT_NAMES == tuple(FORMATS)


def test_ingest_says_what_is_new_and_adds_nothing_twice(run):
    code, out, err = run("ingest", "talk.txt")
    assert code == 0 and "talk.txt: 2 new turns, 1 new sessions" in out and err == ""
    assert "talk.txt: nothing new" in run("ingest", "talk.txt")[1]
    value = as_json(run("ingest", "talk.txt", "--json"))
    assert value["failed"] == {} and value["added"][0]["turns"] == 0


def test_ingest_takes_folders_and_leaves_out_hidden_files(run):
    for name in ("a/one.md", "a/b/two.md", "a/.git/three.md"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"# {name}\n\nwords of {name}\n", encoding="utf-8")
    added = as_json(run("ingest", "a", "talk.txt", "--memory", "m", "--json"))["added"]
    assert [row["file"] for row in added] == ["a/b/two.md", "a/one.md", "talk.txt"]


def test_a_file_that_cannot_be_ingested_does_not_stop_the_others(run):
    Path("bad.json").write_text('{"what": 1}\n', encoding="utf-8")
    code, out, err = run("ingest", "bad.json", "talk.txt")
    assert code == 3 and "talk.txt: 2 new turns" in out
    assert "not ingested: bad.json, line 1: expected chat messages" in err and "1 of 2 files" in err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["ingest", "missing.txt"], 3, "missing.txt: cannot be read"),
        (["ingest", "talk.txt", "--format", "csv"], 2, "choose one of: chat"),
        (["ingest", "talk.txt", "--encoder", "magic"], 2, "static"),
        (["ingest", "."], 0, ""),
        (["search", "x", "--memory", "nowhere"], 2, "there is no memory in"),
        (["search", "x", "--memory", "talk.txt"], 2, "is no memory"),
        (["stats"], 2, "stitchjam ingest FILE"),
        (["forget", "talk"], 2, "there is no memory"),
        (["ask", "x", "--memory", "m", "--history", "talk.txt"], 2, "not both"),
        (["eval", "--system", "search", "--history", "talk.txt"], 2, "there are no questions"),
    ],
)
def test_what_cannot_be_done_is_one_line_that_says_what_can(run, arguments, code, part):
    done, _, err = run(*arguments)
    assert done == code and part in err and "Traceback" not in err


def test_search_finds_turns_and_sessions_under_filters(full):
    assert as_json(full("search", "tiller", "-k", "1", "--json"))[0]["speaker"] == "Mira"
    assert as_json(full("search", "tiller", "--speaker", "Tomas", "--json"))[0]["speaker"] == "Tomas"
    assert as_json(full("search", "tiller", "--before", "2026-01-01", "--json")) == []
    assert "Mira: Henrik mends" in full("search", "tiller")[1]
    assert "2 turns" in full("search", "tiller", "--sessions")[1]
    assert full("search", "tiller", "--speaker", "Mirra")[2] == (
        "error: there is no speaker 'Mirra'; use one of those that exist, such as Mira\n"
    )
    assert "nothing was found" in full("search", "tiller", "--after", "2027-01-01")[1]


def test_show_lists_sessions_and_reads_one(full):
    [row] = as_json(full("show", "--json"))
    assert row["turns"] == 2 and row["speakers"] == "Mira, Tomas"
    assert "Henrik mends the tiller on Friday." in full("show", row["session"])[1]
    turn = as_json(full("search", "varnish", "-k", "1", "--json"))[0]["id"]
    assert "I bring the varnish." in full("show", turn)[1]
    assert full("show", "nothing")[0] == 2


def test_show_takes_what_search_prints(full):
    rows = [{"id": "s9", "turns": [{"id": "D1:3", "speaker": "Ann", "text": "The kettle."}]}]
    Path("k.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert full("ingest", "k.jsonl")[0] == 0 and "[s9 D1:3] Ann: The kettle." in full("search", "kettle")[1].replace(
        "  ", " "
    )
    assert "The kettle." in full("show", "D1:3")[1]
    rows[0] |= {"id": "s8"}
    Path("l.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert full("ingest", "l.jsonl")[0] == 0
    assert "in several sessions: s8, s9" in full("show", "D1:3")[2]


def test_questions_alone_are_about_the_memory_of_the_folder(run):
    data = small_data()
    write_sessions("h.jsonl", load_data().store.history)
    write_questions("q.jsonl", data.questions, data.store.history)
    assert run("ingest", "h.jsonl")[0] == 0
    search = ["eval", "--system", "search", "--questions", "q.jsonl", "--json"]
    assert as_json(run(*search))["together"]["questions"] == 8
    assert as_json(run(*search, "--split", "train", "--limit", "2"))["together"]["questions"] == 2


def test_forget_removes_a_source_and_stats_and_verify_tell(full):
    stats = as_json(full("stats", "--json"))
    assert stats["counts"]["turn"] == 2 and stats["sources"][0]["name"] == "talk.txt"
    assert "talk.txt" in full("stats")[1] and "fine: 2 turns in 1 sessions" in full("verify")[1]
    assert full("forget", "talk.txt")[0] == 2 and "--yes" in full("forget", "talk.txt")[2]  # no one to ask
    assert full("forget", "tolk.txt", "--yes")[2].startswith("error: there is no source 'tolk.txt'; ")
    assert "forgot 2 turns and 1 sessions" in full("forget", "talk.txt", "--yes")[1]
    assert "forgotten: f" in full("stats")[1] and "fine: 0 turns" in full("verify", "--rebuild")[1]


def test_ask_uses_the_memory_of_the_folder_and_says_where_its_answer_stands(run, monkeypatch):
    data = small_data()
    lm = oracle_lm(data)
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
    write_sessions("h.jsonl", load_data().store.history)
    write_questions("q.jsonl", data.questions, data.store.history)
    assert run("ingest", "h.jsonl", "--memory", "m")[0] == 0
    asked = as_json(run("ask", data.questions[0].text, "--memory", "m", "--json"))
    assert asked["answer"]["text"] and asked["context"]["claims"]
    args = ["eval", "--memory", "m", "--questions", "q.jsonl", "--program", "memory_agent", "--json"]
    assert as_json(run(*args))["n"] == 4
    kept = list(Path("m", "replies").rglob("*.jsonl"))
    assert kept and run("forget", "h.jsonl", "--memory", "m", "--yes")[0] == 0
    assert not any(file.exists() for file in kept)


def test_evidence_recall_of_search_needs_no_model(run):
    value = as_json(run("eval", "--system", "search", "--json"))
    assert value["together"]["questions"] == 40 and 0.5 < value["together"]["turns"]["10"] < 1
    assert run("eval", "--system", "search", "--choose-weights")[0] == 2


@pytest.mark.skipif(not LOCOMO.is_file(), reason="the LoCoMo conversations are not on this machine")
def test_evidence_recall_on_real_conversations_holds(run):
    value = as_json(run("eval", "--system", "search", "--history", str(LOCOMO), "--json"))["together"]
    assert value["questions"] == 1155
    assert value["turns"]["10"] >= 0.77 and value["sessions"]["5"] >= 0.87
