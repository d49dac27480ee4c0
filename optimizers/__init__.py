"""Judgement: metrics, recipes, evaluation, and the writing of artifacts. Production never imports this ring."""
