"""Several processes and threads use one memory: writers queue, readers see whole adds, a forget waits for readers."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from victims import write_talk

from stitchjam.data.disk import database as database_module
from stitchjam.data.disk import refresh as refresh_module
from stitchjam.data.disk.database import Database
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.records import History

TURNS = 560  # more than search counts by itself, so that a segment is sealed
FILES = ("argon", "boron", "cobalt", "dubnium")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return [str(write_talk(folder / f"{word}.jsonl", word, TURNS)) for word in FILES]


@pytest.fixture
def memory(tmp_path):
    store = DiskStore(tmp_path / "memory", encoder="none")
    yield store
    store.close()


@contextmanager
def impatient():
    """Wait for locks as shortly as a test can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module, "_PATIENCE", 0.1)
        yield


def add_history(store, name, texts):
    rows = [{"speaker": "Ann", "text": text} for text in texts]
    return store.add_history(History(id=name, sessions=(build_session(name, "", rows),)))


def require_whole(store, turns):
    verified = store.verify()
    assert (verified.log_problems, verified.index_problems) == ((), ())
    found = store.store.turns
    assert len({turn.id for turn in found}) == len(found) == verified.turns == turns


def test_two_processes_add_at_once_and_nothing_is_lost(victims, files, tmp_path):
    path = str(tmp_path / "memory")
    victims.run(
        ["add", path, files[:2]], ["add", path, files[2:]], ["add_turns", path, "x", "Ann", 20], ["add", path, files]
    )
    store = DiskStore(path)
    require_whole(store, len(files) * TURNS + 20)
    assert {row["name"]: row["turns"] for row in store.stats()["sources"]} == dict.fromkeys(files, TURNS) | {"Ann": 20}
    assert store.stats()["counts"]["vector"] == len(files) * TURNS + 20
    assert all(store.store.search(word, k=1) for word in FILES)
    store.close()


def test_two_processes_add_turns_to_one_session_at_once(victims, tmp_path):
    path = str(tmp_path / "memory")
    victims.run(*(["add_turns", path, "talk", name, 25] for name in ("Ann", "Bob")))
    store = DiskStore(path)
    require_whole(store, 50)
    said = [turn.text for turn in store.store.session("talk").turns]
    assert [text for text in said if text.startswith("Ann")] == [f"Ann {at}" for at in range(25)]
    store.close()


def test_processes_that_open_the_same_new_folder_at_once_make_one_memory(victims, tmp_path):
    for at in range(4):
        path = str(tmp_path / str(at))
        victims.start(*[["open_at", path, time.time() + 0.1]] * 3)
        assert victims.wait(3) == [0, 0, 0]
        DiskStore(path).close()


def test_a_memory_that_another_process_made_just_now_is_opened(tmp_path, monkeypatch):
    make_folder = Database._make_folder

    def rival_first(database, create):
        monkeypatch.setattr(Database, "_make_folder", make_folder)
        DiskStore(tmp_path / "memory").close()
        make_folder(database, create)

    monkeypatch.setattr(Database, "_make_folder", rival_first)
    store = DiskStore(tmp_path / "memory")
    assert store.add_turn("talk", {"speaker": "Ann", "text": "hello"}).turns == 1
    store.close()


def test_a_writer_that_waited_too_long_is_told_that_another_one_writes(memory):
    with impatient():
        other = DiskStore(memory.path)
    with memory.database.write():
        with pytest.raises(UsageError, match="another process has been writing.*try again later"):
            other.add_turn("talk", {"speaker": "Ann", "text": "hello"})
        assert other.store.size == 0  # readers do not wait
    assert other.add_turn("talk", {"speaker": "Ann", "text": "hello"}).turns == 1
    other.close()


