"""Files of benchmarks become histories with questions; what is cut or does not resolve is said, gold stays out."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from made_benchmarks import NOTICE, encode, hotpot, instance, trajectory

from stitchjam.data.benchmarks import BENCHMARKS, look, open_benchmark
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.came import decode_came, read_came, read_notices
from stitchjam.data.readers.hotpotqa import read_hotpotqa
from stitchjam.data.readers.longmemeval import read_longmemeval
from stitchjam.data.readers.source import Source
from stitchjam.data.readers.streamed import stream_records
from stitchjam.data.records import NOT_MENTIONED

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not beside the project")


def ask(tmp_path, name, rows):
    """Read rows as a file of a benchmark."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return list(open_benchmark(name, path))


# Files that were downloaded.

FILES = {
    ("locomo", "locomo/locomo_dev6.json"): (6, 156, 3435, 1157, 1155),
    ("longmemeval", "longmemeval/longmemeval_oracle_2.json"): (2, 4, 48, 2, 1),
    ("longmemeval", "longmemeval/longmemeval_s_single.json"): (1, 53, 550, 1, 1),
    ("came", "came_bench_site"): (2, 2, 239, 48, 48),
    ("came", "came_bench_site/debate_example"): (1, 1, 53, 6, 6),
    ("came", "came_bench_site/travel_plan_example"): (1, 1, 186, 42, 42),
    ("hotpotqa", "hotpotqa/hotpotqa_distractor_dev.jsonl"): (200, 1992, 8146, 200, 200),
}


@needs_shared
@pytest.mark.parametrize(("name", "file"), FILES)
def test_real_files_have_the_sizes_that_are_known(name, file):
    found = look(name, SHARED / file)
    sizes = (found.histories, found.sessions, found.turns, found.questions, found.with_evidence)
    assert sizes == FILES[name, file] and found.note.startswith("a partial copy: ")


@needs_shared
def test_gold_of_locomo_that_does_not_resolve_is_named():
    problems = look("locomo", SHARED / "locomo/locomo_dev6.json").problems
    assert [problem.partition("evidence ")[2] for problem in problems] == [
        "'D10:19' is no turn",
        "'D' is no turn",
        "'D:11:26' is no turn",
    ]


