"""Turns sets whose turns carry gold labels into labelled histories, for measuring the steps that label.

worlds   worlds of this package; they alone have references
came     CAME-Bench: day or topic, action, names
sgd      schema-guided dialogues, with questions made by rule
realmem  RealMem: projects that go on over many sessions
qmsum    QMSum: topics of meetings
tiage    TIAGE: shifts of topic
rows     our own: a turn a line; `labelled_rows` writes any of the others so
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.labelled.came import read_came_labels
from stitchjam.data.labelled.qmsum import read_qmsum_labels
from stitchjam.data.labelled.realmem import read_realmem_labels
from stitchjam.data.labelled.records import LabelledHistory, ReferenceGold, TurnLabels
from stitchjam.data.labelled.rows import labelled_rows, read_row_labels
from stitchjam.data.labelled.sgd import read_sgd_labels
from stitchjam.data.labelled.tiage import read_tiage_labels
from stitchjam.data.labelled.worlds import read_world_labels

__all__ = ["LABELLED", "LabelledHistory", "ReferenceGold", "TurnLabels", "labelled_rows", "read_labelled"]

LABELLED: Mapping[str, Callable[[Any], Iterator[LabelledHistory]]] = MappingProxyType(
    {
        "worlds": read_world_labels,
        "came": read_came_labels,
        "sgd": read_sgd_labels,
        "realmem": read_realmem_labels,
        "qmsum": read_qmsum_labels,
        "tiage": read_tiage_labels,
        "rows": read_row_labels,
    }
)


def read_labelled(kind: str, path: str | Path | None = None) -> Iterator[LabelledHistory]:
    """The labelled histories of a set, in the order of its files; they are read as they are asked for.

    Args:
        kind: in `LABELLED`.
        path: its file or folder; only worlds have a sample that ships with the package.

    Raises:
        UsageError: there is no such kind, or no history at the path.
        DataError: a file is not of this kind, or two histories have one name.
    """
    if kind not in LABELLED:
        raise UsageError(f"unknown kind of labelled set {kind!r}; choose one of: {', '.join(LABELLED)}")
    if path is None and kind != "worlds":
        raise UsageError(f"{kind} does not ship with this package; give the path of its file or folder")
    if path is not None and not Path(path).exists():
        raise UsageError(f"{path}: there is no such file or folder")
    return _named_once(LABELLED[kind](None if path is None else Path(path)), path)


def _named_once(found: Iterator[LabelledHistory], path: str | Path | None) -> Iterator[LabelledHistory]:
    names: set[str] = set()
    for one in found:
        if one.name in names:
            raise DataError(f"two histories are called {one.name!r}; give each its own name, or read them one by one")
        names.add(one.name)
        yield one
    if not names:
        raise UsageError(f"{path}: there is no history in it; give the file that holds the turns")
