"""An outage, a missing model or a lost lock is no fault of a turn: it keeps its attempts, its order and its words."""

import os
import re
from typing import Any

import dspy
import pytest
from dspy import lm15
from stitching import attentive, history_of, read, said

from stitchjam.data.disk.labels import label_events
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import BackendError, BudgetStop, UsageError
from stitchjam.programs.memory import Memory
from stitchjam.programs.stitch.ingest import label_memory
from stitchjam.programs.stitch.stitcher import FusedStitcher

TEXTS = [f"trip: we decide on the hotel Rex{at}" for at in range(12)]


@pytest.fixture
def disk(tmp_path):
    made = DiskStore(tmp_path / "memory")
    made.add_history(history_of(*TEXTS))
    return made


def out(call: Any) -> Any:
    raise lm15.ServerError("down")


def label(disk: DiskStore, **steps: Any) -> Any:
    with dspy.context(lm=attentive(**steps)):
        return label_memory(disk, FusedStitcher())


def notes(disk: DiskStore) -> list[str]:
    return [entry.model_dump_json() for entry in disk.notes.notebook(FusedStitcher().fingerprint).entries]


@pytest.fixture
def whole(tmp_path):
    """The notes of a labelling that nothing disturbed."""
    made = DiskStore(tmp_path / "whole")
    made.add_history(history_of(*TEXTS))
    label(made)
    return notes(made)


def statuses(disk: DiskStore) -> set[tuple[str, int]]:
    return {(row["status"], row["items"]) for row in disk.stats()["work"]}


def test_an_endpoint_that_is_out_takes_no_attempt_however_often_it_is_tried(disk, whole):
    for _ in range(5):
        with pytest.raises(BackendError, match="down"):
            label(disk, label_turn=out)
        assert statuses(disk) == {("pending", 12)}
    assert label(disk).done == 12 and notes(disk) == whole


def test_an_outage_in_the_middle_leaves_no_hole(disk, whole):
    left = iter(range(5))

    def dies(call: Any) -> Any:
        return out(call) if next(left, None) is None else read(call)

    with pytest.raises(BackendError):
        label(disk, label_turn=dies)
    assert statuses(disk) == {("done", 5), ("pending", 7)}
    assert label(disk).done == 7 and notes(disk) == whole


def test_one_turn_that_the_endpoint_refuses_fails_and_the_others_are_labelled(disk):
    done = label(disk, label_turn=lambda call: out(call) if "Rex4" in said(call) else read(call))
    assert done.done == 11 and len(done.failed) == 1 and "down" in next(iter(done.failed.values()))


def test_the_last_turn_that_the_endpoint_refuses_is_told_and_waits(disk):
    with pytest.raises(BackendError):
        label(disk, label_turn=lambda call: out(call) if "Rex11" in said(call) else read(call))
    assert statuses(disk) == {("done", 11), ("pending", 1)}


def test_without_a_model_nothing_is_tried(disk, whole):
    with dspy.context(lm=None):
        for _ in range(4):
            with pytest.raises(UsageError, match="no model"):
                label_memory(disk, FusedStitcher())
    assert label(disk).done == 12 and notes(disk) == whole


def test_a_turn_is_added_once_whatever_keeps_it_from_being_labelled(tmp_path):
    memory = Memory.open(tmp_path / "memory", labeler=FusedStitcher())
    memory.disk.add_history(history_of(*(f"trip: we decide on the hotel Rex{at}" for at in range(60))))

    def spent(call: Any) -> Any:
        raise BudgetStop("calls", "the budget is used up")

    for number, (step, words) in enumerate([(out, "down"), (spent, "used up"), (None, "no model")]):
        lm = attentive(label_turn=step) if step else None
        with dspy.context(lm=lm):
            added = memory.add({"speaker": "Ann", "text": f"trip: one more {number}"}, session="more")
        assert added.turns == 1 and words in added.pending and added.pending.count(words) == 1
        if lm is not None:
            assert sum(call.step == "label_turn" for call in lm.engine.calls) <= 3
    with dspy.context(lm=attentive()):
        assert memory.add({"speaker": "Ann", "text": "trip: the last"}, session="more").pending == ""
    assert memory.store.notebook.size == 64 == memory.store.size


def test_a_damaged_note_is_told_and_the_turn_is_stored_once(tmp_path):
    memory = Memory.open(tmp_path / "memory", labeler=FusedStitcher())
    memory.disk.add_history(history_of(*TEXTS))
    with dspy.context(lm=attentive()):
        memory.label()
        with memory.disk.database.write() as db:
            db.exec_driver_sql("UPDATE note SET content = '{' WHERE number = 1")
        again = Memory.open(tmp_path / "memory", labeler=FusedStitcher())
        added = again.add({"speaker": "Ann", "text": "trip: one more"}, session="more")
    assert added.turns == 1 and "cannot be read" in added.pending and again.store.size == 13


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_lock_of_another_user_does_not_keep_the_owner_of_the_memory_out(disk):
    label(disk)
    lock = disk.path / ".labelling.lock"
    assert lock.stat().st_mode & 0o666 == 0o666


def test_a_lock_that_cannot_be_opened_says_which_file(disk):
    (disk.path / ".labelling.lock").mkdir()
    with pytest.raises(UsageError, match=r"\.labelling\.lock cannot be opened for writing"):
        label(disk)


def test_a_merged_label_that_is_made_again_after_a_forget_stays_merged(tmp_path):
    seeds = {
        "events": [{"name": name, "meaning": ""} for name in ("proposes", "asks", "decides", "reports")],
        "entities": [{"name": "price", "meaning": ""}],
    }

    def fee(call: Any) -> Any:
        return read(call) | {"entities": ["cost"] if "fee" in said(call) else []}

    def same(call: Any) -> Any:
        pairs = re.findall(r"^(p\d+) \| [^|]* \| price \| cost", call.prompt, re.MULTILINE)
        return {"same": [{"pair": pair, "name": "price"} for pair in pairs]}

    with dspy.context(lm=attentive(seed_vocabulary=seeds, label_turn=fee, merge_labels=same)):
        memory = Memory.open(tmp_path / "memory", labeler=FusedStitcher())

        def add(session: str, count: int, text: str, source: str = "") -> None:
            for at in range(count):
                memory.disk.add_turn(session, {"speaker": "Ann", "text": f"{text} {at}"}, source or session)

        add("first", 60, "chat: told number")
        add("a", 20, "boat: the fee of Oak")
        add("a", 1, "boat: told zorb", "a2")
        add("b", 20, "tax: told more")
        memory.label()
        bank = memory.store.notebook.bank
        price = bank.find("entity", "price")
        assert price is not None
        old = next(label.id for label in bank.labels.values() if label.name == "cost")

        def found(label_id: str) -> int:
            return len(memory.search("Oak", k=99, labels=[label_id]))

        assert found(price.id) == found(old) == 20
        memory.forget("a2")
        memory.label()
        assert found(price.id) == found(old) == 20 == len(memory.store.notebook.bearers([price.id]))
    with memory.disk.database.read() as db:
        assert any(event["event"] == "merged" for event in label_events(db))
