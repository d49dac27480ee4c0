"""Turns a stream of turns into entries of a notebook: seeds once, a note a turn, merges now and then (STITCH 3.6)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, cast

import dspy

from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import ACTS, FACETS, Entry, Facet, Label, Merge, Vocabulary
from stitchjam.data.records import Turn
from stitchjam.data.text import normalise
from stitchjam.programs.contract import digest, identity
from stitchjam.programs.render import NOTHING, clip, within
from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.candidates import is_name
from stitchjam.programs.stitch.labelers import FusedLabeler, Labeler, StepwiseLabeler
from stitchjam.programs.stitch.settle import Thresholds, label_id, settle
from stitchjam.programs.stitch.view import Sizes, clean, view_of, windows
from stitchjam.signatures.stitch import MergeLabels, SeedVocabulary

__all__ = ["FusedStitcher", "LABELERS", "SEED_TURNS", "StepwiseStitcher", "Stitcher"]

SEED_TURNS = 50  # N_start of the paper: a vocabulary is made of the first turns, which are labelled then
_MERGE_EVERY = 50  # k_update of the paper
_PAIRS = 6
_FEW = 4  # event types: a small model names one or two, and then gives them to every turn
_SEED_TOKENS, _SEED_CLIP = 1_100, 140
_KIND: dict[Facet, str] = {"scope": "topics", "event": "what turns do", "entity": "kinds of things"}


class Stitcher(Program):
    """Labels turns, one after the other. Use `FusedStitcher` (one call a turn) or `StepwiseStitcher` (five).

    Args:
        labeler: reads a turn; default: a fresh one of the kind.
        sizes: how much a prompt shows.
        thresholds: similarities that decide.
        coreference: False leaves out what references mean (the ablation of the paper).
        seed_vocabulary, merge_labels: replacements for the steps of these names.
    """

    kind: type[Labeler]
    seed_vocabulary: dspy.Module
    merge_labels: dspy.Module

    def __init__(
        self,
        labeler: Labeler | None = None,
        sizes: Sizes | None = None,
        thresholds: Thresholds | None = None,
        coreference: bool = True,
        seed_vocabulary: Any = None,
        merge_labels: Any = None,
    ):
        super().__init__()
        self.labeler = labeler or self.kind()
        self.sizes, self.thresholds = sizes or Sizes(), thresholds or Thresholds()
        for name, kind in {"sizes": Sizes, "thresholds": Thresholds}.items():
            if not isinstance(getattr(self, name), kind):
                raise UsageError(f"{name} are a {kind.__name__}(...), not {getattr(self, name)!r}")
        if not isinstance(coreference, bool):
            raise UsageError(f"coreference is true or false, not {coreference!r}")
        self.coreference = coreference
        self.seed_vocabulary = as_step(seed_vocabulary, SeedVocabulary)
        self.merge_labels = as_step(merge_labels, MergeLabels)

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {
            "sizes": asdict(self.sizes),
            "thresholds": asdict(self.thresholds),
            "coreference": self.coreference,
        }

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "Stitcher":
        """See `Program.build`."""
        parts: dict[str, Any] = {
            "sizes": Sizes(**hparams["sizes"]),
            "thresholds": Thresholds(**hparams["thresholds"]),
        }
        return cls(**(hparams | parts))

    @property
    def fingerprint(self) -> str:
        """What notes of this program are kept under: prompts, demos, sizes and thresholds decide it."""
        return digest(identity(self))[:16]

    def forward(
        self,
        turn: Turn,
        notebook: Notebook,
        before: Sequence[Turn] = (),
        first: Sequence[Turn] = (),
        program: str = "",
    ) -> dspy.Prediction:
        """Label one turn. The notebook is not changed: add the entry to it.

        Args:
            turn: the turn.
            notebook: what was noted so far, by this program.
            before: turns before it in its session, in order; the last few are enough.
            first: the first turns of the memory, for the vocabulary; read when nothing is noted yet.
            program: the fingerprint of this program, where it is known; to find it out takes as long as a call.

        Returns:
            A prediction with `entry`, an `Entry`.

        Raises:
            ModelOutputError, BackendError: from the steps that read the turn.
        """
        seed, state, start = program or self.fingerprint, notebook, Vocabulary()
        if not notebook.entries:
            start = notebook.vocabulary if notebook.vocabulary.labels else self.vocabulary(first or (turn,), seed)
            state = Notebook(notebook.bank.encoder)
            state.begin(start)
        views = [view_of(state, turn, piece, before, self.sizes) for piece in windows(turn, self.sizes.window)]
        readings = [self.labeler(view=view).reading for view in views]
        entry = settle(state, views, readings, self.thresholds, seed)
        due = (notebook.size + 1) % _MERGE_EVERY == 0
        merges = self._merges(notebook) if due else ()
        note = entry.note if self.coreference else entry.note.model_copy(update={"references": ()})
        made = (*start.labels, *entry.made)
        whole = Entry(note=note, made=made, merges=merges, checked=due, seen=start.seen)
        return dspy.Prediction(entry=whole)

    def vocabulary(self, first: Sequence[Turn], program: str = "") -> Vocabulary:
        """The labels that a memory starts with, from its first turns; with acts, when a model names few event types.

        Raises:
            BackendError: from the step. A reply that cannot be used names no types.
        """
        seed, chosen = program or self.fingerprint, first[:SEED_TURNS]
        lines = (f"{clip(turn.speaker, 60)}: {clip(clean(turn.text), _SEED_CLIP)}" for turn in chosen)
        try:
            reply = self.seed_vocabulary(turns="\n".join(within(lines, _SEED_TOKENS)) or NOTHING).reply
            found = [("event", reply.events), ("entity", reply.entities)]
        except ModelOutputError:
            found = []
        labels: dict[tuple[str, str], Label] = {}
        for facet, types in found:
            for one in types:
                if is_name(one.name):
                    made = _seed(cast(Facet, facet), one.name, one.meaning, seed)
                    labels.setdefault((facet, normalise(one.name)), made)
        if sum(facet == "event" for facet, _ in labels) < _FEW:
            acts = {("event", normalise(act)): _seed("event", act, "", seed) for act in ACTS if act != "other"}
            labels = acts | labels
        return Vocabulary(labels=tuple(labels.values()), seen=tuple(turn.id for turn in chosen))

    def _merges(self, notebook: Notebook) -> tuple[Merge, ...]:
        """Labels that mean the same, of those that look alike; none when the step cannot say."""
        twins = [pair for facet in FACETS for pair in notebook.bank.twins(facet, self.thresholds.merge, _PAIRS)]
        twins = sorted(twins, key=lambda pair: -pair[2])[:_PAIRS]
        if not twins:
            return ()
        rows = [
            f"p{number} | {_KIND[older.facet]} | {_said(notebook, older)} | {_said(notebook, newer)}"
            for number, (older, newer, _) in enumerate(twins, 1)
        ]
        try:
            chosen = self.merge_labels(pairs="\n".join(rows)).reply.same
        except ModelOutputError:
            return ()
        names = {one.pair: one.name for one in chosen}
        return tuple(
            _merge(older, newer, score, names[f"p{number}"])
            for number, (older, newer, score) in enumerate(twins, 1)
            if f"p{number}" in names
        )


class FusedStitcher(Stitcher):
    """Labels turns in one call each: the default. Its note has a gist as one of its fields."""

    kind = FusedLabeler


class StepwiseStitcher(Stitcher):
    """Labels turns step by step, as the paper does: the reference."""

    kind = StepwiseLabeler


# By name: what labels turns.
LABELERS: Mapping[str, type[Stitcher]] = MappingProxyType(
    {"stitch": FusedStitcher, "stitch_stepwise": StepwiseStitcher}
)


def _seed(facet: Facet, name: str, meaning: str, seed: str) -> Label:
    return Label(id=label_id(facet, seed, "", name), facet=facet, name=name, description=meaning)


def _said(notebook: Notebook, label: Label) -> str:
    about = notebook.bank.gists.get(label.id) or label.description
    return clip(f"{label.name}: {about}" if about else label.name, 110)


def _merge(older: Label, newer: Label, score: float, name: str) -> Merge:
    """The label whose name was chosen stays; the older one when it is neither."""
    old, into = (older, newer) if normalise(name) == normalise(newer.name) else (newer, older)
    return Merge(old=old.id, into=into.id, similarity=round(score, 4))