@needs_shared
def test_a_real_file_that_was_cut_says_so(tmp_path):
    for name, file in FILES:
        if (SHARED / file).is_file():
            whole = (SHARED / file).read_bytes()
            path = tmp_path / Path(file).name
            path.write_bytes(whole[: len(whole) * 2 // 3])
            with pytest.raises(DataError, match=rf"{path.name}, (entry|line) \d+"):
                look(name, path)


@needs_shared
@pytest.mark.parametrize("name", ["locomo", "longmemeval", "hotpotqa"])
def test_a_real_file_of_another_benchmark_is_refused(name):
    for other, file in FILES:
        if other != name and (SHARED / file).is_file():
            with pytest.raises(DataError, match=r"expected|download"):
                look(name, SHARED / file)


@needs_shared
def test_gold_of_real_files_stays_out_of_histories():
    gold = {
        "longmemeval": ("has_answer", "answer_", "_abs", "sharegpt", "ultrachat"),
        "came": ("SET_DAY", "PROPOSE", "action_object", "TIMESTAMP", "partition"),
        "hotpotqa": ("supporting",),
        "locomo": ("adversarial_answer", "evidence"),
    }
    for name, file in FILES:
        for loaded in open_benchmark(name, SHARED / file):
            shown = loaded.history.model_dump_json()
            for question in loaded.questions:  # neither do its answers stand anywhere else than in what was said
                assert question.id not in shown or name == "hotpotqa"
            assert not [word for word in gold[name] if f'"{word}' in shown or f"{word}_" in shown or word == shown]


# The list of benchmarks.


def test_each_benchmark_names_source_and_licence():
    for one in BENCHMARKS.values():
        assert one.title and one.source and one.licence


def test_worlds_come_with_the_package_and_others_say_where_they_are():
    assert sum(len(loaded.questions) for loaded in open_benchmark("worlds")) == 150
    for name in ("locomo", "longmemeval", "came", "hotpotqa", "sessions"):
        with pytest.raises(UsageError, match="does not ship with this package; get it from"):
            open_benchmark(name)


def test_unknown_names_and_missing_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match="unknown benchmark 'squad'; choose one of: worlds, locomo"):
        open_benchmark("squad", tmp_path)
    with pytest.raises(UsageError, match="there is no such file"):
        open_benchmark("locomo", tmp_path / "nowhere.json")


def test_your_own_files_are_a_pair(tmp_path):
    (tmp_path / "a.sessions.jsonl").write_text(
        '{"id": "s1", "turns": [{"id": "t1", "speaker": "Ann", "text": "The door is open."}]}\n', encoding="utf-8"
    )
    with pytest.raises(UsageError, match=r"a.questions.jsonl: cannot be read"):
        look("sessions", tmp_path)
    (tmp_path / "a.questions.jsonl").write_text(
        '{"id": "q1", "text": "What is open?", "answer": "the door", "evidence": ["t1"]}\n', encoding="utf-8"
    )
    for path in (tmp_path, tmp_path / "a.sessions.jsonl"):
        found = look("sessions", path)
        assert (found.histories, found.questions, found.with_evidence, found.note) == (1, 1, 1, "")
    with pytest.raises(UsageError, match=r"expected a NAME.sessions.jsonl"):
        look("sessions", tmp_path / "a.questions.jsonl")


# Reading without holding everything.


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ('[{"a": [1, [2, {"b": []}]]}, 3, "x", [4, 5], []]', [{"a": [1, [2, {"b": []}]]}, 3, "x", [4, 5], []]),
        ('\ufeff{"a": 1.5}\n\n{"a": null}\n', [{"a": 1.5}, {"a": None}]),
        ('{"a": 1}', [{"a": 1}]),
    ],
)
def test_records_are_read_from_a_list_or_line_by_line(content, values):
    assert [row.value for row in stream_records(Source("f", content.encode()))] == values


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "entry 1: the file ends in the middle of it"),
        (b"[]", "there is no record in it"),
        (b'[{"a": 1}, {"b":', "entry 2: the file ends in the middle of it"),
        (b'{"a": 1}\n{"b"', "entry 2: the file ends in the middle of it"),
        (b'[{"a": NaN}]', "entry 1: not valid JSON"),
        (b'[{"a": "\xff"}]', "entry 1: not valid JSON (lexical error: invalid bytes in UTF8 string.)"),
        (b"<html>", "entry 1: not valid JSON"),
        (b'[{"a": 1}]x', "not valid JSON"),
        (b"[" * 200_000, "nested more than 100 levels deep"),
        (b'{"a":' * 2000, "nested more than 100 levels deep"),
    ],
)
def test_what_is_not_json_is_named_by_its_entry(content, part):
    with pytest.raises(DataError) as error:
        list(stream_records(Source("f", content)))
    assert str(error.value).startswith("f") and part in str(error.value)


def test_a_large_file_is_not_held_in_memory(tmp_path):
    path = tmp_path / "m.json"
    with path.open("w") as file:
        for number in range(300):
            row = [{"id": number, "text": "x" * 100_000}]
            file.write(("[" if not number else ",") + json.dumps(row[0]))
        file.write("]")
    tracemalloc.start()
    assert sum(1 for _ in stream_records(path)) == 300
    assert tracemalloc.get_traced_memory()[1] < 5_000_000 < path.stat().st_size / 5
    tracemalloc.stop()


# LongMemEval.


