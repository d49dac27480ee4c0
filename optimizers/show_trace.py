"""Turns how a question was recalled into lines for people: the intent that was read, why turns were taken or not."""

from collections.abc import Mapping
from typing import Any

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.matching import Ranked, Standing, standing
from stitchjam.data.intents.records import FACETS, Facet
from stitchjam.data.records import Context, Turn
from stitchjam.data.store import Store
from stitchjam.data.text import one_line
from stitchjam.optimizers.noted import noted_json, place, told
from stitchjam.optimizers.show import table
from stitchjam.optimizers.show_notes import KINDS
from stitchjam.programs.step import Program
from stitchjam.programs.stitch.recall import ABLATIONS, IntentRecall, Recall, StitchAgent

__all__ = ["recall_json", "recall_lines", "recall_of", "standing_json", "standing_lines"]

_TEXT = 100  # characters of a turn in a line
_DROPPED = "taken, then dropped by the step that ranks"
_WHY = {"tokens": "does not fit the budget", "k": "beyond k"}


def recall_of(program: Program, ablate: str = "") -> IntentRecall:
    """The part of a program that recalls by intent; with `ablate`, that is left out, whatever the program says.

    Raises:
        UsageError: the program recalls otherwise, or there is no such ablation.
    """
    found = program.recall if isinstance(program, StitchAgent) else program
    if not isinstance(found, IntentRecall):
        kind = type(program).__name__
        raise UsageError(
            f"{kind} does not recall by intent; choose stitch_agent, intent_recall, or an artifact of these"
        )
    if ablate:
        found.ablate = IntentRecall(ablate=ablate).ablate
    return found


def recall_json(recall: Recall, context: Context) -> dict[str, Any]:
    """The intent by facet, what was done with each facet, and the turns in the order of recall, with why."""
    kept = set(context.turn_ids)
    rows = [_row(number, one, kept) for number, one in enumerate(recall.matched.ranked, 1)]
    taken = [row for row in rows if row["taken"]]
    return {
        "question": context.request,
        "intent": {facet: _labels(recall, facet) for facet in FACETS},
        "facets": dict(recall.matched.facets),
        "taken": len(taken),
        "tokens": sum(row["tokens"] for row in taken),
        "ranked": rows,
        "failures": list(context.failures),
    }


def _labels(recall: Recall, facet: Facet) -> list[dict[str, str]]:
    pairs = zip(recall.intent.of(facet), recall.names[facet], strict=True)
    return [{"id": label_id, "name": name} for label_id, name in pairs]


def _row(number: int, one: Ranked, kept: set[str]) -> dict[str, Any]:
    taken = one.taken and one.turn.id in kept
    why = _WHY.get(one.left_out) or (f"by {one.by}" if taken else _DROPPED)
    told_of = {"by": one.by, "facets": list(one.facets), "density": one.density, "similarity": one.similarity}
    return {
        "place": number,
        "taken": taken,
        "why": why,
        **told_of,
        "tokens": one.tokens,
        "turn": one.turn.model_dump(),
    }


def recall_lines(value: Mapping[str, Any]) -> list[Any]:
    """The same for people; `value` is that of `recall_json`."""
    lines: list[Any] = [f"question: {value['question']}"]
    for facet in FACETS:
        names = ", ".join(label["name"] for label in value["intent"][facet]) or "-"
        lines.append(f"{KINDS[facet]}: {names} ({value['facets'][facet]})")
    lines += [f"could not be used: {failure}" for failure in value["failures"]]
    lines.append(f"{value['taken']} turns taken, {value['tokens']:,} tokens")
    columns = ("#", "taken", "why", "bears", "density", "similarity", "tokens", "turn")
    rows = [_cells(row) for row in value["ranked"]]
    return [*lines, table(columns, rows, right=("#", "density", "similarity", "tokens"))] if rows else lines


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    turn = Turn.model_validate(row["turn"])
    said = f"[{turn.session_id} {place(turn)}] {turn.time[:10]} {turn.speaker}: {one_line(turn.text)[:_TEXT]}"
    figures = f"{row['density']:.2f}", f"{row['similarity']:.2f}", row["tokens"]
    return row["place"], "yes" if row["taken"] else "no", row["why"], "+".join(row["facets"]) or "-", *figures, said


def standing_json(turn: Turn, recall: Recall, program: IntentRecall, store: Store, context: Context) -> dict[str, Any]:
    """Why a turn was or was not recalled: its note, what of the intent it bears, and its place in each order."""
    without = ABLATIONS[program.ablate]
    with store.notebook.lock:
        found = standing(turn, context.request, recall.intent, store, without)
    rows = told(store, turn.session_id).rows if store.notebook.size else ()
    ranked = {one.turn.id: one for one in recall.matched.ranked}
    asked = [facet for facet in FACETS if recall.intent.of(facet) and facet not in without]
    return {
        **next((noted_json(row) for row in rows if row.turn.id == turn.id), turn.model_dump() | {"note": None}),
        **vars(found),
        "tokens": ranked[turn.id].tokens if turn.id in ranked else found.tokens,
        "of": store.size,
        "facets": list(found.facets),
        "lacks": [facet for facet in asked if facet not in found.facets],
        "recalled": turn.id in context.turn_ids,
        "why": _why(found, ranked.get(turn.id), turn.id in context.turn_ids, program),
    }


def _why(found: Standing, ranked: Ranked | None, kept: bool, program: IntentRecall) -> str:
    if kept:
        return f"recalled by {found.by}, at place {found.place}"
    if ranked is None:
        return f"not recalled: at place {found.place:,}, and the first {2 * program.k} (twice k) are looked at"
    if ranked.taken:
        return f"not recalled: {_DROPPED}"
    if ranked.left_out == "k":
        return f"not recalled: at place {found.place}, and k = {program.k} turns were taken before it"
    return (
        f"not recalled: at place {found.place}, but its {ranked.tokens:,} tokens are more than was left of the budget "
        f"of {program.tokens:,}"
    )


def standing_lines(value: Mapping[str, Any]) -> list[str]:
    """The same for people; `value` is that of `standing_json`."""
    note = value["note"]
    lines = [
        one_line(f"turn [{value['session_id']} {value['external_id'] or value['id']}] {value['speaker']}: ")
        + f" {one_line(value['text'])[: 2 * _TEXT]}",
        f"  {value['why']}",
    ]
    if note is None:
        lines.append("  it has no note, so only similarity can find it; label it: stitchjam label")
    else:
        labels = {"scope": [note["topic"]["name"]] if note["topic"] else [], "event": note["events"]}
        labels["entity"] = note["entities"]
        lines += [f"  {KINDS[facet]}: {one_line(', '.join(labels[facet])) or '-'}" for facet in FACETS]
    bears = f"bears of the intent: {', '.join(value['facets']) or 'nothing that counts'}"
    lacks = f"; does not bear, or it does not count: {', '.join(value['lacks'])}" if value["lacks"] else ""
    ranked = f"{value['by_intent']:,}" if value["by_intent"] else "-"
    return [
        *lines,
        f"  {bears}{lacks}",
        f"  by intent: rank {ranked}, density {value['density']:.2f}; "
        f"by similarity: rank {value['by_similarity']:,} of {value['of']:,}, similarity {value['similarity']:.2f}; "
        f"{value['tokens']:,} tokens",
    ]
