"""Turns `stitchjam.toml` into tables of models, roles and steps that are known to be right.

The file names environment variables; keys and headers in it are refused.
"""

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stitchjam.backends import local, models
from stitchjam.backends.engine import Endpoint, Structure
from stitchjam.backends.probe import known_structure
from stitchjam.data.errors import UsageError
from stitchjam.signatures import STEPS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Config", "EXAMPLE", "Find", "ModelConfig", "Role", "checked_config", "parse_config"]

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


class Config(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")

    models: dict[str, ModelConfig] = Field(min_length=1)
    roles: dict[Role, str]
    steps: dict[str, str] = Field(default_factory=dict)


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


def parse_config(path: Path) -> Config:
    """The tables of a file; raises what `bindings.read_config` raises."""
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
        return Config.model_validate(table)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise UsageError(f"{path}: {problems}. See the example that `stitchjam init` writes") from None


def checked_config(path: Path) -> Config:
    """The same, of which every step, model and the task role are known too."""
    file = parse_config(path)
    for step in file.steps:
        _known(step, STEPS, "step", path)
    for alias in (*file.roles.values(), *file.steps.values()):
        _known(alias, file.models, "model", path)
    if "task" not in file.roles:
        raise UsageError(f'{path}: [roles] needs a model for "task"; add: task = "{next(iter(file.models))}"')
    return file
