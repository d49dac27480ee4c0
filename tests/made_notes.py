"""Histories whose turns are labelled by hand, in a store or in a memory on disk: what a model would have noted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from stitchjam.data.disk.notes import labelling
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.work import Derived
from stitchjam.data.errors import ModelOutputError
from stitchjam.data.ids import build_session
from stitchjam.data.intents.records import Entry, Facet, Intent, Label, Merge, Note, Resolved
from stitchjam.data.records import History, Span, Turn
from stitchjam.data.store import Store

PROGRAM = "p1"


@dataclass
class Said:
    """A turn and what is noted of it; `topic` "" leaves it without a note."""

    text: str
    topic: str = ""
    move: str = "continue"
    event: str = "tells"
    kinds: tuple[str, ...] = ()
    act: str = "tell"
    target: str = ""
    refs: tuple[tuple[str, str], ...] = ()
    merges: tuple[tuple[Facet, str, str], ...] = ()
    gist: str = ""
    speaker: str = "Mira"


TRIP = (
    [
        Said("The Oak Inn in Bonn is near the station.", "day 1", "open", "proposes", ("hotel",), "propose", "Oak Inn"),
        Said("What does it cost?", "day 1", "continue", "asks", ("price",), "ask", "Oak Inn", (("it", "the Oak Inn"),)),
        Said("Then we take the Oak Inn.", "day 1", "continue", "decides", ("hotel",), "decide", "Oak Inn"),
        Said("On the second day we see the museum.", "day 2", "open", "proposes", ("museum",), "propose", "museum"),
        Said("Good morning."),
    ],
    [
        Said("No, we take Elm House instead.", "day 1", "return", "decides", ("hotel",), "decide", "Elm House",
             gist="Elm House is booked for the first night"),
        Said("The museum opens at ten.", "second day", "open", "tells", ("museum",), "tell", "museum"),
        Said("Where do we eat?", "food", "open", "asks", ("restaurant",), "ask", "", (),
             (("scope", "second day", "day 2"),)),
    ],
)  # fmt: skip


def history_of(sessions: Sequence[Sequence[Said]] = TRIP) -> History:
    built = [
        build_session(
            f"s{at}",
            (datetime(2026, 3, 1, 9, tzinfo=timezone.utc) + timedelta(days=at - 1)).isoformat()[:16],
            [{"speaker": one.speaker, "text": one.text, "external_id": f"D{at}:{n}"} for n, one in enumerate(some, 1)],
        )
        for at, some in enumerate(sessions, 1)
    ]
    return History(id="trip", sessions=tuple(built))


@dataclass
class _Maker:
    labels: dict[tuple[Facet, str], Label] = field(default_factory=dict)
    made: list[Label] = field(default_factory=list)

    def id(self, facet: Facet, name: str, turn: Turn) -> str:
        if (facet, name) not in self.labels:
            label = Label(id=f"{facet}-{len(self.labels)}", facet=facet, name=name, maker=turn.id)
            self.labels[facet, name] = label
            self.made.append(label)
        return self.labels[facet, name].id

    def entry(self, turn: Turn, said: Said, number: int) -> Entry:
        self.made = []
        intent = Intent(
            scopes=(self.id("scope", said.topic, turn),),
            events=(self.id("event", said.event, turn),),
            entities=tuple(self.id("entity", kind, turn) for kind in said.kinds),
        )
        at = turn.text.find(said.target) if said.target else -1
        note = Note.model_validate(
            {
                "turn_id": turn.id, "session_id": turn.session_id, "speaker": turn.speaker, "number": number,
                "intent": intent, "move": said.move, "act": said.act, "target": said.target,
                "summary": f"says {said.target}", "gist": said.gist,
                "references": tuple(Resolved(words=words, means=means) for words, means in said.refs),
                "span": Span.of(turn, at, at + len(said.target)) if at >= 0 else Span.of(turn),
            }
        )  # fmt: skip
        ends = [(self.labels[facet, old].id, self.labels[facet, new].id) for facet, old, new in said.merges]
        merges = tuple(Merge(old=old, into=new, similarity=0.91) for old, new in ends)
        return Entry(note=note, made=tuple(self.made), merges=merges)


def entries_of(history: History, sessions: Sequence[Sequence[Said]] = TRIP) -> list[Entry]:
    maker, said = _Maker(), [one for some in sessions for one in some]
    labelled = [(turn, one) for turn, one in zip(history.turns, said, strict=True) if one.topic]
    return [maker.entry(turn, one, number) for number, (turn, one) in enumerate(labelled)]


def store_of(sessions: Sequence[Sequence[Said]] = TRIP) -> Store:
    history = history_of(sessions)
    return Store.of(history, "none", entries_of(history, sessions))


def memory_of(path: Path, sessions: Sequence[Sequence[Said]] = TRIP, noted: bool = True) -> DiskStore:
    """A memory with a source for each session, labelled unless `noted` is False."""
    history = history_of(sessions)
    disk = DiskStore(path, "none")
    for session in history.sessions:
        disk.add_history(History(id=session.id, sessions=(session,)))
    if noted:
        entries = {entry.note.turn_id: entry for entry in entries_of(history, sessions)}
        disk.register(labelling(PROGRAM))
        for entry in entries.values():
            _keep(disk, entry)
    return disk


def _keep(disk: DiskStore, entry: Entry) -> None:
    """Store the note of the next turn that waits; turns without a note fail, as when a model gives no usable answer."""

    def run(turn_id: str) -> Derived:
        if turn_id != entry.note.turn_id:
            raise ModelOutputError("label_turn", "no usable answer", "")
        content = entry.model_dump(mode="json")
        return Derived(content, entry.note.intent.ids, made=entry.made, merges=entry.merges)

    while not disk.process(labelling(PROGRAM), run, 1).done:
        pass
