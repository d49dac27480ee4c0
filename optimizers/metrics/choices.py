"""Turns a free answer to a multiple-choice question into the option it chose, and that into right or wrong.

Options stand in the question's text, as "A. ferry", "(A) ferry" or "A) ferry", each on a line or all on one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED, Answer, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics.answers import abstains, unanswerable
from stitchjam.optimizers.metrics.base import Metric, Score, listed
from stitchjam.optimizers.metrics.forms import contains, whole_words

__all__ = ["Choice", "Chosen", "chosen", "options_in"]

_LETTERS = "ABCDEFGHIJ"
_READ = 1000  # characters at each end of an answer; a model in a loop writes more, and patterns take long on it
_MARK = r"(?:\(([A-J])\)|([A-J])[.):])\s+(?=\S)"
_MARKS = re.compile(rf"^[ \t]*{_MARK}", re.MULTILINE), re.compile(rf"(?:^|(?<=\s)){_MARK}")
_OPTION = r"(?:(?:option|choice|answer|letter)\s+)?"
# A lower-case letter is meant as an option only in brackets or at an end: "the answer is a ferry".
_LETTER = r"[\"'\[]*(?<!\w)(?:\(([A-Ja-j])\)|([A-J])\b(?!['’])|([a-j])(?=[\s.\"'\]]*$))"
_EMPHASIS = re.compile(r"(?<!\w)[*_`]+|[*_`]+(?!\w)")
_ALONE = re.compile(r"[\W_]*(?:option\s+|choice\s+)?[\W_]*([A-J])[\W_]*", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{\W*(?:\\text\{)?\(?([A-J])\b", re.IGNORECASE)
_ONE_OR_TWO = rf"(?i:{_OPTION}){_LETTER}(?:\s*(?i:and|or|/|&)\s*(?i:{_OPTION}){_LETTER})?"
_SAID = re.compile(
    rf"\b(?i:answer|choice|option)\s+(?i:is|was|should be|must be|would be)\s*:?\s*{_ONE_OR_TWO}"
    rf"|\b(?i:answer|choice)\s*[:=]\s*{_ONE_OR_TWO}"
    rf"|\b(?i:choose|chose|pick|picked|select|selected|go with)\s+{_ONE_OR_TWO}"
    rf"|{_LETTER}\W*\s(?i:is\s+(?:the\s+)?(?:correct|right|best))",
    re.MULTILINE,
)
_FIRST = re.compile(
    r"[\s\"'\[]*(?:\(([A-Ja-j])\)|([A-J])[\"'\]]*(?:[.):\n]|\s+[-–—]|\s+(?:because|since|as)\b)|([a-j])\))"
)
_NAMED = re.compile(rf"\b(?i:option|choice|letter)\s+{_LETTER}", re.MULTILINE)
# "A" and "I" with a word behind them are words, unless that one goes on about the letter.
_BARE = re.compile(r"\b(?:[AI]\b(?!\s+(?!and\b|or\b|because\b|since\b|is\b|as\b)\w)|[B-HJ]\b)(?!['’])")
_JOINS = {"and", "or"}
_REJECTED = re.compile(
    rf"\b(?i:not|isn't|than|rather than|instead of|ruled? out|reject)\s+(?i:{_OPTION}){_LETTER}"
    rf"|{_LETTER}\W*\s(?i:(?:is|was|seems)\s+(?:clearly\s+)?(?:wrong|incorrect|false|not (?:correct|right|it\b|the)))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Chosen:
    """The letter that an answer chose, or "", and why."""

    letter: str
    why: str


def options_in(text: str) -> dict[str, str]:
    """Options by letter, in order from A on without a gap; none when there are fewer than two."""
    found = (_options(pattern, text) for pattern in _MARKS)
    return next((options for options in found if len(options) > 1), {})


def _options(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    marks: list[re.Match[str]] = []
    for mark in pattern.finditer(text):
        if (mark[1] or mark[2]) == _LETTERS[len(marks) : len(marks) + 1]:
            marks.append(mark)
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {mark[1] or mark[2]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)}


def chosen(text: str, options: Mapping[str, str]) -> Chosen:
    """The option that a free answer chooses; the surest sign decides, and two letters for one sign are none.

    The signs, surest first: the letter alone, an option's text alone, "the answer is B", "B." or "(b)" at the
    beginning, "option B", and at last any letter or option's text in it. What is called wrong is not chosen.

    Args:
        text: the answer.
        options: text by letter; without any, A to J are letters.
    """
    known = set(options or _LETTERS)
    text = text if len(text) <= 2 * _READ else f"{text[:_READ]}\n{text[-_READ:]}"
    alone = _ALONE.fullmatch(text)
    if alone and alone[1].upper() in known:
        return Chosen(alone[1].upper(), "the letter alone")
    plain = _EMPHASIS.sub("", text)
    rejected = _letters(_REJECTED, plain, known)
    spelled = {letter for letter, option in options.items() if whole_words(option) == whole_words(text) != []}
    signs = [
        ("the text of the option", spelled),
        ("said to be the answer", (_letters(_SAID, plain, known) | _letters(_BOXED, plain, known)) - rejected),
        ("at the beginning", _first(plain, options, known) - rejected),
        ("named as an option", _letters(_NAMED, plain, known) - rejected),
        ("mentioned", _mentioned(plain, options, known) - rejected),
    ]
    return next((_only(sign, letters) for sign, letters in signs if letters), Chosen("", "it names no option"))


def _only(sign: str, letters: set[str]) -> Chosen:
    if len(letters) == 1:
        return Chosen(letters.pop(), sign)
    return Chosen("", f"ambiguous: {' and '.join(sorted(letters))} are {sign}")


def _letters(pattern: re.Pattern[str], text: str, known: set[str]) -> set[str]:
    found = (group.upper() for match in pattern.finditer(text) for group in match.groups() if group)
    return known.intersection(found)


def _first(text: str, options: Mapping[str, str], known: set[str]) -> set[str]:
    """The letter that an answer opens with, and what it goes on with: other letters, or another option's text."""
    match = _FIRST.match(text)
    letters = known.intersection(group.upper() for group in match.groups() if group) if match else set()
    if match and letters:
        rest = text[match.end() :]
        letters |= {letter for letter, option in options.items() if whole_words(option) == whole_words(rest) != []}
        joined = {word.upper() for word in re.findall(r"\w+", rest) if word.lower() not in _JOINS}
        letters |= joined if joined <= known else set()
    return letters


