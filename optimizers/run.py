"""Turns all that decides the rows of an evaluation into its name and the hashes that tell two of them apart."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from stitchjam.backends.bindings import Bindings
from stitchjam.data.cases import Cases
from stitchjam.optimizers.metrics import Metric
from stitchjam.optimizers.rows import Run
from stitchjam.programs.contract import digest, identity
from stitchjam.programs.step import Program

__all__ = ["describe_run"]

_CODE = ("data", "signatures", "backends", "programs", "optimizers/metrics")


def describe_run(program: Program, metric: Metric, cases: Cases, bindings: Bindings, about: Mapping[str, Any]) -> Run:
    """The run of a program on these cases; `about` holds `name`, `bench` and `rollout`.

    Two runs whose rows could differ have different hashes, also when only our own code has changed.
    """
    sampling = {one.name: [one.temperature, one.max_tokens] for one in bindings.endpoints}
    settled = {
        "program": digest(identity(program)),
        "metric": digest(metric.describe()),
        "questions": cases.digest,
        "model": digest({"bindings": bindings.describe(), "sampling": sampling}),
        "code": _code_digest(),
        "rollout": str(about["rollout"]),
    }
    models = sorted({model.split("@")[0] for model in bindings.describe().values()})
    return Run(metric=metric.name, model=", ".join(models), asked=len(cases.keys), settled=settled, **about)


def _code_digest() -> str:
    root: Any = files("stitchjam")
    found = {str(path.relative_to(root)): path.read_text("utf-8") for ring in _CODE for path in _modules(root / ring)}
    return digest(found)


def _modules(folder: Any) -> list[Any]:
    return sorted(folder.rglob("*.py"))
