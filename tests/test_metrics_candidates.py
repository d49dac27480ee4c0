"""CAME-Bench's F1 by hand: how answers are split, what covers what, and what a judge may add."""

from collections.abc import Sequence

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchjam.data.ids import build_session
from stitchjam.data.records import Answer, History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics import CameF1, Score
from stitchjam.optimizers.metrics.candidates import Candidate, Judge, match, split_candidates

seeded = settings(derandomize=True, deadline=None, max_examples=60)
STORE = Store.of(History(id="h", sessions=(build_session("one", "", [{"speaker": "Ana", "text": "Hello."}]),)))
PLAN = "Stay at Apollo Resort; Breakfast at Gaia Table; Lunch at Ismene Court; Dinner at Pegasus; Visit Nyx Observatory"


def score(text: str, *golds: str, kind: str = "type_3", judge: Judge | None = None, abstained: bool = False) -> Score:
    gold = Question(id="q", text="?", answer=golds[0], aliases=golds[1:], kind=kind)
    prediction = dspy.Prediction(answer=Answer(text=text, abstained=abstained))
    return CameF1([gold], STORE, judge=judge)(dspy.Example(id="q"), prediction)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("AIC (2023); CFR (2024)", ["AIC (2023)", "CFR (2024)"]),
        ('["AIC (2023); CFR (2024)"]', ["AIC (2023)", "CFR (2024)"]),  # as in the release: a list of one string
        ('["Paris, France", "Rome"]', ["Paris, France", "Rome"]),
        ("[1, 2]", ["1", "2"]),
        ("[not json, x]", ["[not json, x]"]),
        ("Harvard (2025; report, draft), CFR", ["Harvard (2025; report, draft)", "CFR"]),
        ("1,233", ["1,233"]),
        ("paid 1,233, and 4,000,000", ["paid 1,233", "4,000,000"]),
        ("1,2,3", ["1", "2", "3"]),
        ("2024,100", ["2024", "100"]),
        ("May 7, 2023, 25 May, 2022", ["May 7, 2023", "25 May, 2022"]),
        ('"Nothing, Never", Dune', ['"Nothing, Never"', "Dune"]),
        ("- red\n- blue\n", ["red", "blue"]),
        ("1. red\n2) blue\n2.0", ["red", "blue", "2.0"]),
        ("red, blue, and green", ["red", "blue", "green"]),
        ("Bed and Breakfast", ["Bed and Breakfast"]),
        ("red (dark, blue", ["red (dark", "blue"]),  # a bracket that never closes holds nothing together
        ("Zoë; 無", ["Zoë", "無"]),
        (";; , -", []),
        ("", []),
    ],
)
def test_answers_are_split_and_names_and_figures_are_not_torn(text, parts):
    assert split_candidates(text) == parts