def test_readers_see_all_of_an_add_or_nothing_of_it(victims, files, tmp_path):
    path = str(tmp_path / "memory")
    store = DiskStore(path)
    victims.start(["add", path, files[:3]])
    ended, seen = threading.Event(), set()

    def watch():
        while not ended.is_set():
            counts = store.stats()["counts"]
            seen.add((counts["turn"], counts["source"], counts["session"]))
            now = store.store
            assert len(now.turns) == now.size
            seen.add((now.size, now.size // TURNS, len(now.session_times)))

    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(watch) for _ in range(2)]
        assert victims.wait() == [0]
        ended.set()
        [reader.result() for reader in readers]
    assert len(seen) > 1
    assert seen <= {(n * TURNS, n, n * -(-TURNS // 50)) for n in range(4)}
    store.close()


def test_a_store_stays_as_it_was_while_eight_threads_read_it_and_others_add(memory):
    add_history(memory, "old", [f"old turn n{at}" for at in range(600)])
    pinned, wanted = memory.store, memory.store.turns

    def read(at):
        hits = pinned.search(f"turn n{at}", k=3)
        assert hits[0].turn.text == f"old turn n{at}"
        assert all("old" in hit.turn.text for hit in hits)
        assert pinned.turns == wanted
        return hits

    with ThreadPoolExecutor(10) as pool:
        added = [
            pool.submit(add_history, memory, f"new-{at}", [f"new turn n{at} {n}" for n in range(90)]) for at in (1, 2)
        ]
        read_by = list(pool.map(read, [7, 8] * 12))
        [future.result() for future in added]
    assert read_by[0::2] == [read_by[0]] * 12
    assert memory.store.size == 780 and pinned.size == 600


def test_one_memory_is_written_read_and_forgotten_from_several_threads(memory):
    def use(name):
        for at in range(5):
            memory.add_turn("shared", {"speaker": name, "text": f"{name} shared {at}"}, source=f"{name} shared")
            add_history(memory, f"{name}-{at}", [f"{name} own n{at}"])
            assert memory.store.search(f"{name} own n{at}", k=1)[0].turn.text == f"{name} own n{at}"
            assert memory.forget(f"{name}-{at}").turns == 1
        return name

    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(use, ["ada", "ben", "cleo", "dan"]))
    require_whole(memory, 20)
    assert {turn.speaker for turn in memory.store.session("shared").turns} == set(names)


def traces(folder, text):
    return [path.name for path in folder.rglob("*") if text.encode() in path.read_bytes()]


def test_what_another_process_still_reads_is_erased_when_the_memory_is_opened_after_it(victims, memory, tmp_path):
    add_history(memory, "secret", [f"the plutonium is in box {at}" for at in range(100)])
    add_history(memory, "plain", ["we had soup"])
    victims.start(["hold", str(memory.path), str(tmp_path / "release")])
    with impatient():
        assert not memory.forget("secret").erased
    assert memory.stats()["tombstones"][0]["erased"] is None
    assert memory.store.search("plutonium") == ()
    with impatient():
        DiskStore(memory.path).close()
    assert memory.stats()["tombstones"][0]["erased"] is None
    (tmp_path / "release").touch()
    assert victims.wait() == [0]
    again = DiskStore(memory.path)
    assert again.stats()["tombstones"][0]["erased"]
    assert traces(memory.path, "plutonium") == []
    require_whole(again, 1)
    again.close()


def test_a_memory_with_something_to_erase_opens_while_another_process_writes(memory):
    add_history(memory, "secret", ["the plutonium is in the box"])
    reader = sqlite3.connect(memory.database.file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM turn").fetchall()
    with impatient():
        assert not memory.forget("secret").erased
    reader.close()
    with memory.database.write(), impatient():
        DiskStore(memory.path).close()
    DiskStore(memory.path).close()
    assert traces(memory.path, "plutonium") == []


@pytest.mark.parametrize("meanwhile", ["sealed", "forgotten"])
def test_a_segment_is_thrown_away_when_another_process_changed_those_before_it_meanwhile(meanwhile, memory):
    other, changed = DiskStore(memory.path), []

    def interfere(text):
        if not changed:
            changed.append(text)
            if meanwhile == "sealed":
                add_history(other, "many", [f"many {at}" for at in range(100)])
            else:
                assert not other.forget("few").erased
        return text.split()

    with impatient(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(refresh_module, "TAIL", 8)
        add_history(memory, "few", [f"few {at}" for at in range(3)])
        add_history(memory, "first", [f"first {at}" for at in range(97)])
        patch.setattr(refresh_module, "terms", interfere)
        add_history(memory, "second", [f"second {at}" for at in range(20)])
    assert changed
    assert memory.verify().index_problems == ()
    assert memory.stats()["sealed_turns"] >= 109
    other.close()


def test_two_memories_never_see_each_other(tmp_path):
    here, there = DiskStore(tmp_path / "here"), DiskStore(tmp_path / "there")
    add_history(here, "talk", ["the plutonium is in the box"])
    add_history(there, "talk", ["we had soup"])
    assert {turn.text for turn in there.store.turns} == {"we had soup"}
    assert [hit.turn.text for hit in there.store.search("plutonium box")] in ([], ["we had soup"])
    assert here.forget("talk").turns == 1
    assert there.store.size == 1
    assert Path(here.path / "memory.db").exists()
    for store in (here, there):
        store.close()
