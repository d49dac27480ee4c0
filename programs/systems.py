"""Turns a name into a system that answers questions about a store: what programs are compared with, and programs.

All have one form: `system(question=..., store=...)` gives `answer`, `context`, and a `note` where there is something to
say about the answer.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED, Answer, Context, Effort
from stitchjam.data.store import Store
from stitchjam.programs.answer import Answerer, MemoryAgent, OneShot, abstains
from stitchjam.programs.jam.memo_recall import MemoAgent
from stitchjam.programs.jam.memorizer import Memorizer
from stitchjam.programs.jam.researcher import Limits, Researcher
from stitchjam.programs.judge import JUDGES
from stitchjam.programs.render import claim_line, quoted, within
from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.recall import ABLATIONS, IntentRecall, StitchAgent
from stitchjam.programs.stitch.released import ReleasedAgent
from stitchjam.programs.stitch.stitcher import Stitcher
from stitchjam.signatures.answer import AnswerFromKnowledge

__all__ = ["ClosedBook", "FullContext", "SYSTEMS", "Terms", "asker", "open_system"]


class ClosedBook(Program):
    """Answers without the store: what a model knows or guesses.

    Args:
        answer_from_knowledge: replacement for the step `AnswerFromKnowledge`.
    """

    answer_from_knowledge: dspy.Module

    def __init__(self, answer_from_knowledge: Any = None):
        super().__init__()
        self.answer_from_knowledge = as_step(answer_from_knowledge, AnswerFromKnowledge)

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Answer; the context is empty."""
        text = self.answer_from_knowledge(question=question).reply.answer.strip()
        answer = Answer(text=NOT_MENTIONED, abstained=True) if abstains(text) else Answer(text=text)
        return dspy.Prediction(answer=answer, context=Context(request=question))


class FullContext(Program):
    """Answers from the whole history, or from the newest part of it that fits, and says how much that was.

    Args:
        tokens: budget for the lines shown.
        answerer: answers from them; default: an `Answerer` with that budget.
    """

    def __init__(self, tokens: int = 8192, answerer: Answerer | None = None):
        super().__init__()
        self.tokens, self.answerer = tokens, answerer or Answerer(context_tokens=tokens)

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"tokens": self.tokens, "answerer": self.answerer.hparams()}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "FullContext":
        """See `Program.build`."""
        parts: dict[str, Any] = {"answerer": Answerer.build(hparams["answerer"])}
        return cls(**(hparams | parts))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Answer."""
        claims = [quoted(turn) for turn in store.turns]
        fitting = within((claim_line(f"c{len(claims)}", claim) for claim in reversed(claims)), self.tokens)
        shown = claims[len(claims) - len(fitting) :]
        context = Context(request=question, claims=tuple(shown))
        answer = self.answerer(question=question, context=context).answer
        note = "" if len(shown) == len(claims) else f"the newest {len(shown)} of {len(claims)} turns"
        return dspy.Prediction(answer=answer, context=context, note=note)


class Terms(NamedTuple):
    """What systems are opened with: how hard a researcher tries, its limits where they are not those of that effort,
    turns or memos that a search finds, and the tokens of a full context."""

    effort: Effort = "low"
    limits: Limits | None = None
    k: int = 10
    tokens: int = 8192


_TERMS = Terms()
# What is left out of the researcher, by name of the switch: its tree, a half of its search, or the filters.
_WITHOUT: dict[str, dict[str, Any]] = {
    "no-tree": {"tree": False},
    "no-bm25": {"ranking": "dense"},
    "no-dense": {"ranking": "bm25"},
    "no-filters": {"filters": False},
}


def _researcher(**without: Any) -> Callable[[Terms], Program]:
    return lambda terms: MemoryAgent(Researcher(terms.effort, terms.limits, **without))


def _ablated(ablate: str) -> Callable[[Terms], Program]:
    return lambda terms: StitchAgent(IntentRecall(ablate=ablate))


SYSTEMS: Mapping[str, Callable[[Terms], Program]] = MappingProxyType(
    {
        "closed_book": lambda terms: ClosedBook(),
        "full_context": lambda terms: FullContext(terms.tokens),
        "bm25": lambda terms: OneShot(k=terms.k, ranking="bm25"),
        "hybrid": lambda terms: OneShot(k=terms.k),
        "memos": lambda terms: MemoAgent(k=terms.k),
        "researcher": _researcher(),
        **{f"researcher {name}": _researcher(**without) for name, without in _WITHOUT.items()},
        "stitch": lambda terms: StitchAgent(),
        "released": lambda terms: ReleasedAgent(),
        **{f"stitch {ablate}": _ablated(ablate) for ablate in ABLATIONS if ablate},
    }
)


def open_system(name: str, terms: Terms = _TERMS) -> Program:
    """A system by its name.

    Args:
        name: in `SYSTEMS`.
        terms: what it is opened with.

    Raises:
        UsageError: there is no such system.
    """
    if name not in SYSTEMS:
        raise UsageError(f"unknown system {name!r}; choose one of: {', '.join(SYSTEMS)}")
    return SYSTEMS[name](terms)


def asker(program: Program) -> Program:
    """What asks a store with a program: what only answers gets a search, and what only finds gets an `Answerer`.

    Raises:
        UsageError: it is a judge, or labels turns or files sessions.
    """
    if isinstance(program, tuple(JUDGES.values())):
        raise UsageError(f"{type(program).__name__} judges answers and gives none; ask with another program")
    if isinstance(program, Stitcher):
        raise UsageError(f"{type(program).__name__} labels turns and gives no answers; ask with stitch_agent")
    if isinstance(program, Memorizer):
        raise UsageError("Memorizer files sessions and gives no answers; ask with memory_agent")
    if isinstance(program, Answerer):
        return OneShot(program)
    if isinstance(program, IntentRecall):
        return StitchAgent(program)
    return MemoryAgent(program) if isinstance(program, Researcher) else program
