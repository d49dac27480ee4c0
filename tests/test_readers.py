"""Chats, STITCH turns and our own files become histories; anything else is an error that says where and what."""

import json
import time
from pathlib import Path

import pytest

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import (
    FORMATS,
    detect_format,
    read_history,
    read_questions,
    read_sessions,
    read_stitch,
    write_questions,
    write_sessions,
)
from stitchjam.data.records import Question
from stitchjam.data.sample import load_sample

REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
CAME = REAL / "came_bench_site"

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
SESSION = {"id": "s1", "time": "2025-05-01T09:00", "turns": [{"id": "d1", "speaker": "Ann", "text": "I moved."}]}
STITCH = {"id": "trip-1-turn-1", "role": "user", "content": "Plan day 1. ----TIMESTAMP: 2025-05-15T08:00"}


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.jsonl"):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else lines(*content), encoding="utf-8")
        return path

    return write


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def turns_of(path):
    return [(turn.speaker, turn.text) for turn in read_history(path).turns]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (json.dumps(CHAT), "chat"),
        (json.dumps(CHAT, indent=2), "chat"),
        (json.dumps({"messages": CHAT}, indent=1), "chat"),
        (json.dumps([{"messages": CHAT}]), "chat"),
        (lines({"messages": CHAT}), "chat"),
        ("\n\n" + lines(SESSION), "sessions"),
        ("\ufeff" + lines(SESSION).replace("\n", "\r\n"), "sessions"),
        (lines(STITCH), "stitch"),
    ],
)
def test_the_format_is_told_by_the_content(write, content, name):
    path = write(content, "file.txt")
    assert detect_format(path) == name
    assert (read_history(path),) == FORMATS[name](path) == (read_history(path, format=name),)
    assert read_history(path).id == "file"


def test_a_chat_line_is_a_session_with_its_id_and_time(write):
    messages = [{**CHAT[0], "timestamp": 1_700_000_000}, {**CHAT[1], "name": "Kay"}]
    history = read_history(write([{"id": 7, "time": "2025-01-01", "messages": messages}, {"messages": CHAT}]))
    assert [session.id for session in history.sessions][0] == "7"
    turns = history.sessions[0].turns
    assert [turn.time for turn in turns] == ["2023-11-14T22:13:20+00:00", "2025-01-01"]
    assert [turn.speaker for turn in turns] == ["user", "Kay"]


def test_tool_calls_become_text_and_results_name_their_tool(write):
    call = {"id": "c1", "function": {"name": "find", "arguments": '{"q": "inn"}'}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call, {"function": {"name": "now", "arguments": {}}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sea Inn"},
        {"role": "tool", "name": "now", "content": "noon"},
        {"role": "tool", "content": "?"},
        {"role": "assistant", "content": "Wait.", "function_call": {"name": "find", "arguments": '{"q": "bar"}'}},
    ]
    assert turns_of(write(json.dumps(messages))) == [
        ("assistant", 'call find({"q": "inn"})\ncall now({})'),
        ("tool:find", "Sea Inn"),
        ("tool:now", "noon"),
        ("tool", "?"),
        ("assistant", 'Wait.\ncall find({"q": "bar"})'),
    ]


def test_parts_of_a_message_are_joined_and_payloads_left_out(write):
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:..."}},
        "and",
        {"type": "x"},
    ]
    assert turns_of(write(json.dumps([{"role": "user", "content": parts}]))) == [
        ("user", 'Look:\n[image_url]\nand\n{"type": "x"}')
    ]


def test_conversations_that_begin_alike_are_kept_apart_and_repeated_ones_read_once(write):
    other = [CHAT[0], {"role": "assistant", "content": "Good day"}]
    history = read_history(write([{"messages": CHAT}, {"messages": other}, {"messages": CHAT}, {"messages": other}]))
    assert [session.turns[1].text for session in history.sessions] == ["Hello", "Good day"]
    assert len({turn.id for turn in history.turns}) == 4


def test_stitch_turns_have_their_time_cut_off_and_no_gold(write):
    gold = {"partition": ["GOLD"], "action": "GOLD", "action_object": "GOLD"}
    rows = [
        {**STITCH, **gold},
        {
            "id": "trip-1-turn-2",
            "role": "agent",
            "content": "Ok.\n[[ ## completed ## ]] ---TIMESTAMP: 2023/05/20 (Sat) 02:21",
        },
        {"id": "trip-2-turn-1", "role": "user", "content": "A ----TIMESTAMP: x\nin the middle"},
        {"id": "loose", "role": "user"},
    ]
    history = read_history(write(rows, "turns.jsonl"))
    assert "GOLD" not in history.model_dump_json()
    assert [(session.id, len(session.turns)) for session in history.sessions][:2] == [("trip-1", 2), ("trip-2", 1)]
    assert [turn.text for turn in history.turns[:2]] == ["Plan day 1.", "Ok.\n[[ ## completed ## ]]"]
    assert [turn.time for turn in history.turns[:2]] == ["2025-05-15T08:00", "2023-05-20T02:21"]
    assert history.turns[2].text == "A ----TIMESTAMP: x\nin the middle" and history.turns[3].text == ""
    assert history.turns[0].external_id == "trip-1-turn-1"


