"""Commands of JAM: memorize, show --tree, export, segment, ask --watch, show --trace of research, eval research."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from filing import FILING, talks

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.ids import build_session
from stitchjam.data.readers import read_history
from stitchjam.data.readers.sessions import write_sessions
from stitchjam.data.records import History

QUESTION = "What is the number of the boat talk, Zeta4?"
RESEARCH: dict[str, Any] = {
    "plan_first": {"needs": ["the number"], "actions": [{"tool": "search", "target": "none", "query": "Zeta4"}]},
    "plan_next": {"actions": []},
    "browse_source": {"lines": ["t3"]},
    "judge_sufficiency": {"entry": "none"},
    "compose_context": {"claims": [{"entry": "e1", "claim": "It is Zeta4."}]},
    "answer_question": {"sources": ["c1"], "answer": "Zeta4"},
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(monkeypatch):
    """Put a scripted model behind every command."""

    def replace(**steps: Any) -> Any:
        lm = scripted_lm(FILING | RESEARCH | steps)
        monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
        return lm

    return replace


@pytest.fixture
def filed(run, script):
    """A memory of 20 sessions that are filed."""
    script()
    write_sessions("talks.sessions.jsonl", talks(20))
    assert run("ingest", "talks.sessions.jsonl", "--memory", "m")[0] == 0
    code, out, err = run("memorize", "--memory", "m")
    assert code == 0 and "m: 20 memos" in out and "20/20" in err
    return "m"


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


# -- memorize


def test_memorize_goes_on_where_it_stopped(run, script):
    script()
    write_sessions("talks.sessions.jsonl", talks(12))
    run("ingest", "talks.sessions.jsonl", "--memory", "m")
    first = as_json(run("memorize", "--memory", "m", "--limit", "5", "--json"))["m"]
    rest = as_json(run("memorize", "--memory", "m", "--json"))["m"]
    assert (first["done"], rest["done"]) == (5, 7) and rest["folders"] > 1
    assert as_json(run("memorize", "--memory", "m", "--json"))["m"]["written"] == 0


def test_memorize_tells_what_failed_and_ends_with_4(run, script):
    script(write_memo="no json")
    write_sessions("talks.sessions.jsonl", talks(3))
    run("ingest", "talks.sessions.jsonl", "--memory", "m")
    code, out, err = run("memorize", "--memory", "m")
    assert code == 4 and "3 failed" in out and "the same command tries them again" in err
    for _ in range(2):
        run("memorize", "--memory", "m")
    code, out, err = run("memorize", "--memory", "m")
    assert code == 4 and "--retry-failed" in err
    script()
    assert run("memorize", "--memory", "m", "--retry-failed")[0] == 0


def test_memorize_a_benchmark_makes_a_memory_for_each_history(run, script):
    script()
    for name in ("one", "two"):
        write_sessions(f"{name}.sessions.jsonl", talks(3).model_copy(update={"id": name}))
        Path(f"{name}.questions.jsonl").write_text('{"id": "q", "text": "Zeta1?", "answer": "Zeta1"}\n')
    done = as_json(run("memorize", "--bench", "sessions", "--data", ".", "--memories", "all", "--json"))
    assert [one["done"] for one in done.values()] == [3, 3] and len(list(Path("all").iterdir())) == 2


def test_some_histories_of_a_benchmark_are_filed_and_asked_without_the_others(run, script):
    script(answer_question={"sources": [], "answer": "Zeta1"})
    for name in ("one", "two"):
        write_sessions(f"{name}.sessions.jsonl", talks(3).model_copy(update={"id": name}))
        Path(f"{name}.questions.jsonl").write_text('{"id": "q", "text": "Zeta1?", "answer": "Zeta1"}\n')
    bench = ["--bench", "sessions", "--data", ".", "--memories", "all", "--only", "two"]
    assert list(as_json(run("memorize", *bench, "--json"))) == ["two"]
    assert [path.name for path in Path("all").iterdir()] == ["two"]
    assert as_json(run("eval", *bench, "--system", "memos", "--json"))["n"] == 1
    code, _, err = run("memorize", "--bench", "sessions", "--data", ".", "--only", "three")
    assert code == 2 and "sessions has no history 'three' here" in err
    code, _, err = run("memorize", "--memory", "m", "--only", "two")
    assert code == 2 and "--only names histories of a benchmark" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bench", "worlds", "--memory", "m"), "leave out --memory"),
        (("--again", "--retry-failed"), "leave out --retry-failed"),
        (("--program", "stitch"), "does not file sessions"),
        (("--memory", "nowhere"), "there is no memory"),
    ],
)
def test_memorize_refuses_what_makes_no_sense(run, script, arguments, message):
    script()
    code, _, err = run("memorize", *arguments)
    assert code in (2, 3) and message in err and "Traceback" not in err


# -- show --tree, export


def test_show_tree_lists_folders_with_their_readme(run, filed):
    code, out, _ = run("show", "--tree", "--memory", filed)
    assert code == 0 and "20 sessions; 2026-01-01 to 2026-01-20" in out and "sessions, 2026-01-" in out
    value = as_json(run("show", "--tree", "--memory", filed, "--json"))
    assert value["count"] == 20 and sum(one["count"] for one in value["folders"]) == 20
    path = value["folders"][0]["path"]
    below = as_json(run("show", path, "--tree", "--memory", filed, "--json"))
    assert below == value["folders"][0]
    session = as_json(run("show", below["sessions"][0]["path"], "--tree", "--memory", filed, "--json"))
    assert session["title"] and session["facts"] and session["session_id"].startswith("s")


def test_show_tree_without_one_says_how_to_make_it(run):
    DiskStore("m").add_history(talks(2))
    code, _, err = run("show", "--tree", "--memory", "m")
    assert code == 2 and "stitchjam memorize" in err
    code, _, err = run("show", "no/such", "--tree", "--memory", "m")
    assert code == 2


def test_export_writes_real_folders_with_every_word(run, filed):
    code, out, _ = run("export", "--tree", "out", "--memory", filed)
    assert code == 0 and "20 sessions" in out
    files = sorted(Path("out").rglob("*.md"))
    texts = {path: path.read_text() for path in files}
    folders = [path for path in Path("out").rglob("*") if path.is_dir()]
    assert all((folder / "README.md").is_file() for folder in [Path("out"), *folders])
    for turn in talks(20).turns:
        assert any(turn.text in text and turn.id in text for text in texts.values())
    assert run("export", "--tree", "out", "--memory", filed)[0] == 2


def test_export_puts_what_is_not_filed_apart(run, filed):
    DiskStore(filed).add_turn("new", {"speaker": "Mira", "text": "Not filed yet."})
    value = as_json(run("export", "--tree", "out", "--memory", filed, "--json"))
    assert value["unfiled"] == 1 and "Not filed yet." in next(Path("out/_unfiled").iterdir()).read_text()


def test_hostile_titles_cannot_leave_the_folder_of_an_export(run, script):
    bad = {"title": "../../../etc/x", "gist": "$(touch pwned)", "facts": [], "entities": [], "dates": []}
    script(write_memo=bad, group_memos={"name": "../..", "about": "`id`"})
    disk = DiskStore("m")
    disk.add_history(talks(20))
    disk.close()
    assert run("memorize", "--memory", "m")[0] == 0 and run("export", "--tree", "deep/out", "--memory", "m")[0] == 0
    assert {path.parts[0] for path in Path().rglob("*") if path.suffix == ".md"} == {"deep"}
    assert not Path("pwned").exists()


# -- research


def test_ask_watches_rounds_as_they_end(run, filed):
    code, out, err = run("ask", QUESTION, "--memory", filed, "--watch")
    assert code == 0 and out.splitlines()[0] == "Zeta4"
    assert "round 1: search 'zeta4' -> new candidates" in err and "round 1: still missing: the number" in err


def test_a_question_can_be_followed_from_its_rounds_to_every_cited_word(run, filed):
    arguments = ("show", "--trace", QUESTION, "--program", "memory_agent", "--memory", filed)
    code, out, _ = run(*arguments)
    assert code == 0 and "round 1: browse" in out and "stopped: nothing_more" in out and "answer: Zeta4" in out
    value = as_json(run(*arguments, "--json"))
    assert value["evidence"] and all(one["holds"] for one in value["evidence"])
    for one in [*value["evidence"], *value["claims"]]:
        opened = as_json(run("show", one["span"], "--memory", filed, "--json"))
        assert opened["quote"] == one["quote"] and opened["turn"]["text"].startswith(opened["before"])
        shown = run("show", one["span"], "--memory", filed)[1]
        assert f">>>{one['quote']}<<<" in shown
    assert any(claim["cited"] for claim in value["claims"])


class Links(HTMLParser):
    """Ids and links of a page, and whether it loads anything."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.loads = set[str](), set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        found = dict(attrs)
        self.ids |= {found["id"]} if found.get("id") else set()
        self.links |= {found["href"][1:]} if found.get("href", "").startswith("#") else set()
        self.loads += [value for name, value in attrs if name in ("src", "srcset") and value]


