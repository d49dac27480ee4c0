"""Examples hold inputs only; splits are kept apart."""

from collections.abc import Iterator
from typing import Any

import dspy
import pytest
from pydantic import BaseModel

from stitchjam.data.cases import select
from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.data.sample import load_data
from stitchjam.data.store import Store
from stitchjam.optimizers.task import Task, examples

DATA = load_data()


def walk(value: Any) -> Iterator[Any]:
    """Every value inside a value; a store is an input like any other and not gold."""
    yield value
    if isinstance(value, Store):
        return
    if isinstance(value, dspy.Example):
        value = value.toDict()
    elif isinstance(value, BaseModel):
        value = dict(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in inner:
        yield from walk(part)


def only_in_gold(question) -> set[str]:
    """Answers and aliases that stand in no turn, so that finding one in an example is a leak."""
    forms = {question.answer, *question.aliases}
    return {form for form in forms if not any(form in turn.text for turn in DATA.store.turns)}


@pytest.mark.parametrize("program", ["answerer", "researcher", "memory_agent"])
def test_no_example_holds_gold_at_any_depth(program):
    gold = [only_in_gold(question) for question in DATA.questions]
    assert sum(map(bool, gold)) > 10
    for example, forms in zip(examples(program, DATA.questions, DATA.store), gold, strict=True):
        for value in walk(example):
            assert not (isinstance(value, str) and any(form in value for form in forms))
            assert not isinstance(value, Question)


@pytest.mark.parametrize(
    ("program", "fields", "inputs"),
    [
        ("answerer", {"id", "question", "context"}, {"question", "context"}),
        ("memory_agent", {"id", "question", "store"}, {"question", "store"}),
    ],
)
def test_an_example_holds_its_id_and_the_inputs_of_the_program(program, fields, inputs):
    example = examples(program, DATA.questions[:1], DATA.store)[0]
    assert set(example.keys()) == fields and set(example.inputs().keys()) == inputs


def test_the_context_of_the_answerer_has_k_turns_at_most():
    context = examples("answerer", DATA.questions[:1], DATA.store, k=3)[0].context
    assert len(context.claims) == 3


def test_an_unknown_program_names_the_known_ones():
    with pytest.raises(UsageError, match="answerer, intent_recall, memorizer, memory_agent, researcher, stitch_agent"):
        examples("oracle", DATA.questions, DATA.store)


def test_the_task_splits_by_split():
    task = Task.of("answerer", DATA.questions, DATA.store)
    assert (len(task.train), len(task.held_out)) == (24, 16)
    assert not {e.id for e in task.train} & {e.id for e in task.held_out}


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_a_task_needs_both_splits(split):
    questions = [question for question in DATA.questions if question.split == split]
    with pytest.raises(UsageError, match="'train' and 'held_out'"):
        Task.of("answerer", questions, DATA.store)


def test_a_question_in_both_splits_is_refused_however_it_is_written():
    first = DATA.questions[0]
    again = first.model_copy(update={"id": "again", "split": "held_out", "text": first.text.upper() + "!"})
    with pytest.raises(UsageError, match="both splits"):
        Task.of("answerer", (*DATA.questions, again), DATA.store)


def test_select_takes_a_split_in_order_up_to_a_limit():
    assert [q.id for q in select(DATA.questions, "held_out", 2)] == ["q25", "q26"]
    assert len(select(DATA.questions, "all")) == 40


def test_an_unknown_split_names_the_known_ones():
    with pytest.raises(UsageError, match="use one of all, held_out, train"):
        select(DATA.questions, "test")


def test_a_history_without_questions_says_so():
    with pytest.raises(UsageError, match="--questions"):
        select((), "all")