def test_stitch_questions_take_each_kind_of_answer_and_report_what_does_not_resolve(write):
    questions = [
        {
            "id": "q1",
            "type": "type 1",
            "content": "?",
            "answer": {"free_form_answer": "Inn"},
            "answer_turn_ids": ["trip-1-turn-1"],
        },
        {"id": "q2", "type": "type_3", "content": "?", "answer": {"free_form_answer": '["A (2023); B", "C"]'}},
        {"id": "q3", "content": "?", "answer": {"single_choice_id": "b"}, "answer_turn_ids": ["nowhere"]},
        {
            "id": "q4",
            "content": "?",
            "answer": {"multiple_choice_ids": {"choice_ids": ["a", "c"]}},
            "date": "2025-01-01",
        },
        {"id": "q5", "content": "?"},
    ]
    loaded = read_stitch(write([STITCH], "turns.jsonl"), write(questions, "questions.jsonl"))
    assert [question.answer for question in loaded.questions] == ["Inn", "A (2023); B; C", "b", "a, c", ""]
    assert [question.kind for question in loaded.questions[:3]] == ["type_1", "type_3", ""]
    assert loaded.questions[0].evidence == (loaded.history.turns[0].id,)
    assert loaded.questions[3].time == "2025-01-01"
    assert len(loaded.problems) == 2
    assert "questions.jsonl, line 3" in loaded.problems[0] and "'nowhere'" in loaded.problems[0]


def test_sessions_and_questions_survive_writing_and_reading(tmp_path, write):
    nameless = read_history(write(json.dumps(CHAT)))
    named = read_history(
        write([SESSION, {**SESSION, "id": "s2", "turns": [{"speaker": "Zoë", "text": "日本 \u2028 x"}]}])
    )
    for history in (nameless, named):
        question = Question(
            id="q",
            text="?",
            answer="",
            aliases=("a",),
            evidence=(history.turns[-1].id,),
            kind="1",
            split="train",
            time="2025",
        )
        write_sessions(tmp_path / "out.sessions.jsonl", history)
        write_questions(tmp_path / "out.questions.jsonl", [question], history)
        again = read_sessions(tmp_path / "out.sessions.jsonl")
        assert again.sessions == history.sessions
        assert read_questions(tmp_path / "out.questions.jsonl", again) == (question,)


def test_evidence_that_names_no_turn_is_an_error_with_file_line_and_id(write):
    history = read_history(write([SESSION]))
    good = {"id": "q1", "text": "?", "answer": 7, "evidence": ["d1"]}
    assert read_questions(write([good], "q.jsonl"), history)[0].answer == "7"
    with pytest.raises(DataError, match=r"q\.jsonl, line 2.*'d9'"):
        read_questions(write([good, {**good, "id": "q2", "evidence": ["d9"]}], "q.jsonl"), history)
    for bad in ({"split": "test"}, {"answer": None}, {"evidence": "d1"}, {"alias": []}, {"id": ""}):
        with pytest.raises(DataError, match=r"q\.jsonl, line 1"):
            read_questions(write([{**good, **bad}], "q.jsonl"), history)


@pytest.mark.parametrize(
    "bad",
    [
        "[1, 2, 3]",
        "[]",
        "{}",
        "7",
        '"text"',
        "null",
        "not json",
        "",
        " \n\t\n",
        '{"id": "a", "turns": [',
        '{"messages": NaN}',
        '{"messages": [{"role": "user", "content": "x", "timestamp": Infinity}]}',
        '{"messages": [{"role": "user", "content": "x", "timestamp": 1e999}]}',
        '{"messages": [{"role": "user", "content": "x", "timestamp": ' + "9" * 400 + "}]}",
        '{"messages": [{"role": "user", "content": ' + "9" * 5_000 + "}]}",
        '{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '
        + "[" * 300
        + "]" * 300
        + "}}]}]}",
        '{"messages": [{"role": "user", "content": "\\ud83d"}]}',
        '{"messages": {"role": "user"}}',
        '{"messages": []}',
        '{"messages": [[]]}',
        '{"messages": [{"content": "x"}]}',
        '{"messages": [{"role": "user", "content": 7}]}',
        '{"messages": [{"role": "user", "content": [[]]}]}',
        '{"messages": [{"role": ["user"], "content": "x"}]}',
        '{"messages": [{"role": "a", "tool_calls": {"x": 1}}]}',
        '{"messages": [{"role": "a", "tool_calls": [{"function": "f"}]}]}',
        '{"messages": [{"role": "a", "content": "x"}], "id": {}}',
        '[{"role": "user", "content": "x"}, 3]',
        '{"id": "s", "turns": 3}',
        '{"id": "s", "turns": []}',
        '{"id": "s", "turns": [{"speaker": "a", "text": null}]}',
        '{"id": "s", "turns": [{"speaker": "a", "text": "x", "tme": "2025"}]}',
        '{"turns": [{"speaker": "a", "text": "x"}]}',
        '{"id": "t", "role": "a", "content": {}}',
        '{"id": true, "role": "a", "content": ""}',
        '{"id": "t", "role": "a", "content": ""}\n{"id": "t", "role": "a", "content": ""}',
        '{"id": "s", "turns": [{"id": 1, "speaker": "a", "text": "x"}, {"id": 1, "speaker": "a", "text": "x"}]}',
    ],
)
def test_what_is_none_of_the_formats_is_a_data_error_that_names_the_file(write, bad):
    with pytest.raises(DataError, match=r"file\.jsonl"):
        read_history(write(bad))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "document"])
