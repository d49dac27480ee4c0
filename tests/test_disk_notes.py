"""Notes in a memory on disk: all who open it see the same, runs resume, and nothing of what is forgotten is left.

Words that must not survive hold the syllable "zorb", so that one look into the files finds them all.
"""

import json
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dspy
import pytest
from filelock import FileLock
from made_entries import history

from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.disk.labels import label_events
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import BudgetStop, DataError, UsageError
from stitchjam.data.intents.matching import Limits, match_intent
from stitchjam.data.intents.records import Intent
from stitchjam.data.records import Filter
from stitchjam.programs.stitch.ingest import label_memory
from stitchjam.programs.stitch.stitcher import FusedStitcher
from stitchjam.programs.stitch.view import Sizes

SEEDS = {
    "events": [{"name": name, "meaning": f"who {name}"} for name in ("asks", "tells", "plans", "agrees")],
    "entities": [{"name": "place", "meaning": "where"}],
}
SAID = {
    "summary": "it is told",
    "act": "tell",
    "target": "",
    "references": [],
    "topic": "trip",
    "scope": "none",
    "event": "e1",
    "entities": [],
    "gist": "what is told",
}
TWINS = "trip to Rome", "holiday in Rome"  # topics that are alike
TOPICS = (TWINS[0], "garden", TWINS[1], "boat", "piano", "taxes")


def turn_of(call):
    return call.prompt.rpartition("[[ ## turn ## ]]")[2].split("\n")[1].partition(": ")[2]


def model(said=None, seeds=SEEDS, same=(), **scripts):
    """A model that says of a turn what `said` has under its text, and merges the pairs in `same`."""

    def label_turn(call):
        text = turn_of(call)
        reply: Any = (said or {}).get(text, {})
        reply = reply(call) if callable(reply) else reply
        return SAID | {"topic": f"topic {text.split()[0]}"} | reply

    return scripted_lm(
        {"label_turn": label_turn, "seed_vocabulary": seeds, "merge_labels": {"same": list(same)}} | scripts
    )


def label(disk, lm=None, stitcher=None, **more):
    with dspy.context(lm=lm or model()):
        return label_memory(disk, stitcher or FusedStitcher(), **more)


@pytest.fixture
def memory(tmp_path):
    """Opens memories below a folder, with the encoder "none" unless another is named."""
    opened = []

    def open_memory(name="memory", encoder="none"):
        opened.append(DiskStore(tmp_path / name, encoder))
        return opened[-1]

    yield open_memory
    for one in opened:
        one.close()


def talk(count, name="h", word="turn"):
    return history(*(f"{word}{at % 4} number {at}" for at in range(count)), name=name, session=name, size=15)


def rows(disk, table, columns="*"):
    with sqlite3.connect(disk.path / "memory.db") as db:
        found = db.execute(f"SELECT {columns} FROM {table}").fetchall()
    db.close()
    return found


def write(disk, *statements):
    with sqlite3.connect(disk.path / "memory.db") as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def notes(disk):
    """All notes to the byte, in order."""
    return sorted(rows(disk, "note", "number, item, program, step, content"))


def statuses(disk, program=None):
    found = {}
    for row in disk.stats()["work"]:
        if program in (None, row["program"]):
            found[row["status"]] = found.get(row["status"], 0) + row["items"]
    return found


FACETS = ("scope", "event", "entity")


def described(one):
    return f"{one.name}: {one.description}" if one.description else one.name


def require_agreement(disk, program=""):
    """The tables of labels say what the notebook says."""
    notebook = disk.notes.notebook(program)
    bank, program = notebook.bank, program or rows(disk, "note", "program")[-1][0]
    live, merged = [one for facet in FACETS for one in bank.live(facet)], {}
    for one in bank.labels.values():
        merged.setdefault(bank.canonical(one.id), []).append(one)
    borne = {(one, item) for one, item, of in rows(disk, "note_label", "label, item, program") if of == program}
    assert borne == {(one.id, turn) for one in live for turn in notebook.bearers([one.id])}
    shown = {row[0]: (*row[1:3], sorted(json.loads(row[3]))) for row in rows(disk, "label") if row[0] in bank.labels}
    aliases = {one.id: sorted(described(old) for old in merged[one.id] if old != one) for one in live}
    assert shown == {one.id: (one.facet, described(one), aliases[one.id]) for one in live}
    with disk.database.read() as db:
        events = [one for one in label_events(db) if one["label"] in bank.labels]
    assert {one["label"] for one in events if one["event"] == "made"} == set(bank.labels)
    gone = {one for one in bank.labels if bank.canonical(one) != one}
    assert {one["old"] for one in events if one["event"] == "merged"} == gone


