"""A contract names every field and type a saved predictor relies on, and every way a program differs from it."""

from typing import Any, Literal

import dspy
import pytest
from pydantic import BaseModel, Field

from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.artifact import PROGRAMS, Manifest, differences
from stitchjam.programs.contract import contract_of, digest, placeholder_messages, predictors_of, signature_of
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.step import Program, Step
from stitchjam.signatures.answer import AnswerQuestion, AnswerReply


class Two(dspy.Signature):
    """Do it."""

    first: str = dspy.InputField()
    second: int = dspy.InputField()
    reply: AnswerReply = dspy.OutputField()


class Holder(Program):
    def __init__(self, **signatures: type[dspy.Signature]):
        super().__init__()
        for name, signature in signatures.items():
            setattr(self, name, Step(signature, name="step"))


def manifest_of(program: Program) -> Manifest:
    empty: dict[str, Any] = {
        name: {} for name in ("hparams", "adapter", "compiled_for", "recipe", "metric", "data", "scores", "files")
    }
    return Manifest(format="x", program="x", version="0", predictors=contract_of(program), published=False, **empty)


def changed(signature: type[dspy.Signature]) -> tuple[str, ...]:
    return differences(manifest_of(Holder(step=Two)), Holder(step=signature))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_fits_its_own_contract(name):
    program = PROGRAMS[name]()
    assert differences(manifest_of(program), PROGRAMS[name]()) == ()
    assert contract_of(program) == contract_of(PROGRAMS[name]())


def test_a_contract_survives_json():
    manifest = manifest_of(MemoryAgent())
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_a_renamed_field():
    class Renamed(dspy.Signature):
        """Do it."""

        first: str = dspy.InputField()
        other: int = dspy.InputField()
        reply: AnswerReply = dspy.OutputField()

    assert changed(Renamed) == ("step.inputs: field 'second' is gone", "step.inputs: field 'other' is new")


def test_another_type():
    class Retyped(dspy.Signature):
        """Do it."""

        first: str = dspy.InputField()
        second: float = dspy.InputField()
        reply: AnswerReply = dspy.OutputField()

    assert changed(Retyped) == ("step.inputs: field 'second' has another type",)


def test_another_order():
    class Reordered(dspy.Signature):
        """Do it."""

        second: int = dspy.InputField()
        first: str = dspy.InputField()
        reply: AnswerReply = dspy.OutputField()

    assert changed(Reordered) == ("step.inputs: the order was ['first', 'second'] and is ['second', 'first']",)


def test_a_limit_inside_the_reply():
    class Longer(BaseModel):
        sources: list[str]
        answer: str = Field(max_length=9999)

    class Changed(dspy.Signature):
        """Do it."""

        first: str = dspy.InputField()
        second: int = dspy.InputField()
        reply: Longer = dspy.OutputField()

    assert changed(Changed) == ("step.outputs: field 'reply' has another type",)


def test_all_differences_are_listed_at_once():
    class Everything(dspy.Signature):
        """Do it."""

        new: str = dspy.InputField()
        second: Literal["a"] = dspy.InputField()
        answer: str = dspy.OutputField()

    found = differences(manifest_of(Holder(step=Two, gone=Two)), Holder(step=Everything, fresh=Two))
    assert found == (
        "predictor 'gone' is in the artifact and not in the program",
        "predictor 'fresh' is in the program and not in the artifact",
        "step.inputs: field 'first' is gone",
        "step.inputs: field 'new' is new",
        "step.inputs: field 'second' has another type",
        "step.outputs: field 'reply' is gone",
        "step.outputs: field 'answer' is new",
    )


def test_an_order_that_changed_beside_a_new_field_is_listed_too():
    class Both(dspy.Signature):
        """Do it."""

        second: int = dspy.InputField()
        new: str = dspy.InputField()
        first: str = dspy.InputField()
        reply: AnswerReply = dspy.OutputField()

    assert changed(Both) == (
        "step.inputs: field 'new' is new",
        "step.inputs: the order was ['first', 'second'] and is ['second', 'first']",
    )


def test_rewording_changes_the_prompt_and_not_the_contract():
    class Reworded(dspy.Signature):
        """Do it well."""

        first: str = dspy.InputField(desc="the first one")
        second: int = dspy.InputField()
        reply: AnswerReply = dspy.OutputField()

    before, now = (contract_of(Holder(step=signature))["step"] for signature in (Two, Reworded))
    assert changed(Reworded) == () and before.prompt != now.prompt


def test_a_field_named_like_prose_is_part_of_the_contract():
    class Titled(BaseModel):
        title: str

    class Described(BaseModel):
        description: str

    def typed(model: type[BaseModel]) -> object:
        return contract_of(Holder(step=Two.with_updated_fields("reply", type_=model)))["step"].outputs

    assert typed(Titled) != typed(Described)


def test_predictors_of_a_compiled_child_are_found():
    agent = MemoryAgent()
    agent.researcher._compiled = True
    assert len(agent.named_predictors()) == 1  # what dspy sees
    assert list(predictors_of(agent)) == [name for name, _ in MemoryAgent().named_predictors()]
    assert list(predictors_of(Step(AnswerQuestion))) == ["self"]


def test_placeholders_stand_where_inputs_go():
    (predictor,) = predictors_of(Answerer()).values()
    system, user = placeholder_messages(predictor)
    assert signature_of(predictor).instructions in system["content"]
    assert "{context}" in user["content"] and "{question}" in user["content"]


def test_the_prompt_hash_leaves_demos_out():
    program = Researcher()
    before = contract_of(program)
    program.plan_first.demos = [{"question": "x"}]  # pyright: ignore[reportAttributeAccessIssue]
    assert contract_of(program) == before


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
    assert len(digest("text")) == 64
