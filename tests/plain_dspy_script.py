"""Plain dspy: our program and metric, dspy's optimizers, save and load; no stitchjam.toml."""

import sys

import dspy
from jobs import oracle_lm, small_data

from stitchjam.optimizers.metrics import EndMetric
from stitchjam.optimizers.task import examples
from stitchjam.programs.answer import MemoryAgent

data = small_data(train=3, held_out=1)
lm = oracle_lm(data, other="```\nAnswer in few words.\n```")
dspy.configure(lm=lm)
metric = EndMetric(data.questions, data.store)
trainset = list(examples("memory_agent", data.questions, data.store))
gepa = dspy.GEPA(metric=metric.as_feedback, max_metric_calls=20, reflection_lm=lm, num_threads=1)
reflected = gepa.compile(MemoryAgent(), trainset=trainset[:3], valset=trainset[3:])
fewshot = dspy.BootstrapFewShot(metric=metric.as_bool, max_labeled_demos=0)
compiled = fewshot.compile(reflected, trainset=trainset)
compiled.save(sys.argv[1])
again = MemoryAgent()
again.load(sys.argv[1])
assert all(predictor.demos for predictor in again.predictors() if predictor is not again.researcher.plan_next)
reflections = sum(call.step == "other" for call in lm.engine.calls)
sys.stdout.write(f"reflections {reflections}\n{again(**trainset[0].inputs()).answer.text}\n")
