"""Turns `stitchjam.toml` into bindings: which model answers which step, and who teaches, reflects and judges.

The file names environment variables; keys and headers in it are refused.
"""

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import dspy
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stitchjam.backends import local, models
from stitchjam.backends.engine import BoundEngine, Endpoint, Structure, make_lm
from stitchjam.backends.probe import known_structure, probe_structure
from stitchjam.data.errors import UsageError
from stitchjam.signatures import JUDGE_STEPS, STEPS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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

Find = Callable[[Endpoint], Structure | None]
Role = Literal["task", "teacher", "reflector", "judge"]
_SECRET = re.compile(r"(?<!max_)(key|token|secret|password|credential|header|auth|authorization|bearer)s?$", re.I)
# An address needs none of these, and each can carry a password or key.
_SECRET_IN_URL = re.compile(r"[@?#]")
# OpenAI's reasoning models refuse a temperature and spend hundreds of tokens before the answer.
_REASONING = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9])(?![^/]*-chat)[^/]*$")
_ALLOWED = {"api_key_env", "max_tokens"}

EXAMPLE = """\
# Which model answers which step. Keys come from the environment; never write one here.

[models.local]
model = "local:smollm2-135m"        # 98 MB, for trying things out: stitchjam models pull smollm2-135m

# One line each for a real model (any string that litellm knows):
# [models.api]
# model = "openai/gpt-4.1-mini"     # with api_key_env = "OPENAI_API_KEY"
# [models.ollama]
# model = "ollama_chat/qwen3:4b"
# [models.vllm]
# model = "openai/Qwen3-4B"         # with api_base = "http://127.0.0.1:8000/v1"
# [models.gguf]
# model = "local:path/to/model.gguf"
# Also: temperature (0.0), max_tokens (600), timeout (120 s), retries (2), parallel (requests at once). "default" leaves
# the first two to the provider, as reasoning models want it.

[roles]
task = "local"                      # teacher, reflector and judge default to it

# [steps]
# browse_source = "local"           # one step on another model
"""


class ModelConfig(BaseModel):
    """One `[models.NAME]` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, pattern=r"^[^?#]+$")  # what follows these may be a key
    api_base: str | None = None
    api_key_env: str | None = None
    structure: Structure | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | Literal["default"] = 0.0
    max_tokens: Annotated[int, Field(gt=0)] | Literal["default"] = 600
    timeout: float = Field(default=120, gt=0)
    retries: int = Field(default=2, ge=0, le=10)
    parallel: int | None = Field(default=None, ge=1)
    n_ctx: int = Field(default=8192, ge=512)

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        # Capitals only: a key put here by mistake would otherwise be shown in "needs its key in $...".
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,15}|(?=.*_)[A-Z_][A-Z0-9_]{0,80}", value):
            raise ValueError('give the name of an environment variable, in capitals, such as "OPENAI_API_KEY"')
        return value

    @field_validator("api_base")
    @classmethod
    def _holds_no_secret(cls, value: str | None) -> str | None:
        if value is not None and _SECRET_IN_URL.search(value):
            raise ValueError("an address with @, ? or # may hold a password or key; use api_key_env instead")
        return value

    @property
    def is_local(self) -> bool:
        """Whether we serve this model ourselves."""
        return self.model.startswith("local:")

    def endpoint(self, alias: str, find: Find | None = None) -> Endpoint:
        """The endpoint this table describes; a local model is only started when first called.

        How answers are constrained is what the table says, else what a probe found before, else what `find` finds.
        The llama.cpp server that we start ourselves holds answers to a JSON schema.
        """
        endpoint = self._endpoint(alias)
        structure = self.structure or known_structure(endpoint)
        if structure is None and find is not None and not self.is_local:
            structure = find(endpoint)
        return replace(endpoint, structure=structure or "json_schema")

    def _endpoint(self, alias: str) -> Endpoint:
        shared: dict[str, Any] = {
            "alias": alias,
            "temperature": None if self.temperature == "default" else self.temperature,
            "max_tokens": None if self.max_tokens == "default" else self.max_tokens,
            "timeout": self.timeout,
            "retries": self.retries,
            "parallel": self.parallel,
        }
        if _REASONING.search(self.model):
            shared |= {name: None for name in ("temperature", "max_tokens") if name not in self.model_fields_set}
        if not self.is_local:
            return Endpoint(model=self.model, api_base=self.api_base, api_key_env=self.api_key_env, **shared)
        shared["timeout"] = max(self.timeout, 600)  # a CPU reads a long prompt in minutes
        shared["parallel"] = self.parallel or 1  # its server has one slot, and waiting for it would count as its time
        return Endpoint(
            model=f"openai/{models.name_of(self.model)}",
            start=lambda: local.serve(models.resolve(self.model), n_ctx=self.n_ctx),
            identity=models.identity(self.model),
            **shared,
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, ModelConfig] = Field(min_length=1)
    roles: dict[Role, str]
    steps: dict[str, str] = Field(default_factory=dict)


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

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints behind these bindings, each once; a plain dspy LM has none."""
        engines = [getattr(lm, "engine", None) for lm in (*self.roles.values(), *self.steps.values())]
        return tuple({e.endpoint.name: e.endpoint for e in engines if isinstance(e, BoundEngine)}.values())

    def describe(self) -> dict[str, str]:
        """Role or step -> model name, for manifests: no address, no key."""
        named = {f"role:{role}": lm.model for role, lm in self.roles.items()}
        return named | {f"step:{step}": lm.model for step, lm in self.steps.items()}

    def __deepcopy__(self, memo: dict) -> "Bindings":
        return self


