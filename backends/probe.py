"""Turns an endpoint into measured facts: how its answers can be constrained, how long a prompt may be, how fast it is.

A probe decides, not a table of model names: the same model honours a schema behind one server and not behind another.
"""

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import dspy
from pydantic import Field

from stitchjam.backends.adapter import StepAdapter
from stitchjam.backends.engine import Endpoint, Structure, make_lm
from stitchjam.data.errors import BackendError
from stitchjam.data.tokens import count_tokens
from stitchjam.signatures.reply import Reply

__all__ = ["Probe", "known_structure", "probe", "probe_structure", "stitchjam_home"]

_PROMPT_WORDS = 400
_DECODED = 48


class _PaintReply(Reply):
    colour: Literal["green", "violet"] = Field(description="one of the two")
    reasons: list[str] = Field(min_length=1, max_length=2, description="short reasons")


class _ChoosePaint(dspy.Signature):
    """Choose a colour for the door."""

    wish: str = dspy.InputField()
    reply: _PaintReply = dspy.OutputField()


@dataclass(frozen=True)
class Probe:
    """What was found. `structure` is None when no form of answer could be parsed; 0 means not known."""

    alias: str
    model: str
    structure: Structure | None
    context: int = 0
    prompt_tokens_a_second: float = 0.0
    output_tokens_a_second: float = 0.0
    note: str = ""


def stitchjam_home() -> Path:
    """Where models and probe results are kept: $STITCHJAM_HOME, else ~/.cache/stitchjam."""
    return Path(os.environ.get("STITCHJAM_HOME") or Path.home() / ".cache" / "stitchjam")


def _key(endpoint: Endpoint) -> str:
    return replace(endpoint, structure="text").name


def _results() -> dict[str, Structure]:
    try:
        table = json.loads((stitchjam_home() / "probes.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}  # a lost or broken file only means that the probe runs again
    return table if isinstance(table, dict) else {}


def known_structure(endpoint: Endpoint) -> Structure | None:
    """What an earlier probe of this endpoint found."""
    found = _results().get(_key(endpoint))
    return found if found in get_args(Structure) else None


def _remember(endpoint: Endpoint, structure: Structure) -> None:
    file = stitchjam_home() / "probes.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(_results() | {_key(endpoint): structure}, indent=1), encoding="utf-8")
    new.replace(file)


def probe_structure(endpoint: Endpoint) -> Structure | None:
    """The strictest way to constrain answers that this endpoint honours, kept for later runs.

    None when no answer can be parsed in any way; then nothing is kept.

    Raises:
        BackendError: the endpoint cannot be reached or refuses our key.
    """
    for structure in get_args(Structure):
        if _answers(replace(endpoint, structure=structure)):
            _remember(endpoint, structure)
            return structure
    return None


def _answers(endpoint: Endpoint) -> bool:
    """Whether one small typed question comes back in the right form."""
    predict = dspy.Predict(_ChoosePaint)
    with dspy.context(lm=make_lm(endpoint, cache=False), adapter=StepAdapter(), trace=None):
        try:
            predict(wish="The neighbours like quiet colours. Nonce " + str(time.time_ns()))
        except dspy.AdapterParseError:
            return False
        except (dspy.LMInvalidRequestError, dspy.LMUnsupportedFeatureError):
            return False  # a server may refuse a response format it does not know
        except dspy.LMError as error:
            raise BackendError(
                f"model {endpoint.alias!r}: {str(error)[:400]}. Check address, model name and key in stitchjam.toml"
            ) from error
    return True


def probe(endpoint: Endpoint, say: Callable[[str], None] | None = None) -> Probe:
    """Probe structure, context and speed with a handful of short calls; `say` is told what is going on.

    Raises:
        BackendError: the endpoint cannot be reached or refuses our key.
    """
    if say is not None:
        say(f"probing {endpoint.alias!r}")
    structure = probe_structure(endpoint)
    prefill, decode = _speed(endpoint)
    note = "" if structure == "json_schema" else "answers are not held to a schema; small models will often fail"
    return Probe(endpoint.alias, endpoint.model, structure, _context(endpoint), prefill, decode, note)


def _speed(endpoint: Endpoint) -> tuple[float, float]:
    words = " ".join(f"word{number % 97}" for number in range(_PROMPT_WORDS))
    prompt = f"{time.time_ns()} {words}. Count slowly from one to one hundred in words."
    short, first = _timed(endpoint, prompt, 1)
    long, second = _timed(endpoint, prompt, _DECODED)  # the same prompt, so servers with a prefix cache skip it
    prefill = count_tokens(prompt) / first if first else 0.0
    decode = long / second if second else 0.0
    return round(prefill, 1), round(decode, 1)


def _timed(endpoint: Endpoint, prompt: str, tokens: int) -> tuple[int, float]:
    lm = make_lm(replace(endpoint, max_tokens=tokens), cache=False)
    start = time.monotonic()
    try:
        text = lm(prompt)[0]
    except dspy.LMError as error:
        raise BackendError(f"model {endpoint.alias!r}: {str(error)[:400]}. Check the endpoint") from error
    return count_tokens(text if isinstance(text, str) else str(text)), time.monotonic() - start


def _context(endpoint: Endpoint) -> int:
    """Longest prompt in tokens: from the server when it tells, else from litellm's list, else 0."""
    base = endpoint.start() if endpoint.start else endpoint.api_base
    for number in _told_by_server(base) if base else ():
        return number
    import litellm

    facts = litellm.model_cost.get(endpoint.model) or litellm.model_cost.get(endpoint.model.partition("/")[2]) or {}
    return facts.get("max_input_tokens") or 0


def _told_by_server(base: str) -> Iterator[int]:
    """llama.cpp tells in /props, vLLM in /v1/models."""
    for url in (base.removesuffix("/v1") + "/props", base + "/models"):
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                table = json.load(reply)
        except (OSError, ValueError):
            continue
        settings = table.get("default_generation_settings") or (table.get("data") or [{}])[0]
        number = settings.get("n_ctx") or settings.get("max_model_len")
        if isinstance(number, int):
            yield number