def test_the_page_of_a_research_opens_alone_and_marks_every_piece_of_evidence(run, filed):
    arguments = ("show", "--trace", QUESTION, "--program", "memory_agent", "--memory", filed)
    assert run(*arguments, "--html", "run.html")[0] == 0
    text, value = Path("run.html").read_text(), as_json(run(*arguments, "--json"))
    page = Links(text)
    assert page.loads == [] and "http" not in re.sub(r'http-equiv="[^"]*"', "", text)
    assert {one["label"] for one in value["evidence"]} <= page.ids and page.links <= page.ids
    for one in value["evidence"]:
        assert f'<mark id="{one["label"]}">' in text
    run(*arguments, "--html", "again.html")
    assert Path("again.html").read_text() == text


def test_text_of_the_memory_cannot_script_the_page(run, script):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> Zeta4"
    script(browse_source={"lines": ["t1"]}, compose_context={"claims": [{"entry": "e1", "claim": hostile[:150]}]})
    DiskStore("m").add_turn("s", {"speaker": '"><b>', "text": hostile})
    arguments = ("show", "--trace", "<b>Zeta4</b>", "--program", "memory_agent", "--memory", "m", "--html", "x.html")
    assert run(*arguments)[0] == 0
    text = Path("x.html").read_text()
    assert "<script>alert" not in text and "<img" not in text and "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "q", "--html", "x.html"), "--program memory_agent"),
        (("--html", "x.html"), "give one of them"),
        (("--tree", "--labels"), "choose one of"),
        (("--trace", "q", "--program", "researcher", "--ablate", "no-scope"), "leave them out"),
    ],
)
def test_show_refuses_what_makes_no_sense(run, filed, arguments, message):
    code, _, err = run("show", *arguments, "--memory", filed)
    assert code == 2 and message in err


