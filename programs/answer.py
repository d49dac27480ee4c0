"""Turns a question and a context into a short answer that cites the claims it rests on."""

from typing import Any, Literal, get_args

import dspy

from stitchjam.data.errors import UsageError
from stitchjam.data.index.ranking import BM25
from stitchjam.data.records import NOT_MENTIONED, Answer, Claim, Context
from stitchjam.data.store import Store
from stitchjam.data.text import normalise
from stitchjam.data.tokens import count_tokens
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.recall import recall
from stitchjam.programs.render import NOTHING, claim_line, gist_line, within
from stitchjam.programs.step import Program, as_step
from stitchjam.signatures.answer import AnswerQuestion

__all__ = ["Answerer", "MemoryAgent", "OneShot", "abstains"]

Ranking = Literal["hybrid", "bm25"]
_GISTS = 8  # part of a context that gists may take, at most
_ABSTAINS = {normalise(text) for text in (NOT_MENTIONED, "none", "unknown", "not known", "no information available")}


class Answerer(Program):
    """Answers from a context and abstains when the context is empty or does not say.

    Args:
        context_tokens: budget for the lines shown (CAME-Bench: 4,096).
        answer_question: replacement for the step `AnswerQuestion`.
    """

    answer_question: dspy.Module

    def __init__(self, context_tokens: int = 4096, answer_question: Any = None):
        super().__init__()
        if not isinstance(context_tokens, int) or context_tokens < 1:
            raise UsageError(f"context_tokens is a whole number from 1 on, not {context_tokens!r}")
        self.context_tokens = context_tokens
        self.answer_question = as_step(answer_question, AnswerQuestion)

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"context_tokens": self.context_tokens}

    def forward(self, question: str, context: Context) -> dspy.Prediction:
        """Answer.

        Returns:
            A prediction with `answer`, an `Answer` record. Its claims are copied from the context by label, so a
            citation can only point to what was really found.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        if not context.claims:
            return dspy.Prediction(answer=Answer(text=NOT_MENTIONED, abstained=True))
        labelled = {f"c{number}": claim for number, claim in enumerate(context.claims, 1)}
        gists = within(map(gist_line, context.gists), self.context_tokens // _GISTS) if context.gists else []
        left = self.context_tokens - sum(count_tokens(line) + 1 for line in gists)
        lines = within((claim_line(label, claim) for label, claim in labelled.items()), left)
        reply = self.answer_question(context="\n".join([*gists, *lines]) or NOTHING, question=question).reply
        abstained = abstains(reply.answer)
        shown = list(labelled)[: len(lines)]
        cited = [labelled[label] for label in dict.fromkeys(reply.sources) if label in shown]
        return dspy.Prediction(answer=_answer(reply.answer, cited, abstained))


def abstains(reply: str) -> bool:
    """Whether a reply says that there is no answer."""
    return not reply.strip() or normalise(reply) in _ABSTAINS


def _answer(text: str, cited: list[Claim], abstained: bool) -> Answer:
    if abstained:
        return Answer(text=NOT_MENTIONED, abstained=True)
    return Answer(text=text.strip(), claims=tuple(cited))


class MemoryAgent(Program):
    """Researches a question in a store and answers it: the program that the end metric of JAM scores.

    Args:
        researcher: finds the context; default: `Researcher()`.
        answerer: answers from it; default: `Answerer()`.
    """

    def __init__(self, researcher: Researcher | None = None, answerer: Answerer | None = None):
        super().__init__()
        self.researcher = researcher or Researcher()
        self.answerer = answerer or Answerer()

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"researcher": self.researcher.hparams(), "answerer": self.answerer.hparams()}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "MemoryAgent":
        """See `Program.build`."""
        kinds = {"researcher": Researcher, "answerer": Answerer}
        parts: dict[str, Any] = {name: kind.build(hparams[name]) for name, kind in kinds.items()}
        return cls(**(hparams | parts))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Research and answer.

        Returns:
            A prediction with `answer` (an `Answer`) and `context` (the `Context` it rests on).
        """
        context = self.researcher(question=question, store=store).context
        return dspy.Prediction(answer=self.answerer(question=question, context=context).answer, context=context)


class OneShot(Program):
    """Answers from what one search finds: two steps cheaper than research, and its baseline.

    Args:
        answerer: answers from the turns found; default: `Answerer()`.
        k: turns to find.
        ranking: "hybrid" is the search of this package, "bm25" looks for words alone.
    """

    def __init__(self, answerer: Answerer | None = None, k: int = 10, ranking: Ranking = "hybrid"):
        super().__init__()
        if ranking not in get_args(Ranking):
            raise UsageError(f"unknown ranking {ranking!r}; choose hybrid or bm25")
        self.answerer, self.k, self.ranking = answerer or Answerer(), k, ranking

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"answerer": self.answerer.hparams(), "k": self.k, "ranking": self.ranking}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "OneShot":
        """See `Program.build`."""
        parts: dict[str, Any] = {"answerer": Answerer.build(hparams["answerer"])}
        return cls(**(hparams | parts))

    def forward(self, question: str, store: Store) -> dspy.Prediction:
        """Search once and answer; returns `answer` and `context` as `MemoryAgent` does."""
        context = recall(question, store, self.k, weights=BM25 if self.ranking == "bm25" else None)
        return dspy.Prediction(answer=self.answerer(question=question, context=context).answer, context=context)
