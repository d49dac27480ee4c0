"""Turns blocks of vectors into similarities; a block is never copied when turns are added behind it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vectors"]

Floats = NDArray[np.float32]
_GATHER = 3  # up to a third of the rows, picking them costs less than the product with all of them
_AT_ONCE = 512  # rows: they fit a processor's cache, and so small a product is not split among threads that wait


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
        """Cosine of each vector with the query, shape [size]; when `rows` are given, in order, others may be 0."""
        found = np.zeros(self.size, dtype=np.float32)
        for start, block in self._placed():
            here = found[start : start + len(block)]
            if rows is None or len(rows) * _GATHER > self.size:
                for at in range(0, len(block), _AT_ONCE):
                    here[at : at + _AT_ONCE] = block[at : at + _AT_ONCE] @ query
                continue
            first, end = np.searchsorted(rows, (start, start + len(block)))
            for at in range(first, end, _AT_ONCE):
                some = rows[at : min(at + _AT_ONCE, end)] - start
                here[some] = block.take(some, axis=0) @ query
        return found

    def _placed(self) -> Iterator[tuple[int, Floats]]:
        start = 0
        for block in self.blocks:
            yield start, block
            start += len(block)
