"""Turns answer and gold into candidates, matches them one to one, and that into precision, recall and F1 (CAME-Bench).

Matching is deterministic; what it leaves over can be given to a judge. The released code asks an LM to count and so
took "Harvard (2025) report" in one question and refused it in another.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dspy

from stitchjam.data.records import Answer, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import abstains, accepted, unanswerable
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import FIGURE, contains, whole_words
from stitchjam.programs.contract import signed_name
from stitchjam.programs.judge import CandidateJudge
from stitchjam.programs.step import Program

__all__ = [
    "CameF1",
    "Candidate",
    "Judge",
    "Matched",
    "given_candidates",
    "gold_candidates",
    "match",
    "split_candidates",
]

Judge = Callable[[Question, Sequence[str], Sequence[str]], Iterable[tuple[int, int]]]
"""Says which gold candidates answer candidates cover, as pairs of their places in the two lists it is given.

It is asked only when both lists hold something. Pairs that name a place twice, or one that is not there, are ignored.
"""

_MONTH = r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = rf"{_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?,\s*\d{{4}}\b"
# What stands in brackets or quotes, a figure and a date stay whole; a bracket that never closes does not.
_RUN = re.compile(rf'(?:"[^"\n]*"|\([^()\n]*\)|\[[^\[\]\n]*\]|{FIGURE}|{_DATE}|[^;,\n])+', re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+")
_LAST = re.compile(r"^\s*(?:and|or)\s+(?=\S)", re.IGNORECASE)
_SLOT = re.compile(  # at most a few signs between, since an unbounded number takes quadratic time on a row of them
    r"\b(breakfast|lunch|dinner|stay)\s{0,3}(?:at\b|:)|(?:^|[;,.\n]|\band\b)\W{0,6}(visit)(?:\s{1,3}at)?\b",
    re.IGNORECASE,
)
_TRAILING = {"", "and", "have", "then", "with"}
_SEPARATORS = " \t\n:;,.*•-"
_CLAUSE = frozenset(
    "after although and as at because before but by during for from he i in it on she since so that then they to "
    "when where which while who with you".split()
)
_LONGEST_NAME = 6


class Candidate(NamedTuple):
    """One part of an answer; in a plan with the slot that it fills, such as "breakfast"."""

    text: str
    slot: str = ""

    def __str__(self) -> str:
        return f"{self.slot}: {self.text}" if self.slot else self.text


@dataclass(frozen=True)
class Matched:
    """Candidates of gold and answer, and the places of those that cover each other."""

    gold: tuple[Candidate, ...]
    given: tuple[Candidate, ...]
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def missing(self) -> list[int]:
        """Places of gold candidates that nothing covers."""
        return sorted(set(range(len(self.gold))) - {gold for gold, _ in self.pairs})

    @property
    def extra(self) -> list[int]:
        """Places of answer candidates that cover nothing."""
        return sorted(set(range(len(self.given))) - {given for _, given in self.pairs})

    @property
    def parts(self) -> dict[str, float]:
        """Precision, recall, F1, and `correct`: all gold covered, whatever else was said."""
        covered, gold, given = len(self.pairs), len(self.gold), len(self.given)
        return {
            "precision": covered / given if given else 0.0,
            "recall": covered / gold if gold else 0.0,
            "f1": 2 * covered / (gold + given) if covered else 0.0,
            "correct": float(covered == gold > 0),
        }


def split_candidates(text: str) -> list[str]:
    """Parts of an answer: entries of a JSON list, else what stands between ";", "," and line breaks.

    A JSON list of one string is split again: so are debate answers written. "Harvard (2025; report)", "1,233" and
    "May 7, 2023" stay whole; marks of a list go, and so does "and" before the last part.
    """
    entries = _json_list(text)
    if len(entries) > 1:
        return [entry for entry in entries if whole_words(entry)]
    runs = _RUN.findall(entries[0] if entries else text)
    parts = (_LAST.sub("", _BULLET.sub("", run)).strip() for run in runs)
    return [part for part in parts if whole_words(part)]


def _json_list(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return []
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in entries]


def gold_candidates(form: str, kind: str) -> list[Candidate]:
    """Candidates of a gold answer; of a plan (`kind` type_4, "Stay at X; Breakfast at Y; ..; Visit Z") by slot."""
    slots = _slots(form) if kind.replace(" ", "_") == "type_4" else []
    names = [(part, slot) for slot, text in slots for part in split_candidates(text)]
    return [Candidate(*name) for name in names] or [Candidate(part) for part in split_candidates(form)]


def given_candidates(text: str, gold: Sequence[Candidate]) -> list[Candidate]:
    """Candidates of an answer, read as the gold is written.

    Where the gold wants one thing, prose is one candidate, since its commas separate no answers; a list is still many,
    or naming everything would be right.
    """
    if not any(one.slot for one in gold):
        return [Candidate(part) for part in _parts(text, alone=len(gold) == 1)]
    wanted = [one.slot for one in gold]
    return [Candidate(part, slot) for slot, said in _slots(text) for part in _parts(said, wanted.count(slot) < 2)]


def _parts(text: str, alone: bool) -> list[str]:
    parts = split_candidates(text)
    return [text.strip()] if alone and parts and not _is_list(text, parts) else parts


def _is_list(text: str, parts: list[str]) -> bool:
    names = all(len(part.split()) <= _LONGEST_NAME for part in parts)
    clauses = any(part.split()[0].lower() in _CLAUSE for part in parts[1:])
    return bool(_json_list(text)) or (names and not clauses)


def _slots(text: str) -> list[tuple[str, str]]:
    """What a plan says for each slot, in the order of the text."""
    marks = list(_SLOT.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    said = ((mark, _trimmed(text[mark.end() : end])) for mark, end in zip(marks, ends, strict=False))
    return [((mark[1] or mark[2]).lower(), one) for mark, one in said if whole_words(one)]


def _trimmed(text: str) -> str:
    """Without the words and signs that lead over to the next slot."""
    words = text.split(" ")
    while words and words[-1].strip(_SEPARATORS).lower() in _TRAILING:
        words.pop()
    return " ".join(words).strip(_SEPARATORS)


def match(gold: Sequence[Candidate], given: Sequence[Candidate]) -> Matched:
    """Match candidates of the same slot one to one: those with equal words first.

    A gold candidate that is alone in its slot is also covered by one that holds its words in order. As nothing else
    competes for such a one, taking the first that fits finds as many pairs as any other order.
    """
    pairs: dict[int, int] = {}
    slots = [one.slot for one in gold]
    for fits in (_equal, _holds):
        for at, wanted in enumerate(gold):
            if at in pairs or (fits is _holds and slots.count(wanted.slot) > 1):
                continue
            free = (place for place in range(len(given)) if place not in pairs.values())
            found = next((place for place in free if fits(given[place], wanted)), None)
            if found is not None:
                pairs[at] = found
    return Matched(tuple(gold), tuple(given), tuple(pairs.items()))


def _equal(given: Candidate, gold: Candidate) -> bool:
    return given.slot == gold.slot and whole_words(given.text) == whole_words(gold.text)


def _holds(given: Candidate, gold: Candidate) -> bool:
    return given.slot == gold.slot and contains(whole_words(given.text), whole_words(gold.text))


@listed
class CameF1(Metric):
    """CAME-Bench's F1 over answer candidates: 2 covered / (gold candidates + answer candidates).

    The gold may be written in several ways; the one that gives the best F1 counts. An abstention is right when the gold
    has no answer, and an answer is wrong then.

    Args:
        questions, store, threshold: see `Metric`.
        judge: is asked about candidates that were not matched; without one they do not match. `CandidateJudge` asks a
            model.
    """

    name = "came_f1"
    needs = frozenset({"answer"})
    judge_kind = "candidate_judge"

    def __init__(
        self,
        questions: Iterable[Question],
        store: Store,
        threshold: float = 0.7,
        judge: Judge | CandidateJudge | None = None,
    ):
        super().__init__(questions, store, threshold)
        self.judge = judge

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer: Answer = prediction.answer
        if abstains(answer) or unanswerable(gold):
            return _nothing_said(answer, gold)
        matched = self._judged(gold, _best_match(answer.text, gold))
        return Score(matched.parts["f1"], _why(matched), matched.parts)

    def _judged(self, question: Question, matched: Matched) -> Matched:
        missing, extra = matched.missing, matched.extra
        if self.judge is None or not missing or not extra:
            return matched
        wanted, said = [matched.gold[at] for at in missing], [matched.given[at] for at in extra]
        pairs = dict(matched.pairs)
        for gold, given in self._asked(question, [*map(str, wanted)], [*map(str, said)]):
            there = 0 <= gold < len(wanted) and 0 <= given < len(said) and wanted[gold].slot == said[given].slot
            if there and missing[gold] not in pairs and extra[given] not in pairs.values():
                pairs[missing[gold]] = extra[given]
        return Matched(matched.gold, matched.given, tuple(pairs.items()))

    def _asked(self, question: Question, wanted: list[str], said: list[str]) -> Iterable[tuple[int, int]]:
        if not isinstance(self.judge, CandidateJudge):
            return self.judge(question, wanted, said) if self.judge else ()
        with dspy.context(trace=None):  # the trace is that of the program
            return self.judge(question=question.text, reference=wanted, answer=said).pairs

    def describe(self) -> dict[str, Any]:
        """See `Metric.describe`; a judge is named by what it is, its `name`, or its class or function."""
        judge: Any = self.judge
        if isinstance(judge, Program):
            return super().describe() | {"judge": signed_name(judge)}
        named = getattr(judge, "name", None) or getattr(judge, "__qualname__", type(judge).__qualname__)
        return super().describe() | {"judge": named if judge is not None else ""}


def _best_match(text: str, question: Question) -> Matched:
    golds = [gold_candidates(form, question.kind) for form in accepted(question)]
    return max((match(gold, given_candidates(text, gold)) for gold in golds), key=lambda one: one.parts["f1"])


def _nothing_said(answer: Answer, gold: Question) -> Score:
    value = float(abstains(answer) and unanswerable(gold))
    did = "abstained" if abstains(answer) else f"answered {answer.text!r}"
    expected = "the memory does not say" if unanswerable(gold) else f"expected {gold.answer!r}"
    return Score(value, f"{did}; {expected}", dict.fromkeys(("precision", "recall", "f1", "correct"), value))


def _why(matched: Matched) -> str:
    why = f"covered {len(matched.pairs)} of {len(matched.gold)} gold candidates with {len(matched.given)} given"
    missing = [matched.gold[at] for at in matched.missing]
    extra = [matched.given[at] for at in matched.extra]
    return why + _listed("missing", missing) + _listed("extra", extra)


def _listed(name: str, candidates: Sequence[Candidate]) -> str:
    return f"; {name}: {', '.join(repr(str(one)) for one in candidates)}" if candidates else ""
