"""Labelled rows for steps: they fit the signatures, and each label follows from gold and from what is shown."""

import json
import re
from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from stitchjam.data.errors import UsageError
from stitchjam.data.records import NOT_MENTIONED
from stitchjam.data.text import one_line
from stitchjam.data.worlds.checks import answer_from
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.query import fits, known_from
from stitchjam.data.worlds.sentences import EVENTS
from stitchjam.optimizers.step_rows import STEPS, step_rows
from stitchjam.signatures import STEPS as SIGNATURES

SIGNED = sorted(set(STEPS) & set(SIGNATURES))
LABEL = re.compile(r"^([a-z]+\d*) \| ", re.MULTILINE)


@pytest.fixture(scope="module")
def world(worlds):
    return worlds[1]


@pytest.fixture(scope="module")
def found(worlds):
    """All rows of two worlds."""
    return list(step_rows(worlds[1:3]))


@pytest.fixture(scope="module")
def rows(found):
    """Inputs and outputs by step."""
    by_step = defaultdict(list)
    for row in found:
        by_step[row["step"]].append((row["inputs"], row["outputs"]))
    return by_step


@pytest.fixture(scope="module")
def about(found, worlds):
    """For a step its inputs and outputs with the world and the question that they are about."""
    asked = {(world.name, question.text): (world, question) for world in worlds for question in world.asked}
    assert len(asked) == sum(len(world.asked) for world in worlds)

    def of(step):
        for row in found:
            if row["step"] == step:
                text = row["inputs"].get("question") or row["inputs"]["request"]
                yield (*asked[row["group"], text], row["inputs"], row["outputs"])

    return of


def answerable(worlds):
    return sorted(question.id for world in worlds[1:3] for question in world.asked if question.evidence)


def labels(text):
    """The lines of an input by their labels."""
    found = dict(zip(LABEL.findall(text), text.splitlines(), strict=True))
    assert len(found) == text.count("\n") + bool(text)
    return found


@cache
def lines_of(folder):
    """Turns by the line that shows them; some words are said twice in a day."""
    turns = defaultdict(set)
    for session in read_worlds(folder)[0].history.sessions:
        for turn in session.turns:
            turns[f"{session.time[:10]} | {turn.speaker}: {one_line(turn.text)}"].add(turn.external_id)
    return turns


def shown(world, text):
    """For each line of evidence the turns that it could be."""
    return {label: lines_of(world.folder)[line.partition(" | ")[2]] for label, line in labels(text).items()}


def test_every_step_has_rows_of_one_form(found, worlds):
    assert {tuple(row) for row in found} == {("step", "inputs", "outputs", "group")}
    assert list(dict.fromkeys(row["group"] for row in found)) == [world.name for world in worlds[1:3]]
    for world in worlds[1:3]:
        steps = [row["step"] for row in found if row["group"] == world.name]
        assert set(steps) == set(STEPS) and steps == sorted(steps, key=list(STEPS).index)
    assert json.loads(json.dumps(found)) == found


def test_rows_of_a_step_have_the_same_fields(rows):
    for found in rows.values():
        assert len({(tuple(inputs), tuple(outputs)) for inputs, outputs in found}) == 1


def test_rows_are_the_same_each_time(found, world):
    again = list(step_rows([world]))
    assert again == found[: len(again)]


def test_only_the_steps_asked_for_are_given_in_that_order(world):
    steps = ["answer_question", "detect_scope"]
    found = [row["step"] for row in step_rows([world], steps)]
    assert list(dict.fromkeys(found)) == steps
    with pytest.raises(UsageError, match="no rows for step 'plan_first'; there are: detect_scope"):
        step_rows([world], ["plan_first"])  # before anything is asked of it


@pytest.mark.parametrize("step", SIGNED)
def test_rows_fit_the_signature_of_their_step(rows, step):
    signature = SIGNATURES[step]
    reply: Any = signature.output_fields["reply"].annotation
    for inputs, outputs in rows[step]:
        assert list(inputs) == list(signature.input_fields)
        assert reply.model_validate(outputs).model_dump() == outputs


def test_the_steps_with_signatures_are_those_that_the_programs_share():
    assert SIGNED == [
        "answer_question",
        "browse_source",
        "detect_scope",
        "judge_sufficiency",
        "type_entities",
        "type_event",
    ]


def test_labels_of_a_turn_are_among_the_candidates(rows):
    for inputs, outputs in rows["detect_scope"]:
        assert outputs["scope"] == "none" or outputs["scope"] in labels(inputs["scopes"])
        assert 0 < len(outputs["topic"]) < 40
    for inputs, outputs in rows["type_event"]:
        assert outputs["event"] in labels(inputs["events"])
    for inputs, outputs in rows["type_entities"]:
        assert outputs["entities"] and set(outputs["entities"]) <= set(labels(inputs["entities"]))


def test_labels_in_outputs_name_lines_of_the_inputs(rows):
    for inputs, outputs in rows["browse_source"]:
        assert set(outputs["lines"]) <= set(labels(inputs["source"]))
    for inputs, outputs in rows["judge_sufficiency"]:
        assert outputs["entry"] == "none" or outputs["entry"] in labels(inputs["evidence"])
    for inputs, outputs in rows["sufficiency"]:
        assert set(outputs["covered"]) <= set(labels(inputs["evidence"]))
    for inputs, outputs in rows["answer_question"]:
        assert bool(outputs["sources"]) == (outputs["answer"] != NOT_MENTIONED) and len(outputs["sources"]) <= 3
        assert set(outputs["sources"]) <= set(labels(inputs["context"]))
    for inputs, outputs in rows["group_session"]:
        assert outputs["groups"] and set(outputs["groups"]) <= set(inputs["labels"])


