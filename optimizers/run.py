"""Turns all that decides the rows of an evaluation into its name and the hashes that tell two of them apart."""

from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from stitchjam.backends.bindings import Bindings
from stitchjam.data.cases import Cases
from stitchjam.optimizers.metrics import Metric
from stitchjam.optimizers.rows import Run
from stitchjam.programs.contract import contract_of, digest, identity
from stitchjam.programs.step import Program
from stitchjam.signatures import JUDGE_STEPS

__all__ = ["describe_run"]

_RINGS = ("data", "signatures", "backends", "programs", "optimizers/metrics")
_VERSIONED = ("dspy", "wordllama")


def describe_run(program: Program, metric: Metric, cases: Cases, bindings: Bindings, about: Mapping[str, Any]) -> Run:
    """The run of a program on these cases; `about` holds `name`, `bench` and `rollout`.

    Two runs whose rows could differ have different hashes, also when only our own code has changed.
    """
    steps = {part.step for part in contract_of(program).values()} | (JUDGE_STEPS if metric.judge_kind else set())
    settled = {
        "program": digest(identity(program)),
        "metric": digest(metric.describe()),
        "questions": cases.digest,
        "encoder": cases.encoder,
        "model": digest({step: _model(bindings.lm(step)) for step in steps}),
        "code": _code_digest(),
        "rollout": str(about["rollout"]),
    }
    asked = sorted({bindings.lm(step).model.split("@")[0] for step in steps - JUDGE_STEPS})
    judges = sorted({bindings.lm(step).model.split("@")[0] for step in steps & JUDGE_STEPS})
    names = {"model": ", ".join(asked), "judge": ", ".join(judges)}
    return Run(metric=metric.name, asked=len(cases.keys), settled=settled, **names, **about)


def _model(lm: Any) -> list[str]:
    """What decides the replies of a model: its name, which holds a hash of its address, and how it samples."""
    return [lm.model, *(f"{name}={value!r}" for name, value in sorted(lm.kwargs.items()) if name != "api_key")]


def _code_digest() -> str:
    root: Any = files("stitchjam")
    paths = {*(path for ring in _RINGS for path in (root / ring).rglob("*.py")), root / "optimizers" / "task.py"}
    code = {str(path.relative_to(root)): path.read_text("utf-8") for path in paths}
    return digest({"code": code} | {name: version(name) for name in _VERSIONED})
