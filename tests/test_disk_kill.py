"""kill -9 at any moment: what an add returned from stays, what it did not is there whole or not at all.

The moments are random but spread over the whole run, and drawn from a seed: five in every run of the tests, fifty
nightly.
"""

import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from victims import MOMENTS, SINGLE, ingest, write_talk

from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import UsageError

TURNS = 540  # more than search counts by itself, so that a segment is sealed
MANY = [pytest.param(5, id="5"), pytest.param(50, id="50", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return [str(write_talk(folder / f"{word}.jsonl", word, TURNS)) for word in ("xenon", "yttrium")]


@pytest.fixture(scope="module")
def whole(victims, files, tmp_path_factory):
    """A memory that was ingested undisturbed, what its run acknowledged, and the seconds it took."""
    folder = tmp_path_factory.mktemp("whole")
    seconds = victims.run(["ingest", str(folder / "memory"), files, str(folder / "said")])
    return folder / "memory", (folder / "said").read_text().splitlines(), seconds


class Moments:
    """Random moments, one in each of so many equal parts of a run.

    The machine may be faster now than when the run was measured: after a miss the others come sooner.
    """

    def __init__(self, count, seconds):
        self.count, self.seconds, self.killed = count, seconds, 0

    def __iter__(self):
        chance = random.Random(self.count)
        for part in range(self.count):
            yield self.seconds * (part + chance.random()) / self.count

    def note(self, killed):
        self.killed += killed
        self.seconds *= 1 if killed else 0.8


def state_of(store):
    """All that an undisturbed run and one that was resumed must agree in."""
    stats = store.stats()
    return store.store.sessions, stats["counts"], [(row["name"], row["turns"]) for row in stats["sources"]]


def check(store):
    verified = store.verify()
    assert (verified.log_problems, verified.index_problems) == ((), ())
    turns = store.store.turns
    assert len({turn.id for turn in turns}) == len(turns) == verified.turns
    return Counter(turn.text.split()[0] for turn in turns), {turn.text for turn in turns}


@pytest.mark.parametrize("count", MANY)
def test_an_ingestion_that_is_killed_loses_nothing_and_is_completed_by_a_second_run(
    count, victims, files, whole, tmp_path
):
    undisturbed, everything, seconds = whole
    wanted, moments = state_of(DiskStore(undisturbed)), Moments(count, seconds)
    for at, delay in enumerate(moments):
        memory, said = tmp_path / str(at), tmp_path / f"{at}.said"
        moments.note(victims.kill(["ingest", str(memory), files, str(said)], delay))
        store = DiskStore(memory)
        words, texts = check(store)
        acknowledged = said.read_text().splitlines() if said.exists() else []
        assert acknowledged == everything[: len(acknowledged)]
        for file in files:
            assert words[Path(file).stem] in ((TURNS,) if file in acknowledged else (0, TURNS))
        assert {line for line in acknowledged if line not in files} <= texts
        assert words["after"] <= len(acknowledged) + 1
        store.close()
        ingest(str(memory), files, str(said))
        store = DiskStore(memory)
        check(store)
        assert state_of(store) == wanted
        store.close()
        shutil.rmtree(memory)
    assert moments.killed >= count // 2  # a victim that was faster than the clock proves nothing
    assert len(everything) == len(files) * (SINGLE + 1)


def require_forgotten_or_not_begun(memory, files):
    """Open a memory whose forget was killed: the source is wholly there or wholly gone; then forget it for good."""
    gone, kept = (Path(file).stem for file in files)
    store = DiskStore(memory)
    words, _ = check(store)
    assert words[gone] in (0, TURNS)
    assert (words[kept], words["after"]) == (TURNS, len(files) * SINGLE)
    if words[gone]:
        assert len(store.store.search(gone, k=TURNS)) > 0 == len(store.stats()["tombstones"])
        assert store.forget(files[0]).turns == TURNS
    require_no_trace(memory, gone)
    with pytest.raises(UsageError, match="there is no source"):
        store.forget(files[0])
    require_gone(store, gone, kept)
    store.close()


def require_gone(store, gone, kept):
    (tombstone,) = store.stats()["tombstones"]
    assert tombstone["erased"] >= tombstone["forgotten"]
    words, _ = check(store)
    assert (words[gone], words[kept]) == (0, TURNS)
    assert not any(gone in hit.turn.text for hit in store.store.search(gone))
    assert store.store.search(f"{kept}7", k=1)[0].turn.text.startswith(kept)


def require_no_trace(folder, text):
    assert [path.name for path in folder.rglob("*") if text.encode() in path.read_bytes()] == []


def copied(whole, to):
    shutil.copytree(whole[0], to)
    return to


@pytest.mark.parametrize("count", MANY)
def test_a_source_whose_forget_is_killed_is_wholly_there_or_wholly_gone(count, victims, files, whole, tmp_path):
    moments = Moments(count, victims.run(["forget", str(copied(whole, tmp_path / "measured")), files[0]]))
    for at, delay in enumerate(moments):
        memory = copied(whole, tmp_path / str(at))
        moments.note(victims.kill(["forget", str(memory), files[0]], delay))
        require_forgotten_or_not_begun(memory, files)
        shutil.rmtree(memory)
    assert moments.killed >= count // 2


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_forget_that_was_committed_is_completed_when_the_memory_is_next_opened(
    moment, victims, files, whole, tmp_path
):
    memory = copied(whole, tmp_path / "memory")
    victims.start(["forget", str(memory), files[0], moment])
    assert victims.wait() == [-signal.SIGKILL]
    DiskStore(memory).close()
    require_no_trace(memory, "xenon")
    require_forgotten_or_not_begun(memory, files)
