"""LoCoMo conversations become histories with all their questions; what does not resolve is reported."""

import json
from collections import Counter
from pathlib import Path

import pytest

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import read_histories, read_history, read_locomo

LOCOMO = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "locomo" / "locomo_dev6.json"


def turn(name, text="Hi.", **more):
    return {"speaker": "Ann", "dia_id": name, "text": text, **more}


def item(**more):
    talk = {
        "speaker_a": "Ann",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [turn("D1:1"), turn("D1:2", "Look!", blip_caption="a red boat", img_url=["x"])],
        "session_10_date_time": "12:09 am on 13 September, 2023",
        "session_10": [turn("D10:1")],
        "session_2_date_time": "some day",
        "session_3_date_time": "8:00 am on 1 June, 2023",
        "session_3": [],
    }
    return {"sample_id": "conv-1", "conversation": talk, "qa": [], **more}


def question(answer, evidence, category=4):
    return {"question": "?", "answer": answer, "evidence": evidence, "category": category}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "locomo10.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one]], ids=["one", "a list"])
def test_a_conversation_becomes_a_history(write, wrap):
    path = write(wrap(item()))
    (loaded,) = read_locomo(path)
    assert (loaded.history,) == read_histories(path) and loaded.history == read_history(path)
    assert [(session.id, session.time, len(session.turns)) for session in loaded.history.sessions] == [
        ("conv-1/session_1", "2023-05-08T13:56", 2),
        ("conv-1/session_10", "2023-09-13T00:09", 1),
    ]
    assert [(one.external_id, one.text) for one in loaded.history.turns] == [
        ("D1:1", "Hi."),
        ("D1:2", "Look! [photo: a red boat]"),
        ("D10:1", "Hi."),
    ]
    assert loaded.history.id == "conv-1" and loaded.questions == loaded.problems == ()


def test_questions_keep_their_kind_and_name_the_evidence_that_resolves(write):
    qa = [
        question("sea", ["D1:1; D10:01", "D1:2 D1:1"]),
        question(2022, ["D", "D:1:2"], 2),
        {"question": "?", "evidence": [], "category": 5, "adversarial_answer": "GOLD"},
        {**question("no", ["D1:02"], 5), "adversarial_answer": "GOLD"},
        {"question": "?", "category": 1},
    ]
    (loaded,) = read_locomo(write([item(qa=qa)]))
    names = {one.id: one.external_id for one in loaded.history.turns}
    assert [[names[one] for one in asked.evidence] for asked in loaded.questions] == [
        ["D1:1", "D10:1", "D1:2"],
        [],
        [],
        ["D1:2"],
        [],
    ]
    assert [asked.id for asked in loaded.questions] == [f"conv-1-{number}" for number in range(1, 6)]
    assert [asked.answer for asked in loaded.questions] == ["sea", "2022", "", "no", ""]
    assert [asked.kind for asked in loaded.questions] == ["4", "2", "5", "5", "1"]
    assert {asked.split for asked in loaded.questions} == {""}
    assert ["'D'" in loaded.problems[0], "'D:1:2'" in loaded.problems[1], "no answer" in loaded.problems[2]] == [
        True
    ] * 3
    assert len(loaded.problems) == 3 and all("locomo10.json, line 1" in problem for problem in loaded.problems)


def test_a_file_with_several_conversations_is_several_histories(write):
    path = write([item(), item(sample_id="conv-2")])
    assert [history.id for history in read_histories(path)] == ["conv-1", "conv-2"]
    with pytest.raises(UsageError, match=r"holds 2 histories \(conv-1, conv-2\); ingest it .*each is a source"):
        read_history(path)


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [item(), item()],
        item(conversation=[]),
        item(conversation={"session_1_date_time": "x"}),
        item(conversation={"session_1": [turn("D1:1"), turn("D1:1")]}),
        item(conversation={"session_1": [{"speaker": "Ann", "dia_id": "D1:1"}]}),
        item(conversation={"session_1": "text"}),
        item(sample_id=""),
        item(qa={}),
        item(qa=[{"question": None}]),
        item(qa=[question([], [])]),
        item(qa=[question("a", "D1:1")]),
    ],
)
def test_what_is_no_locomo_is_an_error_with_file_and_line(write, bad):
    with pytest.raises(DataError, match=r"locomo10\.json, line 1"):
        read_locomo(write(bad))


@pytest.mark.skipif(not LOCOMO.is_file(), reason="the LoCoMo conversations are not on this machine")
def test_the_real_conversations_are_complete():
    loaded = read_locomo(LOCOMO)
    assert [len(one.history.turns) for one in loaded] == [419, 369, 663, 629, 680, 675]
    assert [len(one.history.sessions) for one in loaded] == [19, 19, 32, 29, 29, 28]
    questions = [asked for one in loaded for asked in one.questions]
    assert Counter(asked.kind for asked in questions) == {"1": 172, "2": 180, "3": 53, "4": 480, "5": 272}
    assert sum(asked.answer == "" for asked in questions) == 270
    assert all(asked.answer for asked in questions if asked.kind != "5")
    assert [len(one.problems) for one in loaded] == [0, 0, 0, 2, 1, 0]
    times = [session.time for one in loaded for session in one.history.sessions]
    assert all(len(time) == 16 and time[10] == "T" for time in times)
