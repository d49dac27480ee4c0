"""stitchjam: agent memory as DSPy programs that optimizers compile for your model.

Importing it is cheap: a public name is imported from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stitchjam.programs.artifact import load
    from stitchjam.programs.memory import Memory

__all__ = ["Memory", "__version__", "load"]

__version__ = "0.1.0"

_HOME_OF = {"Memory": "stitchjam.programs.memory", "load": "stitchjam.programs.artifact"}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