# Reading


def test_notes_are_read_by_who_opens_the_memory_later_and_by_who_has_it_open(memory):
    disk = memory()
    disk.add_history(talk(6))
    other, before = memory(), disk.store
    assert other.store.notebook.size == before.notebook.size == 0
    done = label(disk)
    assert (done.done, done.failed, done.waiting) == (6, {}, 0)
    again = pickle.loads(pickle.dumps(before))
    for store in (disk.store, before, other.store, memory().store, again):
        assert store.notebook.entries == disk.notes.notebook(done.program).entries and store.notebook.size == 6
    require_agreement(disk)


def test_notes_are_read_by_another_process(memory):
    disk = memory()
    disk.add_history(talk(6))
    program = label(disk).program
    code = (
        "import sys; from stitchjam.data.disk.store import DiskStore; disk = DiskStore(sys.argv[1]);"
        "print(*(one.model_dump_json() for one in disk.store.notebook.entries), sep='\\n'); disk.close()"
    )
    read = subprocess.run([sys.executable, "-c", code, str(disk.path)], capture_output=True, text=True, check=True)
    assert read.stdout.split("\n")[:-1] == [one.model_dump_json() for one in disk.notes.notebook(program).entries]


def test_turns_are_found_by_canonical_labels_and_by_those_of_before_a_merge(memory):
    disk = memory(encoder="static")
    disk.add_history(talk(60))
    topics = {turn.text: {"topic": TWINS[at % 2]} for at, turn in enumerate(talk(60).turns)}
    label(disk, model(topics, same=[{"pair": "p1", "name": TWINS[0]}]))
    bank = disk.store.notebook.bank
    into = bank.find("scope", TWINS[1])
    assert into.name == TWINS[0] and bank.aliases(into.id) == (TWINS[1],)
    merged = next(one for one in bank.labels.values() if one.name == TWINS[1])
    for label_id in (into.id, merged.id):
        hits = disk.store.search("number", k=99, where=Filter(labels=[label_id]))
        assert len(hits) == 60 == len(disk.store.notebook.bearers([label_id]))
    require_agreement(disk)


def test_a_label_of_the_vocabulary_that_no_turn_bears_finds_nothing_and_an_unknown_one_is_refused(memory):
    disk = memory()
    disk.add_history(talk(6))
    label(disk)
    place = disk.store.notebook.bank.find("entity", "place")
    assert disk.store.search("number", where=Filter(labels=[place.id])) == ()
    with pytest.raises(UsageError, match="there is no label 'entity-1'"):
        disk.store.search("number", where=Filter(labels=["entity-1", place.id]))


def test_a_store_that_was_open_while_its_turns_were_labelled_has_another_fingerprint(memory):
    disk = memory()
    disk.add_history(talk(6))
    store = disk.store
    before = store.fingerprint
    label(disk)
    assert before != store.fingerprint == disk.store.fingerprint == memory().store.fingerprint


