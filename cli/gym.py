"""Commands of the Memory-Gym: worlds with exact gold, to look at, to measure, and to learn steps from."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from stitchjam.cli.shared import Json, app, dumps, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

OUT = Path(".stitchjam/worlds")
gym_app = typer.Typer(no_args_is_help=True, help="Make and measure worlds with exact gold; no model needed.")
app.add_typer(gym_app, name="gym")

STYLES = ("dialogue", "mail", "notes", "tool", "debate", "trip")
STEPS = (
    "detect_scope, type_event, type_entities, resolve_references, group_session, browse_source, judge_sufficiency, "
    "sufficiency, answer_question"
)
Worlds = Annotated[Path | None, typer.Argument(help="A world, or a folder of worlds. [default: the shipped sample]")]


@gym_app.command("world")
def gym_world(
    out: Annotated[Path, typer.Option(help="Folder for the worlds.")] = OUT,
    name: Annotated[str, typer.Option(help="Worlds are called NAME and their seed.")] = "world",
    worlds: Annotated[int, typer.Option(min=1, help="How many; seeds count up.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the first world.")] = 0,
    sessions: Annotated[int, typer.Option(min=10, max=5000)] = 40,
    overlap: Annotated[float, typer.Option(min=0, max=1, help="How much goals share options, people and words.")] = 0.5,
    hops: Annotated[int, typer.Option(min=1, max=4, help="Longest chain that a question goes through.")] = 3,
    chatter: Annotated[float, typer.Option(min=0, max=0.9, help="Share of turns without content.")] = 0.25,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of values told wrong and put right later.")] = 0.1,
    style: Annotated[
        list[str] | None,
        typer.Option(help=f"NAME or NAME=WEIGHT, repeated; only these. [default: {', '.join(STYLES)}]"),
    ] = None,
    questions: Annotated[int, typer.Option(min=0, help="In each world, over all types.")] = 30,
    as_json: Json = False,
) -> None:
    """Make worlds: sessions and questions in our own format, and the gold of every turn."""
    from stitchjam.data.console import resumable
    from stitchjam.data.worlds.folder import read_worlds
    from stitchjam.data.worlds.generate import generate_world
    from stitchjam.optimizers.gym_view import worlds_table
    from stitchjam.optimizers.progress import counts_shown

    given = {"sessions": sessions, "overlap": overlap, "hops": hops, "chatter": chatter, "noise": noise}
    styles = {"styles": _styles(style)} if style else {}
    made = []
    with (
        resumable("worlds that are finished are kept", "the same command makes the others"),
        counts_shown(sys.stderr) as tick,
    ):
        for number in range(seed, seed + worlds):
            dials = _dials({"seed": number, "questions": questions, **given, **styles})
            about = generate_world(out, f"{name}-{number}", dials, tick)
            made += read_worlds(out / about.name)
            _say_if_few(made[-1])
    result(
        as_json,
        [world.about.model_dump(mode="json") for world in made],
        worlds_table(made),
        f"look at them with: stitchjam gym show {out}",
    )


def _styles(given: list[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for one in given:
        name, _, weight = one.partition("=")
        if name in weights:
            raise UsageError(f"--style {name} is given twice; give it once")
        try:
            weights[name] = float(weight or 1)
        except ValueError:
            raise UsageError(f"--style {one}: give NAME=WEIGHT, such as --style mail=2") from None
    return weights


def _dials(given: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from stitchjam.data.records import first_error
    from stitchjam.data.worlds.dials import Dials

    try:
        return Dials.model_validate(given)
    except ValidationError as error:
        raise UsageError(first_error(error)) from None


def _say_if_few(world: Any) -> None:
    """Say what the dials asked for and the world does not have."""
    longest = max((question.hops for question in world.asked), default=0)
    if len(world.asked) < world.dials.questions:
        say(f"{world.name}: only {len(world.asked)} questions; more sessions or overlap allow more")
    elif world.asked and longest < world.dials.hops:
        say(f"{world.name}: no question of more than {longest} hops; more --questions make one likelier")


@gym_app.command("stats")
def gym_stats(
    path: Worlds = None,
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also the search of this package.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, help="Turns that a search hands over.")] = 10,
    sweep: Annotated[bool, typer.Option("--sweep", help="Instead: make worlds of rising overlap and length.")] = False,
    worlds: Annotated[int, typer.Option(min=1, help="Of a sweep: worlds at each point.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Of a sweep: of the first world.")] = 0,
    questions: Annotated[int, typer.Option(min=19, help="Of a sweep: in each world.")] = 60,
    plot: Annotated[Path | None, typer.Option(help="Of a sweep: draw it here (.svg, .png, .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """How large and how hard worlds are: solved from all evidence, from BM25's hits, and from nothing."""
    from stitchjam.data.console import working
    from stitchjam.data.worlds.folder import read_worlds
    from stitchjam.optimizers.difficulty import measure
    from stitchjam.optimizers.gym_view import difficulty_table, worlds_table

    if sweep and (path or hybrid):
        raise UsageError("a sweep makes worlds of its own and measures BM25; leave out the folder and --hybrid")
    if sweep:
        return _sweep(worlds, seed, questions, plot, as_json)
    if plot:
        raise UsageError("--plot draws a sweep; add --sweep")
    with working(sys.stderr, "measuring"):
        found = read_worlds(path)
        figures = measure(found, k, hybrid)
    result(as_json, figures.model_dump(mode="json"), worlds_table(found), "", difficulty_table(figures))
    for question, wrong in figures.faulty.items():
        say(f"{question}: {'; '.join(wrong)}")