def test_a_haystack_becomes_a_history_in_time_order(tmp_path):
    [loaded] = ask(tmp_path, "longmemeval", [instance()])
    assert [session.time for session in loaded.history.sessions] == ["2023-05-19T20:21", "2023-05-20T20:21"]
    assert [turn.text for turn in loaded.history.turns] == ["It is red.", "Hi.", "Hello."]
    [question] = loaded.questions
    assert (question.answer, question.kind, question.time) == ("red", "single-session-user", "2023-06-01T00:58")
    assert question.sessions == (loaded.history.sessions[0].id,) and question.evidence == ()


def test_turns_that_have_the_answer_are_evidence(tmp_path):
    row = instance()
    row["haystack_sessions"][1][0]["has_answer"] = True
    row["haystack_sessions"][0][0]["has_answer"] = False
    [loaded] = ask(tmp_path, "longmemeval", [row])
    assert loaded.questions[0].evidence == (loaded.history.turns[0].id,)


def test_names_of_sessions_do_not_tell_which_holds_the_answer(tmp_path):
    [loaded] = ask(tmp_path, "longmemeval", [instance("gpt4_1_abs")])
    assert not {"answer", "sharegpt", "abs"} & set("".join(loaded.history.model_dump_json()).split("_"))
    assert len({session.id for session in loaded.history.sessions}) == 2
    [again] = ask(tmp_path, "longmemeval", [instance("other")])
    assert [one.id for one in again.history.sessions] == [one.id for one in loaded.history.sessions]


def test_a_question_without_an_answer_has_no_evidence(tmp_path):
    row = instance("gpt4_1_abs", answer="You did not mention a colour.")
    row["haystack_sessions"][1][0]["has_answer"] = True
    [question] = ask(tmp_path, "longmemeval", [row])[0].questions
    assert question.answer == NOT_MENTIONED and question.aliases == ("You did not mention a colour.",)
    assert question.evidence == question.sessions == ()


def test_questions_about_one_haystack_share_a_history(tmp_path):
    other = {"sharegpt_9": [("user", "Hi.")]}
    rows = [instance("q1"), instance("q2"), instance("q3", other, answer_session_ids=[]), instance("q4")]
    loaded = ask(tmp_path, "longmemeval", rows)
    assert [[question.id for question in one.questions] for one in loaded] == [["q1", "q2"], ["q3"], ["q4"]]


def test_labels_of_another_question_do_not_part_a_haystack_and_other_words_do(tmp_path):
    labelled, other = instance("q2"), instance("q3")
    labelled["haystack_sessions"][1][0]["has_answer"] = True
    other["haystack_sessions"][0].append({"role": "user", "content": "Bye."})
    loaded = ask(tmp_path, "longmemeval", [instance("q1"), labelled, other])
    assert [[len(question.evidence) for question in one.questions] for one in loaded] == [[0, 1], [0]]


def test_a_number_as_an_answer_is_text(tmp_path):
    assert ask(tmp_path, "longmemeval", [instance(answer=3)])[0].questions[0].answer == "3"


def test_an_empty_session_is_left_out(tmp_path):
    row = instance(sessions={"a": [], "answer_2": [("user", "It is red.")]})
    assert len(ask(tmp_path, "longmemeval", [row])[0].history.sessions) == 1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"haystack_dates": []}, "2 haystack_session_ids, 0 haystack_dates and 2 haystack_sessions"),
        ({"haystack_session_ids": ["a", "a"]}, "twice"),
        ({"haystack_sessions": [[{"role": "user"}], []]}, '"content"'),
        ({"question": None}, '"question": expected text'),
        ({"answer": None}, '"answer"'),
        ({"question_id": ""}, '"question_id"'),
    ],
)
def test_an_instance_that_is_damaged_is_named(tmp_path, change, part):
    with pytest.raises(DataError, match=f"file.json, entry 2.*{part}"):
        ask(tmp_path, "longmemeval", [instance(), instance("q2") | change])


def test_an_answer_session_that_is_not_there_is_a_problem(tmp_path):
    [loaded] = ask(tmp_path, "longmemeval", [instance(answer_session_ids=["answer_2", "answer_7"])])
    assert len(loaded.problems) == 1 and "question 'q1': evidence 'answer_7' is no session" in loaded.problems[0]


