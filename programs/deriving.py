"""Turns the folder of a memory into a lock: what is derived there, step after step, only one process may derive.

Several programs derive something of what a memory holds, and all of them can be stopped and go on.
"""

from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from stitchjam.data.errors import UsageError

__all__ = ["Start", "alone", "require_start"]

Start = Literal["on", "retry", "again"]


def require_start(limit: int | None, start: str, items: str) -> None:
    """Raises UsageError for a limit that is no number of items, or a start that is none."""
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise UsageError(f"limit is a number of {items}, or None, not {limit!r}")
    if start not in get_args(Start):
        raise UsageError(f"start is one of {', '.join(get_args(Start))}, not {start!r}")


def alone(path: Path, doing: str) -> Any:
    """A context in which no other process, and no other thread, does the same in this memory.

    Args:
        path: the memory.
        doing: what is done, such as "labelling".

    Raises:
        UsageError: someone else does it now.
    """
    file = path / f".{doing}.lock"
    try:
        return FileLock(file, mode=0o666).acquire(timeout=0)  # whoever may write the memory may do the same
    except Timeout:
        raise UsageError(
            f"another process is {doing} {path}, or another thread, and what is added meanwhile as well; wait for it, "
            "or stop it"
        ) from None
    except OSError as error:
        raise UsageError(f"{file} cannot be opened for writing ({error.strerror}); mend its permissions") from None
