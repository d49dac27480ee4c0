"""The contracts: every LM step as a `dspy.Signature` with a typed reply, and the names by which steps are bound."""

import re

import dspy

from stitchjam.signatures.answer import AnswerFromKnowledge, AnswerQuestion
from stitchjam.signatures.jam import BrowseSource, ComposeContext, JudgeSufficiency, PlanFirst, PlanNext
from stitchjam.signatures.judge import JudgeAnswer, MatchCandidates
from stitchjam.signatures.memorizer import GroupMemos, SegmentHistory, WriteMemo, WriteReadme
from stitchjam.signatures.released import FocusRoles, JudgeUseful, SelectLabels
from stitchjam.signatures.stitch import (
    DetectScope,
    LabelTurn,
    MergeLabels,
    RankTurns,
    ReadIntent,
    SeedVocabulary,
    TypeEntities,
    TypeEvent,
    WriteGist,
    WriteNote,
)

__all__ = ["JUDGE_STEPS", "STEPS", "step_name"]


def step_name(signature: type[dspy.Signature]) -> str:
    """The name of a step in bindings, ledgers and feedback: `PlanNext` is "plan_next"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", signature.__name__).lower()


STEPS: dict[str, type[dspy.Signature]] = {
    step_name(signature): signature
    for signature in (
        AnswerFromKnowledge,
        AnswerQuestion,
        BrowseSource,
        ComposeContext,
        DetectScope,
        FocusRoles,
        GroupMemos,
        JudgeAnswer,
        JudgeSufficiency,
        JudgeUseful,
        LabelTurn,
        MatchCandidates,
        MergeLabels,
        PlanFirst,
        PlanNext,
        RankTurns,
        ReadIntent,
        SeedVocabulary,
        SegmentHistory,
        SelectLabels,
        TypeEntities,
        TypeEvent,
        WriteGist,
        WriteMemo,
        WriteNote,
        WriteReadme,
    )
}

# The steps of judges, which judge answers and are no part of what gives them: the role "judge" answers them.
JUDGE_STEPS = frozenset(map(step_name, (JudgeAnswer, MatchCandidates)))
