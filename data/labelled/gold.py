"""Turns gold labels of turns into notes, as a labelling that makes no mistake would leave them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stitchjam.data.disk.notes import labelling
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.work import Derived
from stitchjam.data.intents.records import FACETS, Entry, Facet, Intent, Label, Note
from stitchjam.data.labelled.records import LabelledHistory, TurnLabels
from stitchjam.data.records import Span, Turn

__all__ = ["GOLD", "Labels", "facets_of", "gold_entries", "intent_of", "label_by_gold"]

GOLD = "gold"  # the program under which such notes are kept
Labels = Mapping[str, Mapping[Facet, tuple[str, ...]]]


def gold_entries(turns: Iterable[Turn], labels: Labels) -> Iterator[Entry]:
    """Notes that hold labels and nothing else, as a labelling that makes no mistake would leave them."""
    known: set[str] = set()
    for number, turn in enumerate(turns):
        own = labels.get(turn.id, {})
        names: list[tuple[Facet, str]] = [(facet, name) for facet in FACETS for name in own.get(facet, ())]
        made = {_id(*one): Label(id=_id(*one), facet=one[0], name=one[1]) for one in names if _id(*one) not in known}
        known.update(made)
        note = Note(
            turn_id=turn.id,
            session_id=turn.session_id,
            speaker=turn.speaker,
            number=number,
            intent=intent_of(own),
            move="continue",
            act="other",
            target="",
            summary="",
            span=Span.of(turn),
        )
        yield Entry(note=note, made=tuple(made.values()))


def label_by_gold(disk: DiskStore, labelled: LabelledHistory) -> int:
    """Note the gold labels of a history in its memory, so that what is built on labels can be measured without errors.

    Returns:
        How many turns were noted now.
    """
    labels = {turn_id: facets_of(gold) for turn_id, gold in labelled.labels.items()}
    entries = {entry.note.turn_id: entry for entry in gold_entries(labelled.history.turns, labels)}
    key = labelling(GOLD)
    disk.register(key)

    def note(turn_id: str) -> Derived:
        entry = entries[turn_id]
        return Derived(entry.model_dump(mode="json"), entry.note.intent.ids, made=entry.made)

    return disk.process(key, note).done


def facets_of(gold: TurnLabels) -> dict[Facet, tuple[str, ...]]:
    """Names of labels by facet."""
    return {"scope": (gold.scope,) if gold.scope else (), "event": gold.events, "entity": gold.entities}


def _id(facet: Facet, name: str) -> str:
    return f"{facet}-{name}"


def intent_of(labels: Mapping[Facet, Sequence[str]]) -> Intent:
    """The intent with labels of these names."""
    ids = {facet: tuple(dict.fromkeys(_id(facet, name) for name in labels.get(facet, ()))) for facet in FACETS}
    return Intent(scopes=ids["scope"], events=ids["event"], entities=ids["entity"])
