"""Turns text into the terms that search compares: stems without stop words."""

import logging
import re
from functools import lru_cache
from typing import Any

from stitchjam.data.text import stem

__all__ = ["bm25s", "stop_words", "terms"]

_WORD = re.compile(r"\w\w+")
# Scripts without spaces between words: one \w+ would be a whole clause, so pairs of characters stand in for words.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


def terms(text: str) -> list[str]:
    """Index terms of a text: stems of its lower-case words without stop words; pairs of Chinese or Japanese signs."""
    text = text.lower()
    stop = stop_words()
    words = [word for word in _WORD.findall(_UNSPACED.sub(" ", text)) if word not in stop]
    runs = _UNSPACED.findall(text)
    return stem(words) + [run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1))]


@lru_cache(maxsize=1)
def bm25s() -> Any:
    """The library, imported when first needed and made quiet: importing it sets its logger to DEBUG."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """English words that tell nothing, in lower case."""
    bm25s()
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)