@pytest.mark.parametrize(
    ("text", "gold", "covered", "golds", "given"),
    [
        ("AIC (2023); CFR (2024)", "CFR (2024); AIC (2023)", 2, 2, 2),
        ("the aic 2023, KFF (2024)", "AIC (2023); CFR (2024); EIG (2024)", 1, 3, 2),
        ("Apollo, Daphne, Nyx", "Apollo, Daphne", 2, 2, 3),
        ("Apollo, Apollo", "Apollo, Daphne", 1, 2, 2),  # one covers one
        ("Apollo", "Apollo, Apollo", 1, 2, 1),
        ("Apollo and Daphne", "Apollo, Daphne", 0, 2, 1),  # not torn, and no containment in lists
        ("AIC (2023) report, CFR (2024)", "AIC (2023); CFR (2024)", 1, 2, 2),
        ("red; blue", "green, yellow", 0, 2, 2),
        ("The", "A, B", 0, 2, 1),
        ("ZOË, 1233", "Zoe\u0308; 1,233", 2, 2, 2),  # two ways to write one letter, and one number
        ("C, C#", "C++, C#", 1, 2, 2),
        ("Apollo Resort", "Apollo Resort", 1, 1, 1),
        ("It was the Apollo Resort, which you chose on day 2", "Apollo Resort", 1, 1, 1),  # prose is one candidate
        ("Apollo Resort, Daphne Hotel, Nyx Inn", "Apollo Resort", 1, 1, 3),  # a list is not
        ('["Apollo Resort, which was near", "Daphne"]', "Apollo Resort", 1, 1, 2),
        ("Apollo\nDaphne", "Apollo", 1, 1, 2),
        ("The rating was 4.5 in the end", "4.5", 1, 1, 1),
        ("It costs $3.40", "$3", 0, 1, 1),  # figures stay whole
        ("$1,233.50", "1233.50", 1, 1, 1),
        ("Resort Apollo", "Apollo Resort", 0, 1, 1),
        ("Apollo", "Apollo Resort", 0, 1, 1),  # less than the gold does not cover it
    ],
)
def test_came_f1_by_hand(text, gold, covered, golds, given):
    found = score(text, gold)
    assert found.parts == pytest.approx(
        {
            "precision": covered / given,
            "recall": covered / golds,
            "f1": 2 * covered / (golds + given),
            "correct": float(covered == golds),
        }
    )
    assert found.value == found.parts["f1"]


def test_the_way_to_write_the_gold_that_fits_best_counts():
    assert score("NYC, Rome", "New York City, Rome", "NYC, Rome").value == 1.0
    assert score("NYC, Rome, Oslo", "New York City, Rome", "NYC, Rome").value == pytest.approx(2 * 2 / (2 + 3))
    assert score("the Big Apple", "New York City", "Big Apple").value == 1.0


@pytest.mark.parametrize(
    ("text", "abstained", "gold", "value"),
    [
        ("not mentioned", True, "", 1.0),
        ("not mentioned", True, "red", 0.0),
        ("", False, "red", 0.0),
        ("red", False, "", 0.0),
    ],
)
def test_abstentions_and_empty_answers(text, abstained, gold, value):
    found = score(text, gold, abstained=abstained)
    assert found.value == value and set(found.parts) == {"precision", "recall", "f1", "correct"}


@pytest.mark.parametrize(
    ("text", "covered", "given"),
    [
        (PLAN, 5, 5),
        (PLAN.replace("; ", "\n- "), 5, 5),
        (
            "Stay at the Apollo Resort, have breakfast at Gaia Table, lunch: Ismene Court and visit Nyx Observatory.",
            4,
            4,
        ),
        ("Stay at Apollo Resort, which is near; Dinner at Pegasus", 2, 2),  # prose is one candidate here too
        ("Stay at Apollo Resort, rated 4.8; Dinner at Pegasus", 2, 3),  # by its form a list
        ("Breakfast at Pegasus; Dinner at Gaia Table", 0, 2),  # the right places in the wrong slots
        ("Stay at Apollo Resort; Stay at Daphne Hotel", 1, 2),
        ("Stay at Apollo Resort; Visit Nyx Observatory, Olympus", 2, 3),
        ("Apollo Resort, Gaia Table", 0, 0),  # no slots, no parts
    ],
)
@pytest.mark.parametrize("kind", ["type_4", "type 4"])
def test_a_plan_is_matched_slot_by_slot(text, covered, given, kind):
    parts = score(text, PLAN, kind=kind).parts
    assert parts["f1"] == pytest.approx(2 * covered / (5 + given)) and parts["recall"] == covered / 5


def test_a_slot_with_several_places_is_a_list():
    found = score("Visit Olympus, Nyx and Ida", "Stay at Apollo; Visit Nyx, Olympus", kind="type_4")
    assert found.parts["recall"] == pytest.approx(
        1 / 3
    )  # of Apollo, Nyx and Olympus only the last; "Nyx and Ida" is one


