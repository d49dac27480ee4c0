"""Small worlds for tests, and the parts of them that tests look at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stitchjam.data.records import Turn
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import World, read_worlds
from stitchjam.data.worlds.generate import generate_world
from stitchjam.data.worlds.records import SessionGold, Statement, TurnGold


class Said(NamedTuple):
    """A turn with its gold, and the gold of its session."""

    turn: Turn
    gold: TurnGold
    session: SessionGold


def make(folder: Path, name: str = "w", **dials: Any) -> World:
    """A world in `folder`, generated when it is not there."""
    generate_world(folder, name, Dials.model_validate(dials))
    return read_worlds(folder / name)[0]


def make_some(folder: Path) -> tuple[World, ...]:
    """Four worlds with all styles, types and numbers of hops among them."""
    for seed, overlap in enumerate((0.0, 0.5, 0.5, 1.0)):
        make(folder, f"w{seed}", seed=seed, sessions=50, questions=60, hops=4, noise=0.3, overlap=overlap)
    return read_worlds(folder)


def said(world: World) -> Iterator[Said]:
    """All turns, in order."""
    for session, gold in zip(world.history.sessions, world.gold(), strict=True):
        for turn, label in zip(session.turns, gold.turns, strict=True):
            yield Said(turn, label, gold)


def stated(world: World) -> list[Statement]:
    """All statements, in the order told."""
    return [one for turn in said(world) for one in turn.gold.statements]
