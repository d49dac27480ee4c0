"""Commands about benchmarks that users download: which there are, what a copy holds, how a release is decoded."""

from pathlib import Path
from typing import Annotated

import typer

from stitchjam.cli.shared import Json, app, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

bench_app = typer.Typer(no_args_is_help=True, help="Benchmarks: which there are, and what your copy of one holds.")
app.add_typer(bench_app, name="bench")

Name = Annotated[str, typer.Argument(help="worlds, locomo, longmemeval, came, hotpotqa, sessions.")]


@bench_app.command("list")
def bench_list(as_json: Json = False) -> None:
    """Benchmarks that can be read, where they are from, and under which licence."""
    from stitchjam.data.benchmarks import BENCHMARKS
    from stitchjam.optimizers.show import table

    found = [
        {"name": name, "title": one.title, "source": one.source, "licence": one.licence,
         "complete": {variant: sizes._asdict() for variant, sizes in one.complete.items()}}
        for name, one in BENCHMARKS.items()
    ]  # fmt: skip
    rows = [(one["name"], one["title"], one["licence"], one["source"]) for one in found]
    result(as_json, found, table(("name", "what", "licence", "source"), rows))


@bench_app.command("look")
def bench_look(
    name: Name,
    path: Annotated[Path | None, typer.Argument(help="Its file or folder. [default: the sample of worlds]")] = None,
    as_json: Json = False,
) -> None:
    """Read a copy once: how much it holds, whether it is complete, and which gold does not resolve."""
    import sys

    from stitchjam.data.benchmarks import BENCHMARKS, look
    from stitchjam.data.console import working
    from stitchjam.optimizers.show import table

    with working(sys.stderr, "reading"):
        found = look(name, path)
    sizes = ("histories", "sessions", "turns", "questions", "with_evidence")
    row = [f"{getattr(found, size):,}" for size in sizes]
    head = table([size.replace("_", " ") for size in sizes], [row], right=[size.replace("_", " ") for size in sizes])
    kinds = table(
        ("type", "questions"), [(kind or "-", f"{n:,}") for kind, n in found.kinds.items()], right=("questions",)
    )
    about = f"{BENCHMARKS[name].title}; licence: {BENCHMARKS[name].licence}"
    result(as_json, found.model_dump(mode="json"), about, *([found.note] if found.note else []), head, kinds)
    for problem in found.problems:
        say(problem)


@bench_app.command("decode")
def bench_decode(
    path: Annotated[Path, typer.Argument(help="The downloaded release of CAME-Bench.")],
    out: Annotated[Path, typer.Option(help="A folder that is not there yet.")],
    accept: Annotated[bool, typer.Option("--accept", help="You have read the notice and keep to it.")] = False,
    as_json: Json = False,
) -> None:
    """Decode the release of CAME-Bench on this machine, when you have read its notice."""
    from stitchjam.data.readers.came import decode_came, read_notices

    notices = read_notices(path)
    say("The authors encoded this release so that it stays out of training data. Its notice:", *notices)
    if not accept:
        raise UsageError("nothing was decoded; run the same command with --accept when you keep to the notice")
    count = decode_came(path, out)
    result(as_json, {"files": count, "out": str(out)}, f"decoded: {count} files in {out}")
