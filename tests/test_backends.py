"""The ring as a whole: scripted models stand where real ones stand, and plain dspy needs no config file."""

from typing import Any

import dspy
import pytest
from loopback import serving

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.engine import Endpoint, make_lm
from stitchjam.backends.replay import replies
from stitchjam.backends.scripted import scripted_lm
from stitchjam.backends.usage import metered
from stitchjam.data.errors import BackendError
from stitchjam.programs.step import Step, map_ordered, settings_for
from stitchjam.signatures import STEPS
from stitchjam.signatures.answer import AnswerQuestion, AnswerReply

GOOD = {"sources": ["c1"], "answer": "a lantern"}
INPUTS = {"context": "c1 | Mira: a lantern", "question": "What?"}


@pytest.mark.parametrize(
    "script", [GOOD, AnswerReply(**GOOD), lambda call: GOOD, str(GOOD).replace("'", '"')], ids=type
)
def test_a_script_may_be_a_value_a_model_a_function_or_text(script):
    with dspy.context(lm=scripted_lm({"answer_question": script})):
        assert Step(AnswerQuestion)(**INPUTS).reply == AnswerReply(**GOOD)


def test_a_script_sees_step_system_and_messages():
    lm: Any = scripted_lm({"answer_question": GOOD})
    step = Step(AnswerQuestion)
    step.demos = [INPUTS | {"reply": GOOD}]
    with dspy.context(lm=lm):
        step(**INPUTS)
    (call,) = lm.engine.calls
    assert call.step == "answer_question" and call.system.startswith("Answer the question")
    assert len(call.messages) == 3 and call.prompt == call.messages[-1] and "Mira" in call.prompt


def test_an_unexpected_step_is_named():
    with dspy.context(lm=scripted_lm({"plan_next": {}})), pytest.raises(BackendError, match="'answer_question'"):
        Step(AnswerQuestion)(**INPUTS)


def test_tokens_of_a_script_are_counted():
    with dspy.context(lm=scripted_lm({"answer_question": GOOD})), metered() as ledger:
        Step(AnswerQuestion)(**INPUTS)
    assert ledger.total().input_tokens > 50 and ledger.total().output_tokens > 5


def test_step_names_are_the_signature_names_in_snake_case():
    assert {name: signature.__name__ for name, signature in STEPS.items()}["plan_next"] == "PlanNext"
    assert Step(AnswerQuestion).step == "answer_question" and Step(AnswerQuestion, name="other").step == "other"


@pytest.mark.parametrize("engine", ["auto", "litellm"])
def test_plain_dspy_works_without_any_config(engine):
    with serving({"reply": GOOD} if engine == "auto" else GOOD) as server:
        lm = dspy.LM("openai/m", api_base=server.base, api_key="x", engine=engine, num_retries=0)
        with dspy.context(lm=lm):
            assert Step(AnswerQuestion)(**INPUTS).reply == AnswerReply(**GOOD)


@pytest.mark.parametrize("engine", ["auto", "litellm"])
def test_plain_dspy_models_can_be_recorded(engine, tmp_path):
    with serving(GOOD) as server, replies(tmp_path / "replies.jsonl"):
        lm = dspy.LM("openai/m", api_base=server.base, api_key="x", engine=engine, num_retries=0)
        with dspy.context(lm=lm):
            first, second = Step(AnswerQuestion)(**INPUTS), Step(AnswerQuestion)(**INPUTS)
    assert first.reply == second.reply and len(server.seen) == 1


def test_the_whole_way_in_threads():
    with serving(lambda body: GOOD | {"answer": body["messages"][-1]["content"][-2:]}) as server:
        bindings = Bindings({"task": make_lm(Endpoint(alias="m", model="openai/m", api_base=server.base))})
        with settings_for(bindings, 4), metered() as ledger:
            found = map_ordered(lambda n: Step(AnswerQuestion)(context="c", question=f"q{n}").reply.answer, range(9))
    assert found == [f"q{n}" for n in range(9)] and ledger.total().calls == len(server.seen) == 9
