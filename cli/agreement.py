"""The command that measures a judge on answers that people judged: eval judge."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stitchjam.cli.eval import eval_app
from stitchjam.cli.shared import CONFIG, RUNS, Config, Json, Model, Threads, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []


@eval_app.command("judge")
def eval_judge(  # noqa: PLR0913
    labels: Annotated[
        Path | None,
        typer.Argument(help="Answers that people judged (jsonl; see docs/benchmarks.md). [default: the sample's]"),
    ] = None,
    judge: Annotated[str, typer.Option(help="Artifact folder of a compiled one.")] = "answer_judge",
    model: Model = None,
    config: Config = CONFIG,
    out: Annotated[Path | None, typer.Option(help="Write one row an answer here, for eval compare (jsonl).")] = None,
    runs: Annotated[Path, typer.Option(help="Replies are kept here, so that a stopped run goes on.")] = RUNS,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """How far the judge of answers agrees with people: accuracy and Cohen's kappa with an interval."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.data.console import resumable
    from stitchjam.optimizers.agreement import agreement, agreement_lines, judge_labels, read_labels
    from stitchjam.optimizers.progress import progress_shown
    from stitchjam.optimizers.report import usage_rows, usage_table
    from stitchjam.optimizers.rows import require_free, write_rows
    from stitchjam.programs.artifact import open_program
    from stitchjam.programs.judge import AnswerJudge

    if out:
        require_free(out)
    known, (name, program) = read_labels(labels), open_program(judge)
    if not isinstance(program, AnswerJudge):
        raise UsageError(f"{judge!r} is a program of the kind {name!r}; give the artifact of an answer_judge")
    bindings = open_bindings(config, model, say)
    with resumable(), progress_shown(sys.stderr, {"judge": len(known)}) as tick:
        report, ledger = judge_labels(program, known, bindings, runs / "judge" / "replies.jsonl", threads,
                                      lambda row: tick("judge", row.id, row.value))  # fmt: skip
    if out:
        write_rows(out, report)
    found = agreement(known, report)
    failures = [{"id": row.id, "why": row.why} for row in report.rows if row.outcome != "ok"]
    value = found.model_dump(mode="json") | {"not_judged": failures, "usage": usage_rows(ledger)}
    result(as_json, value, usage_table(ledger), *agreement_lines(found, report))
