"""Turns what models write into the small closed forms that code can act on.

Each step has one flat reply model. Limits live inside the model, because dspy treats limits on fields as prompt text
only, and because small models loop to the token limit in an unbounded list. At least one field is required, so that an
empty object is a failure and not a default.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from stitchjam.data.intents.records import ACTS

__all__ = ["Action", "Label", "NONE", "Reply", "Tool", "act", "capped", "cut", "first", "fitting", "several"]

NONE = "none"
_LONGEST_QUERY, _LONGEST_TARGET, _LONGEST_WHERE = 120, 120, 60
_BARE_LABEL = re.compile(r"[cefist]\d{1,3}")
_LABEL = re.compile(r"^\W*([a-z])\s?(\d{1,3})\b")
_ALONE = re.compile(r"^\W*[a-z]\s?\d{1,3}(?:[^\w\s/-]|\s[^/]*$|$)")  # a label, perhaps with more behind it, but no path


def _label(value: Any) -> Any:
    """Read "C3", "[c03]" or "c3: Mira said" as "c3"; null, a bare number and any other text as "none"."""
    if value is None or isinstance(value, (int, float)):
        return NONE
    if not isinstance(value, str):
        return value
    match = _LABEL.match(value.strip().lower())
    return f"{match[1]}{int(match[2])}" if match else NONE


def _target(value: Any) -> Any:
    """Like a label, but text that is none stays as it is, for it may be a path: "f1-race/plans" is no f1."""
    label = _label(value)
    if not isinstance(value, str) or (label != NONE and _ALONE.match(value.strip().lower())):
        return label
    text = " ".join(value.encode("utf-8", "replace").decode("utf-8").split())
    return text[:_LONGEST_TARGET] if text.strip(" ./`\"'").lower() not in ("", NONE, "null", "n/a") else NONE


def _word(value: Any) -> Any:
    """Lower-case word without decoration: "Search." and "`search`" are "search"."""
    return re.sub(r"[^a-z_]", "", value.lower()) if isinstance(value, str) else value


def capped(limit: int) -> BeforeValidator:
    """Keep the first `limit` items: a backend that ignores the schema may send more, and code uses the first ones."""
    return BeforeValidator(lambda value: value[:limit] if isinstance(value, list) else value)


def fitting(kind: type[BaseModel]) -> BeforeValidator:
    """Keep the items of a list that are of a kind, so that a bad one does not cost the others; null is no item."""

    def keep(value: Any) -> Any:
        return [item for item in several(value) if _fits(kind, item)] if isinstance(several(value), list) else value

    return BeforeValidator(keep)


def _fits(kind: type[BaseModel], item: Any) -> bool:
    try:
        kind.model_validate(item)
    except ValidationError:
        return False
    return True


def _text(value: Any) -> str:
    """Whatever was written where text belongs: null is nothing, a list is its items."""
    if isinstance(value, (list, tuple, dict)):
        value = ", ".join(map(str, value.values() if isinstance(value, dict) else value))
    return "" if value is None else str(value).encode("utf-8", "replace").decode("utf-8")


def _query(value: Any) -> Any:
    """Text, and a long one is cut: its first words search as well, and the other actions count."""
    return _text(value)[:_LONGEST_QUERY]


def _where(value: Any) -> Any:
    """Text; what is too long is cut behind a word, so that no day becomes a month."""
    value = _text(value)
    return value if len(value) <= _LONGEST_WHERE else value[:_LONGEST_WHERE].rpartition(" ")[0]


# A pointer to a line that the prompt shows as c1, e2, t3 ... Labels are dynamic, so they are no Literal: the reply is
# normalised to one label or "none", and code looks it up.
Label = Annotated[str, BeforeValidator(_label), Field(max_length=8)]
# What an action is about: a label, or the path of a folder or session. A path is only ever looked up, never followed.
Target = Annotated[str, BeforeValidator(_target), Field(max_length=_LONGEST_TARGET)]
Tool = Annotated[Literal["open", "search", "browse"], BeforeValidator(_word)]


class Reply(BaseModel):
    """Base of the reply models: frozen, and extra keys from chatty models are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Action(Reply):
    """One move of the Researcher. Flat: a tool that needs no target, query or filter leaves it "none" or empty."""

    tool: Tool = Field(
        description="browse: read one listed session. search: find sessions by words. open: list one folder"
    )
    target: Target = Field(
        description='label of the session to browse, such as "c2", or of the folder to open, such as "f1"; "none" for '
        "search"
    )
    query: Annotated[str, BeforeValidator(_query), Field(max_length=_LONGEST_QUERY)] = Field(
        description="words to search for, or what to look for in the session"
    )
    where: Annotated[str, BeforeValidator(_where), Field(max_length=_LONGEST_WHERE)] = Field(
        default="",
        description="of a search: labels of filters, or a period (YYYY-MM), if the question names one; else empty",
    )

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """What is left out is empty. It stays required in the schema, so that a model that is held to it writes it."""
        return {"target": NONE, "query": "", **value} if isinstance(value, dict) else value

    @property
    def words(self) -> str:
        """The query, or nothing for an action that has none; a label alone is none, as small models write it there."""
        query = self.query.strip()
        return "" if query.lower() in ("", NONE) or _BARE_LABEL.fullmatch(query.lower()) else query


_ACT_OF = {
    "agree": "accept accepted agreement approve confirm yes",
    "ask": "inquire question request",
    "decide": "book choose choice decision pick select",
    "object": "attack challenge disagree rebut refute",
    "propose": "offer recommend suggest",
    "sum_up": "conclude recap summarise summarize summary",
    "tell": "answer describe explain inform report state",
}
_ACTS = {word: act for act, words in _ACT_OF.items() for word in words.split()}


def cut(limit: int) -> BeforeValidator:
    """One line of at most so many characters: null is nothing, and what is longer is cut, so that the rest counts.

    A decoder that holds a model to the limit cuts within a word, and may end in any sign: the last word goes then. Half
    of a surrogate pair, which nothing can store, becomes "?".
    """

    def shorten(value: Any) -> Any:
        if not isinstance(value, str):
            return "" if value is None else value
        line = " ".join(value.encode("utf-8", "replace").decode("utf-8").split())
        return line if len(line) < limit else line[:limit].rpartition(" ")[0].rstrip(" ,;:-") or line[:limit]

    return BeforeValidator(shorten)


def several(value: Any) -> Any:
    """One name or object is a list of one; null is none."""
    return [value] if isinstance(value, (str, dict)) else [] if value is None else value


def first(value: Any) -> Any:
    """The first name of a list; null is none."""
    return next(iter(value), "") if isinstance(value, list) else value


def act(value: Any) -> Any:
    """Read "Proposes" as "propose"; an act that is none of ours is "other"."""
    word = re.sub(r"[^a-z]+", "_", value.lower()).strip("_") if isinstance(value, str) else ""
    forms = [word, *(word.removesuffix(end) for end in ("s", "es", "d", "ed", "ing")), word.removesuffix("ing") + "e"]
    return next((one for form in forms if (one := _ACTS.get(form, form)) in ACTS), "other")
