"""Processes that work on one memory and can be killed at any moment: forked from one that has imported everything."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stitchjam.data.disk import forget as forget_module
from stitchjam.data.disk import store as store_module
from stitchjam.data.disk.database import Database
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.ids import build_session
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.index.terms import bm25s
from stitchjam.data.readers import write_sessions
from stitchjam.data.records import History

Job = Sequence[Any]  # name of a function below, and its arguments

SINGLE = 6  # turns that `ingest` adds one by one after each file


def write_talk(path: Path, word: str, turns: int, length: int = 50) -> Path:
    """A sessions file in which every turn holds `word` and words of its own."""
    rows = [{"speaker": f"Ann{at % 2}", "text": f"{word} says {word}{at} of {at * at}"} for at in range(turns)]
    parts = [rows[at : at + length] for at in range(0, turns, length)]
    sessions = (build_session(f"{word}-{at}", "", part) for at, part in enumerate(parts))
    write_sessions(path, History(id=word, sessions=tuple(sessions)))
    return path


def ingest(memory: str, files: Sequence[str], said: str) -> None:
    """Add files and single turns one after the other; what an add returned for is written down in `said`."""
    with open(said, "ab", buffering=0) as acknowledged, opened(memory) as store:
        for number, file in enumerate(files):
            store.add_file(file)
            acknowledged.write(f"{file}\n".encode())
            for at in range(SINGLE):
                text = f"after file {number} came {at}"
                store.add_turn("aside", {"speaker": "Bob", "text": text, "external_id": text}, source="asides")
                acknowledged.write(f"{text}\n".encode())


def add(memory: str, files: Sequence[str]) -> None:
    """Add files."""
    with opened(memory) as store:
        for file in files:
            store.add_file(file)


def add_turns(memory: str, session: str, speaker: str, turns: int) -> None:
    """Add turns to a session one by one."""
    with opened(memory) as store:
        for at in range(turns):
            store.add_turn(session, {"speaker": speaker, "text": f"{speaker} {at}"}, source=speaker)


def forget(memory: str, source: str, moment: str = "") -> None:
    """Forget a source; ready when the memory is open. `moment` names one of `MOMENTS`, at which the process dies."""
    with opened(memory) as store:
        if moment:
            MOMENTS[moment]()
        say(f"ready {os.getpid()}")
        store.forget(source)


def open_at(memory: str, moment: float) -> None:
    """Open a memory at a moment, so that several processes do at once."""
    while time.time() < moment:
        pass
    with opened(memory) as store:
        store.stats()


def hold(memory: str, until: str) -> None:
    """Keep a read transaction open until a file exists; ready when it is."""
    with opened(memory) as store, store.database.read() as db:
        db.exec_driver_sql("SELECT count(*) FROM turn").all()
        say(f"ready {os.getpid()}")
        while not os.path.exists(until):
            time.sleep(0.01)


@contextmanager
def opened(memory: str) -> Iterator[DiskStore]:
    store = DiskStore(memory)
    yield store
    store.close()


def _die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_after_vacuum() -> None:
    def compact(self: Database, patience: float | None = None) -> bool:
        sqlite3.connect(self.file, isolation_level=None).execute("VACUUM")
        return _die()

    Database.compact = compact


def _die_after_compact() -> None:
    whole = Database.compact
    Database.compact = lambda self, patience=None: whole(self, patience) and _die()


MOMENTS: dict[str, Callable[[], None]] = {
    "committed, not erased": lambda: setattr(forget_module, "erase", _die),
    "replies erased": lambda: setattr(Database, "compact", _die),
    "file written anew, log not emptied": _die_after_vacuum,
    "erased, not noted": _die_after_compact,
    "erased, index not made": lambda: setattr(store_module, "refresh", _die),
}

JOBS: dict[str, Callable[..., None]] = {job.__name__: job for job in (ingest, add, add_turns, forget, open_at, hold)}
READY_BY_THEMSELVES = (forget, hold)


class Victims:
    """The process that forks; a victim is ready when it is forked, or says so itself."""

    def __init__(self) -> None:
        quiet = {"OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | quiet
        )
        assert self._line() == ["started"]

    def start(self, *jobs: Job) -> list[int]:
        """Fork a victim for each job; their process ids when all are ready."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        return [int(self._line("ready")[1]) for _ in jobs]

    def wait(self, count: int = 1) -> list[int]:
        """How those that were started ended: 0, or minus the number of the signal, in the order of the jobs."""
        return [int(self._line("ended")[1]) for _ in range(count)]

    def run(self, *jobs: Job) -> float:
        """Run jobs to their end, side by side; seconds from ready to ended."""
        self.start(*jobs)
        began = time.monotonic()
        assert self.wait(len(jobs)) == [0] * len(jobs)
        return time.monotonic() - began

    def kill(self, job: Job, delay: float) -> bool:
        """Start a job and kill it so many seconds after it is ready; False when it had ended."""
        (victim,) = self.start(job)
        time.sleep(delay)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        (ended,) = self.wait()
        assert ended in (0, -signal.SIGKILL)
        return ended != 0

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def _line(self, kind: str = "") -> list[str]:
        assert self._process.stdout
        words = self._process.stdout.readline().split()
        assert not kind or words[:1] == [kind], f"{words} where {kind!r} was awaited"
        return words


def say(line: str) -> None:
    """One line in one write, which those of other processes cannot cut."""
    os.write(1, f"{line}\n".encode())


def _fork(job: Job) -> int:
    pid = os.fork()
    if pid:
        return pid
    status, work = 1, JOBS[job[0]]
    try:
        if work not in READY_BY_THEMSELVES:
            say(f"ready {os.getpid()}")
        work(*job[1:])
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def _serve() -> None:
    open_encoder("static")
    bm25s()
    say("started")
    for line in sys.stdin:
        victims = [_fork(job) for job in json.loads(line)]
        for victim in victims:
            say(f"ended {os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])}")


if __name__ == "__main__":
    _serve()
