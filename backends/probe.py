"""Turns an endpoint into measured facts: how its answers can be constrained, how long a prompt may be, how fast it is.

A probe decides, not a table of model names: the same model honours a schema behind one server and not behind another.
"""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

import dspy
from pydantic import Field

from stitchjam.backends.adapter import StepAdapter
from stitchjam.backends.engine import Endpoint, Structure, first_line, make_lm
from stitchjam.backends.models import stitchjam_home
from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import BackendError, StitchjamError
from stitchjam.data.tokens import count_tokens
from stitchjam.signatures.reply import Reply

__all__ = ["Probe", "known_structure", "probe", "probe_structure"]

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


def _key(endpoint: Endpoint) -> str:
    return replace(endpoint, structure="text").name


def _results() -> dict[str, Structure]:
    try:
        table = json.loads((stitchjam_home() / "probes.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # a lost or broken file only means that the probe runs again
    return table if isinstance(table, dict) else {}


def known_structure(endpoint: Endpoint) -> Structure | None:
    """What an earlier probe of this endpoint found."""
    found = _results().get(_key(endpoint))
    return found if found in get_args(Structure) else None


def _remember(endpoint: Endpoint, structure: Structure) -> None:
    with suppress(OSError), whole_file(stitchjam_home() / "probes.json") as file:  # it is good without being kept
        json.dump(_results() | {_key(endpoint): structure}, file, indent=1)


def probe_structure(endpoint: Endpoint) -> Structure | None:
    """The strictest way to constrain answers that this endpoint honours, kept for later runs.

    None when no answer can be parsed in any way; then nothing is kept.

    Raises:
        BackendError: the endpoint cannot be reached or refuses our key.
    """
    for structure in get_args(Structure):
        try:
            fits = _answers(replace(endpoint, structure=structure))
        except dspy.LMError as error:
            if structure == "text" or not _may_be_the_format(error):
                raise _unusable(endpoint, error) from error
            endpoint = replace(endpoint, retries=0)
            continue
        if fits:
            _remember(endpoint, structure)
            return structure
    return None


def _may_be_the_format(error: dspy.LMError) -> bool:
    """A server that does not know a response format says so, or falls over it; an unknown model is another matter."""
    kinds = (dspy.LMInvalidRequestError, dspy.LMUnsupportedFeatureError, dspy.LMServerError)
    return isinstance(error, kinds) and not isinstance(error, dspy.LMUnsupportedModelError)


def _unusable(endpoint: Endpoint, error: dspy.LMError) -> StitchjamError:
    if isinstance(error.__cause__, StitchjamError):  # ours, raised in the engine: a missing key or model
        return error.__cause__
    return BackendError(
        f"model {endpoint.alias!r}: {first_line(error)}. Check address, model name and key in stitchjam.toml"
    )


def _answers(endpoint: Endpoint) -> bool:
    """Whether one small typed question comes back in the right form."""
    predict = dspy.Predict(_ChoosePaint)
    with dspy.context(lm=make_lm(endpoint, cache=False), adapter=StepAdapter(), trace=None):
        try:
            predict(wish="The neighbours like quiet colours. Nonce " + str(time.time_ns()))
        except dspy.AdapterParseError:
            return False
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
    return Probe(endpoint.alias, endpoint.model, structure, _context(endpoint), prefill, decode, _note(structure))


def _note(structure: Structure | None) -> str:
    if structure is None:
        return "no answer could be read in any form; choose another model"
    return "" if structure == "json_schema" else "answers are not held to a schema; small models will often fail"


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
        raise _unusable(endpoint, error) from error
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
    base = base.rstrip("/")
    for url in (base.removesuffix("/v1") + "/props", base + "/models"):
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                table = json.load(reply)
        except (OSError, ValueError):
            continue
        try:
            settings = table.get("default_generation_settings") or table["data"][0]
            number = settings.get("n_ctx") or settings.get("max_model_len")
        except (AttributeError, LookupError, TypeError):
            continue  # another server with a page of that name
        if isinstance(number, int):
            yield number
