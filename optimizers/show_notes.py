"""Turns the notes of a memory into tables and lines for people: labels, how they were merged, and turns over time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.bank import LabelBank
from stitchjam.data.intents.records import FACETS, Facet, Label
from stitchjam.data.shelf import unknown
from stitchjam.data.store import Store
from stitchjam.data.text import one_line, printable
from stitchjam.optimizers.noted import Noted, Told, noted_json, place, require_notes, told
from stitchjam.optimizers.pages.drawing import COLOURS
from stitchjam.optimizers.show import table

__all__ = ["KINDS", "label_json", "label_tables", "label_turns", "label_turns_lines", "timeline_lines"]

KINDS: Mapping[Facet, str] = {"scope": "topics", "event": "what turns do", "entity": "kinds of things"}
_SHOWN = 50  # labels of a facet in the terminal; --json has them all
_TEXT = 100  # characters of a turn in a line


@dataclass
class _Use:
    turns: int = 0
    first: str = ""
    last: str = ""
    move: str = ""

    def add(self, row: Noted) -> None:
        """Count a turn; they come in time order."""
        self.turns += 1
        self.first = self.first or row.turn.time
        self.last = row.turn.time or self.last
        self.move = row.move


def label_json(store: Store) -> dict[str, Any]:
    """The labels of each facet, those that most turns bear first, and merges in the order in which they were made.

    Of a label: id, name, what it is `about`, names that were merged into it, how many turns bear it, and the times of
    the first and the last of these; of a scope also how the last of them moved to it.

    Raises:
        UsageError: nothing is labelled yet.
    """
    shown = told(store)
    with store.notebook.lock:
        bank, uses = store.notebook.bank, _uses(shown.rows)
        labels = {
            facet: [_label_row(bank, label, uses.get(label.id, _Use())) for label in bank.live(facet)]
            for facet in FACETS
        }
        merges = list(_merges(store))
    ordered = {facet: sorted(rows, key=lambda row: -row["turns"]) for facet, rows in labels.items()}
    return {"turns": len(shown.rows), "noted": shown.noted, "labels": ordered, "merges": merges}


def _uses(rows: Sequence[Noted]) -> dict[str, _Use]:
    uses: dict[str, _Use] = {}
    for row in rows:
        for one in row.note.intent.ids if row.note else ():
            uses.setdefault(one, _Use()).add(row)
    return uses


def _label_row(bank: LabelBank, label: Label, use: _Use) -> dict[str, Any]:
    return {
        "id": label.id,
        "facet": label.facet,
        "name": label.name,
        "about": bank.gists.get(label.id) or label.description,
        "aliases": list(dict.fromkeys(bank.aliases(label.id))),
        "turns": use.turns,
        "first": use.first,
        "last": use.last,
        **({"move": use.move} if label.facet == "scope" else {}),
    }


def _merges(store: Store) -> Iterator[dict[str, Any]]:
    """The audit trail: names are those that the labels had then; a label whose turn was forgotten has none."""
    labels = store.notebook.bank.labels
    turns = {turn.id: turn for turn in store.in_order(one.note.turn_id for one in store.notebook.entries if one.merges)}
    for entry in store.notebook.entries:
        for merge in entry.merges:
            turn = turns.get(entry.note.turn_id)
            names = {f"{end}_name": labels[one].name if one in labels else "" for end, one in _ends(merge)}
            when = {"turn": entry.note.turn_id, "place": place(turn) if turn else "", "time": turn.time if turn else ""}
            yield merge.model_dump() | names | when


def _ends(merge: Any) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("old", merge.old), ("into", merge.into)


def label_tables(value: Mapping[str, Any]) -> list[Any]:
    """Labels by facet and the trail of merges, for people; `value` is that of `label_json`."""
    lines: list[Any] = [_coverage(value["noted"], value["turns"], "")]
    for facet, rows in value["labels"].items():
        used = sum(row["turns"] > 0 for row in rows)
        left_out = f"; the first {_SHOWN} are shown, --json has them all" if len(rows) > _SHOWN else ""
        lines += ["", f"{KINDS[facet]}: {len(rows)} labels, {used} in use{left_out}"]
        move = ("move",) if facet == "scope" else ()
        columns = ("id", "name", "about", "aliases", "turns", *move, "first", "last")
        cells = ([_cell(row[column]) for column in columns] for row in rows[:_SHOWN])
        lines += [table(columns, cells, right=("turns",))] if rows else []
    lines += ["", f"merges: {len(value['merges'])}"]
    merged = ([_merged_cell(row, column) for column in _TRAIL] for row in value["merges"][-_SHOWN:])
    return lines + ([table(_TRAIL, merged, right=("similarity",))] if value["merges"] else [])


_TRAIL = ("merged", "into", "similarity", "at turn", "time")


def _merged_cell(row: Mapping[str, Any], column: str) -> str:
    return {
        "merged": f"{row['old_name'] or '(forgotten)'} ({row['old']})",
        "into": f"{row['into_name'] or '(forgotten)'} ({row['into']})",
        "similarity": f"{row['similarity']:.2f}",
        "at turn": row["place"] or row["turn"],
        "time": row["time"][:16],
    }[column]


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)[:_TEXT]


def _coverage(noted: int, turns: int, also: str) -> str:
    rest = "" if noted == turns else "; the others wait: stitchjam label"
    return f"{noted:,} of {turns:,} turns are labelled{also}{rest}"


def label_turns(store: Store, name: str) -> dict[str, Any]:
    """A label, by its id, its name or a name that was merged into it, with the turns that bear it in time order.

    Raises:
        UsageError: nothing is labelled yet, there is no such label, or there are several of that name.
    """
    require_notes(store)
    shown = told(store)
    with store.notebook.lock:
        label = _find(store.notebook.bank, name)
        bearing = [row for row in shown.rows if row.note and label.id in row.note.intent.ids]
        found = _label_row(store.notebook.bank, label, _uses(bearing).get(label.id, _Use()))
    return {"label": found, "turns": [noted_json(row) for row in bearing]}


def _find(bank: LabelBank, name: str) -> Label:
    if bank.canonical(name) in bank.labels:
        return bank.labels[bank.canonical(name)]
    found = [label for facet in FACETS if (label := bank.find(facet, name))]
    if len(found) > 1:
        ids = ", ".join(f"{label.id} ({KINDS[label.facet]})" for label in found)
        raise UsageError(f"{name!r} is the name of several labels; name one of these: {ids}")
    if not found:
        raise unknown("label", name, {label.name for facet in FACETS for label in bank.live(facet)})
    return found[0]


def label_turns_lines(value: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    label = value["label"]
    told_of = f"{label['name']} ({KINDS[label['facet']]}, {label['id']}): {label['turns']} turns"
    also = f"also called: {', '.join(label['aliases'])}"
    lines = [told_of, *filter(None, [label["about"]]), *([also] if label["aliases"] else [])]
    for row in value["turns"]:
        note = row["note"]
        said = f"{note['act']} {note['target']}: {note['summary']}"
        lines.append(f"  {row['time'][:16]}  [{row['external_id'] or row['id']}] {row['speaker']}: {one_line(said)}")
    return [one_line(line) if not line.startswith("  ") else line for line in lines]


def timeline_lines(shown: Told) -> Iterator[Any]:
    """A header a session and a line a turn, in time order.

    A turn has the number of its topic in the topic's colour; the topic is named, after how the turn moved to it, where
    it is another one than before.
    """
    yield _coverage(shown.noted, len(shown.rows), f", on {len(shown.topics):,} topics")
    width = len(str(max((topic.number for topic in shown.topics.values()), default=0)))
    session, topic = None, ""
    for row in shown.rows:
        if row.turn.session_id != session:
            session, topic = row.turn.session_id, ""
            yield ""
            yield Text(_safe(f"{session}  {row.turn.time[:16]}"), style="bold")
        yield _line(row, topic, width)
        topic = row.topic.id if row.topic else topic


def _line(row: Noted, before: str, width: int) -> Text:
    turn, note, topic = row.turn, row.note, row.topic
    if note is None:
        said = _safe(f"[{place(turn)}] {turn.speaker}: {turn.text}")[:_TEXT]
        return Text(f"□ {'-':>{width}} no note  {said}", style="dim")
    hue = colour(topic.number) if topic else "dim"
    line = Text("").append("■ " if topic else "□ ", style=hue)
    line.append(f"{topic.number if topic else '-':>{width}} {'' if row.move == 'continue' else row.move:<8} ")
    if topic and topic.id != before:
        line.append(f"{_safe(topic.name)}  ", style=f"bold {hue}")
    line.append(f"{_safe(f'[{place(turn)}] {turn.speaker}')}: ")
    line.append(_safe(f"{note.act} {note.target}"), style="bold")
    line.append(_safe(f": {note.summary[:_TEXT]}" if note.summary else ""))
    return line.append("  (decided otherwise later)", style="italic") if row.replaced_by else line


def colour(number: int) -> str:
    """The colour of a topic, the same as on its page."""
    return COLOURS[number % len(COLOURS)]


def _safe(text: str) -> str:
    return printable(one_line(text))
