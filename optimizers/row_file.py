"""Turns rows into a file that grows row by row, so that a killed run goes on where it stopped."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from stitchjam.data.errors import UsageError
from stitchjam.optimizers.rows import (
    Key,
    Report,
    Row,
    Run,
    as_line,
    read_run,
    report_of,
    require_file,
    unwritable,
    write_run,
)

__all__ = ["Rows"]


class Rows:
    """The file of a run: the first line says what it is of, each further one is a row; a later one replaces an earlier.

    Args:
        path: made with its folder when missing, continued when it is of the same run.
        run: what is evaluated.
        keys: the questions, in order.

    Raises:
        UsageError: it belongs to another run, another process writes it, or it cannot be read or written.
        DataError: a line is damaged.
    """

    def __init__(self, path: Path, run: Run, keys: Sequence[Key]):
        self.path, self.run, self.keys, self.done = path, run, keys, dict[Key, Row]()
        require_file(path)
        self._lock = FileLock(path.with_name(f".{path.name[:200]}.lock"))
        self._keep(self._hold)
        if path.is_file() and path.stat().st_size:
            before, rows, whole = read_run(path)
            self._require(before)
            self.done = {row.key: row for row in rows}
            if whole < path.stat().st_size:
                self._keep(lambda: os.truncate(path, whole))  # a line that a crash cut off
        else:
            self._keep(lambda: write_run(path, run, ()))

    def add(self, row: Row) -> None:
        """Add a row; it is on disk when this returns."""
        self._keep(lambda: self._append(as_line(row)))
        self.done[row.key] = row

    def drop(self, outcomes: Collection[str]) -> None:
        """Forget rows with these outcomes, so that their questions are asked again; the file keeps them until then."""
        self.done = {key: row for key, row in self.done.items() if row.outcome not in outcomes}

    def settle(self) -> Report:
        """The report over the rows that there are, in the order of the questions.

        A file with all of them is written anew in that order, so that threads leave no trace in it.
        """
        report = report_of(self.run, (self.done[key] for key in self.keys if key in self.done))
        if len(report.rows) == self.run.asked:
            with suppress(OSError):  # all rows are there, if in another order
                write_run(self.path, self.run, report.rows)
        Path(self._lock.lock_file).unlink(missing_ok=True)  # while it is held, so that no one waits for it
        self._lock.release()
        return report

    def _hold(self) -> None:
        """Keep other processes from this file until it is settled, or this process ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"{self.path} is being written by another process; choose another --out") from None

    def _require(self, before: Run) -> None:
        names = {*before.settled, *self.run.settled}
        differ = sorted(name for name in names if before.settled.get(name) != self.run.settled.get(name))
        if differ or before.metric != self.run.metric:
            raise UsageError(
                f"{self.path} holds a run with other {' and '.join(differ or ['metric'])}; choose another --out, or "
                f"delete it to evaluate again"
            )

    def _append(self, line: str) -> None:
        # Not made anew when someone has removed it: its first line would be missing.
        with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND), "w", encoding="utf-8", newline="\n") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _keep(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise unwritable(self.path, error) from None