# -- segment


LONG = "\n\n".join(f"Paragraph {n} of the harbour story goes on for a while." for n in range(200))


def test_a_long_text_becomes_sessions_whose_turns_know_their_places(run):
    Path("story.txt").write_text(LONG, encoding="utf-8")
    value = as_json(run("segment", "story.txt", "--out", "story.sessions.jsonl", "--tokens", "400", "--json"))
    history = read_history("story.sessions.jsonl")
    assert value["sessions"] == len(history.sessions) > 5 and value["placed"] == value["turns"] == 200
    for turn in history.turns:
        start, end = map(int, turn.external_id.split("-"))
        assert LONG[start:end] == turn.text
    assert [turn.text for turn in history.turns] == [turn.text for turn in read_history("story.txt").turns]
    assert run("segment", "story.txt", "--out", "story.sessions.jsonl")[0] == 2
    assert run("ingest", "story.sessions.jsonl", "--memory", "m")[0] == 0


@pytest.mark.parametrize(("end", "begin"), [("\r\n", ""), ("\n", "\ufeff"), ("\n", "One\x0cpage.\u2028Two.\n\n")])
def test_places_are_right_whatever_the_ends_of_lines(run, end, begin):
    text = begin + LONG.replace("\n", end)
    Path("story.txt").write_bytes(text.encode())
    value = as_json(run("segment", "story.txt", "--out", "s.sessions.jsonl", "--tokens", "400", "--json"))
    turns = read_history("s.sessions.jsonl").turns
    assert value["placed"] == len(turns) >= 200
    for turn in turns:
        start, stop = map(int, turn.external_id.split("-"))
        assert text[start:stop].splitlines() == turn.text.splitlines()


def test_the_place_of_a_turn_is_not_in_the_name_of_its_speaker(run):
    text = "Ed: Ed\n\nNoah: No\n\nEd: Yes, Noah is here.\n"
    Path("talk.txt").write_text(text)
    run("segment", "talk.txt", "--out", "t.sessions.jsonl", "--format", "transcript")
    places = [turn.external_id for turn in read_history("t.sessions.jsonl").turns]
    assert [text[int(a) : int(b)] for a, b in (place.split("-") for place in places)] == [
        "Ed",
        "No",
        "Yes, Noah is here.",
    ]


def test_sessions_that_were_cut_have_ids_of_their_own(run):
    turns = [{"speaker": "Mira", "text": f"The boat {at} sails. " * 10} for at in range(20)]
    sessions = (build_session("a", "2026-03-01", turns), build_session("a#1", "2026-03-02", turns[:1]))
    write_sessions("in.sessions.jsonl", History(id="h", sessions=sessions))
    assert run("segment", "in.sessions.jsonl", "--out", "out.sessions.jsonl", "--tokens", "300")[0] == 0
    ids = [session.id for session in read_history("out.sessions.jsonl").sessions]
    assert len(set(ids)) == len(ids) > 2 and run("ingest", "out.sessions.jsonl", "--memory", "m")[0] == 0


