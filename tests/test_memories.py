"""A history of a benchmark has a memory of its own in a folder, whatever its name is."""

from pathlib import Path

import pytest
from made_entries import history

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.memories import memory_of_history
from stitchjam.data.records import History

TEXTS = [f"text {at}" for at in range(6)]


@pytest.fixture
def of(tmp_path):
    """The memory of a history in the folder; closed at the end."""
    opened = []

    def memory(told, **more):
        opened.append(memory_of_history(tmp_path / "memories", told, encoder="none", **more))
        return opened[-1]

    yield memory
    for one in opened:
        one.close()


NAMES = [
    "plain",
    "",
    ".",
    "..",
    "../up",
    "/root",
    "a/b",
    "a\\b",
    "C:x",
    ".hidden",
    "end.",
    "with space",
    "new\nline",
    "nul\0",
    "日本語",
    "🎉",
    "é" * 200,
    "a" * 300,
    "half \ud800 pair",
    "*?<>|",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_history_of_any_name_has_a_memory_in_the_folder(of, tmp_path, name):
    told = history(*TEXTS, session="s").model_copy(update={"id": name})
    if "\ud800" in name:  # the name of its source cannot be stored
        with pytest.raises(DataError, match="surrogate"):
            of(told)
        return
    disk = of(told)
    assert disk.path.parent == tmp_path / "memories" and disk.path.is_dir() and not disk.path.name.startswith(".")
    assert disk.store.turns == told.turns
    assert of(told, create=False).path == disk.path and of(told).store.size == 6
    assert {path.name for path in tmp_path.iterdir()} == {"memories"}


def test_a_name_that_can_be_one_of_a_folder_is_that(of):
    assert of(history(*TEXTS, name="conv-26.v1")).path.name == "conv-26.v1"


def test_names_that_look_alike_as_names_of_folders_have_memories_of_their_own(of):
    names = ["a/b", "a_b", "a\\b", "a b", "a:b", "a" * 60, "a" * 61, "a" * 62, "", "history", ".history"]
    disks = [of(history(f"of {at}", name=name, session=f"s{at}")) for at, name in enumerate(names)]
    assert len({disk.path for disk in disks}) == len(names)
    assert [disk.store.turns[0].text for disk in disks] == [f"of {at}" for at in range(len(names))]


def test_another_history_in_the_folder_is_refused(of):
    of(history(*TEXTS))
    for told in (history("other", "words"), history(*TEXTS, session="other"), history(*TEXTS[:3], "else")):
        for create in (True, False):
            with pytest.raises(DataError, match="holds other turns than 'h' has here.*; choose another folder"):
                of(told, create=create)
    assert of(history(*TEXTS)).store.size == 6


def test_a_part_of_a_history_grows_to_the_whole(of):
    whole = history(*TEXTS, size=4)
    for turns in (1, 3, 5, 6, 9):
        assert of(whole.first(turns)).store.size == min(turns, 6)
    assert of(whole, create=False).store.turns == whole.turns


def test_a_memory_that_holds_more_than_the_part_is_refused_with_what_to_do(of):
    whole = history(*TEXTS, size=4)
    of(whole)
    with pytest.raises(DataError, match="or more of them; .* ask for as many turns"):
        of(whole.first(3), create=False)
    with pytest.raises(DataError, match="or more of them"):
        of(whole.first(3))


def test_a_memory_that_holds_less_than_is_asked_is_refused_unless_it_may_be_completed(of):
    whole = history(*TEXTS, size=4)
    of(whole.first(3))
    with pytest.raises(DataError, match="holds 3 of the 6 turns that 'h' has here; add the others first"):
        of(whole, create=False)
    assert of(whole).store.size == 6


def test_a_memory_that_is_not_there_is_not_made_when_it_must_not_be(of, tmp_path):
    with pytest.raises(UsageError, match="holds no memory of 'h'; make it first"):
        of(history(*TEXTS), create=False)
    assert not (tmp_path / "memories").exists()
    (tmp_path / "memories" / "h").mkdir(parents=True)
    with pytest.raises(UsageError, match="there is no memory in"):
        of(history(*TEXTS), create=False)


def test_a_history_without_turns_has_an_empty_memory(of):
    empty = History(id="empty", sessions=())
    assert of(empty).store.size == 0 == of(empty, create=False).store.size


def test_a_turn_that_is_there_twice_does_not_keep_a_memory_from_being_complete(of):
    session = build_session("s", "", [{"speaker": "Ann", "text": "once"}])
    twice = History(id="h", sessions=(session, session))
    assert of(twice).store.size == 1 == of(twice, create=False).store.size


def test_files_of_others_in_the_folder_are_left_alone(of, tmp_path):
    place = tmp_path / "memories" / "h"
    place.mkdir(parents=True)
    Path(place, "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="is no memory of stitchjam"):
        of(history(*TEXTS))
    assert [path.name for path in place.iterdir()] == ["mine.txt"]
