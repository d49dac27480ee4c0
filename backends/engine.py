"""Turns a dspy request into one litellm call on a known endpoint, counted, budgeted and retried."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import dspy
import tenacity
from dspy import lm15
from dspy.clients._litellm import get_litellm
from dspy.clients.engines import LiteLLMEngine

from stitchjam.backends.turns import Turns
from stitchjam.backends.usage import Usage, settle
from stitchjam.data.errors import BudgetStop, StitchjamError, UsageError
from stitchjam.data.secrets import hide_secrets

__all__ = ["BoundEngine", "Endpoint", "Structure", "first_line", "make_lm"]

Structure = Literal["json_schema", "json_object", "text"]
_TRANSIENT = (lm15.RateLimitError, lm15.TimeoutError, lm15.ServerError, lm15.TransportError)
# These will fail for every further call too, so a metered run stops instead of scoring zeros.
_OUTAGE = (*_TRANSIENT, lm15.AuthError, lm15.BillingError, lm15.UnsupportedModelError, lm15.ConfigurationError)
_LONGEST_WAIT = 60


@dataclass(frozen=True)
class Endpoint:
    """Where a model is and how it is called. Holds names of environment variables, never keys.

    Args:
        alias: the name in bindings, ledgers and cache keys.
        model: what litellm receives, for example "openai/gpt-4.1-mini"; for local models, "openai/NAME".
        api_base: address, when the provider's default is not meant.
        api_key_env: environment variable that holds the key.
        structure: how replies are constrained; a probe finds out (`stitchjam models check`).
        temperature, max_tokens: sampling; None leaves the provider's default.
        parallel: requests at once, from all threads of this process; None does not limit them.
        timeout: seconds for one attempt.
        retries: attempts after the first, for transient failures.
        start: for a model we serve: starts the server when first needed and returns its address.
        identity: what to hash instead of the address, when that changes from run to run.
    """

    alias: str
    model: str
    api_base: str | None = None
    api_key_env: str | None = None
    structure: Structure = "json_schema"
    temperature: float | None = 0.0
    max_tokens: int | None = 600
    timeout: float = 120
    retries: int = 2
    parallel: int | None = None
    start: Callable[[], str] | None = None
    identity: str = ""

    @property
    def name(self) -> str:
        """`alias@hash`: keeps the caches of two endpoints apart, since dspy's cache key leaves the address out."""
        place = "\n".join([self.model, self.identity or self.api_base or "", self.structure])
        return f"{self.alias}@{sha256(place.encode()).hexdigest()[:8]}"


def first_line(error: Exception) -> str:
    """What went wrong, without secrets; dspy adds advice for its own users on further lines."""
    return hide_secrets(str(error).split("\n")[0])[:400].rstrip(". ")


def _wait(state: tenacity.RetryCallState) -> float:
    """The provider's own hint, else 1, 2, 4 ... seconds with jitter."""
    error = state.outcome.exception() if state.outcome else None
    hint = getattr(error, "retry_after", None)
    return min(float(hint), _LONGEST_WAIT) if hint else tenacity.wait_exponential_jitter(1, _LONGEST_WAIT)(state)


