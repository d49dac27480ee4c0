"""Turns labelled histories and what a program said about their turns into a report, with what saying nothing scores.

A turn that the program said nothing about counts: it has the scope "", no labels and an empty note. A turn that has no
gold scope, or none of a kind of label, is left out of what is about that; its neighbours are then neighbours. What
labels stand for is found anew in each history.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

from stitchjam.data.errors import UsageError
from stitchjam.data.labelled import LabelledHistory, TurnLabels
from stitchjam.optimizers.steps.clusters import b_cubed, v_measure
from stitchjam.optimizers.steps.mapping import typing_figures
from stitchjam.optimizers.steps.notes import key_tokens_kept, references_resolved
from stitchjam.optimizers.steps.records import FIGURES, Figure, Predicted, Scored, StepReport
from stitchjam.optimizers.steps.segments import Labelling, segmentation

__all__ = ["score_history", "score_steps"]

Said = Mapping[str, Predicted]
_NOTHING = Predicted()
_ALL, _ONE, _OWN = "all", "one label", "a label a turn"


def score_steps(histories: Iterable[LabelledHistory], predictions: Mapping[str, Said]) -> StepReport:
    """Judge what was said about the turns of histories.

    Args:
        histories: each with a name of its own.
        predictions: by name of the history, and by turn id.

    Raises:
        UsageError: no turn has gold, two histories have one name, or something is said about what is not there.
    """
    histories = tuple(histories)
    _require_fit(histories, predictions)
    scored = tuple(score_history(one, predictions.get(one.name, {})) for one in histories if one.labels)
    if not scored:
        raise UsageError("no turn has gold labels, so there is nothing to measure; give a set whose turns have some")
    nothing = {
        _ONE: [score_history(one, {id: _labelled("x") for id in one.labels}) for one in histories if one.labels],
        _OWN: [score_history(one, {id: _labelled(id) for id in one.labels}) for one in histories if one.labels],
    }
    return StepReport(
        histories=scored,
        together=_together(_ALL, scored),
        baselines=tuple(_without_notes(_together(name, some)) for name, some in nothing.items()),
    )


def _require_fit(histories: Sequence[LabelledHistory], predictions: Mapping[str, Said]) -> None:
    turns = {one.name: {turn.id for turn in one.history.turns} for one in histories}
    if len(turns) < len(histories):
        raise UsageError("two histories have the same name; rename one, or score them one by one")
    for name, said in predictions.items():
        if name not in turns:
            raise UsageError(f"predictions for {name!r}, which is none of the histories; there are: {', '.join(turns)}")
        if unknown := said.keys() - turns[name]:
            raise UsageError(f"{name!r} has no turn {min(unknown)!r}; label the same history that is scored")


def _labelled(label: str) -> Predicted:
    return Predicted(scope=label, events=(label,), entities=(label,))


def score_history(one: LabelledHistory, said: Said) -> Scored:
    """The figures of one history, from what was said by turn id."""
    found = dict(_scopes(one, said)) | dict(_types(one, said)) | dict(_notes(one, said))
    return Scored(
        name=one.name,
        turns=len(one.labels),
        labelled=len(one.labels.keys() & said.keys()),
        figures={name: Figure(value=found[name][0], turns=found[name][1]) for name in FIGURES if name in found},
    )


def _golds(one: LabelledHistory, said: Said) -> list[tuple[TurnLabels, Predicted]]:
    return [(one.labels[turn.id], said.get(turn.id, _NOTHING)) for turn in one.history.turns if turn.id in one.labels]


def _scopes(one: LabelledHistory, said: Said) -> Iterator[tuple[str, tuple[float, int]]]:
    sessions = []
    for session in one.history.sessions:
        ids = [turn.id for turn in session.turns if turn.id in one.labels and one.labels[turn.id].scope]
        gold = tuple(one.labels[id].scope for id in ids)
        sessions.append(Labelling(gold, tuple(said.get(id, _NOTHING).scope for id in ids)))
    gold = [scope for each in sessions for scope in each.gold]
    given = [scope for each in sessions for scope in each.given]
    if gold:
        whole = v_measure(gold, given) | b_cubed(gold, given) | {"ratio": len(set(given)) / len(set(gold))}
        figures = {name: (value, len(gold)) for name, value in whole.items()} | segmentation(sessions)
        yield from ((f"scope.{name}", figure) for name, figure in figures.items())


def _types(one: LabelledHistory, said: Said) -> Iterator[tuple[str, tuple[float, int]]]:
    turns = _golds(one, said)
    for kind in ("events", "entities"):
        pairs = [(getattr(gold, kind), getattr(given, kind)) for gold, given in turns if getattr(gold, kind)]
        if pairs:
            figures = typing_figures([gold for gold, _ in pairs], [given for _, given in pairs])
            yield from ((f"{kind}.{name}", (value, len(pairs))) for name, value in figures.items())


def _notes(one: LabelledHistory, said: Said) -> Iterator[tuple[str, tuple[float, int]]]:
    turns = _golds(one, said)
    if (resolved := references_resolved((gold.references, given.text) for gold, given in turns)) is not None:
        yield "note.references_resolved", resolved
    if (kept := key_tokens_kept((gold.targets, given.text) for gold, given in turns)) is not None:
        yield "note.key_tokens_kept", kept


def _together(name: str, scored: Sequence[Scored]) -> Scored:
    figures = {}
    for figure in FIGURES:
        some = [one.figures[figure] for one in scored if figure in one.figures]
        if turns := sum(one.turns for one in some):
            figures[figure] = Figure(value=fsum(one.value * one.turns for one in some) / turns, turns=turns)
    turns, labelled = sum(one.turns for one in scored), sum(one.labelled for one in scored)
    return Scored(name=name, turns=turns, labelled=labelled, figures=figures)


def _without_notes(scored: Scored) -> Scored:
    figures = {name: one for name, one in scored.figures.items() if not name.startswith("note.")}
    return scored.model_copy(update={"figures": figures})