def test_recall_that_holds_the_notebook_does_not_wait_for_one_that_reads_new_notes(memory):
    disk, other = memory(), memory()
    disk.add_history(talk(6))
    label(disk, limit=3)
    notebook = other.notes.notebook()
    label(disk)  # three notes that the other one has not read
    inside, asked = threading.Event(), threading.Event()

    def reads():
        inside.wait(5)
        asked.set()
        other.notes.notebook()

    def recalls():
        with notebook.lock:
            inside.set()
            asked.wait(5)
            threading.Event().wait(0.2)  # until the other one waits
            other.notes.notebook()

    threads = [threading.Thread(target=one, daemon=True) for one in (reads, recalls)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(10)
    assert not any(one.is_alive() for one in threads) and notebook.size == 6


# Resuming


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The notes of a run that was not stopped."""
    disk = DiskStore(tmp_path_factory.mktemp("whole"), "static")
    disk.add_history(talk(56))
    label(disk, topics_model())
    disk.close()
    return notes(disk)


def topics_model(at=None, stop=None):
    """A model with topics that go on and some that are alike; at a turn something happens first."""
    said: dict[str, Any] = {}
    for number, turn in enumerate(talk(56).turns):
        said[turn.text] = {"topic": TOPICS[number // 9 % 6], "gist": f"gist {number}"}
    if at is not None:
        text = talk(56).turns[at].text
        said[text] = _after(stop, said[text])
    return model(said, same=[{"pair": "p1", "name": TWINS[0]}])


def label_and_die(path, at):
    """Label a memory and be killed at a turn."""
    label(DiskStore(path), topics_model(at, lambda: os.kill(os.getpid(), signal.SIGKILL)))


def _after(stop, reply):
    happened = []

    def answer(call):
        if not happened:
            happened.append(call)
            stop()
        return reply

    return answer


def raising(error):
    def stop():
        raise error

    return stop


@pytest.mark.parametrize(
    "at, stopped", [(0, KeyboardInterrupt()), (20, BudgetStop("calls", "enough")), (49, KeyboardInterrupt())]
)
def test_a_run_that_was_stopped_and_resumed_makes_the_same_notes(memory, whole, at, stopped):
    disk = memory(encoder="static")
    disk.add_history(talk(56))
    lm = topics_model(at, raising(stopped))
    with pytest.raises(type(stopped)):
        label(disk, lm)
    assert disk.stats()["counts"]["note"] == at and "failed" not in statuses(disk)
    disk.close()
    again = memory(encoder="static")
    assert label(again, lm).done == 56 - at
    assert notes(again) == whole and any(row[2] == "merged" for row in rows(again, "label_event"))
    require_agreement(again)


def test_a_run_in_many_parts_by_many_openings_makes_the_same_notes(memory, whole):
    for limit in (1, 48, 1, 20):
        disk = memory(encoder="static")
        disk.add_history(talk(56))
        label(disk, topics_model(), limit=limit)
        disk.close()
    assert notes(memory(encoder="static")) == whole


def test_a_run_that_was_killed_and_resumed_at_once_makes_the_same_notes(memory, whole, at=50):
    disk = memory(encoder="static")
    disk.add_history(talk(56))
    disk.close()
    code = f"import sys, test_disk_notes as here; here.label_and_die(sys.argv[1], {at})"
    killed = subprocess.run([sys.executable, "-c", code, str(disk.path)], cwd=Path(__file__).parent)
    assert killed.returncode == -signal.SIGKILL
    again = memory(encoder="static")
    assert statuses(again) == {"done": at, "pending": 55 - at, "running": 1}
    assert label(again, topics_model()).done == 56 - at and notes(again) == whole


def test_stopping_often_does_not_use_up_the_attempts_of_a_turn(memory):
    disk = memory()
    disk.add_history(talk(2))
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            label(disk, model({disk.store.turns[0].text: lambda call: raising(KeyboardInterrupt())()}))
    with pytest.raises(KeyboardInterrupt):
        label(disk, model({disk.store.turns[0].text: lambda call: raising(KeyboardInterrupt())()}))
    assert [row[0] for row in rows(disk, "work", "attempts")] == [0, 0]
    assert label(disk).done == 2


def test_a_turn_that_failed_is_labelled_by_the_next_run(memory):
    disk = memory()
    disk.add_history(talk(4))
    text = disk.store.turns[1].text
    done = label(disk, model({text: lambda call: "no json"}))
    assert done.done == 3 and list(done.failed) == [disk.store.turns[1].id]
    assert label(disk).done == 1 and disk.store.notebook.size == 4
    require_agreement(disk)


def test_turns_that_come_later_are_labelled_later_and_registering_again_keeps_their_work(memory):
    disk = memory()
    disk.add_history(talk(6))
    assert label(disk, finish=False).waiting == 6 and disk.store.notebook.size == 0
    label(disk)
    disk.add_history(talk(3, "more"))
    assert statuses(disk) == {"done": 6, "pending": 3}
    assert label(disk, finish=False).done == 3 and label(disk).done == 0
    require_agreement(disk)


def test_a_second_process_that_labels_is_refused(memory):
    disk = memory()
    disk.add_history(talk(3))
    code = "import sys, filelock, time\nwith filelock.FileLock(sys.argv[1]): print(1, flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(disk.path / ".labelling.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline()
        with pytest.raises(UsageError, match="another process is labelling .*; wait for it, or stop it"):
            label(disk)
        other.kill()
    assert label(disk).done == 3
    with FileLock(disk.path / ".labelling.lock", timeout=0):
        assert disk.store.notebook.size == 3, "who reads needs no lock"


# Old and damaged memories


def test_a_memory_of_before_notes_had_numbers_opens_and_is_labelled(memory):
    disk = memory()
    disk.add_history(talk(4))
    disk.close()
    write(disk, "DROP INDEX note_by_number", "ALTER TABLE note DROP COLUMN number")
    again = memory()
    assert again.store.notebook.size == 0 and again.verify().log_problems == ()
    assert label(again).done == 4 and [row[0] for row in notes(again)] == [1, 2, 3, 4]
    assert ("note_by_number",) in rows(again, "sqlite_master", "name")
    assert memory().store.notebook.size == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"note": 1}'])
def test_a_damaged_note_is_named_with_what_to_do(memory, content):
    disk = memory()
    disk.add_history(talk(4))
    program = label(disk).program
    item = notes(disk)[1][1]
    write(disk, f"UPDATE note SET content = '{content}' WHERE item = '{item}'")
    again = memory()
    with pytest.raises(DataError, match=f"the note of turn {item} cannot be read; make notes anew: .*label --again"):
        _ = again.store.notebook
    assert again.store.search("number") != ()
    again.notes.drop(program)
    assert label(again).done == 4 and again.store.notebook.size == 4
    require_agreement(again)


def test_a_damaged_note_does_not_keep_a_source_from_being_forgotten(memory):
    disk = memory()
    disk.add_history(talk(4))
    disk.add_history(talk(3, "other", "word"))
    label(disk)
    write(disk, f"UPDATE note SET content = '{{' WHERE item = '{notes(disk)[2][1]}'")
    assert memory().forget("other").turns == 3
    again = memory()
    assert label(again).failed == {} and again.store.notebook.size == 4


# Programs


def test_two_programs_label_side_by_side(memory):
    disk = memory()
    disk.add_history(talk(6))
    one, two = FusedStitcher(), FusedStitcher(sizes=Sizes(notes=2))
    for stitcher, limit in ((one, 3), (two, 2), (one, 9), (two, 9)):
        label(disk, model({"turn0 number 0": {"topic": stitcher.fingerprint}}), stitcher, limit=limit)
        assert disk.store.notebook is disk.notes.notebook(stitcher.fingerprint), "that of who labelled last"
    for stitcher in (one, two):
        notebook = disk.notes.notebook(stitcher.fingerprint)
        assert notebook.size == 6 and notebook.bank.find("scope", stitcher.fingerprint)
        require_agreement(disk, stitcher.fingerprint)
    ids = [set(disk.notes.notebook(stitcher.fingerprint).bank.labels) for stitcher in (one, two)]
    assert ids[0].isdisjoint(ids[1])
    kept = [row for row in notes(disk) if row[2] == one.fingerprint]
    disk.notes.drop(two.fingerprint)
    assert notes(disk) == kept and disk.store.notebook.size == 6
    require_agreement(disk, one.fingerprint)
    assert statuses(disk, two.fingerprint) == {"pending": 6} and statuses(disk, one.fingerprint) == {"done": 6}


def test_a_program_that_began_but_noted_nothing_does_not_hide_the_notes_of_another(memory):
    disk = memory()
    disk.add_history(talk(6))
    label(disk)
    assert len(label(disk, model(label_turn="no json"), FusedStitcher(sizes=Sizes(notes=2))).failed) == 6
    assert disk.store.notebook.size == 6


def test_notes_that_are_dropped_are_made_again_with_all_their_labels(memory):
    disk = memory(encoder="static")
    disk.add_history(talk(56))
    program = label(disk, topics_model()).program
    before, store = notes(disk), disk.store
    assert any(row[2] == "merged" for row in rows(disk, "label_event"))
    disk.notes.drop(program)
    assert disk.store.notebook.size == store.notebook.size == 0 and statuses(disk) == {"pending": 56}
    assert [rows(disk, table) for table in ("note", "label", "note_label", "label_event")] == [[]] * 4
    disk.notes.drop(program)
    disk.notes.drop("unknown")
    assert label(disk, topics_model()).done == 56 and notes(disk) == before
    require_agreement(disk)


# Forgetting


def traces(disk):
    """Words with the mark in the bytes of any file of a memory."""
    files = [path for path in disk.path.rglob("*") if path.is_file()]
    return {word.decode() for path in files for word in re.findall(rb"\w*zorb\w*", path.read_bytes(), re.I)}


def require_gone(disk):
    assert traces(disk) == set()
    verified = disk.verify()
    assert (verified.log_problems, verified.index_problems) == ((), ())
    require_agreement(disk)


def texts_of(disk, items):
    return {turn.text for turn in disk.store.in_order(items)}


SECRET = history("zorbtext is said", "and zorbmore of it", name="secret", session="secret")
OWN = {
    "zorbtext is said": {
        "topic": "zorbtopic",
        "entities": ["zorbkind"],
        "event": "zorbs",
        "gist": "zorbtext",
        "target": "zorbtext",
    },
    "and zorbmore of it": {"topic": "zorbtopic", "summary": "zorbmore is said"},
}
LATER = ["later0", "later1", "later2", "later3"]


@pytest.fixture
def leaky(memory):
    """A memory, labelled before its secret came, and after it by a model that copies what it is told to."""

    def make(copied, last=True):
        disk = memory(encoder="static")
        disk.add_history(talk(5, "early", "early"))
        label(disk)
        disk.add_history(SECRET)
        if last:
            disk.add_history(history(*LATER, name="later", session="later"))
        assert label(disk, model(OWN | {"later1": copied})).failed == {} and traces(disk)
        return disk

    return make


COPIED = {
    "a topic that it bears": {"topic": "zorbtopic"},
    "the name of a topic": {"topic": "about zorbmore"},
    "the name of a cut topic": {"topic": "nothing else than what was said about z zorbmo"},
    "the name of an entity type": {"entities": ["zorbtext"]},
    "the name of an event type": {"event": "zorbtext"},
    "an entity type that it bears": {"entities": ["zorbkind"]},
    "a name that was made for it": {"topic": "more zorbtopic"},
    "an event type that it bears": {"event": "zorbs"},
    "a gist": {"gist": "it is zorbtext"},
    "a target": {"target": "zorbtext"},
    "a summary": {"summary": "It is said: ZORBTEXT!"},
}


@pytest.mark.parametrize("copied", COPIED.values(), ids=COPIED)
def test_words_of_a_forgotten_source_are_gone_also_from_the_notes_of_other_turns(leaky, copied):
    disk = leaky(copied)
    before = {row[1]: row for row in notes(disk)}
    assert disk.forget("secret").erased
    require_gone(disk)
    left = {row[1]: row for row in notes(disk)}
    assert left.items() <= before.items() and "later1" not in texts_of(disk, left)
    assert {f"early{at % 4} number {at}" for at in range(5)} <= texts_of(disk, left)
    pending = [row[0] for row in rows(disk, "work WHERE status = 'pending'", "item")]
    assert set(pending) == {turn.id for turn in disk.store.turns} - left.keys()
    assert label(disk, model()).done == len(pending) and disk.store.notebook.size == 9
    require_gone(disk)


def test_turns_that_have_nothing_of_a_forgotten_source_keep_their_notes(leaky):
    disk = leaky({})
    kept = [row for row in notes(disk) if row[1] not in {turn.id for turn in disk.store.session("secret").turns}]
    disk.forget("secret")
    require_gone(disk)
    assert notes(disk) == kept and label(disk).done == 0 and disk.store.notebook.size == 9


def test_all_notes_go_when_the_vocabulary_was_read_from_what_is_forgotten(memory):
    disk = memory()
    disk.add_history(talk(3))
    disk.add_history(SECRET)
    seeds = SEEDS | {"entities": [{"name": "zorbkind", "meaning": "zorbtext"}]}
    label(disk, model(seeds=seeds))
    assert traces(disk) >= {"zorbkind"}
    disk.forget("secret")
    assert notes(disk) == [] and statuses(disk) == {"pending": 3} and traces(disk) == set()
    assert label(disk).done == 3
    require_gone(disk)


def test_all_notes_go_when_the_turn_that_brought_the_vocabulary_is_forgotten(memory):
    disk = memory()
    disk.add_history(talk(2))
    disk.add_history(SECRET)
    label(disk, limit=1)
    label(disk)
    disk.forget("h")
    assert notes(disk) == [] and label(disk).done == 2 and disk.store.notebook.bank.live("event") != []


def test_what_is_made_of_a_turn_while_something_is_forgotten_is_not_kept(memory):
    disk = memory()
    disk.add_history(talk(2, "early", "early"))
    label(disk)
    disk.add_history(SECRET)
    disk.add_history(history(*LATER, name="later", session="later"))
    forgotten = []

    def later(call):
        if not forgotten:
            forgotten.append(disk.forget("secret"))
            return {"topic": "zorbtopic", "summary": "zorbtext", "entities": ["zorbkind"]}
        return {}

    label(disk, model(OWN | {"later1": later}))
    assert forgotten and disk.store.notebook.size == 6
    require_gone(disk)


def test_an_error_that_quotes_what_is_forgotten_is_gone(memory):
    disk = memory()
    disk.add_history(talk(2, "early", "early"))
    label(disk)
    disk.add_history(SECRET)
    disk.add_history(history(*LATER, name="later", session="later"))
    label(disk, model(OWN | {"later1": {"act": {"zorbtext": "zorbmore"}, "references": "zorbtext"}}))
    write(disk, "UPDATE work SET error = 'the reply was zorbtext' WHERE status = 'failed'")
    assert statuses(disk)["failed"] == 1
    disk.forget("secret")
    require_gone(disk)
    assert statuses(disk) == {"done": 5, "failed": 1}


@pytest.fixture
def merged(memory):
    """A memory of 52 turns with two topics that were merged at the fiftieth, which is a source of its own."""
    disk = memory(encoder="static")
    for at in range(52):
        name = "fiftieth" if at == 49 else "maker" if at == 1 else "h"
        disk.add_turn(f"session {name}", {"speaker": "Ann", "text": f"word{at}"}, source=name)
    said = {f"word{at}": {"topic": TWINS[at % 2]} for at in range(52)}
    said |= {"word0": {"topic": "garden"}, "word49": {"topic": "piano"}}
    label(disk, model(said, same=[{"pair": "p1", "name": TWINS[0]}]), limit=1)  # a vocabulary of its first 50 turns
    with sqlite3.connect(disk.path / "memory.db") as db:
        (content,) = db.execute("SELECT content FROM note").fetchone()
        alone = json.dumps(json.loads(content) | {"seen": []})  # as if they had not been seen
        db.execute("UPDATE note SET content = ?", [alone])
    db.close()
    disk.close()
    again = memory(encoder="static")
    label(again, model(said, same=[{"pair": "p1", "name": TWINS[0]}]))
    bank = again.store.notebook.bank
    assert bank.find("scope", TWINS[1]).name == TWINS[0] and again.store.notebook.size == 52
    return again


def test_labels_stand_apart_again_when_the_turn_after_which_they_were_merged_is_forgotten(merged):
    merged.forget("fiftieth")
    notebook = merged.store.notebook
    assert [notebook.bank.find("scope", name).name for name in TWINS] == list(TWINS)
    require_agreement(merged)
    for name in TWINS:
        scope = notebook.bank.find("scope", name).id
        hits = merged.store.search("word2 word3", k=99, where=Filter(labels=[scope]))
        assert {hit.turn.id for hit in hits} <= set(notebook.bearers([scope])) and hits
        found = match_intent("word3", Intent(scopes=(scope,)), merged.store, Limits(trusted=0)).facets["scope"]
        assert re.fullmatch(r"\d+ of 51 turns bear it", found)
    assert notebook.size + label(merged).done == 51 == merged.store.notebook.size


def test_turns_that_bore_a_merged_label_lose_their_notes_with_the_turn_that_it_was_made_for(merged):
    scope = merged.store.notebook.bank.find("scope", TWINS[1]).id
    borne = set(merged.store.notebook.bearers([scope]))
    merged.forget("maker")
    left = {row[1] for row in notes(merged)}
    assert borne.isdisjoint(left) and left
    require_agreement(merged)
    assert label(merged).done == 51 - len(left) and merged.store.notebook.size == 51
    require_agreement(merged)


def test_times_of_what_happened_to_labels_stay_when_others_are_forgotten(leaky):
    disk = leaky({"topic": "zorbtopic"})
    before = dict(rows(disk, "label_event", "label || event, happened"))
    disk.forget("secret")
    after = dict(rows(disk, "label_event", "label || event, happened"))
    assert after and after.items() <= before.items()


def test_forgetting_leaves_the_labels_of_another_program_as_they_are(memory):
    disk = memory()
    disk.add_history(talk(4))
    one, two = FusedStitcher(), FusedStitcher(sizes=Sizes(notes=2))
    for stitcher in (one, two):
        label(disk, stitcher=stitcher)
    disk.add_history(SECRET)
    label(disk, model(OWN), one)
    kept = [row for row in notes(disk) if row[2] == two.fingerprint]
    disk.forget("secret")
    assert [row for row in notes(disk) if row[2] == two.fingerprint] == kept and traces(disk) == set()
    require_agreement(disk, one.fingerprint)
    require_agreement(disk, two.fingerprint)
