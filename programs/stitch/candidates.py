"""Turns a bank of labels into the lines a prompt shows, and picks of a model back into labels of the bank."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stitchjam.data.intents.bank import LabelBank
from stitchjam.data.intents.records import FACETS, Facet, Label
from stitchjam.data.text import normalise
from stitchjam.programs.render import NOTHING, clip
from stitchjam.signatures.reply import NONE

__all__ = ["Candidates"]

_LETTER: dict[Facet, str] = dict(zip(FACETS, "cek", strict=True))
_PICK = re.compile(r"^\W*([cek])\s?(\d{1,2})\b\W*(.*)$", re.IGNORECASE | re.DOTALL)
_NO_NAME = frozenset(
    {"", NONE, *"null na no new other unknown empty nothing".split(), "n a"}
    | set("he here i it she that there these they this those we you".split())
)
_LONGEST: dict[Facet, int] = {"scope": 100, "event": 60, "entity": 60}  # characters of what a label is about


@dataclass(frozen=True)
class Candidates:
    """Labels of one facet to choose from, in the order shown: c1, c2 for scopes, e1 for events, k1 for entities."""

    bank: LabelBank
    facet: Facet
    labels: tuple[Label, ...]

    def lines(self, here: str = "", like: Sequence[float] = ()) -> str:
        """One line a label: name, meaning or gist, and for scopes whether the session is in it, and how alike it is.

        Args:
            here: id of the scope that the session was last in.
            like: similarity of each label to the turn; none are shown without.
        """
        rows = []
        for at, label in enumerate(self.labels):
            parts = [f"{_LETTER[self.facet]}{at + 1}", clip(label.name, 40)]
            parts += ["now"] if label.id == here else []
            parts += [f"{like[at]:.2f}"] if like else []
            about = clip(self.bank.gists.get(label.id) or label.description, _LONGEST[self.facet])
            rows.append(" | ".join([*parts, about] if about else parts))
        return "\n".join(rows) or NOTHING

    def picked(self, pick: str) -> Label | None:
        """The label that a pick means: the one shown under it, or one of that name; None when it is neither."""
        match = _PICK.match(pick.strip())
        if match and match[1].lower() == _LETTER[self.facet]:
            number = int(match[2])
            return self.labels[number - 1] if 1 <= number <= len(self.labels) else None
        return self.bank.find(self.facet, pick) if is_name(pick) else None

    def chosen(self, picks: Iterable[str]) -> tuple[list[Label], list[str]]:
        """Labels that picks mean, each once; and names for which there is no label yet."""
        found: dict[str, Label] = {}
        fresh: dict[str, str] = {}
        for pick in picks:
            label = self.picked(pick)
            if label:
                found[label.id] = label
            elif is_name(pick) and not _PICK.match(pick.strip()):
                fresh.setdefault(normalise(pick), pick.strip())
        return list(found.values()), list(fresh.values())


def is_name(text: str) -> bool:
    """Whether text can be the name of a label: it holds a letter and is not a way to say "none"."""
    return normalise(text) not in _NO_NAME and any(character.isalpha() for character in text)
