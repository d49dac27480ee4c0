"""Turns a report on labelling steps into tables."""

from collections.abc import Sequence
from typing import Any

from stitchjam.optimizers.show import table
from stitchjam.optimizers.steps.records import Scored, StepReport

__all__ = ["step_tables"]

_MOST = 20  # histories with a line of their own
_PLAIN = ("ratio", "per_turn")
_TYPING = ("mapped", "mapped_once", "v_measure", "per_turn", "ratio")
_TABLES = (
    (
        "where scopes change within sessions, in percent (of pk and window diff less is better)",
        "scope",
        ("pk", "window_diff", "boundary_precision", "boundary_recall", "boundary_f1"),
    ),
    (
        "which turns share a scope, in percent (ratio: scopes given, for each of gold)",
        "scope",
        ("homogeneity", "completeness", "v_measure", "b3_precision", "b3_recall", "b3_f1", "ratio"),
    ),
    ("what turns do, in percent (per turn: labels given; ratio: labels given, for each of gold)", "events", _TYPING),
    ("which types of things turns are about, likewise", "entities", _TYPING),
    ("what notes keep, in percent", "note", ("references_resolved", "key_tokens_kept")),
)


def step_tables(report: StepReport) -> list[Any]:
    """The figures as tables, one for each thing that steps say, and lines on how to read them.

    A column "turns" tells what the line rests on; a figure that rests on fewer says so behind it.
    """
    shown = report.histories[:_MOST] if len(report.histories) > 1 else ()
    lines: list[Any] = [_labelled(report.together)]
    for title, kind, names in _TABLES:
        rows = [
            row
            for one in (*shown, report.together, *report.baselines)
            if (row := _row(one, [f"{kind}.{name}" for name in names]))
        ]
        if rows:
            heads = [name.replace("b3", "B3").replace("_", " ") for name in names]
            lines += [title, table(("history", "turns", *heads), rows, right=("turns", *heads))]
    if len(lines) == 1:
        lines.append("none of these turns has gold for these steps; take more of them: --turns, --histories")
    if left := len(report.histories) - len(shown or report.histories):
        lines.append(f"{left} more histories are in the report")
    return [*lines, _HOW]


_HOW = (
    'all: the mean over histories, weighted by the turns that a figure rests on; "one label" and "a label a turn" are '
    "what these outputs score, which say nothing"
)


def _labelled(together: Scored) -> str:
    missing = together.turns - together.labelled
    note = f"; {missing:,} got no label, which counts as no scope, no type and an empty note" if missing else ""
    return f"labels of {together.turns:,} turns with gold{note}"


def _row(one: Scored, names: Sequence[str]) -> tuple[Any, ...] | None:
    turns = max((one.figures[name].turns for name in names if name in one.figures), default=0)
    return (one.name, f"{turns:,}", *(_cell(one, name, turns) for name in names)) if turns else None


def _cell(one: Scored, name: str, turns: int) -> str:
    figure = one.figures.get(name)
    if figure is None:
        return "-"
    shown = f"{figure.value:.2f}" if name.endswith(_PLAIN) else f"{100 * figure.value:.1f}"
    return shown if figure.turns == turns else f"{shown} (n {figure.turns:,})"
