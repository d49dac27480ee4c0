"""Turns answers that people judged into how far a judge agrees with them, beyond what chance would give."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from pydantic import Field, StrictBool, ValidationError
from rich.table import Table
from rich.text import Text

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.replay import replies
from stitchjam.backends.usage import Budget, Ledger, metered
from stitchjam.data.errors import DataError, ModelError, UsageError
from stitchjam.data.readers.rows import read_records
from stitchjam.data.records import Record, first_error
from stitchjam.data.secrets import hide_secrets
from stitchjam.data.text import printable
from stitchjam.optimizers.compare import bootstrap
from stitchjam.optimizers.evaluate import BACKEND_ERRORS, OUTPUT_ERRORS
from stitchjam.optimizers.rows import Report, Row
from stitchjam.optimizers.show import table
from stitchjam.programs.judge import AnswerJudge
from stitchjam.programs.step import map_ordered, settings_for

__all__ = [
    "Agreement",
    "Figures",
    "Labelled",
    "agreement",
    "agreement_lines",
    "agrees",
    "judge_labels",
    "kappa",
    "label_examples",
    "read_labels",
]

_FIELDS = '{"question", "reference", "answer", "correct": true or false}, and "kind" and "id" if you like'


class Labelled(Record):
    """An answer, and whether a person calls it correct; `kind` is the type of question, which may choose a rule."""

    question: str = Field(min_length=1)
    reference: str = Field(min_length=1)
    answer: str
    correct: StrictBool
    kind: str = ""
    id: str = ""


class Figures(Record):
    """Agreement on some answers: their number, the share judged as labelled, and Cohen's kappa."""

    n: int
    accuracy: float
    kappa: float


class Agreement(Figures):
    """Agreement on all answers. `low` and `high` bound 95 % of the kappas of a bootstrap over answers.

    `lenient` counts wrong answers that the judge calls correct, `strict` correct ones that it calls wrong, `failed`
    those without a verdict, which agree with no label. `notes` says what makes the figures mean less than they seem to.
    """

    low: float
    high: float
    both_correct: int
    both_wrong: int
    lenient: int
    strict: int
    failed: int
    kinds: dict[str, Figures]
    notes: tuple[str, ...]


class _Pair(NamedTuple):
    """What the label says and what the judge says, None for no verdict."""

    label: bool
    verdict: bool | None


def read_labels(path: Path | None = None) -> tuple[Labelled, ...]:
    """Labels of a file, one a line; one without an id is named by its line. Without a file, those of the sample.

    Raises:
        UsageError: the file cannot be opened.
        DataError: a line is no label, or an id is there twice; the message names file and line.
    """
    if path is None:
        with as_file(files("stitchjam.data").joinpath("samples").joinpath("judge.labels.jsonl")) as sample:
            return read_labels(sample)
    found: dict[str, Labelled] = {}
    for row in read_records(path):
        try:
            one = Labelled.model_validate(row.value)
        except ValidationError as error:
            raise DataError(f"{row.where}: no label ({first_error(error)}); expected {_FIELDS}") from None
        id = one.id or row.where.partition(", ")[2]
        if id in found:
            raise DataError(f"{row.where}: the id {id!r} is there twice; give each answer its own")
        found[id] = one.model_copy(update={"id": id})
    return tuple(found.values())


def label_examples(labels: Iterable[Labelled]) -> list[dspy.Example]:
    """Examples to compile an `AnswerJudge` on, for use with `agrees`."""
    inputs = ("question", "reference", "answer", "kind")
    return [dspy.Example(**label.model_dump()).with_inputs(*inputs) for label in labels]


def agrees(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *_: Any) -> bool:
    """Metric for optimizers: whether the judge says what the label says."""
    return prediction.correct == example.correct


def judge_labels(  # noqa: PLR0913
    judge: AnswerJudge,
    labels: Sequence[Labelled],
    bindings: Bindings,
    kept: Path,
    threads: int = 1,
    progress: Callable[[Row], None] | None = None,
) -> tuple[Report, Ledger]:
    """Judge labelled answers under bindings, with replies kept in the file `kept`, so that a stopped run goes on.

    A row's value is 1 where the judge agrees, its part `correct` what the judge said; two judges of the same labels
    can be compared like two systems.

    Raises:
        UsageError: there are no labels. ModelError: there is not one verdict. BudgetStop: the backend is out.
    """

    if not labels:
        raise UsageError("there are no labels; give some to judge")

    def one(label: Labelled) -> Row:
        row = _judged(judge, label)
        if progress is not None:
            progress(row)
        return row

    with replies(kept), settings_for(bindings, threads), metered(budget=Budget()) as ledger:
        report = Report(metric="agreement", rows=tuple(map_ordered(one, labels, threads)))
    if not report.coverage:
        raise ModelError(f"no answer was judged; first: {report.rows[0].why} Mend that, delete {kept} and run again")
    return report, ledger


