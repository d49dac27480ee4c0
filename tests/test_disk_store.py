"""A memory on disk keeps what it was given, tells when it cannot, and searches like a history in memory."""

import copy
import json
import pickle
import shutil
import sqlite3
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stitchjam.data.disk import refresh
from stitchjam.data.disk import store as store_module
from stitchjam.data.disk.add import Added
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.work import MAX_ATTEMPTS, Derived, StepKey
from stitchjam.data.errors import DataError, ModelError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.index.lexical import Lexical, Segment
from stitchjam.data.index.terms import bm25s
from stitchjam.data.records import Filter, History
from stitchjam.data.store import Store

BOAT = ["We bought a sailing boat.", "Which colour?", "Green, with white sails.", "When?", "Last Tuesday.", "Thanks"]
GARDEN = ["The tomatoes are ripe.", "All of them?", "Most. The basil died.", "Sad.", "I will plant mint.", "Thanks"]
JOB = ["I start at the museum.", "Doing what?", "Restoring paintings of boats.", "Lovely.", "Thanks", "Thanks"]
NOTES, MEMOS = StepKey("note", "p1", "turn"), StepKey("memo", "p1", "session")


def rows(texts, **more):
    return [{"speaker": ("Ann", "Bob")[at % 2], "text": text, **more} for at, text in enumerate(texts)]


def history(name="h", **talks):
    return History(id=name, sessions=tuple(build_session(key, "", rows(texts)) for key, texts in talks.items()))


def words(store):
    """Texts by session."""
    return {session.id: [turn.text for turn in session.turns] for session in store.sessions}


def log(disk):
    """All that is in the tables, but for times."""
    with sqlite3.connect(disk.path / "memory.db") as db:
        lines = list(db.iterdump())
    db.close()
    return lines


def tamper(disk, statement, *values):
    with sqlite3.connect(disk.path / "memory.db") as db:
        assert db.execute(statement, values).rowcount
    db.close()


@pytest.fixture
def disk(tmp_path):
    made = DiskStore(tmp_path / "memory", encoder="none")
    yield made
    made.close()


@pytest.fixture
def file(tmp_path):
    def file(content, name="talk.txt"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
        return path

    return file


def chat(*conversations):
    return [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in conversations]


def locomo(**conversations):
    return [
        {
            "sample_id": name,
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [{"speaker": "Ann", "dia_id": f"D1:{at}", "text": text} for at, text in enumerate(texts)],
            },
        }
        for name, texts in conversations.items()
    ]


# Adding


def test_adding_the_same_again_adds_nothing(disk, file):
    talk, turn = file("Ann: hello\nBob: hi\n"), {"speaker": "Ann", "text": "x", "external_id": "7"}
    adds = [
        lambda: disk.add_file(talk),
        lambda: disk.add_history(history(boat=BOAT)),
        lambda: disk.add_turn("s", turn),
    ]
    first = [add() for add in adds]
    before = log(disk)
    assert [added.turns for added in first] == [2, 6, 1] and [added.sessions for added in first] == [1, 1, 1]
    assert [add() for add in adds] == [Added(added.sources, 0, 0) for added in first]
    assert log(disk) == before and disk.verify().log_problems == ()


@pytest.mark.parametrize("name, format", [("other.txt", None), ("talk.txt", "transcript"), ("deep.dir.txt", None)])
def test_a_file_that_comes_again_under_another_name_adds_nothing(disk, file, name, format):
    first = disk.add_file(file("Ann: hello\nBob: hi\n"))
    assert disk.add_file(file("Ann: hello\nBob: hi\n", name), format) == Added(first.sources, 0, 0)
    assert words(disk.store) == {"talk": ["hello", "hi"]} and disk.verify().log_problems == ()


def test_a_file_that_comes_again_in_another_format_is_refused(disk, file):
    talk = file("Ann: hello\nBob: hi\n")
    disk.add_file(talk, "document")
    before = log(disk)
    with pytest.raises(UsageError, match="talk.txt is there already, .*'document'; forget"):
        disk.add_file(talk, "transcript")
    assert log(disk) == before and disk.add_file(talk).turns == 0


def test_a_grown_file_appends_the_rest(disk, file):
    disk.add_file(file("Ann: hello\nBob: hi\n"))
    added = disk.add_file(file("Ann: hello\nBob: hi\nAnn: bye\n"))
    assert (added.sessions, added.turns) == (0, 1) and words(disk.store) == {"talk": ["hello", "hi", "bye"]}
    assert disk.verify().log_problems == () and disk.stats()["counts"]["source"] == 2
    assert [row["turns"] for row in disk.stats()["sources"]] == [2, 3]


def test_a_session_that_begins_otherwise_is_refused_and_nothing_of_its_file_is_kept(disk, file):
    disk.add_file(file("# one\nAnn: hello\nBob: hi\n"))
    before = log(disk)
    with pytest.raises(DataError, match=r"'talk/one' differs .* turn 2: there 'Bob: hi', here 'Bob: ho'.*forget"):
        disk.add_file(file("# zero\nAnn: new\n# one\nAnn: hello\nBob: ho\n"))
    with pytest.raises(DataError, match="turn 1"):
        disk.add_history(history("h", **{"new": ["x"], "talk/one": ["hallo"]}))
    assert log(disk) == before


