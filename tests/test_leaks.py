"""What may not reach a prompt is found, and what may is not."""

import pytest

from stitchjam.data.records import Question
from stitchjam.optimizers.leaks import leaks
from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.contract import predictors_of, signature_of

QUESTIONS = (
    Question(id="q1", text="Who has the key?", answer="Mira", split="train", evidence=("ab12cd",)),
    Question(id="q2", text="When does the ferry leave?", answer="17:10 sharp", aliases=("9",), split="held_out"),
    Question(id="q3", text="What is it called?", answer="number", split="held_out"),
)


def with_demo(**fields) -> Answerer:
    program = Answerer()
    demo = {"context": "c1 | Mira: hello", "question": "Who has the key?", "reply": {"sources": [], "answer": "Mira"}}
    predictors_of(program)["answer_question"].demos = [demo | {"augmented": True} | fields]
    return program


def with_instruction(text: str) -> Answerer:
    program = Answerer()
    predictor = predictors_of(program)["answer_question"]
    predictor.signature = signature_of(predictor).with_instructions(text)
    return program


def test_a_clean_program_has_no_leaks():
    assert leaks(MemoryAgent(), QUESTIONS) == () and leaks(with_demo(), QUESTIONS) == ()


@pytest.mark.parametrize("question", ["When does the ferry leave?", "So, when does the FERRY leave"])
def test_a_held_out_question_in_a_demo_is_found(question):
    assert leaks(with_demo(question=question), QUESTIONS) == ("answer_question: demo 1 holds held-out question 'q2'",)


def test_a_held_out_question_inside_a_reply_is_found():
    assert leaks(with_demo(reply={"answer": "When does the ferry leave?"}), QUESTIONS)


def test_a_gold_turn_id_in_a_demo_is_found():
    [leak] = leaks(with_demo(context="see ab12cd"), QUESTIONS)
    assert "gold turn id 'ab12cd'" in leak


def test_a_field_that_the_step_does_not_take_is_found():
    [leak] = leaks(with_demo(gold="x"), QUESTIONS)
    assert "field 'gold'" in leak


def test_a_gold_answer_in_an_instruction_is_found():
    [leak] = leaks(with_instruction("Mostly the answer is Mira."), QUESTIONS)
    assert leak == "answer_question: the instruction holds the gold answer of question 'q1'"


def test_a_held_out_question_in_an_instruction_is_found():
    [leak] = leaks(with_instruction("Asked 'When does the ferry leave?', look twice."), QUESTIONS)
    assert "held-out question 'q2'" in leak


@pytest.mark.parametrize("text", ["Give 9 lines at most.", "Miranda is here.", "Answer in a number."])
def test_short_answers_parts_of_words_and_our_own_words_do_not_trigger(text):
    assert leaks(with_instruction(text), QUESTIONS) == ()


@pytest.mark.parametrize("text", ["?", "Who?"])
def test_a_question_of_next_to_nothing_does_not_match_everything(text):
    odd = Question(id="odd", text=text, answer="x", split="held_out")
    assert leaks(with_demo(question="Whose key is it?"), [odd]) == ()
