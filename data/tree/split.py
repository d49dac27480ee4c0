"""Turns what lies in a folder that is full into two halves that belong together: 2-means, with limits.

The same input always gives the same halves: it starts from the two that lie farthest apart, not from chance.
"""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stitchjam.data.index.encoders import Encoder
from stitchjam.data.index.terms import terms

__all__ = ["halves", "unit", "vectors_of"]

Vectors = NDArray[np.float32]
_HASHED = 256  # length of a vector of hashed words, where there is no encoder
_ROUNDS = 20


def vectors_of(encoder: Encoder | None, texts: Sequence[str]) -> Vectors:
    """Vectors of texts, shape [texts, dim], rows of length 1; of their hashed words when there is no encoder."""
    if encoder is not None:
        return encoder.encode(list(texts))
    counts = np.zeros((len(texts), _HASHED), np.float32)
    for row, text in zip(counts, texts, strict=True):
        for term in terms(text):
            row[crc32(term.encode()) % _HASHED] += 1
    return unit(counts)


def unit(vectors: NDArray[np.floating[Any]]) -> Vectors:
    """Vectors of length 1 in the same directions, shape [..., dim]; zeros stay zeros."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32)


def halves(vectors: Vectors, places: Sequence[float], drift: float, least: int) -> NDArray[np.bool_]:
    """Which of some things belong to one half; the others are the other half.

    Args:
        vectors: one each, shape [things, dim], of length 1.
        places: when each happened, in any unit; ascending time.
        drift: weight of time against meaning; the earliest and the latest are so far apart.
        least: things that each half has at least.
    """
    when = np.asarray(places, np.float32)
    span = float(when.max() - when.min()) or 1.0
    points = np.hstack([vectors, drift * ((when - when.min()) / span)[:, None]]).astype(np.float32)
    far = int(np.argmax(_distance(points, points.mean(axis=0))))
    centres = points[far], points[int(np.argmax(_distance(points, points[far])))]
    side = np.zeros(len(points), bool)
    for _ in range(_ROUNDS):
        nearer = _distance(points, centres[1]) - _distance(points, centres[0])  # above 0: to the first
        size = int(np.clip((nearer > 0).sum(), least, len(points) - least))
        now = np.zeros(len(points), bool)
        now[np.argsort(-nearer, kind="stable")[:size]] = True
        if (now == side).all():
            break
        side = now
        centres = points[side].mean(axis=0), points[~side].mean(axis=0)
    return side


def _distance(points: Vectors, centre: Vectors) -> Vectors:
    return ((points - centre) ** 2).sum(axis=1)
