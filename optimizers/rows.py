"""Turns what came of each question into a report that hides nothing, and into a file that grows row by row.

A row is on disk before the next question is asked, so a killed run goes on where it stopped.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.records import Record, first_error

__all__ = [
    "FAILED",
    "Key",
    "Outcome",
    "Report",
    "Row",
    "Run",
    "as_line",
    "read_report",
    "read_run",
    "report_of",
    "require_file",
    "require_free",
    "unwritable",
    "write_rows",
    "write_run",
]

FAILED: frozenset[str] = frozenset({"parse_error", "lm_error", "budget", "program_error", "metric_error"})
_MOST = 1e12
Outcome = Literal["ok", "parse_error", "lm_error", "budget", "program_error", "metric_error", "not_rated"]
Key = tuple[str, str]
"""Ids of a history and of a question about it."""


class Row(Record):
    """One question: what came out and what it cost. `why` is the metric's reason, or the error.

    `history` is the one that was asked about, `kind` the benchmark's type of question, `metric` names what `value` is.
    `note` is what the system says of its answer, such as that it saw a part of the history only. `recall` is the share
    of the gold turns among what it cited, by the tokens of that which count; without gold turns it is empty.
    `cache_hits` are replies that were kept from earlier: their tokens count here, and they took no seconds or dollars.

    Outcomes: ok; parse_error, a reply of no use; lm_error, no reply; budget, not done in time; program_error, the
    program itself failed; metric_error, an answer that could not be rated; not_rated, a question that the metric leaves
    out, which was not asked.
    """

    id: str
    history: str = ""
    kind: str = ""
    metric: str = ""
    question: str = ""
    outcome: Outcome
    value: float = Field(ge=0, le=1, allow_inf_nan=False)
    why: str
    note: str = ""
    parts: dict[str, float] = {}
    answer: str = ""
    cited: tuple[str, ...] = ()
    recall: dict[int, float] = {}
    rounds: int = 0
    calls: int = 0
    cache_hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = Field(default=0.0, ge=0, le=_MOST)
    cost: float = Field(default=0.0, ge=0, le=_MOST)

    @model_validator(mode="after")
    def _failed_is_zero(self) -> "Row":
        if self.outcome != "ok" and self.value:
            raise ValueError(f"a row with the outcome {self.outcome!r} has the value 0")
        return self

    @property
    def key(self) -> Key:
        """What it is the row of."""
        return self.history, self.id


class Run(Record):
    """What an evaluation is of, the first line of its file.

    `asked` counts the questions that it was to ask, where that is known. Runs that differ in `rollout` alone sampled
    other replies. `settled` holds all that decides its rows, part by part; rows of two runs that differ there do not
    mix.
    """

    metric: str
    name: str = ""
    bench: str = ""
    model: str = ""
    judge: str = ""
    asked: int = 0
    rollout: int = 0
    settled: dict[str, str] = {}

    @property
    def id(self) -> str:
        """A name for its file: the same for the same run, and another for any other."""
        text = json.dumps(self.settled, sort_keys=True)
        return f"{re.sub(r'[^A-Za-z0-9.]+', '-', self.name)[:60].strip('-.')}-{sha256(text.encode()).hexdigest()[:10]}"


class Report(Run):
    """A run with its rows."""

    rows: tuple[Row, ...]

    @property
    def rated(self) -> tuple[Row, ...]:
        """Rows that count: all but those of questions that the metric leaves out."""
        return tuple(row for row in self.rows if row.outcome != "not_rated")

    @property
    def score(self) -> float:
        """Mean value over all rated rows, failures included as zero."""
        return fmean(row.value for row in self.rated) if self.rated else 0.0

    @property
    def coverage(self) -> float:
        """Share of rated rows in which the program really answered and was judged."""
        return fmean(row.outcome == "ok" for row in self.rated) if self.rated else 0.0

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of rows by outcome."""
        return dict(sorted(Counter(row.outcome for row in self.rows).items()))

    @property
    def parts(self) -> dict[str, float]:
        """Mean of each part of the metric, failures included as zero."""
        names = sorted({name for row in self.rated for name in row.parts})
        return {name: fmean(row.parts.get(name, 0.0) for row in self.rated) for name in names}

    @property
    def kinds(self) -> dict[str, tuple[int, float]]:
        """Number of rated rows and score of each type of question, failures included as zero."""
        names = sorted({row.kind for row in self.rated})
        of = {name: [row.value for row in self.rated if row.kind == name] for name in names}
        return {name: (len(values), fmean(values)) for name, values in of.items()}

    def summary(self) -> dict[str, Any]:
        """The figures, for `--json` and manifests: nothing in it depends on the machine."""
        return {
            "metric": self.metric,
            "score": round(self.score, 6),
            "n": len(self.rated),
            "asked": self.asked or len(self.rows),
            "coverage": round(self.coverage, 6),
            "outcomes": self.outcomes,
            "parts": {name: round(value, 6) for name, value in self.parts.items()},
        }


