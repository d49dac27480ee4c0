"""Turns blocks of vectors into similarities; a block is never copied when turns are added behind it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vectors"]

Floats = NDArray[np.float32]
_GATHER = 6  # up to a sixth of the rows, picking them costs less than the product with all of them


@dataclass(frozen=True)
class Vectors:
    """Vectors of unit length by position of their turn, in blocks [rows, dim]; zeros where there is no text."""

    blocks: tuple[Floats, ...] = ()

    def extended(self, block: Floats) -> "Vectors":
        """With more vectors behind; blocks of like size are joined, so that there are few of them."""
        blocks = [*self.blocks, block]
        while len(blocks) > 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = np.concatenate([blocks[-1], last])
        return Vectors(tuple(blocks))

    @property
    def size(self) -> int:
        """Number of vectors."""
        return sum(map(len, self.blocks))

    def similarities(self, query: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
        """Cosine of each vector with the query, shape [size]; only at `rows`, and 0 elsewhere, when given."""
        if rows is None or len(rows) * _GATHER > self.size:
            return np.concatenate([np.zeros(0, np.float32), *(block @ query for block in self.blocks)])
        found = np.zeros(self.size, dtype=np.float32)
        for start, block in self._placed():
            here = rows[(rows >= start) & (rows < start + len(block))]
            found[here] = block.take(here - start, axis=0) @ query
        return found

    def _placed(self) -> Iterator[tuple[int, Floats]]:
        start = 0
        for block in self.blocks:
            yield start, block
            start += len(block)
