"""Turns worlds and their questions into lines and tables for a person."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from stitchjam.data.records import Session, Turn
from stitchjam.data.text import printable
from stitchjam.data.worlds.folder import World
from stitchjam.data.worlds.records import Evidence, WorldQuestion
from stitchjam.optimizers.difficulty import Difficulty, Row
from stitchjam.optimizers.show import table
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
    lines: list[Any] = [_safe(about, "dim"), _safe(f"Q: {question.text}", "bold")]
    others = f"  (or: {'; '.join(question.aliases)})" if question.aliases else ""
    lines.append(_safe(f"A: {question.answer}{others}"))
    evidence = {one.turn: one for one in question.evidence}
    for session in world.history.sessions:
        shown = _shown(session, evidence, around)
        if shown:
            lines += [Text(""), _safe(f"   {session.id}  {session.time.replace('T', ' ')}", "dim"), *shown]
    return lines if evidence else [*lines, Text("   (nothing in this world says so)", style="dim")]


def _shown(session: Session, evidence: dict[str, Evidence], around: int) -> list[Text]:
    at = [number for number, turn in enumerate(session.turns) if turn.external_id in evidence]
    near = {near for number in at for near in range(max(0, number - around), number + around + 1)[: len(session.turns)]}
    lines: list[Text] = []
    for number in sorted(near & set(range(len(session.turns)))):
        if lines and number - 1 not in near:
            lines.append(Text("   ...", style="dim"))
        lines.append(_line(session.turns[number], evidence.get(session.turns[number].external_id)))
    return lines


def _line(turn: Turn, one: Evidence | None) -> Text:
    mark = _MARKS[one.role] if one else " "
    text = _safe(turn.text)
    for place in one.places if one else ():
        text.stylize("bold underline", place.start, place.end)
    head = _safe(f" {mark} [{turn.external_id}] {turn.speaker}: ", "" if one else "dim")
    indented = Text("\n      ").join(text.split("\n", allow_blank=True))
    return head + indented


def _safe(text: str, style: str = "") -> Text:
    """Text without terminal commands; each character stays one character, so places in it hold."""
    return Text(printable(text), style=style)


def questions_table(world: World) -> Table:
    """The questions of a world, a line each."""
    rows = [(one.id, one.type, one.hops, one.text, one.answer) for one in world.asked]
    return table(("id", "type", "hops", "question", "answer"), rows, right=("hops",))


def worlds_table(worlds: Sequence[World]) -> Table:
    """Size, split and dials of worlds."""
    sizes, dials = ("sessions", "turns", "questions"), ("overlap", "hops", "chatter", "noise")
    rows = [
        (
            world.name,
            world.split,
            *(f"{world.about.counts[name]:,}" for name in sizes),
            *(f"{getattr(world.dials, name):g}" for name in dials),
        )
        for world in worlds
    ]
    return table(("world", "split", *sizes, *dials), rows, right=(*sizes, *dials))


def difficulty_table(found: Difficulty) -> Table:
    """Figures in percent: all questions, then by family, by number of hops, and by type."""
    hybrid = found.together.hybrid is not None
    columns = ["questions", "all evidence", "closed book", f"BM25 top {found.k}", f"recall@{found.k}"]
    columns += ["search", f"its recall@{found.k}"] if hybrid else []
    hops = [row.model_copy(update={"name": f"{row.name} hop{'s' * (row.name != '1')}"}) for row in found.hops]
    rows = [found.together, *found.families, *hops, *found.types]
    return table(("", *columns), [(row.name, row.questions, *_percent(row, hybrid)) for row in rows], right=columns)


def _percent(row: Row, hybrid: bool) -> Iterator[str]:
    nothing = row.name == "unanswerable"  # no evidence to find
    if not row.questions:
        return
    yield from (f"{100 * value:.1f}" for value in (row.oracle, row.closed, row.bm25))
    yield "" if nothing else f"{100 * row.recall:.1f}"
    if hybrid:
        yield f"{100 * (row.hybrid or 0):.1f}"
        yield "" if nothing else f"{100 * (row.hybrid_recall or 0):.1f}"


def curve_table(curve: Curve) -> Table:
    """A curve in percent."""
    columns = (curve.dial, "questions", "recall@10", "solved", "multi-hop solved", "closed book")
    rows = [
        (
            f"{point.value:g}",
            point.questions,
            *(f"{100 * figure:.1f}" for figure in (point.recall, point.solved, point.multi_hop, point.closed)),
        )
        for point in curve.points
    ]
    return table(columns, rows, right=columns)
