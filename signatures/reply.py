"""Turns what models write into the small closed forms that code can act on.

Each step has one flat reply model. Limits live inside the model, because dspy treats limits on fields as prompt text
only, and because small models loop to the token limit in an unbounded list. At least one field is required, so that an
empty object is a failure and not a default.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["Action", "Label", "NONE", "Reply", "Tool", "capped"]

NONE = "none"
_LONGEST_QUERY = 120
_LABEL = re.compile(r"^\W*([a-z])\s?(\d{1,3})\b")


def _label(value: Any) -> Any:
    """Read "C3", "[c03]" or "c3: Mira said" as "c3"; null, a bare number and any other text as "none"."""
    if value is None or isinstance(value, (int, float)):
        return NONE
    if not isinstance(value, str):
        return value
    match = _LABEL.match(value.strip().lower())
    return f"{match[1]}{int(match[2])}" if match else NONE


def _word(value: Any) -> Any:
    """Lower-case word without decoration: "Search." and "`search`" are "search"."""
    return re.sub(r"[^a-z_]", "", value.lower()) if isinstance(value, str) else value


def capped(limit: int) -> BeforeValidator:
    """Keep the first `limit` items: a backend that ignores the schema may send more, and code uses the first ones."""
    return BeforeValidator(lambda value: value[:limit] if isinstance(value, list) else value)


def _query(value: Any) -> Any:
    """Null is an empty query, and a long one is cut: its first words search as well, and the other actions count."""
    return "" if value is None else value[:_LONGEST_QUERY] if isinstance(value, str) else value


# A pointer to a line that the prompt shows as c1, e2, t3 ... Labels are dynamic, so they are no Literal: the reply is
# normalised to one label or "none", and code looks it up.
Label = Annotated[str, BeforeValidator(_label), Field(max_length=8)]
Tool = Annotated[Literal["search", "browse"], BeforeValidator(_word)]


class Reply(BaseModel):
    """Base of the reply models: frozen, and extra keys from chatty models are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Action(Reply):
    """One move of the Researcher. Flat: a tool that needs no target or query leaves it "none" or empty."""

    tool: Tool = Field(description="search: find sessions by words. browse: read one listed session")
    target: Label = Field(description='label of the session to browse, such as "c2"; "none" for search')
    query: Annotated[str, BeforeValidator(_query), Field(max_length=_LONGEST_QUERY)] = Field(
        description="words to search for, or what to look for in the session"
    )

    @property
    def words(self) -> str:
        """The query, or nothing for an action that has none."""
        return "" if self.query.strip().lower() in ("", NONE) else self.query.strip()