def _judged(judge: AnswerJudge, label: Labelled) -> Row:
    facts: dict[str, Any] = {"id": label.id, "kind": label.kind, "metric": "agreement", "answer": label.answer}
    try:
        found = judge(question=label.question, reference=label.reference, answer=label.answer, kind=label.kind)
    except OUTPUT_ERRORS as error:
        return Row(**facts, outcome="parse_error", value=0.0, why=hide_secrets(str(error)))
    except BACKEND_ERRORS as error:
        return Row(**facts, outcome="lm_error", value=0.0, why=hide_secrets(str(error)))
    why = f"label {_word(label.correct)}, judge {_word(found.correct)}" + (found.missing and f": {found.missing}")
    value, parts = float(found.correct == label.correct), {"correct": float(found.correct)}
    return Row(**facts, outcome="ok", value=value, why=why, parts=parts)


def _word(correct: bool) -> str:
    return "CORRECT" if correct else "WRONG"


def agreement(labels: Sequence[Labelled], report: Report) -> Agreement:
    """The figures of a report of `judge_labels` on these labels."""
    pairs = [
        _Pair(label.correct, bool(row.parts["correct"]) if row.outcome == "ok" else None)
        for label, row in zip(labels, report.rows, strict=True)
    ]
    counts = Counter(pairs)
    of = {kind: [p for p, label in zip(pairs, labels, strict=True) if label.kind == kind]
          for kind in sorted({label.kind for label in labels})}  # fmt: skip
    low, high = bootstrap(len(pairs), lambda drawn: kappa([pairs[at] for at in drawn]))
    return Agreement(
        **_figures(pairs).model_dump(),
        low=round(low, 6),
        high=round(high, 6),
        both_correct=counts[_Pair(True, True)],
        both_wrong=counts[_Pair(False, False)],
        lenient=counts[_Pair(False, True)],
        strict=counts[_Pair(True, False)],
        failed=sum(pair.verdict is None for pair in pairs),
        kinds={kind: _figures(some) for kind, some in of.items()},
        notes=_notes(pairs),
    )


def _figures(pairs: Sequence[_Pair]) -> Figures:
    accuracy = sum(label == verdict for label, verdict in pairs) / len(pairs)
    return Figures(n=len(pairs), accuracy=round(accuracy, 6), kappa=round(kappa(pairs), 6))


def kappa(pairs: Sequence[tuple[bool, bool | None]]) -> float:
    """Cohen's kappa (1960) of labels and verdicts: (observed - expected) / (1 - expected).

    Expected is the agreement of two who draw at random, each as often one or the other as they do. No verdict, None, is
    a word of the judge's own. Where chance alone gives full agreement, as when both always say the same, it is 0.
    """
    n = len(pairs)
    label, verdict = Counter(label for label, _ in pairs), Counter(verdict for _, verdict in pairs)
    observed = sum(one == other for one, other in pairs) / n
    expected = sum(label[word] * verdict[word] for word in (True, False)) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else 0.0


def _notes(pairs: Sequence[_Pair]) -> tuple[str, ...]:
    said, labels = {pair.verdict for pair in pairs} - {None}, {pair.label for pair in pairs}
    notes = []
    if len(said) == 1:
        notes.append(f"the judge always says {_word(True in said)}: it tells nothing apart, whatever its accuracy is")
    if len(labels) == 1:
        notes.append(f"every label is {_word(True in labels)}: kappa needs answers of both sorts")
    return tuple(notes)


def agreement_lines(found: Agreement, report: Report) -> list[object]:
    """The figures for people: where the two agree, each type of question, what was not judged, and a line."""
    counts = [
        ("CORRECT", f"{found.both_correct:,}", f"{found.strict:,}"),
        ("WRONG", f"{found.lenient:,}", f"{found.both_wrong:,}"),
    ]
    columns = ("judge CORRECT", "judge WRONG")
    return [
        table(("label", *columns), counts, right=columns),
        *_kinds_tables(found),
        *(Text(printable(f"not judged: {row.id}: {row.why}")) for row in report.rows if row.outcome != "ok"),
        f"accuracy {found.accuracy:.3f} on {found.n} answers, {found.failed} not judged; "
        f"kappa {found.kappa:.3f} (95 % interval {found.low:.3f} to {found.high:.3f})",
        *found.notes,
    ]


def _kinds_tables(found: Agreement) -> list[Table]:
    """The figures of each type of question, where there are several."""
    if len(found.kinds) < 2:
        return []
    rows = [(kind or "-", f"{one.n:,}", f"{one.accuracy:.3f}", f"{one.kappa:.3f}") for kind, one in found.kinds.items()]
    return [table(("type", "answers", "accuracy", "kappa"), rows, right=("answers", "accuracy", "kappa"))]
