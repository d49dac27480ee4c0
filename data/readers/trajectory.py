"""Turns agent trajectories, tau-bench runs and SWE-agent .traj files, into a history.

Rewards, gold actions and what else an evaluation wrote beside the messages are left in the file.
"""

from collections.abc import Iterator
from itertools import takewhile

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session
from stitchjam.data.readers.chat import message_rows
from stitchjam.data.readers.rows import Row, read_records, require_new
from stitchjam.data.readers.source import Origin, Source, new_session_id
from stitchjam.data.records import History

__all__ = ["read_swe_agent", "read_tau_bench"]


def read_tau_bench(path: Origin) -> History:
    """Read tau-bench runs, {"task_id", "trial", "traj": [messages]} each: a session STEM/task-0-trial-0 for each.

    Runs without a message, which is how tau-bench writes those that failed, are left out.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form, a run is there twice, or no run has messages; the message names file, line
            and field.
    """
    source = Source.of(path)
    seen: set[str] = set()
    sessions = [
        build_session(f"{source.stem}/{_run(row, seen)}", "", message_rows(row.part("traj").items()))
        for row in read_records(source)
        if row.part("traj").items()
    ]
    if not sessions:
        raise DataError(f"{source.name}, line 1: expected a run with messages, found none; give runs that took place")
    return History(id=source.stem, sessions=tuple(sessions))


def read_swe_agent(path: Origin) -> History:
    """Read a SWE-agent trajectory as one session: the task, then what the agent said and what came back, step by step.

    The task are the messages of "history" before the agent's first, without demonstrations. The agent speaks as
    "assistant", its environment as "tool"; an action is added to a response that does not show it.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form; the message names file, line and field.
    """
    source = Source.of(path)
    taken: dict[str, int] = {}
    sessions = [
        build_session(new_session_id(source.stem, "", taken), "", [*message_rows(_task(row)), *_steps(row)])
        for row in read_records(source)
    ]
    return History(id=source.stem, sessions=tuple(sessions))


def _run(row: Row, seen: set[str]) -> str:
    name = f"task-{row.name('task_id')}-trial-{row.name('trial', '0')}"
    return require_new(Row(row.where, {"id": name}), "id", seen)


def _task(row: Row) -> tuple[Row, ...]:
    messages = (message for message in row.entries("history") if not message.part("is_demo").value)
    return tuple(takewhile(lambda message: message.name("role") != "assistant", messages))


def _steps(row: Row) -> Iterator[dict[str, str]]:
    steps = row.part("trajectory")
    if not steps.items():
        raise steps.fail("at least one step")
    for step in steps.items():
        response, action = step.text("response", ""), step.text("action", "").strip("\n")
        if action and f"\n{action}\n" not in f"\n{response}\n":
            response = f"{response}\n{action}".lstrip("\n")
        yield {"speaker": "assistant", "text": response}
        if step.text("observation", ""):
            yield {"speaker": "tool", "text": step.text("observation")}
