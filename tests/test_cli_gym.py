"""Commands of the Memory-Gym: what they print, what they refuse, and that worlds are histories for the others."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from made_worlds import make

from stitchjam.cli import gym
from stitchjam.data.worlds.dials import Style
from stitchjam.optimizers import sweep as sweep_module
from stitchjam.optimizers.step_rows import STEPS

SMALL = {"sessions": 10, "questions": 12}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two small worlds."""
    folder = tmp_path_factory.mktemp("gym")
    for seed in (0, 1):
        make(folder, f"world-{seed}", seed=seed, **SMALL)
    return folder


@pytest.fixture(autouse=True)
def _here(made, tmp_path, monkeypatch):
    """Each test starts in a folder of its own with a copy of the worlds."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, "worlds")


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


def test_world_makes_worlds_and_says_where_they_are(run):
    options = ["--sessions", "10", "--questions", "12", "--worlds", "2", "--hops", "2"]
    code, out, err = run("gym", "world", *options)
    assert code == 0 and err == "" and "world-0" in out and "world-1" in out
    assert "look at them with: stitchjam gym show .stitchjam/worlds" in out
    for name in ("world-0", "world-1"):  # what the command makes is what the function makes
        file = Path(name, f"{name}.asked.jsonl")
        assert Path(".stitchjam/worlds", file).read_bytes() == Path("worlds", file).read_bytes()
    again = as_json(run("gym", "world", *options, "--json"))
    assert [(one["name"], one["dials"]["seed"]) for one in again] == [("world-0", 0), ("world-1", 1)]


def test_world_takes_every_dial(run):
    dials = {"sessions": 12, "overlap": 0.9, "hops": 2, "chatter": 0.4, "noise": 0.2, "seed": 5, "questions": 7}
    options = [part for name, value in dials.items() for part in (f"--{name}", str(value))]
    [about] = as_json(
        run("gym", "world", *options, "--style", "mail=2", "--style", "tool=1", "--out", "o", "--name", "n", "--json")
    )
    assert about["name"] == "n-5" and Path("o/n-5/n-5.sessions.jsonl").is_file()
    assert about["dials"] == {**dials, "styles": {"mail": 2, "tool": 1}, "language": "en"}


def test_world_says_when_no_question_is_as_long_as_asked_for(run):
    code, _, err = run("gym", "world", "--sessions", "10", "--questions", "12", "--hops", "4")
    assert code == 0 and err == "world-0: no question of more than 2 hops; more --questions make one likelier\n"


def test_world_says_when_there_are_fewer_questions_than_asked_for(run):
    code, out, err = run("gym", "world", "--sessions", "10", "--questions", "300")
    assert code == 0 and "world-0: only" in err and "more sessions or overlap" in err


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["world", "--sessions", "5"], 2, "--sessions"),
        (["world", "--overlap", "1.5"], 2, "--overlap"),
        (["world", "--style", "nonsense"], 2, "'dialogue', 'mail'"),
        (["world", "--style", "mail=much"], 2, "give NAME=WEIGHT"),
        (["world", "--style", "nonsense=1"], 2, "'dialogue', 'mail'"),
        (["world", "--style", "mail=0", "--style", "tool=0"], 2, "at least one style a weight above 0"),
        (["world", "--style", "mail=-1", "--style", "tool=1"], 2, "styles.mail"),
        (["world", "--style", "mail=nan"], 2, "styles.mail"),
        (["world", "--style", "mail=1", "--style", "mail=0"], 2, "--style mail is given twice"),
        (["world", "--name", "../up"], 2, "cannot name a world"),
        (["world", "--out", "worlds"], 2, "made with other dials"),
        (["stats", "nowhere"], 2, "no world here; make some with: stitchjam gym world --out nowhere"),
        (["stats", "worlds", "--plot", "a.svg"], 2, "add --sweep"),
        (["stats", "--sweep", "--plot", "a.docx"], 2, ".svg, .png or .pdf"),
        (["stats", "--sweep", "--questions", "3"], 2, "--questions"),
        (["show", "nowhere"], 2, "no world here"),
        (["show", "worlds", "world-0-q999"], 2, "no question 'world-0-q999'"),
        (["rows", "nowhere"], 2, "no world here"),
        (
            ["rows", "worlds", "--out", "worlds/world-0/world-0.gold.jsonl"],
            2,
            "must stay as it is; choose another --out",
        ),
        (["rows", "worlds", "--out", "worlds"], 2, "worlds: cannot be written (Is a directory); choose another --out"),
        (["rows", "worlds", "--step", "dance"], 2, "no rows for step 'dance'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(run, arguments, code, part):
    done, out, err = run("gym", *arguments)
    assert done == code and part in err and "Traceback" not in err and out == ""
    assert not Path(".stitchjam").exists() and sorted(path.name for path in Path().iterdir()) == ["worlds"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["gym", "stats", "worlds"],
        ["gym", "show", "worlds"],
        ["gym", "show", "worlds", "world-0-q001"],
        ["gym", "rows", "worlds"],
        ["eval", "--system", "search", "--history", "worlds"],
    ],
)
def test_a_file_that_was_changed_is_an_error_in_the_data(run, arguments):
    file = Path("worlds/world-1/world-1.questions.jsonl")
    file.write_text(file.read_text("utf-8").replace("evidence", "Evidence", 1), encoding="utf-8")
    done, out, err = run(*arguments)
    assert done == 3 and f"{file}: missing or changed" in err and out == "" and "Traceback" not in err


def test_stats_tell_size_and_difficulty(run):
    code, out, err = run("gym", "stats", "worlds")
    assert code == 0 and err == ""
    for part in ("world-0", "world-1", "closed book", "BM25 top 10", "multi-hop", "1 hop", "single-hop"):
        assert part in out
    found = as_json(run("gym", "stats", "worlds", "-k", "3", "--json"))
    assert found["k"] == 3 and found["worlds"] == ["world-0", "world-1"] and found["together"]["oracle"] == 1
    assert as_json(run("gym", "stats", "worlds/world-0", "--json"))["together"]["questions"] == 12


def test_stats_sweep_dials_and_draw_curves(run, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sweep_module, "SWEEPS", {"overlap": (0.0, 1.0), "sessions": (10, 12)})
    options = ["gym", "stats", "--sweep", "--worlds", "1", "--questions", "30", "--plot", "pictures/a.svg"]
    code, out, err = run(*options)
    assert code == 0 and "drawn: pictures/a.svg" in err and Path("pictures/a.svg").stat().st_size > 1000
    assert "overlap" in out and "sessions" in out and "closed book" in out
    found = as_json(run(*options[:-2], "--json"))
    assert [(one["dial"], [point["value"] for point in one["points"]]) for one in found] == [
        ("overlap", [0, 1]),
        ("sessions", [10, 12]),
    ]


def test_show_lists_questions_and_shows_one_with_its_evidence(run):
    rows = as_json(run("gym", "show", "worlds", "--json"))
    assert len(rows) == 24 and len({row["id"] for row in rows}) == 24
    listed = run("gym", "show", "worlds")[1]
    assert all(row["id"] in listed and row["text"] in listed for row in rows)
    row = next(row for row in rows if any(one["role"] == "refers" for one in row["evidence"]))
    code, out, _ = run("gym", "show", "worlds", row["id"])
    assert code == 0 and f"Q: {row['text']}" in out and f"A: {row['answer']}" in out
    for one in row["evidence"]:
        assert f" {'>' if one['role'] == 'states' else '~'} [{one['turn']}] " in out
    assert as_json(run("gym", "show", "worlds", row["id"], "--json")) == row
    alone = run("gym", "show", "worlds", row["id"], "--around", "0")[1]
    assert alone.count("[world-") == len(row["evidence"]) < out.count("[world-")
    whole = run("gym", "show", "worlds", row["id"], "--around", str(10**18))[1]
    assert whole.count("[world-") > out.count("[world-") and "..." not in whole


def test_show_says_so_when_nothing_in_the_world_answers(run):
    rows = as_json(run("gym", "show", "worlds", "--json"))
    row = next(row for row in rows if row["type"] == "unanswerable")
    assert "nothing in this world says so" in run("gym", "show", "worlds", row["id"])[1]


def test_rows_are_lines_of_json_on_standard_output_or_in_a_file(run):
    code, out, err = run("gym", "rows", "worlds")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and err == "" and {row["step"] for row in rows} == set(STEPS)
    assert {row["group"] for row in rows} == {"world-0", "world-1"}
    code, out, err = run("gym", "rows", "worlds", "--step", "browse_source", "--out", "new/folder/rows.jsonl")
    assert code == 0 and out == "" and "written: new/folder/rows.jsonl" in err
    written = Path("new/folder/rows.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in written] == [row for row in rows if row["step"] == "browse_source"]


def test_a_step_named_twice_gives_its_rows_once(run):
    once = run("gym", "rows", "worlds", "--step", "type_event")[1]
    assert run("gym", "rows", "worlds", "--step", "type_event", "--step", "type_event")[1] == once


def test_rows_can_be_read_where_the_terminal_shows_no_utf_8(run):
    arguments = ["gym", "rows", "worlds", "--step", "answer_question"]
    rows = run(*arguments)[1]
    command = [sys.executable, "-m", "stitchjam.cli", *arguments]
    plain = subprocess.check_output(command, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert not rows.isascii() and plain.isascii()
    assert [json.loads(line) for line in plain.splitlines()] == [json.loads(line) for line in rows.splitlines()]


def test_rows_of_a_split_without_worlds_leave_the_file_as_it_was(run):
    Path("rows.jsonl").write_text("mine", encoding="utf-8")
    split = as_json(run("gym", "world", "--out", "worlds", "--sessions", "10", "--questions", "12", "--json"))[0][
        "split"
    ]
    other = {"train": "held_out", "held_out": "train"}[split]
    code, _, err = run("gym", "rows", "worlds/world-0", "--split", other, "--out", "rows.jsonl")
    assert code == 2 and f"no {other} world in worlds/world-0" in err
    assert Path("rows.jsonl").read_text("utf-8") == "mine"


def test_nothing_is_written_into_a_world_through_a_link(run):
    gold = Path("worlds/world-0/world-0.gold.jsonl")
    before = gold.read_bytes()
    Path("link.jsonl").symlink_to(gold)
    for out in ("link.jsonl", "worlds/world-0/new/rows.jsonl"):
        code, _, err = run("gym", "rows", "worlds", "--out", out)
        assert code == 2 and "which must stay as it is; choose another --out" in err
    code, _, err = run("gym", "world", "--out", "worlds/world-0")
    assert code == 2 and "lies in the world" in err
    assert gold.read_bytes() == before and len(list(gold.parent.iterdir())) == 5


@pytest.mark.parametrize("target", ["folder.svg", "file/a.svg"])
def test_where_no_picture_can_be_drawn_is_known_before_the_sweep(run, monkeypatch, target):
    monkeypatch.setattr(sweep_module, "SWEEPS", {})
    Path("folder.svg").mkdir()
    Path("file").touch()
    code, out, err = run("gym", "stats", "--sweep", "--plot", target)
    assert code == 2 and out == "" and "choose another --plot" in err


def test_a_world_without_questions_has_no_figures(run):
    run("gym", "world", "--sessions", "10", "--questions", "0", "--name", "empty", "--out", "e")
    out = run("gym", "stats", "e")[1]
    assert "all" in out and "0.0" not in out


def test_a_closed_standard_output_is_no_traceback():
    command = f'"{sys.executable}" -m stitchjam.cli gym rows worlds --step group_session >&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_rows_of_an_unknown_step_leave_the_file_as_it_was(run):
    Path("rows.jsonl").write_text("mine", encoding="utf-8")
    assert run("gym", "rows", "worlds", "--step", "dance", "--out", "rows.jsonl")[0] == 2
    assert Path("rows.jsonl").read_text("utf-8") == "mine"


def test_worlds_are_histories_with_questions_for_the_search_evaluation(run):
    found = as_json(run("eval", "--system", "search", "--history", "worlds", "--json"))
    assert [row["name"] for row in found["histories"]] == ["world-0", "world-1"]
    assert found["together"]["questions"] + found["without_evidence"] == 24
    assert 0 < found["together"]["turns"]["10"] < 1
    assert as_json(run("eval", "--system", "search", "--history", "worlds/world-0", "--json"))["histories"]


def test_a_world_s_sessions_can_be_ingested(run):
    assert run("ingest", "worlds/world-0/world-0.sessions.jsonl")[0] == 0
    assert as_json(run("stats", "--json"))["counts"]["session"] == 10


def test_help_names_the_styles_and_steps_that_there_are():
    # They are written again in the command line, which imports nothing heavy before a command runs.
    assert gym.STYLES == get_args(Style)
    assert gym.STEPS.split(", ") == list(STEPS)
