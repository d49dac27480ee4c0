"""Turns a config file or the name of a model into bindings: which model answers which step, and who judges."""

from collections.abc import Callable, Mapping
from pathlib import Path

import dspy

from stitchjam.backends import models
from stitchjam.backends.config import EXAMPLE, Find, ModelConfig, Role, checked_config, parse_config
from stitchjam.backends.engine import BoundEngine, Endpoint, Structure, make_lm
from stitchjam.backends.probe import probe_structure
from stitchjam.data.errors import UsageError
from stitchjam.signatures import JUDGE_STEPS

__all__ = [
    "Bindings",
    "EXAMPLE",
    "Find",
    "ModelConfig",
    "Role",
    "bind_model",
    "open_bindings",
    "read_config",
]


class Bindings:
    """Which LM answers which step, in which role.

    Args:
        roles: role -> LM; "task" is needed, the others default to it.
        steps: step name -> LM, for steps that differ from the task role.
        role: the role these bindings speak for; steps are looked up in the task role, and for a role without a model.
            Judges answer for "judge" in every role: a teacher that judged its own answers would pass them.
    """

    def __init__(self, roles: Mapping[Role, dspy.LM], steps: Mapping[str, dspy.LM] | None = None, role: Role = "task"):
        if "task" not in roles:
            raise UsageError("bindings need a model for the role 'task'; add it under [roles]")
        self.roles: dict[Role, dspy.LM] = dict(roles)
        self.steps = dict(steps or {})
        self.role: Role = role

    def lm(self, step: str) -> dspy.LM:
        """The LM for a step."""
        if step in JUDGE_STEPS:
            return self.steps.get(step) or self.roles.get("judge") or self.roles["task"]
        other = self.roles.get(self.role) if self.role != "task" else None
        return other or self.steps.get(step) or self.roles["task"]

    def as_role(self, role: Role) -> "Bindings":
        """The same models, with every step answered in another role (a teacher answers all steps of a program)."""
        return Bindings(self.roles, self.steps, role)

    def rollout(self, number: int) -> "Bindings":
        """The same models, asked anew for other replies; the judge stays as it is.

        Raises:
            UsageError: no model samples, so that the replies would be the same.
        """
        lms = (*self.roles.values(), *self.steps.values())
        if all(lm.kwargs.get("temperature") == 0 for lm in lms):
            raise UsageError("at temperature 0 a model replies the same in every rollout; set its temperature above 0")
        roles: dict[Role, dspy.LM] = {role: _anew(lm, number) for role, lm in self.roles.items()}
        roles["judge"] = self.roles.get("judge", self.roles["task"])
        steps = {step: lm if step in JUDGE_STEPS else _anew(lm, number) for step, lm in self.steps.items()}
        return Bindings(roles, steps, self.role)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints behind these bindings, each once; a plain dspy LM has none."""
        engines = [getattr(lm, "engine", None) for lm in (*self.roles.values(), *self.steps.values())]
        return tuple({e.endpoint.name: e.endpoint for e in engines if isinstance(e, BoundEngine)}.values())

    @property
    def parallel(self) -> int | None:
        """Requests at once that the model of the task role takes; None where that is not limited."""
        engine = getattr(self.roles["task"], "engine", None)
        return engine.endpoint.parallel if isinstance(engine, BoundEngine) else None

    def describe(self) -> dict[str, str]:
        """Role or step -> model name, for manifests: no address, no key."""
        named = {f"role:{role}": lm.model for role, lm in self.roles.items()}
        return named | {f"step:{step}": lm.model for step, lm in self.steps.items()}

    def __deepcopy__(self, memo: dict) -> "Bindings":
        return self


def _anew(lm: dspy.LM, number: int) -> dspy.LM:
    return lm if lm.kwargs.get("temperature") == 0 else lm.copy(rollout_id=number)


def read_config(path: Path, find: Find | None = None) -> Bindings:
    """Bindings from a config file. No model is started, and no endpoint is called but by `find`.

    Args:
        path: the file.
        find: finds out how an endpoint that was never probed can be held to a form of answer.

    Raises:
        UsageError: the file is missing or wrong, names an unknown model, role or step, or holds a secret.
    """
    file = checked_config(path)
    used = {*file.roles.values(), *file.steps.values()}
    lms = {alias: make_lm(file.models[alias].endpoint(alias, find)) for alias in sorted(used)}
    return Bindings(
        {role: lms[alias] for role, alias in file.roles.items()},
        {step: lms[alias] for step, alias in file.steps.items()},
    )


def bind_model(spec: str, find: Find | None = None) -> Bindings:
    """Bindings for one model given on the command line: "local:NAME", "local:file.gguf" or any litellm string."""
    return Bindings({"task": make_lm(ModelConfig(model=spec).endpoint(models.name_of(spec), find))})


def open_bindings(config: Path, model: str | None = None, say: Callable[[str], None] | None = None) -> Bindings:
    """Bindings from one model string, or from a config file when there is none.

    Args:
        config: the config file.
        model: a model of the config file by its name, else see `bind_model`.
        say: is told when an endpoint is probed for the first time; None does not probe.
    """

    def find(endpoint: Endpoint) -> Structure | None:
        if say is None:
            return None
        say(f"probing once how {endpoint.alias!r} can be held to a form of answer")
        return probe_structure(endpoint)

    if model and config.is_file() and model in (known := parse_config(config).models):
        return Bindings({"task": make_lm(known[model].endpoint(model, find))})
    return bind_model(model, find) if model else read_config(config, find)