def _sweep(worlds: int, seed: int, questions: int, plot: Path | None, as_json: bool) -> None:
    from stitchjam.data.console import resumable
    from stitchjam.data.worlds.dials import Dials
    from stitchjam.optimizers.gym_view import curve_table
    from stitchjam.optimizers.progress import counts_shown
    from stitchjam.optimizers.sweep import SWEEPS, draw, require_drawing
    from stitchjam.optimizers.sweep import sweep as run

    if plot:
        require_drawing(plot)
    dials = Dials(seed=seed, questions=questions)
    with resumable("nothing is kept of a sweep", "it starts from the beginning"), counts_shown(sys.stderr) as tick:
        curves = [run(dial, dials, worlds, tick) for dial in SWEEPS]
    result(as_json, [curve.model_dump(mode="json") for curve in curves], *map(curve_table, curves))
    if plot:
        draw(curves, plot)
        say(f"drawn: {plot}")


@gym_app.command("show")
def gym_show(
    path: Worlds = None,
    question: Annotated[str | None, typer.Argument(help="Id of a question. [default: a list of all]")] = None,
    around: Annotated[int, typer.Option(min=0, help="Turns shown before and after each piece of evidence.")] = 1,
    as_json: Json = False,
) -> None:
    """A question with its evidence in context: ">" states what is needed, "~" is needed to understand that."""
    from stitchjam.data.worlds.folder import read_worlds
    from stitchjam.optimizers.gym_view import question_lines, questions_table

    worlds = _worlds_and_question(path, question)
    if worlds[1] is None:
        found = read_worlds(worlds[0])
        rows = [one.model_dump(mode="json") for world in found for one in world.asked]
        return result(as_json, rows, *(questions_table(world) for world in found))
    for world in read_worlds(worlds[0]):
        for one in world.asked:
            if one.id == worlds[1]:
                lines = [] if as_json else question_lines(world, one, around)
                return result(as_json, one.model_dump(mode="json"), *lines)
    place = worlds[0] or "the sample"
    raise UsageError(f"no question {worlds[1]!r} in {place}; list them with: stitchjam gym show [FOLDER]")


def _worlds_and_question(path: Path | None, question: str | None) -> tuple[Path | None, str | None]:
    """The arguments as meant: with a single one that is no folder, it is a question of the sample."""
    if path is not None and question is None and not path.exists() and "-q" in path.name:
        return None, path.name
    return path, question


@gym_app.command("rows")
def gym_rows(
    path: Worlds = None,
    step: Annotated[list[str] | None, typer.Option(help=f"Only these; may be repeated. One of: {STEPS}.")] = None,
    split: Annotated[Literal["train", "held_out", "all"], typer.Option(help="Of which worlds.")] = "all",
    out: Annotated[Path | None, typer.Option(help="A file. [default: standard output]")] = None,
) -> None:
    """Labelled rows for each step, from the gold: {"step", "inputs", "outputs", "group"}, one a line."""
    import jsonlines

    from stitchjam.data.atomic import whole_file
    from stitchjam.data.worlds.folder import read_worlds, world_around
    from stitchjam.optimizers.step_rows import step_rows

    worlds = [world for world in read_worlds(path) if split in (world.split, "all")]
    if not worlds:
        raise UsageError(f"no {split} world in {path or 'the sample'}; leave out --split, or make more worlds")
    rows = step_rows(worlds, step or ())
    if out is None:
        sys.stdout.writelines(dumps(row) + "\n" for row in rows)
        return
    if around := world_around(out):
        raise UsageError(f"{out} lies in the world {around}, which must stay as it is; choose another --out")
    try:
        with whole_file(out) as file:
            count = sum(1 for row in rows if jsonlines.Writer(file).write(row))
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror or error}); choose another --out") from None
    say(f"written: {out}, {count:,} rows from {len(worlds)} worlds")