def test_saying_thanks_twice_is_two_turns(disk):
    disk.add_history(history(job=JOB))
    for _ in range(2):
        assert disk.add_turn("job", {"speaker": "Bob", "text": "Thanks"}).turns == 1
    assert words(disk.store)["job"] == [*JOB, "Thanks", "Thanks"]


def test_an_external_id_makes_a_turn_come_once(disk):
    turn = {"speaker": "Ann", "text": "hello", "external_id": "7"}
    assert [disk.add_turn("s", turn, "a").turns for _ in range(2)] == [1, 0]
    assert disk.add_turn("other", turn, "a").turns == 1, "ids are those of a session"
    with pytest.raises(DataError, match="session 's' has a turn '7' with other words"):
        disk.add_turn("s", turn | {"text": "hallo"}, "a")
    assert words(disk.store) == {"s": ["hello"], "other": ["hello"]}


def test_a_turn_that_two_sources_brought_stays_until_both_are_forgotten(disk):
    turn = {"speaker": "Ann", "text": "hello", "external_id": "7"}
    disk.add_turn("s", turn, "a")
    disk.add_turn("s", turn, "b")
    disk.forget("a")
    assert words(disk.store) == {"s": ["hello"]} and disk.verify().log_problems == ()
    disk.forget("b")
    assert words(disk.store) == {}


@pytest.mark.parametrize(
    "session, turn",
    [
        ("", {"speaker": "a", "text": "b"}),
        ("s", {"text": "b"}),
        ("s", {"speaker": "a"}),
        ("s", {"speaker": "a", "text": None}),
        ("s", {"speaker": "a", "text": "b", "tiem": "2026-03-02"}),
        (7, {"speaker": "a", "text": "b"}),
    ],
)
def test_a_turn_without_its_parts_is_refused(disk, session, turn):
    with pytest.raises(UsageError, match="a turn needs"):
        disk.add_turn(session, turn)
    assert disk.stats()["counts"]["source"] == 0


def test_conversations_without_ids_that_begin_alike_all_stay(disk, file):
    start = ("system", "You help.")
    one = file(chat([start, ("user", "boats?")], [start, ("user", "trees?")]), "one.json")
    two = file(chat([start, ("user", "cars?")], [start, ("user", "planes?"), ("user", "Well?")]), "two.json")
    made = [disk.add_file(path) for path in (one, two)]
    assert [(added.sessions, added.turns) for added in made] == [(2, 4), (2, 5)]
    names = list(words(disk.store))
    assert names == [names[0], *(f"{names[0]}-{number}" for number in (2, 3, 4))]
    assert [disk.add_file(path).turns for path in (one, two)] == [0, 0] and disk.verify().log_problems == ()
    disk.forget(str(one))
    assert disk.add_file(two).turns == 0 and list(words(disk.store)) == names[2:]


def test_a_conversation_without_id_that_grew_is_the_same(disk, file):
    talk = [("system", "You help."), ("user", "boats?"), ("assistant", "Yes.")]
    disk.add_file(file(chat(talk[:2]), "one.json"))
    added = disk.add_file(file(chat(talk), "two.json"))
    assert (added.sessions, added.turns) == (0, 1)


def test_histories_of_one_file_are_added_all_or_none(disk, file):
    disk.add_history(history("h", **{"b/session_1": ["else"]}))
    before = log(disk)
    with pytest.raises(DataError, match="'b/session_1' differs"):
        disk.add_file(file(locomo(a=BOAT, b=JOB), "all.json"))
    assert log(disk) == before
    assert len(disk.add_file(file(locomo(a=BOAT, c=JOB), "all.json")).sources) == 2


def test_ids_that_are_no_hashes_are_refused(disk):
    one = build_session("s", "", rows(["a", "b"]))
    forged = [turn.model_copy(update={"id": "t1"}) for turn in one.turns], one.turns[1:]
    for turns in forged:
        with pytest.raises(DataError, match="'s': ids of turns do not fit"):
            disk.add_history(History(id="h", sessions=(one.model_copy(update={"turns": tuple(turns)}),)))
    assert disk.stats()["counts"]["source"] == 0


def test_other_words_in_the_place_of_forgotten_ones_are_refused(disk):
    for source, text in (("a", "one"), ("a", "two"), ("b", "three")):
        disk.add_turn("s", {"speaker": "Ann", "text": text}, source)
    disk.forget("a")
    same, other = ([{"speaker": "Ann", "text": text} for text in texts] for texts in (["one", "two"], ["1", "2"]))
    with pytest.raises(DataError, match="'s' differs .* turn 2"):
        disk.add_history(History(id="h", sessions=(build_session("s", "", other),)))
    disk.add_history(History(id="h", sessions=(build_session("s", "", same),)))
    assert words(disk.store) == {"s": ["one", "two", "three"]} and disk.verify().log_problems == ()


