"""Turns a signature into a short prompt with stable text first, and a reply into a checked model.

dspy's own JSONAdapter repairs JSON that was cut in half and prints the schema as text in every prompt. Here truncated
or partial output is a failure, and when a step has one reply model the JSON object *is* that model, so small models
write as few tokens as possible.
"""

import json
import re
from typing import Any, cast

import dspy
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from stitchjam.data.records import first_error

__all__ = ["StepAdapter", "reply_model"]

_OBJECT = re.compile(r'\{(?=\s*["}])')  # "{name}" in the text around it is no object


def reply_model(signature: type[dspy.Signature]) -> tuple[str, type[BaseModel]] | None:
    """Name and type of the single pydantic output of a signature, or None when it has another shape."""
    outputs = list(signature.output_fields.items())
    if len(outputs) != 1:
        return None
    name, kind = outputs[0][0], outputs[0][1].annotation
    return (name, kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def find_object(text: str) -> Any:
    """The first complete JSON object in a reply; text around it is ignored, half an object is an error.

    Raises:
        ValueError: there is no complete object.
    """
    if text.lstrip().startswith("<think>"):
        text = text.partition("</think>")[2]  # a model that thinks aloud drafts the object there
    start = _OBJECT.search(text)
    if start is None:
        raise ValueError("there is no JSON object in the reply")
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start.start())[0]  # line breaks in strings are fine
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"the JSON object is broken, or was cut at max_tokens ({error})") from error


def _shape(schema: dict, definitions: dict) -> str:
    """A schema as a few words: `{"sources": [label, at most 3], ...}` costs a tenth of the JSON schema."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    if schema.get("type") == "object" and "properties" in schema:
        return "{" + ", ".join(f'"{k}": {_shape(v, definitions)}' for k, v in schema["properties"].items()) + "}"
    if schema.get("type") == "array":
        return f"[{_shape(schema.get('items', {}), definitions)}, ... at most {schema.get('maxItems', 'a few')}]"
    return schema.get("type", "string")


def _notes(schema: dict, definitions: dict) -> list[str]:
    """One line for each described property, nested objects included."""
    notes = []
    for name, part in schema.get("properties", {}).items():
        if "description" in part:
            notes.append(f"- {name}: {part['description']}")
        inner = part.get("items", part)
        if "$ref" in inner:
            notes += _notes(definitions[inner["$ref"].rsplit("/", 1)[-1]], definitions)
    return notes


def _described(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra.get("desc", "")) if isinstance(extra, dict) else ""


class StepAdapter(dspy.JSONAdapter):
    """JSON in and out for steps with one reply model; any other signature is handled as dspy's JSONAdapter does."""

    def __init__(self, callbacks: list | None = None):
        super().__init__(callbacks=callbacks, use_native_function_calling=False)

    def _prepare_response_format(self, lm, lm_kwargs, signature):
        model = reply_model(signature)
        if model and lm.supports_response_schema and "response_format" in lm.supported_params:
            lm_kwargs["response_format"] = model[1]
        else:
            super()._prepare_response_format(lm, lm_kwargs, signature)

    def format_system_message(self, signature):
        model = reply_model(signature)
        if model is None:
            return super().format_system_message(signature)
        schema = model[1].model_json_schema()
        definitions = schema.get("$defs", {})
        inputs = [
            f"- {name}: {_described(field)}".replace(f"${{{name}}}", "").rstrip(": ")
            for name, field in signature.input_fields.items()
        ]
        return "\n".join(
            [signature.instructions, "\nYou are given:", *inputs]
            + [f"\nReply with one JSON object and nothing else: {_shape(schema, definitions)}"]
            + _notes(schema, definitions)
        )

    def user_message_output_requirements(self, signature):
        return "" if reply_model(signature) else super().user_message_output_requirements(signature)

    def format_assistant_message_content(self, signature, outputs, missing_field_message=None):
        model = reply_model(signature)
        if model is None:
            return super().format_assistant_message_content(signature, outputs, missing_field_message)
        value = outputs.get(model[0], missing_field_message)
        return json.dumps(value.model_dump() if isinstance(value, BaseModel) else value, ensure_ascii=False)

    def parse(self, signature, completion):
        model = reply_model(signature)
        if model is None:
            return super().parse(signature, completion)
        name, kind = model
        try:
            value = find_object(completion)
            if isinstance(value, dict) and list(value) == [name] and name not in kind.model_fields:
                value = value[name]
            return {name: kind.model_validate(value)}
        except ValidationError as error:
            reason = first_error(error)
        except ValueError as error:
            reason = str(error)
        # parsed_result stays None: GEPA divides lists by lists on a partial parse and drops the example.
        raise AdapterParseError(type(self).__name__, cast(Any, signature), completion, reason)
