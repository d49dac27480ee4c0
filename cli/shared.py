"""What the commands share: the application, its options, and how they print."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

__all__ = [
    "AT_ONCE",
    "CONFIG",
    "Calls",
    "Config",
    "Dollars",
    "EffortName",
    "HistoryFile",
    "Json",
    "MEMORY",
    "METRIC_HELP",
    "MemoryPath",
    "MetricName",
    "Minutes",
    "Model",
    "ProgramName",
    "QuestionsFile",
    "RUNS",
    "Runs",
    "Threads",
    "app",
    "dumps",
    "fix_hash_seed",
    "kept_folder",
    "memory_of",
    "result",
    "say",
    "show",
]

EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage or config, 3 wrong data, memory or artifact, 4 model or endpoint, "
    "5 compiled but not published, 6 budget used up or backend out, 130 interrupted (the same command goes on)."
)
AT_ONCE = 5  # actions of a round of research
CONFIG, RUNS, MEMORY = Path("stitchjam.toml"), Path(".stitchjam/runs"), Path(".stitchjam/memory")


class _Interruptible(TyperGroup):
    """Ends with 130 on Ctrl-C wherever it comes; by itself, typer would end with 1, which is said to mean failed."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("stopped")
            os._exit(130)  # as in data/console.py


app = typer.Typer(
    cls=_Interruptible, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, epilog=EPILOG
)

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Config = Annotated[Path, typer.Option(help="Which model answers which step.")]
Model = Annotated[str | None, typer.Option(help='One model for all steps instead, such as "local:smollm2-135m".')]
HistoryFile = Annotated[Path | None, typer.Option("--history", help="A file instead of a memory.")]
MemoryPath = Annotated[Path | None, typer.Option("--memory", help=f"Folder of the memory. [default: {MEMORY}]")]
QuestionsFile = Annotated[Path | None, typer.Option("--questions", help="Questions file. [default: the sample's]")]
ProgramName = Annotated[str, typer.Option(help="Artifact folder, or answerer, researcher, memory_agent, stitch_agent.")]
EffortName = Annotated[Literal["low", "medium", "high"], typer.Option(help="How hard a fresh researcher tries.")]
METRIC_HELP = (
    "Answers: answer_f1, qa_f1, locomo_f1, locomo_gam, came_f1, rouge_l, choice, abstention; by a judge: judged, "
    "longmemeval. Evidence: evidence_recall, evidence_precision, evidence_at_budget, evidence_near, "
    "answer_in_context, span_support. Both: end."
)
MetricName = Annotated[str, typer.Option(help=METRIC_HELP)]
Runs = Annotated[
    Path | None,
    typer.Option(help=f"Replies are kept here, so that a stopped run goes on. [default: {RUNS}, or in the memory]"),
]
Threads = Annotated[int, typer.Option(min=1, help="Questions at once.")]
Calls = Annotated[int | None, typer.Option("--calls", min=1, help="Stop after so many backend calls.")]
Minutes = Annotated[float | None, typer.Option("--minutes", min=0, help="Stop after so many minutes.")]
Dollars = Annotated[float | None, typer.Option("--dollars", min=0, help="Stop after so many US dollars.")]


def show(stream: Any, lines: tuple[object, ...]) -> None:
    """Write lines or tables, safe for a terminal."""
    from stitchjam.data import console

    console.show(stream, lines)


def say(*lines: object) -> None:
    """Progress and notes go to standard error, so that standard output stays data."""
    show(sys.stderr, lines)


def dumps(value: Any) -> str:
    """JSON that standard output can show: plain ASCII where it is not UTF-8."""
    return json.dumps(value, ensure_ascii=sys.stdout.encoding.lower() != "utf-8")


def result(as_json: bool, value: Any, *lines: object) -> None:
    """The result: one JSON object, or lines."""
    if as_json:
        print(dumps(value))
    else:
        show(sys.stdout, lines)


def fix_hash_seed() -> None:
    """Start again with a fixed hash seed: dspy's bootstrapping chooses demos by a hash that depends on it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})


def kept_folder(runs: Path | None, memory: Path | None) -> Path:
    """Where replies are kept: with the memory they are about, so that `forget` finds them; else under .stitchjam."""
    if memory is None:
        return runs or RUNS
    from stitchjam.data.disk.store import DiskStore

    folder = runs or memory / "replies"
    DiskStore(memory, create=False).keep_replies(folder)
    return folder


def memory_of(memory: Path | None, history: Path | None, questions: Path | None) -> Path | None:
    """Questions without a history are about the memory of this folder, if there is one."""
    return MEMORY if memory is None and history is None and questions and MEMORY.exists() else memory
