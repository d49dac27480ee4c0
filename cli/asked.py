"""Turns options of eval into what is evaluated: histories with questions, and the system that answers them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stitchjam.cli.shared import say
from stitchjam.data.errors import UsageError

__all__ = ["cases_of", "say_filed", "say_labelled", "say_tree", "system_of"]


def cases_of(
    bench: str | None,
    data: Path | None,
    own: tuple[Any, Any, Any, Any],
    which: tuple[str | None, int | None, int],
    encoder: str,
    only: Sequence[str] | None = None,
) -> Any:
    """Histories with the questions to ask: of a benchmark, or of files or a memory of the user's own."""
    from stitchjam.data.cases import bench_cases, own_cases
    from stitchjam.data.console import working

    if data and not bench:
        raise UsageError("--data is the file or folder of a benchmark; name it with --bench, or give --history")
    history, questions, memory, memories = own
    if memories and not bench:
        raise UsageError("--memories are those of a benchmark; name it with --bench, or ask a single one with --memory")
    if only and not bench:
        raise UsageError("--only names histories of a benchmark; name it with --bench, or leave it out")
    if bench and (history or questions or memory):
        raise UsageError("--bench brings its own histories and questions; leave out --history, --questions, --memory")
    split, limit, seed = which
    with working(sys.stderr, "reading"):
        if bench:
            return bench_cases(bench, data, split or "all", limit, seed, encoder, memories, only or ())
        return own_cases(history, questions, memory, split, limit, encoder)


def system_of(
    system: str, program: str, effort: Any, k: int, tokens: int, limits: tuple[int | None, int | None]
) -> tuple[str, Any, str]:
    """The kind of program that a system is, the system, and what to call it; `limits` are rounds and sessions."""
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.jam.researcher import EFFORTS
    from stitchjam.programs.systems import Terms, open_system

    rounds, found = limits
    researches = system.split(" ")[0] == "researcher"
    if (rounds or found) and not researches:
        raise UsageError("--rounds and --found are limits of the system researcher; leave them out")
    if system == "program":
        return *open_program(program, effort), program
    own = EFFORTS[effort]
    own = own._replace(rounds=rounds or own.rounds, k=found or own.k)
    told = f" rounds={own.rounds} k={own.k}" if rounds or found else f" {effort}"
    settings = {"full_context": f" {tokens} tokens", "bm25": f" k={k}", "hybrid": f" k={k}", "memos": f" k={k}"}
    label = system + (told if researches else settings.get(system, ""))
    return "memory_agent", open_system(system, Terms(effort, own if rounds or found else None, k, tokens)), label


def say_labelled(case: Any) -> None:
    """Say of how many turns of a history recall by intent knows the labels.

    Raises:
        UsageError: of none.
    """
    noted, turns = case.store.notebook.size, case.store.size
    if not noted:
        raise UsageError(
            f"nothing is noted of {case.name!r}; label it first: stitchjam label; or a benchmark, with label --bench, "
            "and then name its memories: eval --memories"
        )
    if noted < turns:
        say(f"{case.name}: {noted:,} of {turns:,} turns are labelled; similarity alone finds the others")


def say_filed(case: Any) -> None:
    """Say how many sessions of a history have a memo.

    Raises:
        UsageError: none has.
    """
    filed, sessions = case.store.tree.size, len(case.store.session_times)
    if not filed:
        raise UsageError(
            f"no session of {case.name!r} is filed; file it first: stitchjam memorize; or a benchmark, with memorize "
            "--bench, and then name its memories: eval --memories"
        )
    if filed < sessions:
        say(f"{case.name}: {filed:,} of {sessions:,} sessions are filed")


def say_tree(case: Any) -> None:
    """Say that a researcher has no folders, where a history is not filed: it is then one without a tree."""
    if case.store.tree.size:
        say_filed(case)
    else:
        say(f"{case.name}: nothing is filed, so there are no folders; to file it: stitchjam memorize")