def test_sources_whose_names_look_alike_are_told_apart(disk, file):
    for name in ("a", "A", "a#1", "a%"):
        disk.add_turn(f"in {name}", {"speaker": "Ann", "text": "hello"}, name)
    for name in ("x.json", "X.json"):
        disk.add_file(file(locomo(**{name[0]: BOAT}, **{name[0] * 2: JOB}), name))
    disk.forget("a")
    disk.forget(str(file(locomo(), "X.json")))
    assert [row["name"].rpartition("/")[2] for row in disk.stats()["sources"]] == [
        "A",
        "a#1",
        "a%",
        "x.json#x",
        "x.json#xx",
    ]


def test_a_file_named_turns_is_read_alike_from_every_folder(disk, file, tmp_path, monkeypatch):
    (tmp_path / "trip").mkdir()
    monkeypatch.chdir(tmp_path / "trip")
    file("# Boat\n\nGreen.\n", "trip/turns.en.md")
    disk.add_file("turns.en.md")
    monkeypatch.chdir(tmp_path)
    assert [turn.speaker for turn in disk.store.turns] == ["Boat", "Boat"] and disk.verify().log_problems == ()
    assert list(words(disk.store)) == ["trip/boat"] and disk.stats()["sources"][0]["name"] == "trip/turns.en.md"


# Stores


def test_a_store_does_not_see_what_is_added_later(disk):
    disk.add_history(history(boat=BOAT))
    store = disk.store
    disk.add_history(history("h2", garden=GARDEN))
    disk.add_turn("boat", {"speaker": "Carl", "text": "tomatoes"})
    again = pickle.loads(pickle.dumps(store))
    for old in (store, again):
        assert old.name == store.name and old.size == 6 and words(old) == {"boat": BOAT}
        assert old.speakers == ("Ann", "Bob") and old.search("tomatoes") == () and old.search("boat") != ()
        with pytest.raises(UsageError, match="no turn"):
            old.turn(disk.store.turns[-1].id)
    assert disk.store.size == 13 and {hit.turn.session_id for hit in disk.store.search("tomatoes")} == {
        "boat",
        "garden",
    }


def test_copies_of_a_store_are_the_store_itself_and_its_repr_is_short(disk):
    disk.add_history(history(boat=BOAT))
    store = disk.store
    assert copy.copy(store) is store and copy.deepcopy([store])[0] is store and disk.store.name == store.name
    assert repr(store) == store.name and len(store.name) == len("store:ab12") and int(store.name[6:], 16) >= 0
    assert len(pickle.dumps(store)) < 1_000


def test_several_memories_do_not_see_each_other(disk, tmp_path):
    other = DiskStore(tmp_path / "other", encoder="none")
    disk.add_history(history(boat=BOAT))
    other.add_history(history(garden=GARDEN))
    assert words(disk.store) == {"boat": BOAT} and words(other.store) == {"garden": GARDEN}
    assert disk.store.search("tomatoes") == other.store.search("boat") == () and disk.store.name != other.store.name
    disk.forget("h")
    assert words(disk.store) == {} and words(other.store) == {"garden": GARDEN}
    other.close()


def test_a_store_goes_on_without_what_was_forgotten(disk):
    disk.add_history(history("h1", boat=BOAT))
    disk.add_history(history("h2", job=JOB))
    store = disk.store
    assert store.size == 12  # its index is read
    disk.forget("h1")
    assert {hit.turn.session_id for hit in store.search("boats", k=99, neighbours=2)} == {"job"}
    assert [hit.session.id for hit in store.search_sessions("boats")] == ["job"] == list(words(store))


def test_stats_count_what_is_there(disk, file):
    disk.add_file(file("Ann: hello\nBob: hi\n"))
    disk.add_turn("s", {"speaker": "Ann", "text": "x"}, "api")
    disk.forget("api")
    stats = disk.stats()
    assert set(stats) == {
        *("path", "format", "generation", "encoder", "bytes", "counts", "sealed_turns"),
        *("sources", "work", "tombstones"),
    }
    assert stats["counts"] == {"source": 1, "session": 1, "turn": 2, "vector": 0, "note": 0, "memo": 0}
    assert (stats["format"], stats["generation"], stats["encoder"]) == (1, 3, "none")
    assert stats["bytes"] > 0 and stats["path"] == str(disk.path) and stats["work"] == []
    assert [(row["format"], row["turns"]) for row in stats["sources"]] == [("transcript", 2)]
    assert [row["sha256"] for row in stats["tombstones"]] == [""]
    assert json.loads(json.dumps(stats)) == stats


# Opening


def make_foreign(path, tables=("CREATE TABLE meta (a)", "CREATE TABLE x (a)")):
    path.mkdir()
    db = sqlite3.connect(path / "memory.db")
    for statement in tables:
        db.execute(statement)
    db.commit()
    db.close()


def make_other_format(path):
    DiskStore(path, encoder="none").close()
    db = sqlite3.connect(path / "memory.db")
    db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    db.commit()
    db.close()


