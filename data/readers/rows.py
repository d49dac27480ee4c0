"""Turns the bytes of a file into rows: JSON values that know where they stand, so that every error can say so."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NoReturn

from stitchjam.data.errors import DataError
from stitchjam.data.readers.source import Origin, Source
from stitchjam.data.records import History, Question

__all__ = [
    "DEEPEST",
    "Loaded",
    "Row",
    "dump",
    "evidence_index",
    "known_evidence",
    "read_records",
    "read_rows",
    "require_new",
    "require_sane",
]

# Deeper than any record of a known format, and far from Python's recursion limit, which writing JSON can hit as well.
DEEPEST = 100
_LONGMEMEVAL_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d) \(\w+\) (\d\d:\d\d)")


@dataclass(frozen=True)
class Loaded:
    """A history with its questions; `problems` names what did not fit, one line each, such as unknown evidence ids."""

    history: History
    questions: tuple[Question, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A JSON value and its place, for example "chat.jsonl, line 3". Absent and null fields are the same."""

    where: str
    value: Any

    def fail(self, expected: str) -> DataError:
        """The error for a value that is not what was expected."""
        return DataError(f"{self.where}: expected {expected}, found {_describe(self.value)}; correct it and read again")

    def part(self, key: str) -> "Row":
        """The field of that name; its value is None where there is none."""
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        return Row(f'{self.where}, "{key}"', self.value.get(key))

    def items(self) -> tuple["Row", ...]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self.fail("a list")
        return tuple(Row(f"{self.where}, entry {number}", value) for number, value in enumerate(self.value, 1))

    def entries(self, key: str) -> tuple["Row", ...]:
        """The entries of a list field; none where there is no such field."""
        part = self.part(key)
        return () if part.value is None else part.items()

    def labels(self, key: str) -> tuple[str, ...]:
        """The entries of a list field, each a label; none where there is no such field."""
        return tuple(Row(entry.where, {key: entry.value}).label(key) for entry in self.entries(key))

    def fields(self) -> tuple[str, ...]:
        """The names of an object's fields."""
        if not isinstance(self.value, dict):
            raise self.fail("an object")
        return tuple(self.value)

    def text(self, key: str, default: str | None = None) -> str:
        """A text field."""
        part = self.part(key)
        if part.value is None and default is not None:
            return default
        if not isinstance(part.value, str):
            raise part.fail("text")
        return part.value

    def label(self, key: str, default: str | None = None) -> str:
        """A field that is text or a plain number, as text: an id, a kind, a short answer."""
        part = self.part(key)
        return str(part.value) if _is_number(part.value) else self.text(key, default)

    def name(self, key: str, default: str | None = None) -> str:
        """A label that must not be empty."""
        label = self.label(key, default)
        if not label and default is None:
            raise self.part(key).fail("a name that is not empty")
        return label

    def time(self, *keys: str) -> str:
        """The first of the fields that is set, as ISO 8601; "" where none is.

        Numbers are seconds since 1970 (UTC). LongMemEval's "2023/05/20 (Sat) 02:21" is rewritten, other text is kept.
        """
        for key in keys:
            part = self.part(key)
            if _is_number(part.value):
                return part._seconds()
            if part.value is not None:
                return _LONGMEMEVAL_DATE.sub(r"\1-\2-\3T\4", self.text(key))
        return ""

    def require_known(self, *keys: str) -> None:
        """Refuse fields of other names: a misspelt optional field would be lost without a word."""
        unknown = sorted(set(self.value) - set(keys)) if isinstance(self.value, dict) else []
        if unknown:
            raise DataError(f"{self.where}: unknown field {unknown[0]!r}; the known ones are {', '.join(keys)}")

    def _seconds(self) -> str:
        try:
            return datetime.fromtimestamp(self.value, timezone.utc).isoformat()
        except (OverflowError, ValueError, OSError):
            raise self.fail("seconds since 1970 or an ISO 8601 time") from None


def read_rows(path: Origin) -> Iterator[Row]:
    """Stream the JSON values of a file: one a line, or a single value spread over many lines.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is empty, not UTF-8 or not JSON; the message names file, line and column or byte.
    """
    source, some = Source.of(path), False
    lines = source.lines()
    for number, line in lines:
        if not line.strip():
            continue
        if not some and not _is_complete(line):
            line = "".join([line, *(text for _, text in lines)])
        some = True
        yield Row(f"{source.name}, line {number}", _parse(source.name, number, line))
    if not some:
        raise DataError(f"{source.name}: the file is empty; expected JSON, one record a line")


def read_records(path: Origin) -> Iterator[Row]:
    """Stream the rows of a file, and the entries of a list in its place; raises what `read_rows` raises.

    An empty list is a DataError.
    """
    for row in read_rows(path):
        if row.value == []:
            raise row.fail("at least one record")
        yield from row.items() if isinstance(row.value, list) else (row,)


def evidence_index(history: History) -> dict[str, str]:
    """Maps what a question may name as evidence, external ids and turn ids, to turn ids."""
    own = {turn.id: turn.id for turn in history.turns}
    return own | {turn.external_id: turn.id for turn in history.turns if turn.external_id}


def known_evidence(
    row: Row, name: str, evidence: Iterable[str], turn_ids: Mapping[str, str], problems: list[str]
) -> tuple[str, ...]:
    """Turn ids of what question `name` gives as evidence, each once; what is no turn is added to `problems`."""
    evidence = tuple(evidence)
    missing = [given for given in evidence if given not in turn_ids]
    problems += [f"{row.where}: question {name!r}: evidence {given!r} is no turn" for given in missing]
    return tuple(dict.fromkeys(turn_ids[given] for given in evidence if given in turn_ids))


def require_new(row: Row, key: str, seen: set[str]) -> str:
    """The name in a field, once; evidence that names an id of two turns could mean either."""
    name = row.name(key)
    if name in seen:
        raise DataError(f"{row.where}: the id {name!r} was used before; give each record its own id")
    seen.add(name)
    return name


def dump(value: Any) -> str:
    """One line of JSON with its characters readable."""
    return json.dumps(value, ensure_ascii=False)


def _is_complete(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parse(path: str, number: int, text: str) -> Any:
    where = f"{path}, line {number}"
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"{path}, line {number + error.lineno - 1}, column {error.colno}"
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise DataError(
                f"{where}: not valid JSON, it ends in the middle; copy or download the file again"
            ) from None
        raise DataError(f"{where}: not valid JSON ({error.msg}); correct it, or write one JSON record a line") from None
    except ValueError:
        raise DataError(f"{where}: a number is NaN, infinite or thousands of digits long; write it as text") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply; flatten the record") from None
    if text.count("[") + text.count("{") > DEEPEST or "\\u" in text:
        require_sane(where, value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def require_sane(where: str, value: Any) -> None:
    """Refuse deep nesting and halves of surrogate pairs, which no later step could store."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise DataError(f"{where}: nested more than {DEEPEST} levels deep; flatten the record")
        if not _is_utf8("".join(text for item in level for text in _texts(item))):
            raise DataError(f"{where}: text holds half of a surrogate pair; remove that character")
        level = [child for item in level for child in _children(item)]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        return value.keys()
    return (value,) if isinstance(value, str) else ()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _describe(value: Any) -> str:
    names = {str: "text", dict: "an object", list: "a list", bool: "true or false", type(None): "nothing"}
    found = names.get(type(value), "a number")
    return 'empty text ""' if value == "" else found
