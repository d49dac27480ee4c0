"""What goes into a prompt, what is asked of the backend, and which replies are accepted."""

import json
from typing import Any, Literal

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from loopback import Reply as Sent
from loopback import serving
from pydantic import Field

from stitchjam.backends.adapter import StepAdapter, reply_model
from stitchjam.backends.engine import Endpoint, make_lm
from stitchjam.backends.scripted import scripted_lm
from stitchjam.programs.step import Step
from stitchjam.signatures import STEPS
from stitchjam.signatures.answer import AnswerQuestion, AnswerReply
from stitchjam.signatures.jam import BrowseSource, ComposeContext, PlanNext
from stitchjam.signatures.reply import Reply

GOOD = {"sources": ["c1"], "answer": "a lantern"}
INPUTS = {"context": "c1 | Mira: a lantern", "question": "What?"}


def parse(text, signature: type[dspy.Signature] = AnswerQuestion) -> Any:
    return StepAdapter().parse(signature, text if isinstance(text, str) else json.dumps(text))["reply"]


def refused(text, signature: type[dspy.Signature] = AnswerQuestion):
    with pytest.raises(AdapterParseError) as caught:
        parse(text, signature)
    # A partial result would make GEPA divide a list by a list and drop the example.
    assert caught.value.parsed_result is None
    return str(caught.value)


def sent_to(structure, signature: type[dspy.Signature] = AnswerQuestion, reply: Any = GOOD, **inputs):
    """The body that leaves the process for one call."""
    with serving(reply) as server:
        lm = make_lm(Endpoint(alias="m", model="openai/m", api_base=server.base, structure=structure))
        with dspy.context(lm=lm):
            Step(signature)(**(inputs or INPUTS))
    (seen,) = server.seen
    return seen


@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_prompt_is_short_and_starts_with_what_never_changes(name):
    signature = STEPS[name]
    inputs = {field: f"value of {field}" for field in signature.input_fields}
    system, user = StepAdapter().format(signature, [], inputs)
    assert system["role"] == "system" and system["content"].startswith(signature.instructions)
    assert "value of" not in system["content"] and len(system["content"]) < (2400 if name == "label_turn" else 1600)
    assert user["content"].count("[[ ## ") == len(inputs)


def test_the_prompt_names_every_field_of_the_reply():
    (system, _) = StepAdapter().format(ComposeContext, [], {"evidence": "e", "question": "q"})
    assert '{"claims": [{"entry": string, "claim": string}, ... at most' in system["content"]
    assert "- entry: label of the evidence" in system["content"]


def test_a_strict_schema_with_all_limits_goes_out_when_the_engine_takes_schemas():
    reply = {"actions": []}
    inputs = dict.fromkeys(PlanNext.input_fields, "x") | {"rounds_left": 2}
    seen = sent_to("json_schema", PlanNext, reply, **inputs)
    form = seen.body["response_format"]["json_schema"]
    assert form["strict"] is True
    schema = form["schema"]
    assert schema["properties"]["actions"]["maxItems"] == 5
    action = next(iter(schema["$defs"].values()))
    assert action["properties"]["tool"]["enum"] == ["open", "search", "browse"]
    assert action["properties"]["query"]["maxLength"] > 0
    assert action["required"] == list(action["properties"]) and action["additionalProperties"] is False


@pytest.mark.parametrize("structure", ["json_object", "text"])
def test_weaker_backends_are_asked_for_less(structure):
    assert sent_to(structure).format == structure


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"Sure! Here it is:\n```json\n{json.dumps(GOOD, indent=2)}\n```\nAnything else?",
        json.dumps({"reply": GOOD}),
        "The form is {sources, answer}, so: " + json.dumps(GOOD),
        "<think>maybe " + json.dumps({"sources": [], "answer": "no"}) + "</think>\n" + json.dumps(GOOD),
        json.dumps(GOOD | {"confidence": 0.9}),
        json.dumps(GOOD) + json.dumps({"sources": [], "answer": "second"}),
    ],
    ids=["plain", "fenced", "wrapped", "braces in prose", "thinking", "extra key", "two objects"],
)
def test_one_good_object_is_found(text):
    assert parse(text) == AnswerReply(sources=["c1"], answer="a lantern")


def test_a_line_break_inside_a_string_is_read():
    assert parse('{"sources": ["c1"], "answer": "a\nlantern"}').answer == "a\nlantern"