def test_events_that_turns_do_are_those_that_worlds_know(rows):
    found = {labels(inputs["events"])[outputs["event"]].partition(" | ")[2] for inputs, outputs in rows["type_event"]}
    assert found <= set(EVENTS.values()) and len(found) > 15


def test_a_scope_is_new_exactly_where_no_candidate_is_it(world):
    scopes = [turn.scope for gold in world.gold() for turn in gold.turns if turn.scope]
    found = list(step_rows([world], ["detect_scope"]))
    assert len(found) == len(scopes)
    for row, scope in zip(found, scopes, strict=True):
        text = row["inputs"]["scopes"]
        names = {label: line.split(" | ")[1] for label, line in labels(text).items()} if "|" in text else {}
        assert len(names) <= 8 and len(set(names.values())) == len(names)
        assert text.count(" | now") == bool(names)
        label = row["outputs"]["scope"]
        assert names[label] == scope if label != "none" else scope not in names.values()
        assert scope.startswith(row["outputs"]["topic"])


def test_words_that_are_resolved_stand_in_the_turn_and_as_many_turns_have_none(rows):
    counts = {True: 0, False: 0}
    for inputs, outputs in rows["resolve_references"]:
        found = outputs["references"]
        counts[bool(found)] += 1
        assert all(one["words"] in inputs["turn"] and one["means"] != one["words"] for one in found)
    assert counts[True] > 50 and abs(counts[True] - counts[False]) <= 0.1 * counts[True]


def test_lines_to_browse_are_those_that_state_the_answer(about, worlds):
    asked, none = set(), set()
    for world, question, inputs, outputs in about("browse_source"):
        stated = {one_line(place.text) for one in question.evidence for place in one.places}
        lines = labels(inputs["source"])
        assert all(any(words in lines[label] for words in stated) for label in outputs["lines"])
        if outputs["lines"]:
            asked.add(question.id)
        else:
            session = next(
                s for s in world.history.sessions if all(one_line(t.text) in inputs["source"] for t in s.turns)
            )
            assert session.id not in {one.session for one in question.evidence}
            none.add(question.id)
    assert sorted(asked) == answerable(worlds) and len(none) == sum(len(world.asked) for world in worlds[1:3])


def test_a_session_without_lines_says_nothing_of_what_is_asked(about, worlds):
    # "Which hotel was finally chosen?" with a session that says "we go with the Nautilus", which changed later.
    for world, question, inputs, outputs in about("browse_source"):
        texts = world.known.texts
        read = [one for one in world.known.about(question.query) if one_line(texts[one.place.turn]) in inputs["source"]]
        says = any(fits(pattern, one.fact) for pattern in question.query.where for one in read)
        assert says == bool(outputs["lines"]), question.id


def test_words_to_resolve_have_one_meaning(rows):
    for _, outputs in rows["resolve_references"]:
        words = [one["words"] for one in outputs["references"]]
        meant = {(one["words"], one["means"]) for one in outputs["references"]}
        assert len(set(words)) == len(meant)


def test_an_entry_is_none_exactly_when_the_turn_that_states_the_fact_is_missing(about):
    seen = {True: 0, False: 0}
    for world, question, inputs, outputs in about("judge_sufficiency"):
        [stated] = [one.turn for one in question.evidence if one.role == "states"]
        there = [label for label, turns in shown(world, inputs["evidence"]).items() if stated in turns]
        assert outputs["entry"] == (there[0] if there else "none")
        assert inputs["need"] == inputs["question"]
        seen[bool(there)] += 1
    assert seen[True] > 10 and seen[False] > 10


def test_evidence_is_sufficient_when_the_solver_has_the_answer_from_it(about):
    found = {True: 0, False: 0}
    unclear = 0
    for world, question, inputs, outputs in about("sufficiency"):
        lines = shown(world, inputs["evidence"])
        if any(len(turns) > 1 for turns in lines.values()):
            unclear += 1
            continue
        turns = {turn for turns in lines.values() for turn in turns}
        known = known_from(world.known.statements, turns)
        assert (answer_from(question.query, known) == question.answer) == outputs["sufficient"]
        assert outputs["sufficient"] == (set(question.turns) <= turns)
        assert {turn for label in outputs["covered"] for turn in lines[label]} == set(question.turns) & turns
        found[outputs["sufficient"]] += 1
    assert unclear < found[True] and found[True] > 50 and found[False] > 50


def test_an_answer_is_given_all_its_evidence_and_names_lines_that_state_it(about, worlds):
    asked = []
    for world, question, inputs, outputs in about("answer_question"):
        lines = shown(world, inputs["context"])
        assert set(question.turns) <= set().union(*lines.values()) and outputs["answer"] == question.answer
        stated = {one.turn for one in question.evidence if one.role == "states"}
        assert all(lines[label] & stated for label in outputs["sources"])
        asked.append(question.id)
        assert bool(question.evidence) == (outputs["answer"] != NOT_MENTIONED)
    assert sorted(asked) == sorted(question.id for world in worlds[1:3] for question in world.asked)


def test_lines_shown_are_in_time_order(rows):
    for step, name in (("sufficiency", "evidence"), ("answer_question", "context"), ("judge_sufficiency", "evidence")):
        for inputs, _ in rows[step]:
            dates = [line.split(" | ")[1] for line in inputs[name].splitlines()]
            assert dates == sorted(dates) and len(dates) > 1