def make_truncated(path):
    disk = DiskStore(path, encoder="none")
    disk.add_history(history(boat=BOAT))
    disk.close()
    content = (path / "memory.db").read_bytes()
    (path / "memory.db").write_bytes(content[: len(content) // 2])


def make_folder(path, name, content):
    path.mkdir()
    (path / name).write_bytes(content)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda path: make_folder(path, "a.txt", b"x"), UsageError, "no memory of stitchjam"),
        (lambda path: path.write_bytes(b"x"), UsageError, "no memory of stitchjam"),
        (lambda path: make_folder(path, "memory.db", b"x" * 5000), DataError, "damaged .*restore"),
        (make_foreign, DataError, "something else"),
        (make_other_format, DataError, "format 99, .* reads 1; install"),
        (make_truncated, DataError, "damaged .*restore"),
    ],
    ids=["folder", "file", "no database", "foreign database", "other format", "truncated"],
)
def test_what_is_no_memory_is_refused_and_left_as_it_is(tmp_path, make, error, message):
    path = tmp_path / "memory"
    make(path)
    before = {file: file.read_bytes() for file in [path, *path.glob("*")] if file.is_file()}
    for _ in range(2):
        with pytest.raises(error, match=message):
            DiskStore(path).store.history  # noqa: B018 - a damaged place may be met only when it is read
    assert {file: file.read_bytes() for file in [path, *path.glob("*")] if file.is_file()} == before


def test_a_memory_that_is_not_there_is_made_only_on_demand(tmp_path):
    (tmp_path / "empty").mkdir()
    make_folder(tmp_path / "begun", "memory.db", b"")
    for name in ("missing", "empty", "begun"):
        with pytest.raises(UsageError, match="there is no memory in .*stitchjam ingest"):
            DiskStore(tmp_path / name, create=False)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["begun", "empty", "memory.db"]
    for name in ("missing", "empty", "begun"):
        DiskStore(tmp_path / name).close()
        assert DiskStore(tmp_path / name, create=False).store.size == 0


def test_an_unknown_encoder_never_becomes_part_of_a_memory(tmp_path):
    with pytest.raises(UsageError, match="no encoder 'bogus'"):
        DiskStore(tmp_path / "memory", encoder="bogus")
    assert list(tmp_path.iterdir()) == []


def test_another_encoder_is_used_from_then_on(disk):
    disk.add_history(history(boat=BOAT))
    assert disk.store.search("vessel") == ()
    with_vectors = DiskStore(disk.path, encoder="static")
    assert with_vectors.store.search("vessel") != () and DiskStore(disk.path).stats()["encoder"] == "static"


# Verifying


@pytest.mark.parametrize(
    "statement, problem",
    [
        ("UPDATE turn SET text = 'Blue.' WHERE text LIKE 'Green%'", "its text has changed"),
        ("UPDATE turn SET speaker = 'Eve' WHERE text LIKE 'Green%'", "speaker, time or order has changed"),
        ("UPDATE turn SET time = '2020-01-01' WHERE text LIKE 'Green%'", "speaker, time or order has changed"),
        ("DELETE FROM turn WHERE text LIKE 'Green%'", "1 rows of origin name a turn that is missing"),
        ("DELETE FROM turn WHERE text LIKE 'Green%'", "a turn is missing before"),
        ("DELETE FROM turn WHERE text = 'bye'", "talk.txt': a turn is missing: Ann: 'bye'"),
        ("DELETE FROM turn WHERE text LIKE 'Last%'", "1 rows of origin"),
        ("DELETE FROM session WHERE id = 'boat'", "rows of turn name a session that is missing"),
        ("DELETE FROM origin WHERE turn = 1", "it belongs to no source"),
        ("UPDATE content SET bytes = CAST(bytes || '!' AS BLOB)", "talk.txt': its bytes have changed"),
        ("DELETE FROM content", "talk.txt': its bytes are missing"),
        ("UPDATE turn SET external_id = 'x' WHERE text = 'bye'", "its external id has changed"),
        ("UPDATE origin SET external_id = 'x' WHERE turn = 8", "talk.txt': a turn is not in its bytes: Ann: 'bye'"),
    ],
)
def test_verify_finds_what_was_changed_in_the_log(disk, file, statement, problem):
    disk.add_history(history(boat=BOAT[:5]))
    disk.add_file(file("Ann: hello\nBob: hi\nAnn: bye\n"))
    found = disk.verify()
    assert found.log_problems == found.index_problems == ()
    assert (found.sources, found.sessions, found.turns, found.bytes) == (2, 2, 8, 28)
    tamper(disk, statement)
    problems = disk.verify().log_problems
    assert [line for line in problems if problem in line], problems


def test_a_text_that_is_no_text_any_more_is_damage(disk):
    disk.add_history(history(boat=BOAT))
    tamper(disk, "UPDATE turn SET text = CAST(x'ff' AS TEXT) WHERE number = 2")
    with pytest.raises(DataError, match="damaged"):
        disk.verify()


