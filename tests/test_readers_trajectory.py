"""Agent trajectories and logs of calls become histories, without what an evaluation wrote beside them."""

import json
from pathlib import Path

import pytest

from stitchjam.data.errors import DataError
from stitchjam.data.readers import detect_format, read_history

REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

ASK = {"role": "user", "content": "Book."}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "function": {"name": "book", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "Booked."}
DONE = {"role": "assistant", "content": "Done."}
GOLD = {"reward": "GOLD", "info": {"actions": "GOLD"}}


@pytest.fixture
def write(tmp_path):
    def write(content, name="run.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def said(history):
    return [(turn.speaker, turn.text) for turn in history.turns]


@pytest.mark.parametrize("wrap", [list, lambda runs: lines(*runs)], ids=["a list", "lines"])
def test_each_run_of_tau_bench_is_a_session_without_its_gold(write, wrap):
    runs = [
        {"task_id": 0, "trial": 0, "traj": [ASK, CALL, RESULT], **GOLD},
        {"task_id": 0, "trial": 1, "traj": [ASK, DONE], **GOLD},
        {"task_id": 7, "traj": [ASK], **GOLD},
        {"task_id": 8, "trial": 0, "traj": [], **GOLD},
    ]
    path = write(wrap(runs))
    history = read_history(path)
    assert detect_format(path) == "tau-bench" and "GOLD" not in history.model_dump_json()
    assert [session.id for session in history.sessions] == [
        "run/task-0-trial-0",
        "run/task-0-trial-1",
        "run/task-7-trial-0",
    ]
    assert said(history)[:3] == [("user", "Book."), ("assistant", "call book({})"), ("tool:book", "Booked.")]


def test_a_swe_agent_run_is_its_task_and_its_steps(write):
    history = [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": "DEMO", "is_demo": True},
        {"role": "assistant", "content": "DEMO", "is_demo": True},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": "Look.\nls"},
        {"role": "user", "content": "a.py"},
    ]
    steps = [
        {"response": "Look.\n```\nls\n```", "thought": "Look.", "action": "ls\n", "observation": "a.py", "state": "{}"},
        {"response": "Then submit.", "action": "submit", "observation": None},
        {"response": "", "action": "exit", "observation": "bye"},
    ]
    path = write({"environment": "swe_main", "trajectory": steps, "history": history, "info": {"submission": "GOLD"}})
    expected = [
        ("assistant", "Look.\n```\nls\n```"),
        ("tool", "a.py"),
        ("assistant", "Then submit.\nsubmit"),
        ("assistant", "exit"),
        ("tool", "bye"),
    ]
    assert said(read_history(path)) == [("system", "You fix bugs."), ("user", "Fix it."), *expected]
    assert [session.id for session in read_history(path).sessions] == ["run"]
    alone = read_history(write({"trajectory": steps}, "a.traj"))
    assert detect_format(path) == "swe-agent" and said(alone) == expected


@pytest.mark.parametrize(
    ("format", "bad"),
    [
        ("tau-bench", []),
        ("tau-bench", [{"task_id": 1, "traj": []}]),
        ("tau-bench", [{"traj": [ASK]}]),
        ("tau-bench", [{"task_id": 1, "traj": {}}]),
        ("tau-bench", [{"task_id": 1, "traj": [ASK]}, {"task_id": 1, "traj": [ASK]}]),
        ("tau-bench", [{"task_id": 1, "traj": [{"content": "x"}]}]),
        ("swe-agent", []),
        ("swe-agent", {"trajectory": []}),
        ("swe-agent", {"trajectory": {}}),
        ("swe-agent", {"trajectory": [{"response": 7}]}),
        ("swe-agent", {"trajectory": ["x"]}),
        ("swe-agent", {"trajectory": [{}], "history": "x"}),
    ],
)
def test_what_is_no_trajectory_is_an_error_with_file_and_line(write, format, bad):
    with pytest.raises(DataError, match=r"run\.json, line 1"):
        read_history(write(bad), format)


def logged(*messages, reply, **more):
    return {
        "request": {"model": "m", "messages": list(messages)},
        "response": {"choices": [{"message": reply}], **more},
    }


def test_calls_that_go_on_with_one_conversation_are_one_session(write):
    path = write(
        lines(
            {"id": "call-1", **logged(ASK, reply=CALL, created=1_700_000_000)},
            logged({"role": "user", "content": "Other."}, reply=DONE),
            {"id": "call-2", "timestamp": "2023-11-15", **logged(ASK, CALL, RESULT, reply=DONE)},
            logged(ASK, reply=CALL),
            logged(ASK, reply=DONE),
        )
    )
    history = read_history(path)
    assert detect_format(path) == "chat"
    assert [[turn.text for turn in session.turns] for session in history.sessions] == [
        ["Book.", "call book({})", "Booked.", "Done."],
        ["Other.", "Done."],
        ["Book.", "Done."],
    ]
    assert [turn.time for turn in history.turns[:4]] == ["", "2023-11-14T22:13:20+00:00", "", "2023-11-15"]
    assert len({turn.id for turn in history.turns}) == 8


def test_a_logged_call_may_hold_its_messages_itself_or_have_no_reply(write):
    beside = {"messages": [ASK], "response": {"choices": [{"message": DONE}, {"message": CALL}]}}
    assert said(read_history(write([beside]))) == [("user", "Book."), ("assistant", "Done.")]
    failed = {"request": {"messages": [ASK]}, "response": {"error": "timeout"}}
    assert said(read_history(write([failed]))) == [("user", "Book.")]
    for bad in (
        {"request": {}, "response": {}},
        {"request": 7, "response": {}},
        {"request": {"messages": [ASK]}, "response": {"choices": [7]}},
        {"request": {"messages": [ASK]}, "response": {"choices": [{}]}},
    ):
        with pytest.raises(DataError, match=r"run\.json, line 1"):
            read_history(write(bad))


@pytest.mark.skipif(not (REAL / "tau_bench").is_dir(), reason="the tau-bench trajectories are not on this machine")
def test_real_tau_bench_runs_are_complete():
    path = REAL / "tau_bench" / "gpt-4o-airline_trial0.json"
    runs, history = json.loads(path.read_text(encoding="utf-8")), read_history(path)
    assert (len(history.sessions), len(history.turns)) == (50, sum(len(run["traj"]) for run in runs))
    assert {turn.speaker.split(":")[0] for turn in history.turns} == {"system", "user", "assistant", "tool"}


@pytest.mark.skipif(not (REAL / "swe_agent").is_dir(), reason="the SWE-agent trajectories are not on this machine")
@pytest.mark.parametrize("path", sorted((REAL / "swe_agent").glob("*.traj")), ids=lambda path: path.stem[-12:])
def test_real_swe_agent_runs_are_complete(path):
    record, history = json.loads(path.read_text(encoding="utf-8")), read_history(path)
    assert detect_format(path) == "swe-agent" and len(history.sessions) == 1
    texts = [turn.text for turn in history.turns if turn.speaker == "assistant"]
    assert texts == [step["response"] for step in record["trajectory"]]
    shown = [turn.text for turn in history.turns if turn.speaker == "tool"]
    assert shown == [step["observation"] for step in record["trajectory"] if step["observation"]]
    assert [turn.speaker for turn in history.turns[:3]] == ["system", "user", "assistant"]