def test_the_same_question_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="the id 'q1' was used before"):
        ask(tmp_path, "longmemeval", [instance(), instance()])


# HotpotQA.


def test_a_paragraph_is_a_session_and_a_sentence_a_turn(tmp_path):
    [loaded] = ask(tmp_path, "hotpotqa", [hotpot()])
    assert [session.id for session in loaded.history.sessions] == ["h1/p1", "h1/p3"]
    turns = [(turn.speaker, turn.text, turn.external_id) for turn in loaded.history.turns]
    assert turns[1] == ("Oslo", "It is in Norway.", "h1/p1.2") and turns[2][0] == "Norway"
    [question] = loaded.questions
    assert [loaded.history.turns[at].id for at in (1, 2)] == list(question.evidence) and question.kind == "bridge"


@pytest.mark.parametrize("fact", [["Oslo", 2], ["Oslo", -1], ["Paris", 0], ["Empty", 0], ["Oslo"], ["Oslo", "1"]])
def test_a_supporting_fact_that_no_sentence_has_is_a_problem(tmp_path, fact):
    [loaded] = ask(tmp_path, "hotpotqa", [hotpot(supporting_facts=[fact, ["Norway", 0]])])
    assert len(loaded.questions[0].evidence) == 1 == len(loaded.problems) and str(fact) in loaded.problems[0]


def test_a_long_version_has_a_session_for_each_document(tmp_path):
    text = "Document 1:\nOslo\nOslo is a city.\nIt is in Norway.\n\nDocument 2:\nNo title here\n\nDocument 3:\nA\nB"
    rows = [{"index": 5, "input": "Where?", "answers": ["Norway", "in Norway"], "context": text}] * 2
    first, second = ask(tmp_path, "hotpotqa", rows)
    assert [(turn.speaker, turn.text) for turn in first.history.turns] == [
        ("Oslo", "Oslo is a city.\nIt is in Norway."),
        ("untitled", "No title here"),
        ("A", "B"),
    ]
    assert first.questions[0].answer == "Norway" and first.questions[0].aliases == ("in Norway",)
    assert first.history.id != second.history.id


@pytest.mark.parametrize(
    "change", [{"context": []}, {"context": [["Oslo"]]}, {"context": [[1, ["x"]]]}, {"context": [["Oslo", [3]]]}]
)
def test_a_context_of_another_form_is_named(tmp_path, change):
    with pytest.raises(DataError, match=r'file.json, entry 1, "context".*expected'):
        ask(tmp_path, "hotpotqa", [hotpot(**change)])


# CAME-Bench.


@pytest.fixture
def decoded(tmp_path):
    folder = tmp_path / "plain"
    for number in (0, 2, 10):
        trajectory(folder / f"traj-{number}", number)
    (folder / "benchmark_meta.json").write_text('[{"id": "traj-0", "task": "travel_planning"}]', encoding="utf-8")
    return folder


def test_trajectories_are_read_in_the_order_of_their_numbers(decoded):
    loaded = list(read_came(decoded))
    assert [one.history.id for one in loaded] == ["traj-0", "traj-2", "traj-10"]
    assert loaded[0].questions[0].kind == "type_1" and loaded[0].questions[0].evidence == (
        loaded[0].history.turns[1].id,
    )
    assert "secret" not in loaded[0].history.model_dump_json() and "DECIDE" not in loaded[0].history.model_dump_json()
    assert [one.history.id for one in read_came(decoded / "traj-2")] == ["traj-2"]


def test_examples_with_other_names_are_read(tmp_path):
    trajectory(tmp_path / "travel_example", 1, "travel_planning_")
    assert [one.history.id for one in read_came(tmp_path)] == ["travel_example"]


def test_missing_questions_are_named(decoded):
    (decoded / "traj-2" / "questions.jsonl").unlink()
    with pytest.raises(DataError, match=r"traj-2.questions.jsonl: missing beside turns.jsonl"):
        list(read_came(decoded))