@pytest.mark.parametrize(
    "statement, problem",
    [
        ("UPDATE segment SET content = x'00'", "segment at turn 1 is damaged"),
        ("UPDATE segment SET content = substr(content, 2)", "segment at turn 1 is damaged"),
        ("UPDATE segment SET turns = turns - 1", "segment at turn 1 covers"),
        ("UPDATE vector SET content = x'0000'", "vectors are damaged"),
        ("UPDATE vector SET content = CAST(zeroblob(length(content) - 1) || x'7c' AS BLOB)", "vectors are damaged"),
    ],
)
def test_a_damaged_index_is_found_and_made_anew(tmp_path, monkeypatch, statement, problem):
    monkeypatch.setattr(refresh, "TAIL", 4)
    disk = DiskStore(tmp_path / "memory")
    disk.add_history(history(boat=BOAT, garden=GARDEN))
    wanted = disk.store.search("boat", k=99)
    tamper(disk, statement)
    found = disk.verify()
    assert found.log_problems == () and [line for line in found.index_problems if problem in line]
    assert disk.verify(rebuild=True).index_problems == ()
    assert DiskStore(disk.path).store.search("boat", k=99) == wanted


def test_search_in_a_damaged_index_says_how_to_repair_it(disk, monkeypatch):
    monkeypatch.setattr(refresh, "TAIL", 4)
    disk.add_history(history(boat=BOAT))
    tamper(disk, "UPDATE segment SET content = zeroblob(length(content))")
    with pytest.raises(DataError, match="index is damaged .*verify --rebuild"):
        DiskStore(disk.path).store.search("boat")


def test_search_goes_on_without_damaged_vectors(tmp_path):
    disk = DiskStore(tmp_path / "memory")
    disk.add_history(history(boat=BOAT))
    wanted = scores(disk.store, "boat")
    tamper(disk, "UPDATE vector SET content = x'00'")
    assert scores(DiskStore(disk.path).store, "boat") == pytest.approx(wanted, abs=1e-3)


# Searching


def scores(store, query, **where):
    return {hit.turn.id: hit.score for hit in store.search(query, k=10_000, where=Filter(**where))}


def add_at_once(disk, whole):
    disk.add_history(whole)


def add_in_parts(disk, whole):
    for at, session in enumerate(whole.sessions):
        disk.add_history(History(id=f"part {at}", sessions=(session,)))
        assert disk.store.size  # each state is read on top of the one before


def add_turn_by_turn(disk, whole):
    fields = {"speaker", "text", "time", "external_id"}
    turns = [session.turns[at] for at in range(6) for session in whole.sessions]  # sessions grow side by side
    for turn in turns:
        disk.add_turn(turn.session_id, turn.model_dump(include=fields))
        assert disk.store.size


@pytest.mark.parametrize(
    "add, tail, encoder",
    [
        (add_at_once, 512, "static"),
        (add_at_once, 4, "none"),
        (add_in_parts, 1, "none"),
        (add_in_parts, 4, "static"),
        (add_turn_by_turn, 1, "static"),
        (add_turn_by_turn, 4, "none"),
        (add_turn_by_turn, 512, "none"),
    ],
)
def test_a_memory_searches_like_its_history(tmp_path, monkeypatch, add, tail, encoder):
    monkeypatch.setattr(refresh, "TAIL", tail)
    whole = history(boat=BOAT, garden=GARDEN, job=[*JOB[:5], "boat " * 40])
    disk, wanted = DiskStore(tmp_path / "memory", encoder), Store.of(whole, encoder)
    add(disk, whole)
    assert (disk.stats()["sealed_turns"] > 0) == (tail < 512) and disk.store.history.turns == wanted.turns
    for store in (disk.store, DiskStore(disk.path).store):
        for query in ("boat", "sailing boats in the museum", "Ann thanks for the mint", "zyzzyva"):
            assert scores(store, query) == pytest.approx(scores(wanted, query), abs=1e-3)
            some = {"sessions": ["boat", "job"], "speakers": ["bob"]}
            assert scores(store, query, **some) == pytest.approx(scores(wanted, query, **some), abs=1e-3)
            found, expected = (
                {hit.session.id: hit.score for hit in one.search_sessions(query)} for one in (store, wanted)
            )
            assert found == pytest.approx(expected, abs=1e-3)
    disk.close()


