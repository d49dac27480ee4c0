"""Turns predictions and gold into scores: one module for each kind of metric, `base` for what they share."""

from stitchjam.optimizers.metrics.answers import (
    Abstention,
    AnswerF1,
    QaF1,
    RougeL,
    answer_f1,
)
from stitchjam.optimizers.metrics.base import (
    METRICS,
    Metric,
    Score,
    check_fit,
    make_metric,
    metric_settings,
    open_judge,
)
from stitchjam.optimizers.metrics.candidates import CameF1, Judge
from stitchjam.optimizers.metrics.choices import Choice
from stitchjam.optimizers.metrics.end import EndMetric
from stitchjam.optimizers.metrics.evidence import (
    AnswerInContext,
    EvidenceAtBudget,
    EvidenceNear,
    EvidencePrecision,
    EvidenceRecall,
    SpanSupport,
)
from stitchjam.optimizers.metrics.judged import Judged, LongMemEval
from stitchjam.optimizers.metrics.locomo import LocomoF1, LocomoGam
from stitchjam.optimizers.metrics.sources import cited, recall_by_tokens

__all__ = [
    "Abstention",
    "AnswerF1",
    "AnswerInContext",
    "CameF1",
    "Choice",
    "EndMetric",
    "EvidenceAtBudget",
    "EvidenceNear",
    "EvidencePrecision",
    "EvidenceRecall",
    "Judge",
    "Judged",
    "LocomoF1",
    "LocomoGam",
    "LongMemEval",
    "METRICS",
    "Metric",
    "QaF1",
    "RougeL",
    "Score",
    "SpanSupport",
    "answer_f1",
    "check_fit",
    "cited",
    "make_metric",
    "metric_settings",
    "open_judge",
    "recall_by_tokens",
]
