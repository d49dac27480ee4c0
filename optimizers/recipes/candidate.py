"""What a recipe hands back."""

from dataclasses import dataclass, field

from stitchjam.programs.step import Program

__all__ = ["Candidate"]


@dataclass(frozen=True)
class Candidate:
    """A compiled program, not yet judged. `sources`: predictor path -> ids of the examples its demos come from."""

    program: Program
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
