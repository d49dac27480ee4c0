"""What is forgotten is gone: from every byte of the files, from search, from stores that were opened before it.

Words that must not survive hold the syllable "zorb", so that one look into the files finds them all.
"""

import json
import pickle
import re
from hashlib import sha256

import pytest
from sqlalchemy import insert, select

from stitchjam.backends.replay import ReplayCache
from stitchjam.data.disk import refresh, schema
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.verify import verify
from stitchjam.data.disk.work import Derived, StepKey
from stitchjam.data.errors import StitchjamError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.readers import write_sessions
from stitchjam.data.records import Filter, History

NOTE, MEMO = StepKey("write_note", "program-1", "turn"), StepKey("memo", "program-1", "session")
MARK = "zorb"


@pytest.fixture
def memory(tmp_path):
    store = DiskStore(tmp_path / "memory", encoder="none")
    yield store
    store.close()


def history(name, **sessions):
    """A history of sessions, each a list of texts or of whole rows."""
    made = [
        build_session(session, "", [{"speaker": "Ann", "text": x} if isinstance(x, str) else x for x in rows])
        for session, rows in sessions.items()
    ]
    return History(id=name, sessions=tuple(made))


def file_of(path, *histories):
    """A file of our own format with one history."""
    write_sessions(path, *histories)
    return path


def say(store, session, text, source):
    return store.add_turn(session, {"speaker": "Ann", "text": text}, source=source)


