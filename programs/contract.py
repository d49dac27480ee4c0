"""Turns a program into its contract: the fields and types of every predictor, and the text of its prompts.

dspy stores neither field names nor types, so a reordered or changed signature loads without a word and answers wrongly.
"""

import json
from hashlib import sha256
from typing import Any, cast

import dspy
from pydantic import Field, TypeAdapter

from stitchjam.backends.adapter import StepAdapter
from stitchjam.data.records import Record
from stitchjam.programs.step import Program

__all__ = [
    "PredictorContract",
    "SavedPredictor",
    "contract_of",
    "digest",
    "field_differences",
    "identity",
    "placeholder_messages",
    "predictors_of",
    "signature_of",
    "signed_name",
]

_PROSE = {"description", "title", "desc"}


class PredictorContract(Record):
    """What a saved predictor relies on.

    `inputs` and `outputs` are [name, JSON schema of the type] pairs in order; `prompt` hashes the system message.
    """

    step: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    prompt: str = ""


class _SavedField(Record):
    prefix: str
    description: str


class _SavedSignature(Record):
    instructions: str
    fields: tuple[_SavedField, ...]


class SavedPredictor(Record):
    """The state of one predictor. dspy sets an attribute for every key it finds, so other keys are refused."""

    signature: _SavedSignature
    demos: tuple[dict[str, Any], ...]
    traces: tuple[()] = ()
    train: tuple[()] = ()
    fields: dict[str, Any] = Field(default_factory=dict)
    lm: None = None


def digest(value: Any) -> str:
    """SHA-256 of a JSON value or of text, in hex."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def _without_prose(schema: Any) -> Any:
    """A schema without descriptions: rewording one changes the prompt, not the contract."""
    if isinstance(schema, dict):
        return {k: _without_prose(v) for k, v in schema.items() if k not in _PROSE or not isinstance(v, str)}
    return [_without_prose(item) for item in schema] if isinstance(schema, list) else schema


def _typed(fields: dict) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, json.dumps(_without_prose(TypeAdapter(field.annotation).json_schema()), sort_keys=True))
        for name, field in fields.items()
    )


def placeholder_messages(predictor: dspy.Predict) -> list[dict[str, Any]]:
    """The complete messages of a predictor, demos included, with {field} where the inputs go."""
    signature = signature_of(predictor)
    inputs = {name: f"{{{name}}}" for name in signature.input_fields}
    return StepAdapter().format(signature, predictor.demos, inputs)


def contract_of(program: dspy.Module) -> dict[str, PredictorContract]:
    """Predictor path -> contract, for every predictor, those of compiled children included."""
    return {
        name: PredictorContract(
            step=getattr(predictor, "step", name),
            inputs=_typed(signature_of(predictor).input_fields),
            outputs=_typed(signature_of(predictor).output_fields),
            prompt=digest(placeholder_messages(predictor)[0]["content"]),
        )
        for name, predictor in predictors_of(program).items()
    }


def identity(program: Program) -> dict[str, Any]:
    """What decides how a program answers, apart from models: contract with prompts, hyperparameters and demos."""
    demos = {name: [dict(demo) for demo in predictor.demos] for name, predictor in predictors_of(program).items()}
    return {
        "program": {name: part.model_dump(mode="json") for name, part in contract_of(program).items()},
        "hparams": program.hparams(),
        "demos": {name: digest(repr(some)) for name, some in demos.items()},  # the same before and after saving
    }


def signed_name(program: Program) -> str:
    """A short name that changes with what a program is, such as "AnswerJudge@1f2e3d4c5b"."""
    return f"{type(program).__name__}@{digest(identity(program))[:10]}"


def predictors_of(program: dspy.Module) -> dict[str, dspy.Predict]:
    """Predictor path -> predictor. `named_predictors` skips everything below a compiled child."""
    found = program.named_sub_modules(dspy.Predict)
    return {name.removeprefix("self."): cast(dspy.Predict, predictor) for name, predictor in found}


def signature_of(predictor: dspy.Predict) -> type[dspy.Signature]:
    """The signature of a predictor, typed as what it always is."""
    return cast(type[dspy.Signature], predictor.signature)


def field_differences(place: str, saved: tuple, ours: tuple) -> list[str]:
    """Every way in which [name, type] pairs differ: gone, new, of another type, in another order; one line each."""
    before, now = dict(saved), dict(ours)
    found = [f"{place}: field {name!r} is gone" for name in before if name not in now]
    found += [f"{place}: field {name!r} is new" for name in now if name not in before]
    found += [
        f"{place}: field {name!r} has another type" for name in before if now.get(name, before[name]) != before[name]
    ]
    orders = [name for name in before if name in now], [name for name in now if name in before]
    if orders[0] != orders[1]:
        found.append(f"{place}: the order was {orders[0]} and is {orders[1]}")
    return found
