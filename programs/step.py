"""Turns a signature into a step: one predictor with a fixed name, a binding, escaped inputs and clear failures."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import dspy
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, ValidationError

from stitchjam.backends.adapter import StepAdapter
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.engine import first_line
from stitchjam.data.errors import BackendError, ModelOutputError, StitchjamError, UsageError
from stitchjam.data.text import escape
from stitchjam.programs.each import each
from stitchjam.signatures import step_name

__all__ = ["Program", "Step", "StepOutputError", "as_step", "map_ordered", "settings_for"]

_OPTIONS = {"config", "demos", "lm", "signature"}  # what dspy.Predict takes beside the inputs
Item = TypeVar("Item")
Result = TypeVar("Result")


class StepOutputError(ModelOutputError, AdapterParseError):
    """A reply that cannot be parsed: ours to callers, dspy's own kind to optimizers that learn from format failures."""

    def __init__(self, step: str, error: AdapterParseError):
        reason, reply = first_line(error), str(error.lm_response or "")
        AdapterParseError.__init__(self, error.adapter_name, error.signature, reply, reason)
        # ModelOutputError.__init__ would go on to AdapterParseError's, which takes other arguments.
        ours = ModelOutputError(step, reason, reply)
        self.args = ours.args
        self.__dict__.update(vars(ours))

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
        inputs = {name: value if name in _OPTIONS else _escaped(value) for name, value in kwargs.items()}
        inputs["demos"] = [_escaped(dict(demo)) for demo in kwargs.get("demos", self.demos)]
        if dspy.settings.get("private"):  # dspy would keep the reply where `forget` does not look
            inputs["config"] = {**kwargs.get("config", {}), "cache": False}
        with dspy.context(**self._binding(kwargs.get("lm") or self.lm)):
            try:
                return super().forward(**inputs)
            except AdapterParseError as error:
                raise StepOutputError(self.step, error) from error
            except dspy.LMError as error:
                if isinstance(error.__cause__, StitchjamError):  # ours, raised in the engine: a missing key or model
                    raise error.__cause__ from None
                raise BackendError(
                    f"step {self.step!r}: {first_line(error)}. Check the endpoint and its key: stitchjam models check"
                ) from error

    def _binding(self, given: Any = None) -> dict[str, Any]:
        bindings = dspy.settings.get("bindings")
        lm = given or (bindings.lm(self.step) if bindings else dspy.settings.lm)
        if lm is None:
            raise UsageError(
                f"step {self.step!r} has no model; run `stitchjam init`, or in Python: "
                f"dspy.configure(lm=dspy.LM('openai/gpt-4.1-mini'))"
            )
        return {"lm": lm, "adapter": dspy.settings.adapter or StepAdapter()}

    def _check(self, kwargs: dict[str, Any]) -> None:
        # dspy only logs this, and the field is then silently missing from the prompt.
        given = set(kwargs) - _OPTIONS
        fields = cast(type[dspy.Signature], kwargs.get("signature", self.signature)).input_fields
        needed = {name for name, field in fields.items() if field.is_required()}
        if given - set(fields) or needed - given:
            raise UsageError(f"step {self.step!r} takes {sorted(fields)}, not {sorted(given)}; mend the call")


def settings_for(bindings: Bindings | None, threads: int = 1) -> Any:
    """The dspy context in which our programs run under bindings. Nothing is configured; no history or trace is kept."""
    # A user's own module inside a program, and an optimizer's own predictors, know nothing of bindings.
    plain = {} if bindings is None else {"lm": bindings.lm("other")}
    return dspy.context(bindings=bindings, num_threads=threads, disable_history=True, trace=None, **plain)


def _escaped(value: Any) -> Any:
    """The same value with all text in it escaped; half a surrogate pair, which no endpoint takes, becomes "?"."""
    if isinstance(value, str):
        return escape(value.encode("utf-8", "replace").decode("utf-8"))
    if isinstance(value, (list, tuple)):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json")
        return value if (safe := _escaped(plain)) == plain else _as_model(type(value), safe)
    return value


def _as_model(kind: type[BaseModel], plain: Any) -> Any:
    try:
        return kind.model_validate(plain)
    except ValidationError:  # escaping adds a character or two, and the model may have a limit
        return plain


def as_step(replacement: Any, signature: type[dspy.Signature]) -> dspy.Module:
    """The step of a program: the default one, or what the user gave (a module, a module class, or a signature)."""
    if replacement is None:
        return Step(signature)
    if isinstance(replacement, dspy.Module):
        return replacement
    if isinstance(replacement, type) and issubclass(replacement, dspy.Signature):
        _check_fields(replacement, signature)
        return Step(replacement, name=step_name(signature))
    if isinstance(replacement, type) and issubclass(replacement, dspy.Module):
        return replacement()
    raise UsageError(f"{replacement!r} cannot be a step; give a dspy.Module, a module class or a dspy.Signature")


def _check_fields(given: type[dspy.Signature], signature: type[dspy.Signature]) -> None:
    inputs, outputs = list(signature.input_fields), list(signature.output_fields)
    if set(given.input_fields) != set(inputs) or not set(outputs) <= set(given.output_fields):
        raise UsageError(
            f"{given.__name__} cannot stand in for {signature.__name__}; let it take {inputs} and give {outputs}, with "
            f"the types that {signature.__name__} has"
        )


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
    traces: list[list] = [[] for _ in items]
    errors: dict[int, BaseException] = {}

    def run(number: int) -> Result:
        with dspy.context(trace=None if outer is None else traces[number]):
            return function(items[number])

    def caught(number: int) -> Result | None:
        try:
            return run(number)
        except BaseException as error:  # raised below, as if items had run one after the other
            errors[number] = error
            return None

    try:
        if threads <= 1:
            return [run(number) for number in range(len(items))]
        found = dict(each(caught, (number for number in range(len(items)) if not errors), threads))
        if errors:
            failed = min(errors)
            del traces[failed + 1 :]
            raise errors[failed]
        return [cast(Result, found[number]) for number in range(len(items))]
    finally:
        _extend(outer, traces)


def _extend(trace: list | None, parts: list[list]) -> None:
    """Append parts in order; dspy keeps a trace to a maximum length, or a service would grow with every question."""
    if trace is not None:
        trace.extend(entry for part in parts for entry in part)
        del trace[: max(0, len(trace) - dspy.settings.max_trace_size)]
