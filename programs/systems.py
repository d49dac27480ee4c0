"""Turns a name into a system that answers questions about a store: what programs are compared with, and programs.

All have one form: `system(question=..., store=...)` gives `answer`, `context`, and a `note` where there is something to
say about the answer. The Memorizer joins the table by a line.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED, Answer, Context, Effort
from stitchjam.data.store import Store
from stitchjam.programs.answer import Answerer, MemoryAgent, OneShot, abstains
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.judge import JUDGES
from stitchjam.programs.render import claim_line, quoted, within
from stitchjam.programs.step import Program, as_step
from stitchjam.programs.stitch.recall import ABLATIONS, IntentRecall, StitchAgent
from stitchjam.programs.stitch.released import ReleasedAgent
from stitchjam.programs.stitch.stitcher import Stitcher
from stitchjam.signatures.answer import AnswerFromKnowledge

__all__ = ["ClosedBook", "FullContext", "SYSTEMS", "asker", "open_system"]


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


def _ablated(ablate: str) -> Callable[[Effort, int, int], Program]:
    return lambda effort, k, tokens: StitchAgent(IntentRecall(ablate=ablate))


# By name, from how hard a researcher tries, how many turns a search finds, and the tokens of a full context.
SYSTEMS: Mapping[str, Callable[[Effort, int, int], Program]] = MappingProxyType(
    {
        "closed_book": lambda effort, k, tokens: ClosedBook(),
        "full_context": lambda effort, k, tokens: FullContext(tokens),
        "bm25": lambda effort, k, tokens: OneShot(k=k, ranking="bm25"),
        "hybrid": lambda effort, k, tokens: OneShot(k=k),
        "researcher": lambda effort, k, tokens: MemoryAgent(Researcher(effort)),
        "stitch": lambda effort, k, tokens: StitchAgent(),
        "released": lambda effort, k, tokens: ReleasedAgent(),
        **{f"stitch {ablate}": _ablated(ablate) for ablate in ABLATIONS if ablate},
    }
)


def open_system(name: str, effort: Effort = "low", k: int = 10, tokens: int = 8192) -> Program:
    """A system by its name.

    Args:
        name: in `SYSTEMS`.
        effort: how hard the researcher tries.
        k: turns that a search finds.
        tokens: budget of a full context.

    Raises:
        UsageError: there is no such system.
    """
    if name not in SYSTEMS:
        raise UsageError(f"unknown system {name!r}; choose one of: {', '.join(SYSTEMS)}")
    return SYSTEMS[name](effort, k, tokens)


def asker(program: Program) -> Program:
    """What asks a store with a program: what only answers gets a search, and what only finds gets an `Answerer`.

    Raises:
        UsageError: it is a judge, or labels turns.
    """
    if isinstance(program, tuple(JUDGES.values())):
        raise UsageError(f"{type(program).__name__} judges answers and gives none; ask with another program")
    if isinstance(program, Stitcher):
        raise UsageError(f"{type(program).__name__} labels turns and gives no answers; ask with stitch_agent")
    if isinstance(program, Answerer):
        return OneShot(program)
    if isinstance(program, IntentRecall):
        return StitchAgent(program)
    return MemoryAgent(program) if isinstance(program, Researcher) else program