def _mentioned(text: str, options: Mapping[str, str], known: set[str]) -> set[str]:
    spelled = _spelled(whole_words(text), options)
    for letter in spelled:  # the letter in "vitamin C" is no choice of C
        text = re.sub(re.escape(options[letter]), " ", text, flags=re.IGNORECASE)
    return known.intersection(match[0] for match in _BARE.finditer(text)) | spelled


def _spelled(words: list[str], options: Mapping[str, str]) -> set[str]:
    """Options whose text stands in an answer; of "red" and "dark red" the longer one."""
    found = {letter: whole_words(option) for letter, option in options.items() if contains(words, whole_words(option))}
    return {
        letter
        for letter, own in found.items()
        if not any(len(other) > len(own) and contains(other, own) for other in found.values())
    }


@listed
class Choice(Metric):
    """Multiple choice (LongCodeQA, CAME-Bench): 1 when the gold option is chosen; ambiguous or no choice is 0.

    The gold is a letter or an option's text. The part `parsed` is 1 when an option was recognised.

    Raises:
        UsageError: the gold of a question names no option.
    """

    name = "choice"
    needs = frozenset({"answer"})

    def __init__(self, questions: Iterable[Question], store: Store, threshold: float = 0.7):
        super().__init__(questions, store, threshold)
        self.options = {key: options_in(question.text) for key, question in self.gold.items()}
        self.right = {key: _right(question, self.options[key]) for key, question in self.gold.items()}

    def score(self, gold: Question, prediction: dspy.Prediction) -> Score:
        """See `Metric.score`."""
        answer, right, options = prediction.answer, self.right[gold.id], self.options[gold.id]
        choice = _choice(answer, options)
        value = float(choice.letter == right if right else abstains(answer))
        read = f"read as {_shown(choice.letter, options)} ({choice.why})" if choice.letter else choice.why
        why = f"answered {answer.text!r}, {read}; {'right' if value else 'expected ' + _shown(right, options)}"
        return Score(value, why, {"correct": value, "parsed": float(bool(choice.letter))})


def _choice(answer: Answer, options: Mapping[str, str]) -> Chosen:
    if not abstains(answer):
        return chosen(answer.text, options)
    letter = chosen(NOT_MENTIONED, options).letter  # some benchmarks have an option for that
    return Chosen(letter, "an abstention")


def _shown(letter: str, options: Mapping[str, str]) -> str:
    if not letter:
        return "no option, as the memory does not say"
    return f"{letter} {options[letter]!r}" if letter in options else letter


def _right(question: Question, options: Mapping[str, str]) -> str:
    if unanswerable(question):
        return ""
    letter = chosen(question.answer, options).letter
    if not letter:
        raise UsageError(
            f"metric 'choice': gold {question.answer!r} of question {question.id!r} names no option; write options "
            f"into its text, one a line as 'A. text', or use metric 'answer_f1'"
        )
    return letter