def traces(*folders):
    """Words with the mark in the bytes of any file, and names of files that have it."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    named = {path.name for path in files if MARK in path.name}
    return named | {word.decode() for path in files for word in re.findall(rb"\w*zorb\w*", path.read_bytes(), re.I)}


def require_gone(store, *folders):
    assert traces(store.path, *folders) == set()
    require_sound(store)
    assert MARK not in json.dumps(store.stats()["sources"]) + str(store.store.sessions) + str(store.store.speakers)


def require_sound(store):
    verified = store.verify()
    assert (verified.log_problems, verified.index_problems) == ((), ())


def derive(store):
    """Notes that quote their turn, each with two labels, and memos that quote their session."""

    def note(item):
        turn = store.store.turn(item)
        if "fails" in turn.text:
            raise StitchjamError(f"cannot read {turn.text}")
        own = "zorblabel" if MARK in turn.text else "plain"
        return Derived({"gist": f"a note on {turn.text}"}, labels=("shared", own))

    def memo(item):
        texts = " ".join(turn.text for turn in store.store.session(item).turns)
        return Derived({"summary": texts})

    for key, run in ((NOTE, note), (MEMO, memo)):
        store.register(key)
        store.process(key, run)


def describe(store):
    """Readmes and labels, as the programs that file and label will write them."""
    readmes = [("root", "of zorbreadme and soup"), ("d1", "a zorbfolder with zorbreadme2"), ("d2", "soup")]
    labels = [("shared", "food, as zorbdescribed"), ("zorblabel", "zorbdescribed2"), ("plain", "all about soup")]
    with store.database.write() as db:
        db.execute(
            insert(schema.folder),
            [{"id": x, "program": "program-1", "content": y, "number": at} for at, (x, y) in enumerate(readmes)],
        )
        rows = [{"id": x, "kind": "scope", "description": y, "aliases": json.dumps([y])} for x, y in labels]
        db.execute(insert(schema.label), rows)
        events = [{"label": x, "event": "made", "detail": y, "happened": 1.0} for x, y in labels]
        db.execute(insert(schema.label_event), events)


def remember_replies(folder):
    """Replies that quote the memory: one written by the cache, one in a folder below."""
    cache = ReplayCache(folder / "replies.jsonl")
    cache.put({"model": "m", "messages": [{"role": "user", "content": "zorbprompt"}]}, {"outputs": ["zorbreply"]})
    cache.close()
    (folder / "run-1").mkdir()
    (folder / "run-1" / "more.jsonl").write_text('{"key": "x", "value": {"outputs": ["zorbreply2"]}}\n')
    (folder / "notes.txt").write_text("my own file stays")


@pytest.fixture
def full(memory, tmp_path, monkeypatch):
    """A memory that holds the mark in every place that text can reach, and a source to forget it by."""
    monkeypatch.setattr(refresh, "TAIL", 4)  # so that few turns make a segment
    rows = [
        {"speaker": "Zorbara", "text": "the zorbtext is here", "external_id": "zorb-1", "time": "2024-01-01"},
        {"speaker": "Bob", "text": "this zorbtext fails", "external_id": "zorb-2", "time": "2024-01-02"},
        *({"speaker": "Bob", "text": f"zorbmany zorb{at} number {at}"} for at in range(20)),
    ]
    memory.add_history(history("plain", dinner=["we had soup", "with bread"]))
    path = file_of(
        tmp_path / "zorbfile.jsonl", history("zorbhistory", **{"zorbsession": rows, "other": ["a zorbline"]})
    )
    memory.add_file(path)
    memory.add_history(history("later", lunch=["we had soup and salad"]))
    memory.keep_replies(tmp_path / "replies")
    remember_replies(tmp_path / "replies")
    derive(memory)
    describe(memory)
    return memory, path


def test_after_a_forget_no_byte_of_any_file_holds_the_text(full, tmp_path):
    memory, path = full
    there = {word.casefold() for word in traces(memory.path, tmp_path / "replies")}
    assert {
        f"zorb{word}" for word in "text file session label described readme folder reply reply2 many".split()
    } <= there
    digest = sha256(path.read_bytes()).hexdigest()
    forgotten = memory.forget(str(path))
    assert (forgotten.turns, forgotten.sessions, forgotten.erased) == (23, 2, True)
    require_gone(memory, tmp_path / "replies")
    assert (tmp_path / "replies" / "notes.txt").exists()
    (tombstone,) = memory.stats()["tombstones"]
    assert tombstone.keys() == {"source", "sha256", "forgotten", "erased"}
    assert tombstone["sha256"] == digest and 0 < tombstone["forgotten"] <= tombstone["erased"]
    assert {turn.text for turn in memory.store.turns} == {"we had soup", "with bread", "we had soup and salad"}


def test_after_a_forget_search_finds_what_is_left_and_nothing_else(full):
    memory, path = full
    assert memory.store.search("zorbtext") and memory.store.search("soup", where=Filter(labels=("zorblabel",))) == ()
    memory.forget(str(path))
    assert memory.store.search("zorbtext zorbmany") == memory.store.search_sessions("zorbtext zorbmany") == ()
    assert [hit.turn.text for hit in memory.store.search("salad", k=1)] == ["we had soup and salad"]
    for where in (Filter(labels=("zorblabel",)), Filter(folders=("zorbfolder",)), Filter(sources=(str(path),))):
        with pytest.raises(UsageError, match="there is no"):
            memory.store.search("soup", where=where)


def warmed(store, how):
    """A store of before the forget, as far read as a program may have read it."""
    pinned = store.store
    if how != "not read":
        assert pinned.size and pinned.search("zorbtext", where=Filter(speakers=("Zorbara",)))
    if how == "all read":
        assert pinned.session("zorbsession") in pinned.sessions
    return pinned


@pytest.mark.parametrize("how", ["not read", "searched", "all read"])
def test_a_store_from_before_the_forget_shows_nothing_of_it_either(full, how):
    memory, path = full
    pinned, turn = warmed(memory, how), memory.store.session("zorbsession").turns[0]
    copy = pickle.loads(pickle.dumps(pinned))
    memory.forget(str(path))
    for store in (pinned, copy):
        assert store.search("zorbtext", neighbours=2) == store.search_sessions("zorbtext") == ()
        assert MARK not in str(store.search("soup", neighbours=2)) + str(store.search_sessions("zorbtext soup"))
        for look, what in ((store.turn, turn.id), (store.session, "zorbsession"), (lambda x: x.around(turn, 1), store)):
            with pytest.raises(UsageError) as error:
                look(what)
            assert MARK not in str(error.value).replace("'zorbsession'", "")
        assert [session.id for session in store.sessions] == ["dinner", "lunch"]
        assert list(store.session_times) == ["dinner", "lunch"]
        assert len(store.turns) == 3


def test_a_store_from_before_a_forget_does_not_show_what_is_added_again_as_empty(memory):
    memory.add_history(history("a", talk=["one two", "three"]))
    memory.add_history(history("b", other=["four five"]))
    pinned = memory.store
    assert len(pinned.sessions) == 2
    memory.forget("a")
    memory.add_history(history("a", talk=["one two", "three"]))
    assert [session.id for session in pinned.sessions] == ["other"]
    with pytest.raises(UsageError, match="there is no session 'talk'"):
        pinned.session("talk")
    assert len(memory.store.sessions) == 2


def test_turns_that_another_source_also_brought_stay(memory, tmp_path):
    short = history("short", talk=["one", "two"])
    long = history("long", talk=["one", "two", "zorbthree"], aside=["zorbaside"])
    memory.add_file(file_of(tmp_path / "short.jsonl", short))
    memory.add_file(file_of(tmp_path / "long.jsonl", long))
    assert memory.forget(str(tmp_path / "long.jsonl")).turns == 2
    assert [turn.text for turn in memory.store.session("talk").turns] == ["one", "two"]
    require_gone(memory)
    assert memory.forget(str(tmp_path / "short.jsonl")).turns == 2
    assert memory.store.size == 0
    require_sound(memory)


def test_the_vector_of_words_that_are_also_said_elsewhere_stays(tmp_path):
    memory = DiskStore(tmp_path / "memory")
    memory.add_history(history("a", here=["both said this", "zorbonly here"]))
    memory.add_history(history("b", there=["both said this"]))
    memory.forget("a")
    assert memory.stats()["counts"]["vector"] == 1
    assert memory.store.search("both said this", k=1)[0].turn.session_id == "there"
    require_gone(memory)
    memory.close()


def locomo_row(name):
    said = [
        {"speaker": "Ann", "dia_id": f"D1:{at}", "text": text} for at, text in enumerate(["hello", "zorbyes", name])
    ]
    talk = {"speaker_a": "Ann", "speaker_b": "Bob", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": said}
    return {"sample_id": name, "qa": [], "conversation": talk}


def test_a_file_is_forgotten_whole_when_one_of_its_histories_is_named(memory, tmp_path):
    path = tmp_path / "two.json"
    path.write_text(json.dumps([locomo_row("zorba"), locomo_row("zorbb")]))
    added = memory.add_file(path, "locomo")
    assert len(added.sources) == 2
    first, second = (row["name"] for row in memory.stats()["sources"])
    assert first == f"{path}#zorba"
    assert set(memory.forget(second).sources) == set(added.sources)
    assert memory.stats()["counts"]["source"] == 0
    require_gone(memory)
    assert memory.add_file(path, "locomo").turns == 6
    assert set(memory.forget(str(path)).sources) == set(added.sources)
    assert len(memory.stats()["tombstones"]) == 2


def test_sources_that_are_only_called_alike_stay(memory):
    for name in ("talk", "talk#2", "talk/3", "talk_4"):
        memory.add_history(history(name, **{f"in {name}": [f"words of {name}"]}))
    memory.forget("talk")
    assert [row["name"] for row in memory.stats()["sources"]] == ["talk#2", "talk/3", "talk_4"]
    assert memory.forget(memory.stats()["sources"][0]["id"]).turns == 1
    assert memory.store.size == 2


def test_a_file_can_be_added_again_and_has_no_tombstone_then(memory, tmp_path):
    path = file_of(tmp_path / "a.jsonl", history("a", talk=["one", "zorbtwo"]))
    before = memory.add_file(path), memory.store.sessions
    memory.forget(str(path))
    assert (memory.add_file(path), memory.store.sessions) == before
    assert memory.stats()["tombstones"] == []
    require_sound(memory)
    memory.forget(str(path))
    require_gone(memory)
    assert len(memory.stats()["tombstones"]) == 1


def test_a_name_can_be_used_again_for_something_else(memory):
    for at, (source, text) in enumerate([("a", "one"), ("b", "zorbtwo"), ("a", "three"), ("b", "zorbfour")]):
        say(memory, "talk", text, source)
        assert memory.store.size == at + 1
    memory.forget("b")
    say(memory, "talk", "five", "b")
    assert [turn.text for turn in memory.store.session("talk").turns] == ["one", "three", "five"]
    require_gone(memory)
    before = memory.stats()["tombstones"][0]["forgotten"]
    assert memory.forget("b").turns == 1
    (tombstone,) = memory.stats()["tombstones"]
    assert before < tombstone["forgotten"] <= tombstone["erased"]


def test_the_middle_of_a_session_can_be_forgotten_and_come_back(memory):
    rows = ["one", "two", "zorbthree", "zorbfour", "five", "six"]
    for text in rows:
        say(memory, "talk", text, "middle" if MARK in text else "rest")
    whole = memory.store.session("talk")
    memory.forget("middle")
    left = memory.store.session("talk").turns
    assert [turn.text for turn in left] == ["one", "two", "five", "six"]
    assert [turn.text for turn in memory.store.around(left[2], 1)][-2:] == ["five", "six"]
    require_gone(memory)
    memory.add_history(History(id="again", sessions=(whole,)))
    assert memory.store.session("talk") == whole
    require_sound(memory)


def test_what_was_derived_from_a_session_that_lost_turns_is_derived_again(memory):
    for session, text, source in [("talk", "one", "a"), ("talk", "zorbtwo", "b"), ("other", "three", "a")]:
        say(memory, session, text, source)
    derive(memory)
    describe(memory)
    memory.forget("b")
    with memory.database.read() as db:
        pending = set(db.execute(select(schema.work.c.item).where(schema.work.c.status == "pending")).scalars())
        known = set(db.execute(select(schema.work.c.item)).scalars())
        memos = list(db.execute(select(schema.memo.c.item)).scalars())
        labels = {row.id: row.description for row in db.execute(select(schema.label))}
    (kept,) = memory.store.session("talk").turns
    (other,) = memory.store.session("other").turns
    assert pending == {"talk", kept.id}
    assert known == {"talk", kept.id, "other", other.id}
    assert memos == ["other"]
    assert labels == {"shared": "", "plain": ""}  # to be described anew, by what they still stand on
    require_gone(memory)
    done = []
    memory.process(MEMO, lambda item: done.append(item) or Derived({"summary": item}))
    assert done == ["talk"]


def test_what_a_step_makes_of_a_turn_that_is_forgotten_meanwhile_is_not_kept(memory):
    say(memory, "talk", "zorbone", "a")
    say(memory, "other", "two", "b")
    memory.register(NOTE)

    def note(item):
        text = memory.store.turn(item).text
        if MARK in text:
            memory.forget("a")
        return Derived({"gist": text}, labels=(text,))

    memory.process(NOTE, note)
    require_gone(memory)
    assert memory.stats()["counts"]["note"] == 1


def test_an_unknown_source_is_refused_with_the_nearest_names(memory, tmp_path):
    with pytest.raises(UsageError, match="there is no source 'anything'; nothing like it"):
        memory.forget("anything")
    memory.add_history(history("holiday", talk=["one"]))
    with pytest.raises(UsageError, match="there is no source 'holidays'.*such as holiday"):
        memory.forget("holidays")
    for name in ("", "talk", "%", "holi%", "holida_"):
        with pytest.raises(UsageError, match="there is no source"):
            memory.forget(name)
    assert memory.store.size == 1


def test_a_reply_that_cannot_be_removed_is_named_and_removed_later(memory, tmp_path):
    say(memory, "talk", "zorbone", "a")
    say(memory, "other", "two", "b")
    stuck = tmp_path / "replies" / "stuck.jsonl"
    memory.keep_replies(tmp_path / "replies")
    (stuck / "inside").mkdir(parents=True)
    with pytest.raises(UsageError, match="stuck.jsonl may quote what was forgotten"):
        memory.forget("a")
    with pytest.raises(UsageError, match="remove it"):
        DiskStore(memory.path)
    (stuck / "inside").rmdir()
    stuck.rmdir()
    DiskStore(memory.path).close()
    require_gone(memory)


def test_forgetting_everything_leaves_an_empty_memory_that_can_be_used(full):
    memory, path = full
    for source in (str(path), "plain", "later"):
        memory.forget(source)
    assert memory.store.size == 0 == verify(memory.database).turns
    assert memory.store.search("soup") == memory.store.sessions == ()
    assert say(memory, "talk", "hello again", "new").turns == 1
    assert memory.store.search("hello")
    require_gone(memory)


def test_a_shared_turn_loses_the_external_id_that_only_the_forgotten_source_gave_it(tmp_path):
    rows = [{"speaker": "Ann", "text": "The same words.", "external_id": "first-zanzibar"}]
    disk = DiskStore(tmp_path / "m")
    disk.add_history(History(id="one", sessions=(build_session("s", "", rows),)))
    rows[0]["external_id"] = "second"
    disk.add_history(History(id="two", sessions=(build_session("s", "", rows),)))
    assert disk.verify().log_problems == () and disk.store.turns[0].external_id == "first-zanzibar"
    assert disk.forget("one").turns == 0
    assert disk.store.turns[0].external_id == "second" and disk.verify().log_problems == ()
    disk.close()
    assert not any(b"zanzibar" in file.read_bytes() for file in (tmp_path / "m").iterdir())


def test_files_that_are_no_replies_are_never_removed(tmp_path):
    disk = DiskStore(tmp_path / "m")
    disk.add_turn("s", {"speaker": "Ann", "text": "x"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.jsonl").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="holds other files"):
        disk.keep_replies(tmp_path / "mine")
    disk.keep_replies(tmp_path / "theirs")
    disk.keep_replies(tmp_path / "theirs")
    (tmp_path / "theirs" / ".stitchjam-replies").unlink()
    (tmp_path / "theirs" / "other.jsonl").write_text("{}", encoding="utf-8")
    disk.forget("s")
    assert (tmp_path / "mine" / "precious.jsonl").exists() and (tmp_path / "theirs" / "other.jsonl").exists()
