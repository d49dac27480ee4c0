"""Turns LM replies into a jsonl file, and the file back into replies: resume after a crash, and tests without a model.

It stands at `dspy.cache`, which sees everything that changes a prompt; an engine would not see rollouts.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import dspy
from dspy.clients.cache import Cache

from stitchjam.backends.usage import Usage, caller, settle
from stitchjam.data.errors import DataError

__all__ = ["ReplayCache", "replies"]

Mode = Literal["record", "replay"]


class ReplayCache(Cache):
    """dspy's cache over one jsonl file, one reply a line; hits are counted in the ambient ledger.

    Args:
        path: the file; made when missing. None keeps replies in memory only.
        mode: "record" calls the model for an unknown prompt; "replay" raises DataError instead.
    """

    def __init__(self, path: Path | None, mode: Mode = "record"):
        super().__init__(enable_disk_cache=False, enable_memory_cache=True, disk_cache_dir=None)
        self.path, self.mode, self._write_lock = path, mode, threading.Lock()
        self._file: IO[str] | None = None
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                self.memory_cache[row["key"]] = row["value"]
            except (ValueError, KeyError, TypeError) as error:
                if number == len(lines):  # cut off by a crash: that reply is simply asked for again
                    self._drop_tail(path, len(line))
                    return
                raise DataError(f"{path}, line {number}: not a recorded reply ({error}); delete the line") from None

    def _drop_tail(self, path: Path, length: int) -> None:
        if self.mode == "record":
            with path.open("rb+") as file:
                file.truncate(path.stat().st_size - length)

    def cache_key(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> str:
        """Hash of model, messages, options and rollout; the sync and the async form share replies."""
        request = {name: value for name, value in request.items() if name != "_fn_identifier"}
        return super().cache_key(request, ignored_args_for_cache_key)

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> Any:
        """The recorded reply, or None.

        Raises:
            DataError: in replay mode, when the prompt was never recorded.
        """
        value = super().get(request, ignored_args_for_cache_key)
        if value is not None:
            settle(str(request.get("model", "")), Usage(cache_hits=1))
        elif self.mode == "replay":
            raise DataError(
                f"no recorded reply for this prompt of step {caller()!r} in {self.path}; the prompt has changed: "
                f"record again with mode='record'"
            )
        return value

    def put(
        self,
        request: dict[str, Any],
        value: Any,
        ignored_args_for_cache_key: list[str] | None = None,
        enable_memory_cache: bool = True,
    ) -> None:
        """Keep a reply; it is on disk when this returns."""
        super().put(request, value, ignored_args_for_cache_key, enable_memory_cache)
        if self.path is not None:
            row = {"key": self.cache_key(request, ignored_args_for_cache_key), "step": caller(), "value": value}
            line = json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"
            with self._write_lock:
                self._open().write(line)
                self._open().flush()

    def _open(self) -> IO[str]:
        if self._file is None:
            assert self.path is not None
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
        return self._file

    def close(self) -> None:
        """Close the file; a later reply opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


@contextmanager
def replies(path: Path | None, mode: Mode = "record") -> Iterator[ReplayCache]:
    """Answer from `path` where possible, for all LM calls of this process until the block ends."""
    # dspy looks this attribute up at every call; it has no per-context form.
    holder: Any = dspy
    before, cache = holder.cache, ReplayCache(path, mode)
    holder.cache = cache
    try:
        yield cache
    finally:
        holder.cache = before
        cache.close()
