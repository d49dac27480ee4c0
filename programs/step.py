"""Turns a signature into a step: one predictor with a fixed name, a binding, escaped inputs and clear failures."""

import contextvars
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import dspy
from dspy.utils.exceptions import AdapterParseError

from stitchjam.backends.adapter import StepAdapter
from stitchjam.backends.bindings import Bindings
from stitchjam.data.errors import BackendError, ModelOutputError, UsageError
from stitchjam.data.text import escape
from stitchjam.signatures import step_name

__all__ = ["Program", "Step", "StepOutputError", "as_step", "map_ordered", "settings_for"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class StepOutputError(ModelOutputError, AdapterParseError):
    """A reply that cannot be parsed: ours to callers, dspy's own kind to optimizers that learn from format failures."""

    def __init__(self, step: str, error: AdapterParseError):
        reason = str(error).split("\n")[0]
        AdapterParseError.__init__(self, error.adapter_name, error.signature, error.lm_response, reason)
        ModelOutputError.__init__(self, step, reason, str(error.lm_response or ""))

    def __str__(self) -> str:
        return str(self.args[0])


class Program(dspy.Module):
    """Base of all our modules: the async form is the sync one in a worker thread, so there is one path to test."""

    def hparams(self) -> dict[str, Any]:
        """Constructor arguments that an artifact must remember, as JSON values; dspy's own save drops them."""
        return {}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "Program":
        """The program with these hyperparameters; the inverse of `hparams`."""
        return cls(**hparams)

    async def aforward(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` in a worker thread."""
        run: Any = self.forward  # asyncify is typed for modules and takes any callable
        return await dspy.asyncify(run)(*args, **kwargs)


class Step(Program, dspy.Predict):
    """A predictor with a fixed step name.

    The model comes from the ambient `bindings` by step name, else from the ambient dspy LM; `predictor.lm` is never
    set, because it would beat teacher and task models and leak into saved state.

    Args:
        signature: the contract.
        name: step name; default: the signature's name in snake case.
        config: sampling options of this step.
    """

    def __init__(self, signature: type[dspy.Signature], name: str | None = None, **config: Any):
        super().__init__(signature, **config)
        self.step = name or step_name(signature)

    def forward(self, **kwargs: Any) -> dspy.Prediction:
        """Call the model.

        Raises:
            UsageError: an input is missing or unknown, or there is no model.
            StepOutputError: the reply does not fit the signature.
            BackendError: the endpoint failed.
        """
        self._check(kwargs)
        with dspy.context(**self._binding()):
            try:
                return super().forward(**{name: _escaped(value) for name, value in kwargs.items()})
            except AdapterParseError as error:
                raise StepOutputError(self.step, error) from error
            except dspy.LMError as error:
                raise BackendError(
                    f"step {self.step!r}: {str(error)[:400]}. Check the endpoint and its key: stitchjam models check"
                ) from error

    def _binding(self) -> dict[str, Any]:
        bindings = dspy.settings.get("bindings")
        lm = bindings.lm(self.step) if bindings else dspy.settings.lm
        if lm is None:
            raise UsageError(
                f"step {self.step!r} has no model; run `stitchjam init`, or in Python: "
                f"dspy.configure(lm=dspy.LM('openai/gpt-4.1-mini'))"
            )
        return {"lm": lm, "adapter": dspy.settings.adapter or StepAdapter()}

    def _check(self, kwargs: dict[str, Any]) -> None:
        # dspy only logs this, and the field is then silently missing from the prompt.
        given = set(kwargs) - {"config", "demos", "lm", "signature"}
        expected = set(cast(type[dspy.Signature], self.signature).input_fields)
        if given != expected:
            raise UsageError(f"step {self.step!r} takes {sorted(expected)}, not {sorted(given)}; mend the call")


def settings_for(bindings: Bindings | None, threads: int = 1) -> Any:
    """The dspy context in which our programs run under bindings: no history is kept, and nothing is configured."""
    return dspy.context(bindings=bindings, num_threads=threads, disable_history=True)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value


def as_step(replacement: Any, signature: type[dspy.Signature]) -> dspy.Module:
    """The step of a program: the default one, or what the user gave (a module, a module class, or a signature)."""
    if replacement is None:
        return Step(signature)
    if isinstance(replacement, dspy.Module):
        return replacement
    if isinstance(replacement, type) and issubclass(replacement, dspy.Signature):
        return Step(replacement, name=step_name(signature))
    if isinstance(replacement, type) and issubclass(replacement, dspy.Module):
        return replacement()
    raise UsageError(f"{replacement!r} cannot be a step; give a dspy.Module, a module class or a dspy.Signature")


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> list[Result]:
    """Apply `function` to items in parallel; results and dspy traces come back in item order.

    `dspy.Parallel` appends to the trace in completion order, which makes compiled programs differ from run to run.

    Args:
        function: called once an item, in a copy of the caller's context.
        items: what to map.
        threads: at most this many at once; default: dspy's `num_threads`.
    """
    items = list(items)
    threads = min(threads or dspy.settings.num_threads or 1, len(items))
    outer = dspy.settings.trace

    def run(item: Item) -> tuple[Result, list]:
        inner: list = []
        with dspy.context(trace=None if outer is None else inner):
            return function(item), inner

    if threads <= 1:
        results = [run(item) for item in items]
    else:
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(contextvars.copy_context().run, run, item) for item in items]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    for _, inner in results:
        if outer is not None:
            outer.extend(inner)
    return [result for result, _ in results]