@pytest.mark.parametrize("cut", range(1, len(json.dumps(GOOD))))
def test_json_cut_anywhere_is_a_failure_not_a_repair(cut):
    refused(json.dumps(GOOD)[:cut])


def test_a_wrapped_object_that_was_cut_is_a_failure():
    refused('{"reply": {"sources": ["c1"], "answer": "x"}')


def test_thinking_that_was_cut_is_a_failure():
    refused("<think>" + json.dumps(GOOD))


@pytest.mark.parametrize("text", ["{}", "", "I do not know.", "[]", "null", '"c1"', '{"reply": {}}', "{" * 5000])
def test_no_answer_is_a_failure(text):
    refused(text)


@pytest.mark.parametrize("tool", ["Search.", "`search`", "SEARCH"])
def test_a_word_is_read_whatever_its_case_and_decoration(tool):
    plan = parse({"actions": [{"tool": tool, "target": "none", "query": "lantern"}]}, PlanNext)
    assert plan.actions[0].tool == "search"


def test_what_is_no_list_is_named_as_the_reason():
    assert refused({"actions": 7}, PlanNext).startswith("actions: ")


def test_too_many_items_are_cut_to_the_first_ones():
    assert parse({"lines": [f"t{n}" for n in range(1, 40)]}, BrowseSource).lines == [f"t{n}" for n in range(1, 5)]


def test_a_string_that_runs_on_is_a_failure():
    assert "answer" in refused(GOOD | {"answer": "so " * 500})


def test_half_a_surrogate_pair_is_a_failure():
    refused('{"sources": ["c1"], "answer": "a\\ud83d"}')


@pytest.mark.parametrize("content", [None, ""])
def test_an_empty_reply_is_a_failure(content):
    with serving(Sent(content)) as server:
        lm = make_lm(Endpoint(alias="m", model="openai/m", api_base=server.base))
        with dspy.context(lm=lm, adapter=StepAdapter()), pytest.raises(AdapterParseError, match="empty"):
            dspy.Predict(AnswerQuestion)(**INPUTS)


def test_demos_as_dicts_as_models_and_as_examples_give_the_same_bytes():
    as_model = INPUTS | {"reply": AnswerReply(**GOOD)}
    forms = [as_model, INPUTS | {"reply": GOOD}, dspy.Example(as_model)]
    messages = [StepAdapter().format(AnswerQuestion, [demo], INPUTS) for demo in forms]
    assert messages[0] == messages[1] == messages[2]
    assert json.loads(messages[0][2]["content"]) == GOOD


class Picky(Reply):
    sure: bool
    count: int = Field(ge=0, le=9)
    kind: Literal["only"]
    extra: dict[str, int] = {}
    maybe: int | None = None
    pair: tuple[int, str] = (0, "")


class Pick(dspy.Signature):
    """Pick."""

    flag: bool = dspy.InputField()
    number: int = dspy.InputField()
    reply: Picky = dspy.OutputField()


def test_other_types_in_a_users_own_signature_work():
    (system, user) = StepAdapter().format(Pick, [], {"flag": True, "number": 3})
    assert '"sure": boolean, "count": integer' in system["content"] and "True" in user["content"]
    reply = parse({"sure": True, "count": 3, "kind": "only", "extra": {"a": 1}}, Pick)
    assert (reply.sure, reply.count, reply.extra) == (True, 3, {"a": 1})
    assert "count" in refused({"sure": True, "count": 30, "kind": "only"}, Pick)


class Ask(dspy.Signature):
    """Ask."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()


def test_a_signature_with_plain_outputs_is_handled_as_dspy_does():
    assert reply_model(Ask) is None
    with dspy.context(lm=scripted_lm({"ask": {"answer": "yes"}})):
        assert Step(Ask)(question="q").answer == "yes"


def chat_form(reply):
    return f"[[ ## reply ## ]]\n{json.dumps(reply)}\n\n[[ ## completed ## ]]"


@pytest.mark.parametrize(
    ("adapter", "text"),
    [(dspy.ChatAdapter(), chat_form(GOOD)), (dspy.JSONAdapter(), json.dumps({"reply": GOOD}))],
    ids=["chat", "json"],
)
def test_an_adapter_that_the_user_configured_is_used(adapter, text):
    with dspy.context(lm=scripted_lm({"answer_question": text}), adapter=adapter):
        assert Step(AnswerQuestion)(**INPUTS).reply == AnswerReply(**GOOD)