def test_a_reader_that_was_asked_for_by_name_refuses_other_formats(write, name):
    for other in ([SESSION], [STITCH], [{"messages": CHAT}], [[1]], [None]):
        path = write(other)
        if (name, other) == ("chat", [STITCH]):  # such a line is a message as well
            continue
        if other in ([[1]], [None]) or detect_format(path) != name:
            with pytest.raises(DataError, match=r"file\.jsonl, line 1"):
                read_history(path, format=name)


def test_errors_name_the_line_and_end_with_what_to_do(write):
    with pytest.raises(DataError, match=r"line 3.*column 1.*correct"):
        read_history(write(lines(SESSION) + "\n}"))
    with pytest.raises(DataError, match=r"line 2.*\"text\".*expected text, found a list; correct"):
        read_history(write([SESSION, {"id": "s2", "turns": [{"speaker": "a", "text": []}]}]))
    with pytest.raises(DataError, match=r"byte 4 \(line 2\) is not UTF-8; save"):
        read_sessions(write(b'  \n"\xff"'))


def test_what_cannot_be_opened_or_chosen_is_a_usage_error(write, tmp_path):
    for path in (tmp_path / "nowhere.jsonl", tmp_path):
        with pytest.raises(UsageError, match="check the path"):
            read_history(path)
    with pytest.raises(UsageError, match="chat, stitch, sessions"):
        read_history(write([SESSION]), format="csv")


def test_the_sample_is_complete():
    loaded = load_sample()
    assert len(loaded.history.sessions) >= 12 and len(loaded.history.turns) >= 120
    splits = [question.split for question in loaded.questions]
    assert (splits.count("train"), splits.count("held_out"), len(splits)) == (24, 16, 40)
    known = {turn.id for turn in loaded.history.turns}
    assert all(question.evidence and known.issuperset(question.evidence) for question in loaded.questions)
    assert loaded.problems == () and loaded.history.id == "harbor"


@pytest.mark.skipif(not CAME.is_dir(), reason="the CAME-Bench example trajectories are not on this machine")
@pytest.mark.parametrize(
    ("name", "turns", "questions"), [("debate_example/debate", 53, 6), ("travel_plan_example/travel_planning", 186, 42)]
)
def test_came_bench_is_read_without_its_gold(name, turns, questions):
    path = CAME / f"{name}_turns.jsonl"
    loaded = read_stitch(path, CAME / f"{name}_questions.jsonl")
    assert (len(loaded.history.turns), len(loaded.questions), loaded.problems) == (turns, questions, ())
    assert len(loaded.history.sessions) == 1
    assert all(turn.time and "TIMESTAMP" not in turn.text for turn in loaded.history.turns)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [set(turn.model_dump()) for turn in loaded.history.turns[:1]] == [
        {"id", "session_id", "speaker", "text", "time", "external_id"}
    ]
    for row, turn in zip(rows, loaded.history.turns, strict=True):
        assert row["content"].startswith(turn.text) and turn.speaker == row["role"]
        assert turn.external_id == row["id"] and turn.time == row["content"].rpartition("TIMESTAMP: ")[2]


@pytest.mark.skipif(not (REAL / "tau_bench").is_dir(), reason="the tau-bench trajectories are not on this machine")
def test_agent_trajectories_with_one_system_prompt_are_sessions_of_their_own(write):
    runs = json.loads((REAL / "tau_bench" / "gpt-4o-airline_trial0.json").read_text(encoding="utf-8"))
    history = read_history(write([{"messages": run["traj"]} for run in runs]))
    assert len(history.sessions) == len(runs)
    assert len({turn.id for turn in history.turns}) == sum(len(run["traj"]) for run in runs)
    assert any(turn.speaker == "tool:get_user_details" for turn in history.turns)
    assert any(turn.text.startswith("call get_user_details({") for turn in history.turns)


@pytest.mark.parametrize(
    "filler", [" " * 200_000, "-" * 200_000, "--- TIMESTAMP:" * 20_000], ids=["space", "dashes", "markers"]
)
def test_a_turn_of_white_space_or_dashes_is_read_in_a_moment(tmp_path, filler):
    path = tmp_path / "turns.jsonl"
    path.write_text(json.dumps({"id": "a-turn-1", "role": "user", "content": f"hello{filler}x"}))
    start = time.process_time()
    read_history(path, "stitch")
    assert time.process_time() - start < 5  # it took minutes when the search was quadratic