def test_terms_weigh_the_same_in_segments_and_in_the_tail_and_as_in_bm25s():
    documents = [["boat", "sail", "boat"], [], ["mint"], ["boat"], ["sail"] * 30, ["mint", "boat"], ["sail", "green"]]
    model = bm25s().BM25(k1=0.9, b=0.4, backend="numpy")
    model.index(documents, show_progress=False)
    for cut in range(len(documents) + 1):
        parts = [part for part in (documents[: cut // 2], documents[cut // 2 : cut]) if part]
        segments = tuple(Segment.from_bytes(Segment.build(part).to_bytes()) for part in parts)
        lexical = Lexical(segments).extended(documents[cut:])
        for term in ("boat", "sail", "mint", "green"):
            positions, found = lexical.postings(term)
            wanted = model.get_scores([term])
            assert dict(zip(positions.tolist(), found.tolist(), strict=True)) == pytest.approx(
                {at: float(score) for at, score in enumerate(wanted) if score > 0}, abs=1e-5
            )
        assert lexical.postings("unknown").positions.tolist() == [] and lexical.size == 7


def test_filters_choose_by_source_session_speaker_and_time(disk, file):
    path = file(locomo(conv=["boat one", "boat two"], other=["boat three"]), "all.json")
    ids = disk.add_file(path).sources
    disk.add_history(History(id="h", sessions=(build_session("late", "2026-03-02", rows(["boat four"])),)))
    disk.add_turn("s", {"speaker": "Bob", "text": "boat five"}, "api")
    store = disk.store

    def found(**where):
        return {hit.turn.text.removeprefix("boat ") for hit in store.search("boat", k=99, where=Filter(**where))}

    assert found() == {"one", "two", "three", "four", "five"} and found(sources=[]) == set()
    assert (
        found(sources=f"{path}#conv") == found(sources=[ids[0]]) == found(sessions="conv/session_1") == {"one", "two"}
    )
    assert found(sources=str(path)) == {"one", "two", "three"} and found(sources=["api", "h"]) == {"four", "five"}
    assert found(speakers="BOB") == {"five"} and found(speakers=["Ann"], sources=["h"]) == {"four"}
    assert found(after="2026-01-01") == found(after="2026-03-02") == {"four"}
    assert found(before="2026-01-01") == {"one", "two", "three"} and found(before="2023-05-08") == set()


def test_filters_choose_by_label(disk):
    disk.add_history(history(boat=BOAT, garden=GARDEN, job=JOB))
    disk.register(NOTES)
    disk.process(NOTES, lambda item: Derived({}, labels=("thanks",) if disk.store.turn(item).text == "Thanks" else ()))
    store = disk.store

    assert {hit.turn.text for hit in store.search("thanks", k=99, where=Filter(labels="thanks"))} == {"Thanks"}
    for where, message in [
        ({"folders": "Fre"}, "no folder 'Fre'; nothing like it is there"),
        ({"labels": "thank"}, "no label 'thank'; .*thanks"),
        ({"sources": "i"}, "no source 'i'; .*h"),
        ({"sessions": "boats"}, "no session 'boats'; .*boat"),
        ({"speakers": "Anne"}, "no speaker 'Anne'; .*Ann"),
    ]:
        with pytest.raises(UsageError, match=message):
            store.search("boat", where=Filter(**where))


# Work


def statuses(disk):
    return {row["status"]: row["items"] for row in disk.stats()["work"]}


def test_there_is_work_for_what_is_there_and_for_what_is_added(disk):
    disk.add_history(history(boat=BOAT[:2]))
    disk.register(NOTES)
    disk.register(NOTES)
    seen = []
    run = lambda item: seen.append(item) or Derived({"on": item})  # noqa: E731
    assert disk.process(NOTES, run, limit=1).done == 1 and disk.process(NOTES, run).done == 1
    disk.add_history(history(boat=BOAT))
    assert statuses(disk) == {"done": 2, "pending": 4} and disk.process(NOTES, run).done == 4
    assert sorted(seen) == sorted(turn.id for turn in disk.store.turns)
    assert disk.process(NOTES, run).done == 0 and disk.stats()["counts"]["note"] == 6


def test_a_session_that_grew_gets_its_work_again(disk):
    disk.register(MEMOS)
    disk.add_history(history(boat=BOAT, job=JOB))
    assert disk.process(MEMOS, lambda item: Derived({})).done == 2
    disk.add_turn("boat", {"speaker": "Ann", "text": "More."})
    seen = []
    disk.process(MEMOS, lambda item: seen.append(item) or Derived({"new": "\ud800 日本"}))
    assert seen == ["boat"] and disk.stats()["counts"]["memo"] == 2


def test_what_fails_is_tried_three_times_and_listed(disk):
    disk.add_history(history(boat=BOAT[:2]))
    disk.register(NOTES)
    bad = disk.store.turns[0].id
    calls = []

    def run(item):
        calls.append(item)
        if item == bad:
            raise ModelError("it answered nonsense")
        return Derived({})

    first = disk.process(NOTES, run)
    assert (first.done, first.failed) == (1, {bad: "it answered nonsense"})
    for _ in range(5):
        disk.process(NOTES, run)
    assert calls.count(bad) == MAX_ATTEMPTS
    assert [(row["status"], row["items"], row["error"]) for row in disk.stats()["work"]] == [
        ("done", 1, ""),
        ("failed", 1, "it answered nonsense"),
    ]


def test_what_cannot_be_stored_is_a_failure_of_the_step(disk):
    disk.add_history(history(boat=BOAT[:1]))
    disk.register(NOTES)
    failed = disk.process(NOTES, lambda item: Derived({}, labels=("\ud800",))).failed
    assert "surrogate" in "".join(failed.values()) and statuses(disk) == {"failed": 1}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_unexpected_error_leaves_all_that_was_claimed_for_the_next_run(disk, error):
    disk.add_history(history(boat=BOAT))
    disk.register(NOTES)
    ran = []

    def run(item):
        ran.append(item)
        if len(ran) == 3:
            raise error
        return Derived({})

    with pytest.raises(error):
        disk.process(NOTES, run)
    # An interrupt says nothing about the item; what a step raises is listed with it.
    waiting = {"pending": 4} if error is KeyboardInterrupt else {"failed": 1, "pending": 3}
    assert statuses(disk) == {"done": 2, **waiting}
    assert disk.process(NOTES, lambda item: Derived({})).done == 4 and statuses(disk) == {"done": 6}


def test_the_items_of_a_worker_that_died_are_taken_over(disk):
    disk.add_history(history(boat=BOAT))
    disk.register(NOTES)
    tamper(disk, "UPDATE work SET status = 'running', until = ?", time.time() + 60)
    assert disk.process(NOTES, lambda item: Derived({})).done == 0
    tamper(disk, "UPDATE work SET until = ?", time.time() - 1)
    assert disk.process(NOTES, lambda item: Derived({})).done == 6


def test_two_workers_never_get_the_same_item(disk):
    disk.add_history(history(boat=BOAT, job=JOB, garden=GARDEN))
    disk.register(NOTES)
    other, seen = DiskStore(disk.path), []

    def inner(item):
        seen.append(item)
        return Derived({})

    def outer(item):
        other.process(NOTES, inner, limit=1)  # while this worker holds its items
        return inner(item)

    disk.process(NOTES, outer)
    assert sorted(seen) == sorted(turn.id for turn in disk.store.turns)


def test_what_was_made_of_a_forgotten_turn_vanishes(disk):
    disk.add_history(history(boat=BOAT))
    for key in (NOTES, MEMOS):
        disk.register(key)
        disk.process(key, lambda item: disk.forget("h") and Derived({}, labels=("x",)), limit=1)
        disk.add_history(history(boat=BOAT))
    disk.forget("h")
    counts = disk.stats()["counts"]
    assert (counts["note"], counts["memo"], disk.stats()["work"]) == (0, 0, [])


# Everything together

TEXTS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3)
SOURCES = st.sampled_from(["p", "q", "r"])
EXAMPLES = 12


class Told(RuleBasedStateMachine):
    """A memory and what a plain dictionary knows of it: by session, turns by place with their sources.

    A turn is told by the words of its session up to it, which is what its id hashes.
    """

    folder: Path
    numbers: Iterator[int]

    def __init__(self):
        super().__init__()
        self.path = self.folder / str(next(self.numbers))
        self.disk = DiskStore(self.path, encoder="none")
        self.sessions, self.sources = {}, set()

    def _fits(self, name, texts):
        known = self.sessions[name]
        for at in range(len(texts)):
            if at in known and known[at]["words"] != texts[: at + 1]:
                return False
        behind = known.get(len(texts)) if len(texts) - 1 not in known else None
        return behind is None or behind["words"][:-1] == texts

    def _put(self, name, at, words, source, external=""):
        turn = self.sessions.setdefault(name, {}).setdefault(
            at, {"words": words, "sources": set(), "external": external}
        )
        turn["sources"].add(source)

    @rule(
        name=st.sampled_from(["s", "t"]),
        text=st.sampled_from(["a", "b"]),
        source=SOURCES,
        external=st.sampled_from("12") | st.just(""),
    )
    def add_turn(self, name, text, source, external):
        known = self.sessions.get(name, {})
        same = next((at for at, turn in known.items() if external and turn["external"] == external), None)
        row = {"speaker": "Ann", "text": text, "external_id": external}
        if same is not None and known[same]["words"][-1] != text:
            with pytest.raises(DataError, match="other words"):
                self.disk.add_turn(name, row, source)
            return
        last = max(known, default=-1)
        words = [*known[last]["words"], text] if known else [text]
        place, words = (last + 1, words) if same is None else (same, known[same]["words"])
        assert self.disk.add_turn(name, row, source).turns == (same is None)
        self._put(name, place, words, source, external)
        self.sources.add(source)

    @rule(name=st.sampled_from(["s", "t", ""]), texts=TEXTS, source=SOURCES)
    def add_history(self, name, texts, source):
        session = build_session(name, "", [{"speaker": "Ann", "text": text} for text in texts])
        whole = History(id=source, sessions=(session,))
        if name and name in self.sessions and not self._fits(name, texts):
            with pytest.raises(DataError, match="differs"):
                self.disk.add_history(whole)
            return
        if not name:
            alike = [key for key in self.sessions if key.startswith(session.id)]
            free = [session.id, *(f"{session.id}-{number}" for number in range(2, 99))]
            name = next((key for key in alike if self._fits(key, texts)), None) or next(
                key for key in free if key not in self.sessions
            )
        new = set(range(len(texts))) - set(self.sessions.get(name, ()))
        assert self.disk.add_history(whole).turns == len(new)
        for at in range(len(texts)):
            self._put(name, at, texts[: at + 1], source)
        self.sources.add(source)

    @precondition(lambda self: self.sources)
    @rule(data=st.data())
    def forget(self, data):
        source = data.draw(st.sampled_from(sorted(self.sources)))
        self.disk.forget(source)
        self.sources.discard(source)
        for turns in self.sessions.values():
            for at in list(turns):
                turns[at]["sources"].discard(source)
                if not turns[at]["sources"]:
                    del turns[at]
        self.sessions = {name: turns for name, turns in self.sessions.items() if turns}

    @rule()
    def reopen(self):
        self.disk.close()
        self.disk = DiskStore(self.path)

    @invariant()
    def it_is_what_was_told(self):
        told = {name: [turns[at]["words"][-1] for at in sorted(turns)] for name, turns in self.sessions.items()}
        assert words(self.disk.store) == told
        found = self.disk.verify()
        assert found.log_problems == found.index_problems == ()

    def teardown(self):
        self.disk.close()


def test_whatever_is_added_and_forgotten_the_memory_holds_what_it_was_told(tmp_path, monkeypatch):
    monkeypatch.setattr(refresh, "TAIL", 1)
    made = type("Made", (Told,), {"folder": tmp_path, "numbers": count()})
    limits = settings(max_examples=EXAMPLES, stateful_step_count=8, deadline=None, database=None, derandomize=True)
    run_state_machine_as_test(made, settings=limits)


def test_files_of_one_name_in_two_folders_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, text in (
        ("x", "Mira: hello there\nOda: hi\n"),
        ("y", "Bob: other\nAnn: yes\n"),
        ("z", "Mira: hello there\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "talk.txt").write_text(text, encoding="utf-8")
    disk = DiskStore("m")
    assert [disk.add_file(f"{folder}/talk.txt").turns for folder in "xyz"] == [2, 2, 1]
    assert list(disk.store.session_times) == ["talk", "y/talk.txt:talk", "z/talk.txt:talk"]
    (tmp_path / "y" / "talk.txt").write_text("Bob: other\nAnn: yes\nBob: and more\n", encoding="utf-8")
    assert disk.add_file("y/talk.txt").turns == 1 and disk.add_file("y/talk.txt").turns == 0
    (tmp_path / "y" / "talk.txt").write_text("Bob: quite other\n", encoding="utf-8")
    with pytest.raises(DataError, match="differs from the stored one at turn 1"):
        disk.add_file("y/talk.txt")
    assert disk.verify().log_problems == ()


def test_what_cannot_be_indexed_now_is_stored_and_said_so(disk, monkeypatch):
    def fails(*_):
        raise UsageError("database or disk is full")

    monkeypatch.setattr(store_module, "refresh", fails)
    added = disk.add_turn("s", {"speaker": "Ann", "text": "The vessel is green."})
    assert (added.turns, added.pending) == (1, "database or disk is full")
    assert disk.store.search("vessel", k=1)[0].turn.text == "The vessel is green."
    monkeypatch.undo()
    assert disk.add_turn("s", {"speaker": "Ann", "text": "Yes."}).pending == "" and disk.verify().index_problems == ()


def test_any_number_of_neighbours_is_found_at_once(disk):
    disk.add_history(history(boat=BOAT))
    assert len(disk.store.search("sails", k=1, neighbours=10**9)) == len(BOAT)


def test_a_query_of_a_million_words_is_answered(disk):
    disk.add_history(history(boat=BOAT))
    assert disk.store.search("sails " + " ".join(f"w{number}" for number in range(200_000)), k=1)


def test_a_step_has_to_give_what_can_be_kept(disk):
    disk.add_history(history(boat=BOAT[:1]))
    key = StepKey("note", "p", "turn")
    disk.register(key)
    wrong: Any = lambda item: None  # noqa: E731
    with pytest.raises(UsageError, match="has to give a Derived"):
        disk.process(key, wrong)
    assert disk.process(key, lambda item: Derived({})).done == 1


def test_a_step_on_something_unknown_is_refused_and_the_memory_goes_on(disk):
    wrong: Any = "turns"
    with pytest.raises(UsageError, match="'turn' or a 'session'"):
        disk.register(StepKey("note", "p", wrong))
    assert disk.add_turn("s", {"speaker": "Ann", "text": "x"}).turns == 1


def test_a_memory_whose_folder_is_gone_or_replaced_takes_nothing_more(tmp_path):
    first = DiskStore(tmp_path / "m")
    first.add_turn("s", {"speaker": "Ann", "text": "x"})
    shutil.rmtree(tmp_path / "m")
    for _ in range(2):
        with pytest.raises(UsageError, match="deleted or replaced"):
            first.add_turn("s", {"speaker": "Ann", "text": "lost words"})
        DiskStore(tmp_path / "m").close()  # another one in its place
    with pytest.raises(UsageError, match="open the memory again"):
        first.store.search("x")
