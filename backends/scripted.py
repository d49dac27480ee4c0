"""Answers LM calls from functions keyed by step: for tests, and for examples that must not need a model.

It stands where a real engine stands, so ledgers, budgets, caches and adapters are the real ones.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dspy import lm15
from pydantic import BaseModel

from stitchjam.backends.engine import BoundEngine, Endpoint, make_lm
from stitchjam.backends.usage import Usage, caller, settle
from stitchjam.data.tokens import count_tokens

__all__ = ["ScriptedCall", "ScriptedEngine", "scripted_lm"]


@dataclass(frozen=True)
class ScriptedCall:
    """What a script sees of a call: the step's name, the system text and the message texts, newest last."""

    step: str
    system: str
    messages: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The last message: the current inputs, without demos."""
        return self.messages[-1]


Script = Callable[[ScriptedCall], Any]


class ScriptedEngine(BoundEngine):
    """An engine that asks a function instead of a server.

    Args:
        scripts: step name -> function of the call, or a constant. It returns a reply model, anything json can hold,
            or a raw string; it may raise. A step without a script is an error, so a test sees unexpected calls.
        alias: what the model is called.
        parallel: see `Endpoint`.
    """

    def __init__(self, scripts: Mapping[str, Script | Any], alias: str = "scripted", parallel: int | None = None):
        super().__init__(Endpoint(alias=alias, model="scripted", retries=0, parallel=parallel))
        self.scripts = scripts
        self.calls: list[ScriptedCall] = []

    def _warm_up(self) -> None:
        """Nothing is sent, so nothing has to be imported."""

    def _send(self, request):
        call = ScriptedCall(caller(), _text(request.system), tuple(message.text or "" for message in request.messages))
        self.calls.append(call)
        if call.step not in self.scripts:
            raise AssertionError(f"unexpected call of step {call.step!r}; scripted: {sorted(self.scripts)}")
        script = self.scripts[call.step]
        text = _render(script(call) if callable(script) else script)
        usage = Usage(
            input_tokens=count_tokens("\n".join([call.system, *call.messages])), output_tokens=count_tokens(text)
        )
        settle(self.endpoint.name, usage)
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant([lm15.TextPart(text)]),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
        )


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "".join(part.text for part in system)


def _render(value: Any) -> str:
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return value if isinstance(value, str) else json.dumps(value)


def scripted_lm(scripts: Mapping[str, Script | Any], alias: str = "scripted"):
    """A dspy LM that answers from `scripts`; `lm.engine.calls` lists the calls made."""
    engine = ScriptedEngine(scripts, alias)
    return make_lm(engine.endpoint, engine)
