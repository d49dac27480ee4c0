"""Commands that read the rows of evaluations: eval compare, eval report."""

from pathlib import Path
from typing import Annotated

import typer

from stitchjam.cli.eval import eval_app
from stitchjam.cli.shared import Json, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

RowFile = Annotated[Path, typer.Argument(help="Rows that eval --out wrote.")]


@eval_app.command("compare")
def eval_compare(
    first: RowFile,
    second: Annotated[Path, typer.Argument(help="Rows of another system on the same questions.")],
    as_json: Json = False,
) -> None:
    """How much better the second is, with an interval from a paired bootstrap over histories or questions."""
    from stitchjam.optimizers.compare import compare
    from stitchjam.optimizers.rows import read_report
    from stitchjam.optimizers.tables import kind_changes

    before, after = read_report(first), read_report(second)
    found = compare(before, after)
    names = ("first", "second") if before.name == after.name else (before.name, after.name)
    drawn = f"{found.clusters} histories" if found.clusters else f"{found.n} questions"
    result(
        as_json,
        {"metric": before.metric, **found.model_dump(mode="json")},
        *kind_changes(found),
        f"{before.metric} on {found.n} questions: {names[0]} {found.before:.3f} -> {names[1]} {found.after:.3f}",
        f"gain {found.gain:+.3f} (95 % interval {found.low:+.3f} to {found.high:+.3f} from {drawn}; "
        f"{found.better} better, {found.worse} worse)",
    )


@eval_app.command("report")
def eval_report(
    files: Annotated[list[Path], typer.Argument(help="Rows that eval --out wrote, a file for each system.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write one page with plots and every answer.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Systems beside each other, recomputed from their rows: scores, types, cost, and gains over the first."""
    from stitchjam.optimizers import tables
    from stitchjam.optimizers.pages.figures import systems
    from stitchjam.optimizers.pages.page import write_page
    from stitchjam.optimizers.rows import read_report

    if html and html.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--html names the page to write, such as report.html, not {html}")
    reports = [read_report(file) for file in files]
    found = systems(reports)
    if html:
        write_page(html, reports)
    shown = (
        *tables.head_lines(reports),
        tables.systems_table(found),
        *tables.kinds_tables(found),
        *tables.note_lines(found),
    )
    gains = (*tables.rollout_lines(reports), *tables.gain_lines(reports))
    result(as_json, {"systems": [one.as_value() for one in found], "gains": gains}, *shown, *gains)
    if html:
        say(f"wrote {html}")