def _refuse_secrets(table: Mapping[str, Any], path: Path, place: str = "") -> None:
    for key, value in table.items():
        name = f"{place}{key}"
        if isinstance(value, Mapping):
            if _SECRET.search(key) and place.count(".") > 1:
                raise UsageError(_secret_message(path, name))
            _refuse_secrets(value, path, f"{name}.")
        elif _SECRET.search(key) and key not in _ALLOWED:
            raise UsageError(_secret_message(path, name))


def _secret_message(path: Path, name: str) -> str:
    return (
        f"{path}: {name!r} does not belong in a config file. Put the value into an environment variable "
        f'and name it here: api_key_env = "MY_KEY"'
    )


def _shown(name: str) -> str:
    """A name for a message; one that may be a key put in the wrong place is not repeated."""
    return "(hidden, it looks like a key)" if re.search(r"\w{16,}", name) and re.search(r"\d", name) else repr(name)


def _known(name: str, known: Iterable[str], what: str, path: Path) -> None:
    known = sorted(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"{path}: unknown {what} {_shown(name)}; {hint}Known: {', '.join(known)}")


def _parse(path: Path) -> _File:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a BOM in front
    except FileNotFoundError:
        raise UsageError(f"there is no {path}; run: stitchjam init") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); give a file that can: --config FILE") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML ({error}); mend it or start again with: stitchjam init") from None
    _refuse_secrets(table, path)
    for role in table.get("roles", {}) if isinstance(table.get("roles"), Mapping) else {}:
        _known(role, get_args(Role), "role", path)
    try:
        return _File.model_validate(table)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError(f"{path}: {problems}. See the example that `stitchjam init` writes") from None


def read_config(path: Path, find: Find | None = None) -> Bindings:
    """Bindings from a config file. No model is started, and no endpoint is called but by `find`.

    Args:
        path: the file.
        find: finds out how an endpoint that was never probed can be held to a form of answer.

    Raises:
        UsageError: the file is missing or wrong, names an unknown model, role or step, or holds a secret.
    """
    file = _parse(path)
    for step in file.steps:
        _known(step, STEPS, "step", path)
    for alias in (*file.roles.values(), *file.steps.values()):
        _known(alias, file.models, "model", path)
    if "task" not in file.roles:
        raise UsageError(f'{path}: [roles] needs a model for "task"; add: task = "{next(iter(file.models))}"')
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

    if model and config.is_file() and model in (known := _parse(config).models):
        return Bindings({"task": make_lm(known[model].endpoint(model, find))})
    return bind_model(model, find) if model else read_config(config, find)
