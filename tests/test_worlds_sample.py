"""The worlds that ship with the package are what the generator makes, and cover what it can do."""

from collections import Counter

import pytest

from stitchjam.data.cases import load_cases
from stitchjam.data.worlds.asking import FAMILIES
from stitchjam.data.worlds.checks import answer_from, faults
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.generate import generate_world
from stitchjam.data.worlds.query import known_from


@pytest.fixture(scope="module")
def sample():
    return read_worlds()


def test_there_are_five_worlds_with_150_questions_of_all_types(sample):
    assert [len(world.questions) for world in sample] == [30] * 5
    asked = [question for world in sample for question in world.asked]
    assert {one.type for one in asked} == {name for types in FAMILIES.values() for name in types}
    assert {style for one in asked for style in one.styles} == {"dialogue", "mail", "notes", "tool", "debate", "trip"}
    assert {one.hops for one in asked} == {1, 2, 3, 4}


def test_three_are_for_training_and_two_are_held_out(sample):
    assert Counter(world.split for world in sample) == {"train": 3, "held_out": 2}
    assert all(question.split == world.split for world in sample for question in world.questions)


def test_they_are_what_the_generator_makes(sample, tmp_path):
    # When this fails because worlds are told in another way on purpose: make sample.
    for world in sample:
        assert generate_world(tmp_path, world.name, world.dials) == world.about


def test_every_question_is_answered_by_its_evidence_and_has_no_fault(sample):
    for world in sample:
        for question in world.asked:
            known = known_from(world.known.statements, question.turns)
            assert answer_from(question.query, known) == question.answer
            assert faults(question, world.known) == []


def test_questions_and_evidence_read_like_any_other_questions_file(sample):
    for world, case in zip(sample, load_cases(sample[0].folder.parent, encoder="none"), strict=True):
        assert case.name == world.name and case.questions == world.questions
        for question, asked in zip(case.questions, world.asked, strict=True):
            assert [case.store.turn(id).external_id for id in question.evidence] == list(asked.turns)
