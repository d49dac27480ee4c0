"""stitchjam: agent memory as DSPy programs that optimizers compile for your model.

Importing it is cheap: a public name is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stitchjam.programs.artifact import load
    from stitchjam.programs.jam.memorizer import Memorizer
    from stitchjam.programs.memory import Memory
    from stitchjam.programs.stitch.recall import StitchAgent
    from stitchjam.programs.stitch.stitcher import FusedStitcher

__all__ = ["FusedStitcher", "Memorizer", "Memory", "StitchAgent", "__version__", "load"]

__version__ = "0.1.0"

_HOME_OF = {
    "FusedStitcher": "stitchjam.programs.stitch.stitcher",
    "Memorizer": "stitchjam.programs.jam.memorizer",
    "Memory": "stitchjam.programs.memory",
    "StitchAgent": "stitchjam.programs.stitch.recall",
    "load": "stitchjam.programs.artifact",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
