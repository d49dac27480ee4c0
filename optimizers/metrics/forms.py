"""Turns text into the words that scorers compare; each benchmark has rules of its own, kept as they are."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from stitchjam.data.errors import MissingExtra

__all__ = [
    "FIGURE",
    "contains",
    "differences",
    "gam_words",
    "locomo_words",
    "overlap_f1",
    "porter",
    "squad_words",
    "whole_words",
]

FIGURE = r"(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)"  # 1,233 and 1,233,456, but neither 1,2 nor 2024,100
_FIGURE = re.compile(FIGURE)
_DELETED = str.maketrans("", "", string.punctuation)
_LOCOMO_DROPS = re.compile(r"\b(?:an?|the|and)\b")
_SQUAD_DROPS = re.compile(r"\b(?:an?|the)\b")
_GAM_BLANKS = re.compile(r"[^\w\s]")
_GAM_DROPS = re.compile(r"(?:^|\s)(?:an?|the)(?:\s|$)")
# Figures such as 76.22 and 10:30 stay whole, or "3" would stand in "3.40"; "C++" and "C#" are not "C".
_WHOLE = re.compile(r"\d+(?:[.:]\d+)+|\w+[+#]*")
_ARTICLES = {"a", "an", "the"}
_SHOWN = 6


@lru_cache(maxsize=1)
def porter() -> Callable[[str], str]:
    """The Porter stemmer of nltk, in its default mode as in LoCoMo's scorer.

    Raises:
        MissingExtra: nltk is not installed.
    """
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError:
        raise MissingExtra("nltk", "bench", "LoCoMo's scorer") from None
    return PorterStemmer().stem


def locomo_words(text: str) -> list[str]:
    """Stems as in LoCoMo's official scorer, which drops "and" like an article.

    Punctuation is deleted, not turned into a blank: "dairy-free" is one word, and "rock/pop" too.
    """
    bare = text.replace(",", "").lower().translate(_DELETED)
    return [porter()(word) for word in _LOCOMO_DROPS.sub(" ", bare).split()]


def gam_words(text: str) -> list[str]:
    """Words as in GAM's scorer: punctuation becomes a blank, nothing is stemmed.

    Of two articles in a row the second stays, since the pattern takes the blank between them. "_" is a letter.
    """
    spaced = " ".join(_GAM_BLANKS.sub(" ", text.lower()).split())
    return _GAM_DROPS.sub(" ", spaced).split()


def squad_words(text: str) -> list[str]:
    """Words as in SQuAD, HotpotQA and LongBench: ASCII punctuation is deleted, then the articles."""
    return _SQUAD_DROPS.sub(" ", text.lower().translate(_DELETED)).split()


def whole_words(text: str) -> list[str]:
    """Words by which our own matching compares: figures stay whole, "1,233" is "1233", articles go unless all is one.

    Letters are compared without case, and in one form of Unicode, so that two ways to write "é" are equal.
    """
    plain = unicodedata.normalize("NFKC", _FIGURE.sub(lambda figure: figure[0].replace(",", ""), text)).casefold()
    found = _WHOLE.findall(plain)
    return [word for word in found if word not in _ARTICLES] or found


def contains(text: Sequence[str], words: Sequence[str]) -> bool:
    """Whether words stand in a text in this order, side by side; no words stand nowhere."""
    starts = range(len(text) - len(words) + 1) if words else ()
    return any(list(text[at : at + len(words)]) == list(words) for at in starts)


def overlap_f1(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of two multisets; 0 when they share nothing, also when both are empty."""
    common = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0


def differences(predicted: Sequence[str], gold: Sequence[str]) -> str:
    """What is missing and what is too much, in words; empty when the multisets are equal."""
    missing, extra = Counter(gold) - Counter(predicted), Counter(predicted) - Counter(gold)
    named = (("missing", missing), ("too much", extra))
    return "; ".join(f"{name}: {_shown(words)}" for name, words in named if words)


def _shown(words: Counter[str]) -> str:
    listed = list(words.elements())
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(map(repr, listed[:_SHOWN])) + more
