"""Turns the words of notes into what they keep: what references mean, and the words of what a turn is about."""

from collections.abc import Iterable

from stitchjam.data.index.terms import stop_words
from stitchjam.data.labelled import ReferenceGold
from stitchjam.data.text import words

__all__ = ["content_words", "key_tokens_kept", "references_resolved"]


def content_words(text: str) -> frozenset[str]:
    """Words that tell something: lower case, without punctuation, articles and stop words."""
    return frozenset(words(text)) - stop_words()


def references_resolved(turns: Iterable[tuple[Iterable[ReferenceGold], str]]) -> tuple[float, int] | None:
    """The share of references whose meaning's content words all stand in the note of the turn, and of how many turns.

    None where there is no reference; one whose meaning has no content word is left out.
    """
    found = [
        [content_words(one.means) <= content_words(note) for one in some if content_words(one.means)]
        for some, note in turns
    ]
    return _share(found)


def key_tokens_kept(turns: Iterable[tuple[Iterable[str], str]]) -> tuple[float, int] | None:
    """The share of the targets' content words that stand in the note of the turn, and of how many turns."""
    found = []
    for targets, note in turns:
        said = content_words(note)
        found.append([word in said for word in frozenset().union(*map(content_words, targets))])
    return _share(found)


def _share(turns: Iterable[list[bool]]) -> tuple[float, int] | None:
    some = [each for each in turns if each]
    every = [one for each in some for one in each]
    return (sum(every) / len(every), len(some)) if every else None
