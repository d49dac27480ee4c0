"""Multiple choice: which option a free answer chose, and when it chose none."""

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchjam.data.errors import UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.records import Answer, History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics import Choice, Score
from stitchjam.optimizers.metrics.choices import chosen, options_in

seeded = settings(derandomize=True, deadline=None, max_examples=60)
STORE = Store.of(History(id="h", sessions=(build_session("one", "", [{"speaker": "Ana", "text": "Hello."}]),)))
ASKED = "When does it leave?\nA. at nine\nB. at ten\nC. vitamin C\nD. dark red"
OPTIONS = {"A": "at nine", "B": "at ten", "C": "vitamin C", "D": "dark red"}


def score(text: str, gold: str, asked: str = ASKED, abstained: bool = False) -> Score:
    question = Question(id="q", text=asked, answer=gold)
    prediction = dspy.Prediction(answer=Answer(text=text, abstained=abstained))
    return Choice([question], STORE)(dspy.Example(id="q"), prediction)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (ASKED, OPTIONS),
        ("Which?\n (A) red\n (B) café au lait", {"A": "red", "B": "café au lait"}),
        ("Which? A) red B) blue", {"A": "red", "B": "blue"}),
        ("He took vitamin A. Which?\nA. red\nB. blue", {"A": "red", "B": "blue"}),
        ("A: red\nB: blue B. sky\nC: 1,233", {"A": "red", "B": "blue B. sky", "C": "1,233"}),
        ("When does it leave?", {}),
        ("A. alone", {}),
        ("B. red\nC. blue", {}),
    ],
)
def test_options_are_read_from_the_question(text, options):
    assert options_in(text) == options


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        ("a", "A"),
        ("(b)", "B"),
        ("**B**.", "B"),
        ("Option B", "B"),
        ("B. at ten", "B"),
        ("(B) at ten", "B"),
        ("B) since it is late", "B"),
        ("B because A is late", "B"),
        ("B, because of the tide", "B"),
        ("The answer is B", "B"),
        ("The answer is: **B**.", "B"),
        ("Answer: b", "B"),
        ("Answer: (C)\nVitamin C", "C"),
        ("the correct answer is option B) at ten", "B"),
        ("B is correct", "B"),
        ("I choose (c)", "C"),
        (r"So it is $\boxed{B}$", "B"),
        ("option C because A is wrong", "C"),
        ("Option A says x. Option B says y. The answer is B.", "B"),
        ("The answer is not A but B", "B"),
        ("The answer is B and C is wrong", "B"),
        ("A is wrong, so it must be B", "B"),
        ("I think B", "B"),
        ("The answer is B. B is not late.", "B"),
        ("_B_ is correct", "B"),
        ("B rather than A", "B"),
        ("USB is wrong, B", "B"),
        ("At ten.", "B"),
        ("It leaves at ten", "B"),
        ("It was DARK RED", "D"),
        ("Vitamin C it is", "C"),
    ],
)
def test_a_choice_is_read_from_a_free_answer(text, letter):
    assert chosen(text, OPTIONS).letter == letter


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A or B", "ambiguous: A and B are mentioned"),
        ("A, B", "ambiguous: A and B are mentioned"),
        ("Both A and B", "ambiguous"),
        ("(B) and (A)", "ambiguous"),
        ("The answer is A or B.", "ambiguous: A and B are said to be the answer"),
        ("The answer is A. No, the answer is B.", "ambiguous"),
        ("B. at nine", "ambiguous: A and B are at the beginning"),  # the letter of one, the text of another
        ("at nine or at ten", "ambiguous"),
        ("", "no option"),
        ("neither", "no option"),
        ("E", "no option"),  # there is no such option
        ("A ferry left", "no option"),  # an article
        ("The answer is a ferry", "no option"),
        ("C'est la vie", "no option"),
        ("at eleven", "no option"),
        ("FOOD is correct", "no option"),
        ("The answer is not B", "no option"),
    ],
)
def test_no_choice_says_why(text, why):
    found = chosen(text, OPTIONS)
    assert found.letter == "" and why in found.why


def test_of_two_options_that_stand_in_an_answer_the_longer_counts():
    assert chosen("it was dark red", {"A": "red", "B": "dark red"}).letter == "B"


def test_an_answer_of_a_model_in_a_loop_is_read_from_both_ends():
    # Read whole, each of these takes most of a minute.
    assert chosen("The answer is B." + "(" * 50_000, OPTIONS).letter == "B"
    assert chosen("\n" * 50_000 + "The answer is B", OPTIONS).letter == "B"


@pytest.mark.parametrize(("text", "letter"), [("The answer is H", "H"), ("I like it", ""), ("(d)", "D")])
def test_without_options_a_letter_is_read_all_the_same(text, letter):
    assert chosen(text, {}).letter == letter


@pytest.mark.parametrize(
    ("text", "gold", "value", "parsed"),
    [
        ("The answer is B", "B", 1.0, 1.0),
        ("The answer is A", "B", 0.0, 1.0),
        ("B", "at ten", 1.0, 1.0),  # the gold is the option's text
        ("B", "(b) at ten", 1.0, 1.0),
        ("A", "A", 1.0, 1.0),  # an article elsewhere
        ("at ten", "B", 1.0, 1.0),
        ("A or B", "B", 0.0, 0.0),
        ("", "B", 0.0, 0.0),
        ("neither of them", "", 0.0, 0.0),  # no abstention
    ],
)
def test_choice_by_hand(text, gold, value, parsed):
    found = score(text, gold)
    assert found.value == value and found.parts == {"correct": value, "parsed": parsed}


def test_a_reason_shows_what_was_read_and_what_is_right():
    assert score("I think A", "B").why == "answered 'I think A', read as A 'at nine' (mentioned); expected B 'at ten'"
    assert "ambiguous: A and B" in score("A or B", "B").why


def test_an_abstention_is_wrong_where_an_option_is_right_and_right_where_none_is():
    assert score("not mentioned", "B", abstained=True).value == 0.0
    assert score("not mentioned", "", abstained=True).value == 1.0


def test_an_abstention_chooses_the_option_that_says_so():
    asked = "When?\nA. at nine\nB. Not mentioned"
    assert score("not mentioned", "B", asked, abstained=True).parts == {"correct": 1.0, "parsed": 1.0}
    assert score("not mentioned", "A", asked, abstained=True).value == 0.0


def test_a_gold_that_names_no_option_is_refused_before_anything_is_answered():
    with pytest.raises(UsageError, match="gold 'at noon' of question 'q' names no option; write options into its text"):
        score("B", "at noon")


@seeded
@given(
    letter=st.sampled_from("ABCD"),
    frame=st.sampled_from(["{}", "({})", "{}.", "The answer is {}", "option {}", "I say {}"]),
)
def test_a_letter_is_read_in_every_frame(letter, frame):
    assert chosen(frame.format(letter), OPTIONS).letter == letter


@seeded
@given(text=st.text(st.sampled_from("ABab .()'is\n*"), max_size=16))
def test_any_answer_gets_a_known_letter_or_a_reason(text):
    found = chosen(text, OPTIONS)
    assert found.letter in ("", *OPTIONS) and found.why
