"""Turns templates and what goes into them into text that knows where each piece of it stands.

Wording is data: the TOML files of a language folder. A template is a format string; a field with a capital first letter
begins a sentence. Places are made here, while text is put together, and are never searched for afterwards.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Formatter
from typing import Any, NamedTuple

from stitchjam.data.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Piece", "Text", "Wording", "fill", "joined", "open_wording", "with_field"]

_FILES = ("acts", "attributes", "chatter", "goals", "kinds", "people", "questions")


class Piece(NamedTuple):
    """Words, and the field that they filled, "" for words of the template itself."""

    words: str
    field: str = ""


@dataclass(frozen=True)
class Text:
    """A text as the pieces that it was put together from."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, words: str) -> "Text":
        """A text without fields."""
        return cls((Piece(words),))

    @property
    def plain(self) -> str:
        """The words alone."""
        return "".join(piece.words for piece in self.pieces)

    def place(self, field: str) -> tuple[int, int]:
        """Code points where the first piece stands that filled a field; the whole text when there is none."""
        start = 0
        for piece in self.pieces:
            if piece.field == field:
                return start, start + len(piece.words)
            start += len(piece.words)
        return 0, start

    @property
    def sentence(self) -> "Text":
        """The same with a capital first letter."""
        first, *rest = self.pieces
        return Text((first._replace(words=first.words[:1].upper() + first.words[1:]), *rest))


def fill(template: str, fields: Mapping[str, str | Text]) -> Text:
    """Put fields into a template."""
    pieces: list[Piece] = []
    for literal, field in _parsed(template):
        if literal:
            pieces.append(Piece(literal))
        if field:
            name = field[0].lower() + field[1:]
            value = fields[name]
            text = value if isinstance(value, Text) else Text((Piece(value, name),))
            pieces += (text if field == name else text.sentence).pieces
    return Text(tuple(pieces))


def joined(texts: Iterable[Text], between: str) -> Text:
    """Texts one behind the other."""
    pieces: list[Piece] = []
    for text in texts:
        pieces += [Piece(between), *text.pieces] if pieces else text.pieces
    return Text(tuple(pieces))


@lru_cache(maxsize=4096)
def _parsed(template: str) -> tuple[tuple[str, str], ...]:
    return tuple((literal, field or "") for literal, field, _, _ in Formatter().parse(template))


@lru_cache(maxsize=4096)
def _fields(template: str) -> frozenset[str]:
    return frozenset(field.lower() for _, field in _parsed(template) if field)


def with_field(templates: Sequence[str], field: str, wanted: bool) -> list[str]:
    """The templates that have a field, or have it not; all of them when there is no such one."""
    return [one for one in templates if (field in _fields(one)) == wanted] or list(templates)


@dataclass(frozen=True)
class Wording:
    """The words of a language, by file and table."""

    tables: Mapping[str, Any]

    def __getitem__(self, file: str) -> Any:
        return self.tables[file]

    def templates(self, act: str, style: str) -> list[str]:
        """How an act is told in a style such as "trip" or "trip_agent"; as in a dialogue where it has no own way."""
        ways = self.tables["acts"][act]
        return ways.get(style) or ways.get(style.partition("_")[0]) or ways["dialogue"]

    def noun(self, kind: str) -> str:
        """What one option of a kind is called."""
        return self.tables["kinds"][kind]["noun"]

    def pronoun(self, person: str) -> str:
        """She or he."""
        return next(pronoun for name, pronoun, _ in self.tables["people"]["people"] if name == person)

    def attributes(self, kind: str) -> Mapping[str, Any]:
        """The properties of a kind of option, by name."""
        return self.tables["attributes"][kind]


@lru_cache(maxsize=4)
def open_wording(language: str) -> Wording:
    """The words of a language.

    Raises:
        UsageError: there is no such language.
    """
    folder = files("stitchjam.data.worlds") / language
    if not language.isalpha() or not (folder / "acts.toml").is_file():
        raise UsageError(f"no templates for the language {language!r}; there are: en")
    return Wording({name: tomllib.loads((folder / f"{name}.toml").read_text("utf-8")) for name in _FILES})