def test_a_model_can_say_where_something_new_begins(run, script):
    script(segment_history={"starts": ["t13", "t99", "none"]})
    Path("story.txt").write_text(LONG, encoding="utf-8")
    run("segment", "story.txt", "--out", "a.sessions.jsonl", "--tokens", "1000", "--by-model")
    starts = [session.turns[0].text for session in read_history("a.sessions.jsonl").sessions]
    assert any("Paragraph 12 " in text for text in starts) or any("Paragraph 36 " in text for text in starts)


def test_a_model_without_a_usable_answer_leaves_it_to_length(run, script):
    Path("story.txt").write_text(LONG, encoding="utf-8")
    run("segment", "story.txt", "--out", "a.sessions.jsonl", "--tokens", "400")
    script(segment_history="no json")
    code, _, err = run("segment", "story.txt", "--out", "b.sessions.jsonl", "--tokens", "400", "--by-model")
    assert code == 0 and "length decided" in err
    assert Path("a.sessions.jsonl").read_text() == Path("b.sessions.jsonl").read_text()


# -- eval


def test_research_by_an_ideal_planner_reads_all_gold_sources_of_the_sample(run):
    value = as_json(run("eval", "research", "--planner", "ideal", "--rounds", "20", "-k", "5", "--json"))
    recall = [row["recall"][-1] for row in value["rows"]]
    assert len(recall) > 100 and sum(recall) / len(recall) >= 0.95


def test_research_by_garbage_ends_in_budget_with_a_result(run):
    value = as_json(
        run("eval", "research", "--planner", "garbage", "--rounds", "5", "-k", "3", "--json", "--limit", "20")
    )
    assert all(len(row["recall"]) <= 5 and row["stop"] in ("rounds", "nothing_more") for row in value["rows"])


def test_more_rounds_and_more_sessions_a_search_find_more(run):
    arguments = ("eval", "research", "--planner", "words", "--rounds", "1,3,6", "-k", "1,3", "--limit", "30")
    code, out, _ = run(*arguments, "--html", "curves.html")
    assert code == 0 and "source recall" in out
    rows = as_json(run(*arguments, "--json"))["rows"]
    mean = {
        (k, at): sum(r["recall"][min(at, len(r["recall"])) - 1] for r in rows if r["k"] == k)
        for k in (1, 3)
        for at in (1, 6)
    }
    assert mean[1, 1] < mean[1, 6] and mean[1, 1] < mean[3, 1] <= mean[3, 6]
    page = Path("curves.html").read_text()
    assert page.count("<svg viewBox") == 2 and "Recall in percent, k = 3" in page and Links(page).loads == []


@pytest.mark.parametrize("bad", [("--rounds", "0"), ("-k", "x"), ("--rounds", "1,,2"), ("--rounds", "1e9")])
def test_budgets_that_are_none_are_refused(run, bad):
    code, _, err = run("eval", "research", *bad)
    assert code == 2 and "whole numbers" in err


def test_eval_asks_the_researcher_with_and_without_parts(run, script):
    script(browse_source={"lines": ["t1"]})
    for name in ("one",):
        write_sessions(f"{name}.sessions.jsonl", talks(12).model_copy(update={"id": name}))
        row = {"id": "q", "text": "What is the number Zeta4?", "answer": "Zeta4"}
        Path(f"{name}.questions.jsonl").write_text(json.dumps(row) + "\n")
    bench = ("--bench", "sessions", "--data", ".")
    assert run("memorize", *bench, "--memories", "all")[0] == 0
    for system in ("researcher", "researcher no-tree", "researcher no-filters", "memos"):
        value = as_json(run("eval", *bench, "--memories", "all", "--system", system, "--json"))
        assert value["n"] == 1 if "n" in value else value["asked"] == 1
    code, _, err = run("eval", *bench, "--system", "memos")
    assert code == 2 and "stitchjam memorize" in err
    code, _, err = run("eval", *bench, "--system", "hybrid", "--rounds", "3")
    assert code == 2 and "--rounds" in err


def test_gold_labels_can_be_noted_without_a_model(run):
    value = as_json(run("label", "--bench", "worlds", "--gold", "--memories", "gold", "--json"))
    assert value and all(count > 50 for count in value.values())
    assert as_json(run("label", "--bench", "worlds", "--gold", "--memories", "gold", "--json")) == dict.fromkeys(
        value, 0
    )
    assert run("label", "--gold")[0] == 2
