"""The nouns of judging steps: what a program said about a turn, and the figures that come of it."""

from collections.abc import Sequence

from stitchjam.data.records import Record

__all__ = ["FIGURES", "Figure", "Predicted", "Scored", "StepReport"]

# What a figure is called, in the order in which figures are shown; all are shares but ratio and per_turn.
FIGURES: tuple[str, ...] = (
    "scope.pk",
    "scope.window_diff",
    "scope.boundary_precision",
    "scope.boundary_recall",
    "scope.boundary_f1",
    "scope.homogeneity",
    "scope.completeness",
    "scope.v_measure",
    "scope.b3_precision",
    "scope.b3_recall",
    "scope.b3_f1",
    "scope.ratio",
    "events.mapped",
    "events.mapped_once",
    "events.v_measure",
    "events.per_turn",
    "events.ratio",
    "entities.mapped",
    "entities.mapped_once",
    "entities.v_measure",
    "entities.per_turn",
    "entities.ratio",
    "note.references_resolved",
    "note.key_tokens_kept",
)


class Predicted(Record):
    """What a program said about a turn. `text` is all that its note says: act, target, summary, resolved references."""

    scope: str = ""
    events: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    text: str = ""


class Figure(Record):
    """A figure, and the number of turns that it rests on."""

    value: float
    turns: int


class Scored(Record):
    """Figures by the names in `FIGURES`; one that there is no gold for is left out.

    `turns` are those that have gold of some kind, `labelled` those of them that the program said something about.
    """

    name: str
    turns: int
    labelled: int
    figures: dict[str, Figure]


class StepReport(Record):
    """Figures of each history, and of all together: the mean over histories, weighted by the turns each rests on.

    `baselines` are what an output scores that says nothing: all turns under one label, and each turn under its own.
    """

    histories: tuple[Scored, ...]
    together: Scored
    baselines: tuple[Scored, ...]

    def only(self, parts: Sequence[str]) -> "StepReport":
        """The report with the figures of these parts: scope, events, entities, note."""

        def some(scored: Scored) -> Scored:
            kept = {name: one for name, one in scored.figures.items() if name.partition(".")[0] in parts}
            return scored.model_copy(update={"figures": kept})

        return StepReport(
            histories=tuple(map(some, self.histories)),
            together=some(self.together),
            baselines=tuple(map(some, self.baselines)),
        )