class _First(Record):
    run: Run


def require_file(path: Path) -> None:
    """Refuse what is no file of its own: rows are read back and written anew at the end."""
    if str(path.absolute()).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is no ordinary file; rows need one. For the result on standard output use --json")


def require_free(path: Path) -> None:
    """Refuse a file that holds anything but rows, before it is written over.

    Raises:
        UsageError: see above.
    """
    require_file(path)
    if path.exists() and path.stat().st_size and not path.read_bytes().startswith(b'{"run"'):
        raise UsageError(f"{path} holds something else than rows; choose another --out")


def unwritable(path: Path, error: OSError) -> UsageError:
    """What to raise for a file that cannot be written."""
    return UsageError(f"{path}: cannot be written ({error.strerror}); choose another file")


def read_run(path: Path) -> tuple[Run, list[Row], int]:
    """Run and rows of a file, and the length of its whole lines: what follows the last line break was cut off."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); write it with: stitchjam eval --out") from None
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].splitlines()
    try:
        run = _First.model_validate_json(lines[0] if lines else b"").run
    except ValidationError:
        raise DataError(f"{path}: no rows of an evaluation, or of an older version; evaluate again") from None
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], 2):
        where = f"{path}, line {number}"
        try:
            row = Row.model_validate(json.loads(line))
        except (ValidationError, ValueError, RecursionError) as error:
            why = first_error(error) if isinstance(error, ValidationError) else error
            raise DataError(f"{where}: no row of an evaluation ({why}); evaluate again") from None
        if row.metric != run.metric:
            raise DataError(f"{where}: a row in {row.metric!r} among rows in {run.metric!r}; evaluate again")
        rows.append(row)
    return run, rows, whole


def report_of(run: Run, rows: Iterable[Row]) -> Report:
    """The report over rows of a run."""
    return Report(**run.model_dump(), rows=tuple(rows))


def read_report(path: Path) -> Report:
    """The report of a file of rows, also of one that is still being written.

    Raises:
        UsageError: the file cannot be read.
        DataError: a line is no row; the message names file and line.
    """
    run, rows, _ = read_run(path)
    return report_of(run, {row.key: row for row in rows}.values())


def write_rows(path: Path, report: Report) -> None:
    """Write a whole report, a row a line.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_run(path, Run(**report.model_dump(exclude={"rows"})), report.rows)
    except OSError as error:
        raise unwritable(path, error) from None


def write_run(path: Path, run: Run, rows: Iterable[Row]) -> None:
    """Write the whole file anew, if it is not so already; raises OSError."""
    text = "".join(map(as_line, (_First(run=run), *rows)))
    if not path.exists() or path.read_bytes() != text.encode():
        with whole_file(path) as file:
            file.write(text)


def as_line(record: Record) -> str:
    """A record as a line of the file."""
    text = json.dumps(record.model_dump(mode="json"), ensure_ascii=False)
    # A model may write half a surrogate pair, which UTF-8 has no bytes for; its JSON escape is read back as it was.
    return text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"
