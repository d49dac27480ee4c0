"""Ways to compile. One file each; a recipe says what it tunes, what it needs and how many program runs it may take."""

from collections.abc import Callable
from typing import Any, Protocol

from stitchjam.backends.bindings import Bindings
from stitchjam.data.errors import UsageError
from stitchjam.optimizers.metrics import Metric
from stitchjam.optimizers.recipes.bootstrap import Bootstrap
from stitchjam.optimizers.recipes.candidate import Candidate
from stitchjam.optimizers.task import Task
from stitchjam.programs.step import Program

__all__ = ["Candidate", "RECIPES", "Recipe", "make_recipe"]


class Recipe(Protocol):
    """One way to compile a program.

    A recipe never touches held-out examples, draws random numbers from a fixed seed only, and leaves the student it is
    given unchanged.
    """

    name: str

    def runs(self, task: Task) -> int:
        """At most so many program runs on training examples."""
        ...

    def demos(self) -> int:
        """At most so many demos a predictor, which make prompts longer; 0 when it tunes instructions only."""
        ...

    def compile(
        self,
        student: Program,
        task: Task,
        metric: Metric,
        bindings: Bindings | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> Candidate:
        """A new program and where its demos come from; `progress` gets example id and score of each run."""
        ...

    def describe(self) -> dict[str, Any]:
        """Name and options, for manifests and fingerprints."""
        ...


RECIPES: dict[str, type[Bootstrap]] = {"bootstrap": Bootstrap}


def make_recipe(name: str, **options: Any) -> Recipe:
    """A recipe by name.

    Raises:
        UsageError: there is no such recipe.
    """
    if name not in RECIPES:
        raise UsageError(f"unknown recipe {name!r}; known: {', '.join(sorted(RECIPES))}")
    return RECIPES[name](**options)