class BoundEngine(LiteLLMEngine):
    """dspy's litellm engine bound to one endpoint. One attempt is one call in the ledger."""

    # dspy takes this shortcut when it is callable; it would send `json_object` only and cache SDK objects.
    complete_legacy: Any = None

    def __init__(self, endpoint: Endpoint):
        options: dict[str, Any] = {"timeout": endpoint.timeout}
        if endpoint.api_base:
            options["api_base"] = endpoint.api_base
        super().__init__(wire_model=endpoint.model, **options)
        self.endpoint = endpoint
        self._turns = Turns(endpoint.parallel)
        self.supports_response_schema = endpoint.structure == "json_schema"
        self.supported_params = frozenset() if endpoint.structure == "text" else frozenset({"response_format"})

    def _arguments(self, request, *, streaming=False):
        data = super()._arguments(request, streaming=streaming) | self._access()
        if "api_base" in data and "max_completion_tokens" in data:
            data["max_tokens"] = data.pop("max_completion_tokens")  # the only limit that every OpenAI-like server knows
        return data

    def _access(self) -> dict[str, str]:
        """Address and key, where litellm would not find them by itself; starts a server of ours."""
        if self.endpoint.start is not None:
            return {"api_base": self.endpoint.start(), "api_key": "not-needed"}
        if self.endpoint.api_key_env:
            return {"api_key": self._key(self.endpoint.api_key_env)}
        if self.endpoint.api_base and self.endpoint.model.startswith("openai/"):
            return {"api_key": "not-needed"}  # the client refuses to start without any
        return {}

    def _warm_up(self) -> None:
        """Import litellm, which takes seconds; without this setting it also tries to fetch a price list."""
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        get_litellm(feature="stitchjam")

    def _key(self, variable: str) -> str:
        if not os.environ.get(variable):
            raise UsageError(f"model {self.endpoint.alias!r} needs its key in ${variable}; run: export {variable}=...")
        return os.environ[variable]

    def _response(self, raw: Any, request):
        response = super()._response(raw, request)
        hidden = getattr(raw, "_hidden_params", None) or {}
        cost = hidden.get("response_cost")
        self._settle(response.usage, cost=cost or 0.0)
        budget = dspy.settings.get("budget")
        if budget is not None and budget.limits_cost and not cost:
            raise BudgetStop(
                "cost", f"no price is known for {self.endpoint.model!r}; limit calls, tokens or time instead"
            )
        return response

    def _settle(self, usage: lm15.Usage, cost: float) -> None:
        tokens = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
        settle(self.endpoint.name, Usage(cost=cost, **tokens))

    def complete(self, request):
        """Send a request, with retries for transient failures.

        Raises:
            BudgetStop: the ambient budget is used up, or the backend is out while a budget is set: it refuses us, or
                fails more often in a row than the budget has patience for.
            UsageError, DataError: there is no key, or our own server cannot start.
        """
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.endpoint.retries + 1),
            retry=tenacity.retry_if_exception_type(_TRANSIENT),
            wait=_wait,
            reraise=True,
        )
        try:
            self._access()  # before the clock runs: a missing key is no call, and loading a model is no waiting time
            self._warm_up()
            response = attempts(self._attempt, request)
        except (*_OUTAGE, StitchjamError) as error:
            budget = dspy.settings.get("budget")
            if budget is None or (isinstance(error, _TRANSIENT) and not budget.failed(self.endpoint.name)):
                raise
            raise self._out(error) from error
        if (budget := dspy.settings.get("budget")) is not None:
            budget.answered(self.endpoint.name)
        return response

    def _out(self, error: Exception) -> BudgetStop:
        if isinstance(error, StitchjamError):
            stop = BudgetStop("backend out", str(error))
            stop.exit_code = error.exit_code  # a missing key is wrong usage, whoever met it
            return stop
        detail = f"model {self.endpoint.alias!r} cannot be used: {first_line(error)}"
        return BudgetStop("backend out", f"{detail}. Mend the backend and run the same command again")

    def stream(self, request) -> Any:
        """The finished reply as events. Replies are small and checked as a whole, and every call must be counted."""
        yield from lm15.response_to_events(self.complete(request))

    def _attempt(self, request):
        with self._turns.turn(dspy.settings.get("budget")):
            return self._in_turn(request)

    def _in_turn(self, request):
        budget = dspy.settings.get("budget")
        if budget is not None:
            budget.reserve()
        start = time.monotonic()
        failed = 1
        try:
            response = self._send(request)
            failed = 0
            return response
        finally:
            settle(self.endpoint.name, Usage(calls=1, failures=failed, seconds=time.monotonic() - start))

    def _send(self, request):
        try:
            return super().complete(request)
        except lm15.LM15Error as error:
            self._hide_key(error)
            raise

    def _hide_key(self, error: lm15.LM15Error) -> None:
        """Some servers repeat the key they refuse, and messages end up in reports."""
        key = os.environ.get(self.endpoint.api_key_env or "")
        message = error.message.replace(key, "(key)") if key else error.message
        error.message = hide_secrets(message)
        error.args = (error.message, *error.args[1:])

    def __deepcopy__(self, memo: dict) -> "BoundEngine":
        return self  # optimizers copy programs and LMs for every candidate; endpoints are shared


def make_lm(endpoint: Endpoint, engine: BoundEngine | None = None, cache: bool = True) -> dspy.LM:
    """A dspy LM on an endpoint. Retries live in the engine, where the budget sees them."""
    lm = dspy.LM(endpoint.name, engine=engine or BoundEngine(endpoint), num_retries=0, cache=cache)
    # Set afterwards: dspy takes an alias such as "gpt-5-mini" for OpenAI's model and refuses limits below 16,000.
    lm.kwargs.update(temperature=endpoint.temperature, max_tokens=endpoint.max_tokens)
    return lm