def test_the_release_is_decoded_only_when_asked_to(decoded, tmp_path):
    release = encode(decoded, tmp_path / "release")
    with pytest.raises(UsageError, match="encoded release; read its notice and decode it: stitchjam bench decode"):
        list(open_benchmark("came", release))
    assert read_notices(release) == (NOTICE,)
    assert decode_came(release, tmp_path / "out") == 7
    for path in decoded.rglob("*.json*"):
        assert (tmp_path / "out" / path.relative_to(decoded)).read_bytes() == path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        decode_came(release, tmp_path / "out")


@pytest.mark.parametrize(
    "relpath", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "C:evil.txt", "a\\..\\evil.txt", "."]
)
@pytest.mark.parametrize("field", ["relpath", "blob"])
def test_a_path_that_escapes_is_refused_and_nothing_is_written(decoded, tmp_path, relpath, field):
    release = encode(decoded, tmp_path / "release")
    file = release / "encoded_benchmark_codec" / "metadata.json"
    description = json.loads(file.read_text("utf-8"))
    description["files"][-1][field] = relpath
    file.write_text(json.dumps(description), encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="leads out of its folder"):
        decode_came(release, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("damage", ["cut", "missing", "other key", "not base64"])
def test_a_damaged_release_is_named_and_nothing_is_written(decoded, tmp_path, damage):
    release = encode(decoded, tmp_path / "release")
    file = release / "encoded_benchmark_codec" / "metadata.json"
    blob = sorted((file.parent / "blobs").iterdir())[0]
    if damage == "missing":
        blob.unlink()
    elif damage == "other key":
        file.write_text(file.read_text("utf-8").replace("canary 1f2e3d", "canary ffffff"), encoding="utf-8")
    else:
        blob.write_bytes(blob.read_bytes()[:-8] if damage == "cut" else b"\xff")
    with pytest.raises(DataError, match="download the release again"):
        decode_came(release, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


def test_a_description_of_a_release_that_is_damaged_is_named(decoded, tmp_path):
    file = encode(decoded, tmp_path / "release") / "encoded_benchmark_codec" / "metadata.json"
    whole = json.loads(file.read_text("utf-8"))
    for files in ([], [*whole["files"], whole["files"][0]], [{"relpath": "a"}], "x"):
        file.write_text(json.dumps(whole | {"files": files}), encoding="utf-8")
        with pytest.raises(DataError, match=r"metadata.json"):
            decode_came(tmp_path / "release", tmp_path / "out")


def test_a_folder_without_trajectories_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no trajectory here; expected traj-N.turns.jsonl"):
        list(read_came(tmp_path))
    with pytest.raises(UsageError, match="no encoded release here"):
        read_notices(tmp_path)


def test_iterating_reads_no_more_than_is_asked_for(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(hotpot()) + "\n{broken", encoding="utf-8")
    assert next(iter(read_hotpotqa(path))).questions[0].id == "h1"
    assert Counter(type(one).__name__ for one in (read_longmemeval(path), read_hotpotqa(path)))["generator"] == 2


@pytest.mark.parametrize("number", [100, 128])
def test_a_small_copy_of_hotpotqa_is_a_part_of_all_of_it(tmp_path, number):
    rows = [hotpot(_id=f"h{at}") for at in range(number)]
    (tmp_path / "h.json").write_text(json.dumps(rows), encoding="utf-8")
    assert (
        look("hotpotqa", tmp_path / "h.json").note
        == f"a partial copy: {number} of 7,405 histories, {number} of 7,405 questions"
    )


def test_a_file_of_another_benchmark_is_suspected(tmp_path):
    (tmp_path / "h.json").write_text(json.dumps([hotpot(_id="h")]), encoding="utf-8")
    for name in ("locomo", "longmemeval"):
        with pytest.raises(DataError, match=f"If it is no file of {name}, name the right benchmark"):
            look(name, tmp_path / "h.json")
