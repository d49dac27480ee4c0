"""Turns LM replies into a jsonl file, and the file back into replies: resume after a crash, and tests without a model.

It stands at `dspy.cache`, which sees everything that changes a prompt; an engine would not see rollouts.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import dspy
from dspy.clients.cache import Cache

from stitchjam.backends.usage import Usage, caller, settle
from stitchjam.data.errors import DataError, UsageError

__all__ = ["Mode", "ReplayCache", "replies"]

Mode = Literal["record", "replay", "again"]


class ReplayCache(Cache):
    """dspy's cache over one jsonl file, one reply a line; hits are counted in the ambient ledger.

    Args:
        path: the file; made when missing. None keeps replies in memory only.
        mode: "record" calls the model for an unknown prompt; "replay" raises DataError instead; "again" calls it for
            each prompt once, and its reply stands for the one before.
    """

    def __init__(self, path: Path | None, mode: Mode = "record"):
        super().__init__(enable_disk_cache=False, enable_memory_cache=True, disk_cache_dir=None)
        self.path, self.mode, self._write_lock = path, mode, threading.Lock()
        self._file: IO[str] | None = None
        self._unfinished = False  # whether the last line lacks its line break
        if path is not None and path.exists():
            self._read(path)
            if mode == "again":
                self.memory_cache.clear()
        elif path is not None and mode == "replay":
            raise DataError(f"there are no recorded replies in {path}; record some with mode='record'")

    def _read(self, path: Path) -> None:
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise _unusable(path, error) from error
        self._unfinished = bool(lines[-1].strip())
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                self.memory_cache[row["key"]] = row["value"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if number == len(lines):  # cut off by a crash: that reply is simply asked for again
                    self._drop_tail(path, sum(map(len, lines)) + len(lines) - 1, len(line))
                    self._unfinished = False
                    return
                raise DataError(f"{path}, line {number}: not a recorded reply ({error}); delete the line") from None

    def _drop_tail(self, path: Path, size: int, length: int) -> None:
        if self.mode != "replay":
            with path.open("rb+") as file:
                if file.seek(0, 2) == size:  # else another process has mended it
                    file.truncate(size - length)

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
            settle(str(request.get("model", "")), _kept(value))
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
        """Keep a reply; it is on disk when this returns. An empty one is not kept, so that it can be asked again."""
        if isinstance(value, dict) and not any(value.get("outputs") or ()):
            return
        super().put(request, value, ignored_args_for_cache_key, enable_memory_cache)
        if self.path is None:
            return
        try:
            row = {"key": self.cache_key(request, ignored_args_for_cache_key), "step": caller(), "value": value}
            line = json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n"
        except TypeError:
            return  # dspy.LM(..., engine="litellm") keeps objects of litellm's; they last as long as this process
        with self._write_lock:
            self._append(self.path, line)

    def _append(self, path: Path, text: str) -> None:
        try:
            if self._file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                # A model may write half a surrogate pair; json.loads reads it back as it was.
                self._file = path.open("a", encoding="utf-8", errors="surrogatepass", newline="\n")
            self._file.write("\n" + text if self._unfinished else text)
            self._file.flush()
            self._unfinished = False
        except OSError as error:
            raise _unusable(path, error) from error

    def check_writable(self, path: Path) -> None:
        """Open the file for writing; raises UsageError when that fails."""
        with self._write_lock:
            self._append(path, "")

    def close(self) -> None:
        """Close the file; a later reply opens it again."""
        with self._write_lock:  # a thread that is left behind may be writing
            if self._file is not None:
                with contextlib.suppress(OSError):  # a full disk was reported when the reply could not be kept
                    self._file.close()
                self._file = None


def _kept(value: Any) -> Usage:
    """A reply from the cache, with the tokens that it once took."""
    told = value.get("usage") if isinstance(value, dict) else None
    tokens = told if isinstance(told, dict) else {}
    read, written = (tokens.get(name) or 0 for name in ("prompt_tokens", "completion_tokens"))
    return Usage(cache_hits=1, kept_input_tokens=read, kept_output_tokens=written)


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"replies cannot be kept in {path} ({error.strerror}); choose another folder")


@contextmanager
def replies(path: Path | None, mode: Mode = "record") -> Iterator[ReplayCache]:
    """Answer from `path` where possible, for all LM calls of this process until the block ends.

    Raises:
        UsageError: the file cannot be read or written; found out before the first call is paid for.
        DataError: a line of it is damaged, or there is no file to replay.
    """
    # dspy looks this attribute up at every call; it has no per-context form.
    holder: Any = dspy
    before, cache = holder.cache, ReplayCache(path, mode)
    if path is not None and mode != "replay":
        cache.check_writable(path)
    holder.cache = cache
    try:
        yield cache
    finally:
        holder.cache = before
        cache.close()
