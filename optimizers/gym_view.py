"""Turns worlds and their questions into lines and tables for a person."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from stitchjam.data.records import Session, Turn
from stitchjam.data.worlds.folder import World
from stitchjam.data.worlds.records import Evidence, WorldQuestion
from stitchjam.optimizers.difficulty import Difficulty, Row
from stitchjam.optimizers.sweep import Curve

__all__ = ["curve_table", "difficulty_table", "question_lines", "questions_table", "worlds_table"]

_MARKS = {"states": ">", "refers": "~"}


def question_lines(world: World, question: WorldQuestion, around: int = 1) -> list[Any]:
    """A question with its evidence in context.

    Lines marked ">" state something the answer needs, with the words in bold; "~" are needed to understand those.

    Args:
        world: that the question is about.
        question: one of its questions.
        around: turns shown before and after each piece of evidence.
    """
    about = f"{question.id}  {question.type} ({question.family}), {question.hops} hop{'s' * (question.hops != 1)}"
    lines: list[Any] = [Text(about, style="dim"), Text(f"Q: {question.text}", style="bold")]
    others = f"  (or: {'; '.join(question.aliases)})" if question.aliases else ""
    lines.append(Text(f"A: {question.answer}{others}"))
    evidence = {one.turn: one for one in question.evidence}
    for session in world.history.sessions:
        shown = _shown(session, evidence, around)
        if shown:
            lines += [Text(""), Text(f"   {session.id}  {session.time.replace('T', ' ')}", style="dim"), *shown]
    return lines if evidence else [*lines, Text("   (nothing in this world says so)", style="dim")]


def _shown(session: Session, evidence: dict[str, Evidence], around: int) -> list[Text]:
    at = [number for number, turn in enumerate(session.turns) if turn.external_id in evidence]
    near = {number + step for number in at for step in range(-around, around + 1)}
    lines: list[Text] = []
    for number in sorted(near & set(range(len(session.turns)))):
        if lines and number - 1 not in near:
            lines.append(Text("   ...", style="dim"))
        lines.append(_line(session.turns[number], evidence.get(session.turns[number].external_id)))
    return lines


def _line(turn: Turn, one: Evidence | None) -> Text:
    mark = _MARKS[one.role] if one else " "
    text = Text(turn.text)
    for place in one.places if one else ():
        text.stylize("bold underline", place.start, place.end)
    head = Text(f" {mark} [{turn.external_id}] {turn.speaker}: ", style="" if one else "dim")
    indented = Text("\n      ").join(text.split("\n", allow_blank=True))
    return head + indented


def questions_table(world: World) -> Table:
    """The questions of a world, a line each."""
    table = _table("id", "type", "hops", "question", "answer")
    for question in world.asked:
        table.add_row(question.id, question.type, str(question.hops), Text(question.text), Text(question.answer))
    return table


def worlds_table(worlds: Sequence[World]) -> Table:
    """Size, split and dials of worlds."""
    table = _table("world", "split", "sessions", "turns", "questions", "overlap", "hops", "chatter", "noise")
    for world in worlds:
        counts, dials = world.about["counts"], world.dials
        figures = (counts["sessions"], counts["turns"], counts["questions"])
        table.add_row(
            world.name,
            world.split,
            *(f"{figure:,}" for figure in figures),
            *(f"{value:g}" for value in (dials.overlap, dials.hops, dials.chatter, dials.noise)),
        )
    return table


def difficulty_table(found: Difficulty) -> Table:
    """Figures in percent: all questions, then by family, by number of hops, and by type."""
    hybrid = found.together.hybrid is not None
    columns = ["questions", "all evidence", "closed book", f"BM25 top {found.k}", f"recall@{found.k}"]
    table = _table("", *columns, *(("search", f"its recall@{found.k}") if hybrid else ()))
    for rows in ((found.together,), found.families, found.hops, found.types):
        for row in rows:
            name = f"{row.name} hop{'s' * (row.name != '1')}" if rows is found.hops else row.name
            table.add_row(name, str(row.questions), *_percent(row, hybrid))
        table.add_section()
    return table


def _percent(row: Row, hybrid: bool) -> Iterator[str]:
    nothing = row.name == "unanswerable"  # no evidence to find
    yield from (f"{100 * value:.1f}" for value in (row.oracle, row.closed, row.bm25))
    yield "" if nothing else f"{100 * row.recall:.1f}"
    if hybrid:
        yield f"{100 * (row.hybrid or 0):.1f}"
        yield "" if nothing else f"{100 * (row.hybrid_recall or 0):.1f}"


def curve_table(curve: Curve) -> Table:
    """A curve in percent."""
    table = _table(curve.dial, "questions", "recall@10", "solved", "multi-hop solved", "closed book")
    for point in curve.points:
        figures = (point.recall, point.solved, point.multi_hop, point.closed)
        table.add_row(f"{point.value:g}", str(point.questions), *(f"{100 * figure:.1f}" for figure in figures))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        text = column in ("", "id", "type", "question", "answer", "world", "split")
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    return table