def test_a_plan_question_without_slots_is_a_list():
    assert score("red, blue", "blue, red", kind="type_4").value == 1.0


def test_a_reason_names_what_is_missing_and_extra():
    why = score("Stay at Daphne; Visit Nyx Observatory", PLAN, kind="type_4").why
    assert why.startswith("covered 1 of 5 gold candidates with 2 given; missing: 'stay: Apollo Resort', ")
    assert why.endswith("extra: 'stay: Daphne'")


@pytest.mark.parametrize("loop", [". ", " and", "stay at ", "(", ";", "x, "])
def test_an_answer_of_a_model_in_a_loop_is_no_crash_and_ends_soon(loop):
    assert score("Stay at Apollo Resort; Visit Nyx Observatory" + loop * 20_000, PLAN, kind="type_4").value <= 4 / 7


class Scripted:
    """A judge that says what it is told and keeps what it was asked."""

    name = "scripted"

    def __init__(self, *pairs: tuple[int, int]):
        self.pairs, self.asked = pairs, []

    def __call__(self, question: Question, gold: Sequence[str], given: Sequence[str]) -> Sequence[tuple[int, int]]:
        self.asked.append((list(gold), list(given)))
        return self.pairs


def test_a_judge_is_asked_about_the_rest_only():
    judge = Scripted((0, 0))
    found = score("Rome, the Big Apple, Oslo", "New York, Rome", judge=judge)
    assert judge.asked == [(["New York"], ["the Big Apple", "Oslo"])]
    assert found.value == pytest.approx(2 * 2 / (2 + 3)) and found.parts["correct"] == 1.0


@pytest.mark.parametrize("text", ["Rome, New York", "Rome", "New York, Rome, Oslo"])
def test_a_judge_is_not_asked_when_one_side_has_no_rest(text):
    judge = Scripted((0, 0))
    score(text, "New York, Rome", judge=judge)
    assert judge.asked == []


def test_a_judge_cannot_let_one_candidate_cover_two_or_point_outside():
    judge = Scripted((0, 0), (1, 0), (0, 1), (7, 1), (1, -1))
    assert score("x, y", "a1, b1", judge=judge).parts["recall"] == 1 / 2


def test_a_judge_cannot_match_different_slots():
    judge = Scripted((0, 0))
    assert score("Dinner at Hyperion", "Stay at Hyperion; Visit Nyx", kind="type_4", judge=judge).value == 0.0


def test_a_judge_is_part_of_the_description():
    assert CameF1([], STORE).describe()["judge"] == ""
    assert CameF1([], STORE, judge=Scripted()).describe()["judge"] == "scripted"
    assert CameF1([], STORE, judge=lambda *_: []).describe()["judge"].endswith("<lambda>")


NAMES = st.lists(st.sampled_from(["red", "blue", "Zoë", "1,233", "May 7, 2023", "AIC (2023)"]), min_size=2, max_size=5)


@seeded
@given(gold=NAMES, given_=NAMES)
def test_no_candidate_is_used_twice_and_swapping_sides_swaps_precision_and_recall(gold, given_):
    one = match([Candidate(name) for name in gold], [Candidate(name) for name in given_])
    other = match(one.given, one.gold)
    assert len({at for at, _ in one.pairs}) == len({at for _, at in one.pairs}) == len(one.pairs)
    assert one.parts["precision"] == other.parts["recall"] and one.parts["f1"] == other.parts["f1"]


@seeded
@given(names=NAMES, random=st.randoms())
def test_a_list_in_another_order_and_with_other_separators_is_the_same(names, random):
    assert score("\n- ".join(random.sample(names, len(names))), "; ".join(names)).value == 1.0


@seeded
@given(text=st.text(st.sampled_from('ab(),;"[]\n1'), max_size=14))
def test_splitting_loses_no_word(text):
    if not text.startswith("["):
        assert "".join(filter(str.isalnum, "".join(split_candidates(text)))) == "".join(filter(str.isalnum, text))
