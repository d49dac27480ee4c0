"""Turns what the labelling steps said about turns into figures, against histories whose turns carry gold labels."""

from stitchjam.optimizers.steps.records import Figure, Predicted, Scored, StepReport
from stitchjam.optimizers.steps.scoring import score_steps
from stitchjam.optimizers.steps.tables import step_tables

__all__ = ["Figure", "Predicted", "Scored", "StepReport", "score_steps", "step_tables"]
