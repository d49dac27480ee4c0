"""Answer metrics by hand: every expected value is written as the fraction that the rules give."""

import math
import sys

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import MissingExtra
from stitchjam.data.ids import build_session
from stitchjam.data.records import Answer, History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics import METRICS, Score, answers, forms, make_metric

seeded = settings(derandomize=True, deadline=None, max_examples=60)
STORE = Store.of(History(id="h", sessions=(build_session("one", "", [{"speaker": "Ana", "text": "Hello."}]),)))
TEXTS = st.text(st.sampled_from("ab1 ,.;-_é'\n"), max_size=12)


def score(name: str, text: str, *golds: str, kind: str = "", abstained: bool = False) -> Score:
    gold = Question(id="q", text="?", answer=golds[0], aliases=golds[1:], kind=kind)
    prediction = dspy.Prediction(answer=Answer(text=text, abstained=abstained))
    return make_metric(name, [gold], STORE)(dspy.Example(id="q"), prediction)


@pytest.mark.parametrize(
    ("text", "gold", "value"),
    [
        ("1,233 miles", "1,233 miles", 1.0),
        ("1233 miles", "1,233 miles", 2 * 1 / (2 + 3)),  # the comma becomes a blank: "1" and "233"
        ("Zoë", "zoë", 1.0),
        ("Zoe", "Zoë", 0.0),
        ("dairy-free", "dairy free", 1.0),
    ],
)
def test_answer_f1_of_figures_and_foreign_letters(text, gold, value):
    assert score("answer_f1", text, gold).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "golds", "f1", "em"),
    [
        ("The Blue Door!", ["blue door"], 1.0, 1.0),
        ("at ten o'clock", ["ten oclock"], 2 * 2 / (3 + 2), 0.0),
        ("blue blue", ["blue door"], 2 * 1 / (2 + 2), 0.0),
        ("10:00", ["at ten", "10:00"], 1.0, 1.0),
        ("red", ["red door", "red car"], 2 * 1 / (1 + 2), 0.0),  # a tie
        ("ten in the morning", ["ten", "in the morning today"], 2 * 2 / (3 + 3), 0.0),  # over 2 * 1 / (3 + 1)
        ("", ["blue"], 0.0, 0.0),
        ("the", ["a"], 0.0, 1.0),  # nothing is left of either: equal, but no word in common
        ("1,233 miles", ["1233 miles"], 1.0, 1.0),
        ("dairy-free", ["dairy free"], 0.0, 0.0),  # one word, "dairyfree", against two
        ("ZOË", ["zoë"], 1.0, 1.0),
        ("Zoe", ["Zoë"], 0.0, 0.0),
        ("“Nine”", ["Nine"], 0.0, 0.0),  # only ASCII punctuation is deleted
        ("yes", ["no"], 0.0, 0.0),
        ("yes, it is", ["yes"], 2 * 1 / (3 + 1), 0.0),  # HotpotQA's own scorer would give 0
    ],
)
def test_f1_and_exact_match_by_hand(text, golds, f1, em):
    found = score("qa_f1", text, *golds)
    assert found.parts == pytest.approx({"f1": f1, "em": em}) and found.value == pytest.approx(f1)


def test_the_best_gold_for_f1_and_for_exact_match_need_not_be_the_same():
    found = score("qa_f1", "the", "blue", "a")
    assert found.parts == {"f1": 0.0, "em": 1.0}


@pytest.mark.parametrize(
    ("text", "gold", "kind", "value"),
    [
        ("She paints", "painting", "4", 2 * 1 / (2 + 1)),  # stems: she paint | paint
        ("pottery and camping", "camping, pottery", "4", 1.0),  # "and" goes like an article
        ("7 May 2023", "May 7, 2023", "2", 1.0),
        ("1,233", "1233", "4", 1.0),
        ("Running, pottery", "running", "4", 2 * 1 / (2 + 1)),
        ("dairy-free", "dairy free", "4", 0.0),  # punctuation is deleted: one word against two
        ("the and a", "an", "4", 0.0),  # nothing is left of either
        ("", "blue", "4", 0.0),
        ("cafés", "Café", "4", 1.0),
        ("blue blue door", "blue blue", "4", 2 * 2 / (3 + 2)),
        ("blue", "blue door", "", 2 * 1 / (1 + 2)),  # any other kind
        ("beach, forest", "beach, mountains, forest", "1", (1 + 0 + 1) / 3),
        ("beach, sea, lake, mountains, forest", "beach, mountains, forest", "1", 1.0),  # what is too much costs nothing
        ("the pride parade", "Pride parade, school speech", "1", (1 + 0) / 2),
        ("a parade, a talk", "Pride parade, school speech", "1", (2 * 1 / (1 + 2) + 0) / 2),
        ("beach", "beach,", "1", (1 + 0) / 2),  # the empty part behind the comma is never found
        ("beach and forest", "beach, forest", "1", (2 * 1 / (2 + 1) + 2 * 1 / (2 + 1)) / 2),  # only commas split
        ("Yes", "Yes; she likes it", "3", 1.0),
        ("Yes; she likes it", "Yes; she likes it", "3", 2 * 1 / (4 + 1)),  # the gold alone is cut
        ("Yes", "Yes; she likes it", "4", 2 * 1 / (1 + 4)),
        ("There is No Information Available.", "", "5", 1.0),
        ("That is not mentioned here", "whatever", "5", 1.0),
        ("I do not know", "", "5", 0.0),
        ("", "", "5", 0.0),  # silence is no abstention to the official scorer
        ("blue", "blue", "5", 0.0),  # the gold of category 5 is the wrong answer
    ],
)
def test_locomo_by_hand(text, gold, kind, value):
    assert score("locomo_f1", text, gold, kind=kind).value == pytest.approx(value)


def test_an_abstention_is_right_in_locomos_fifth_category_whatever_its_words():
    assert score("locomo_f1", "unknown", "", kind="5", abstained=True).value == 1.0


def test_an_abstention_elsewhere_in_locomo_is_rated_by_its_words():
    assert score("locomo_f1", "not mentioned", "not yet", kind="4", abstained=True).value == 2 * 1 / (2 + 2)


def test_the_best_alias_counts_in_locomo():
    found = score("locomo_f1", "at ten", "noon", "ten", "at ten sharp", kind="4")
    assert found.value == pytest.approx(2 * 2 / (2 + 3)) and "'at ten sharp'" in found.why  # over 2 * 1 / (2 + 1)


def test_locomo_says_which_part_was_not_found():
    why = score("locomo_f1", "beach", "beach, forest", kind="1").why
    assert "'beach' 1.00" in why and "'forest' 0.00" in why


@pytest.mark.parametrize(
    ("text", "gold", "kind", "f1", "bleu"),
    [
        ("blue door", "The blue door.", "4", 1.0, 1.0),
        ("blue", "blue door", "4", 2 * 1 / (1 + 2), 1 * math.exp(1 - 2 / 1)),  # too short
        ("blue blue door", "blue door", "4", 2 * 2 / (3 + 2), 2 / 3),  # "blue" counts once
        ("", "blue", "4", 0.0, 0.0),
        ("", "", "4", 1.0, 0.0),  # two empty texts are equal for F1, and nothing for BLEU
        ("the", "a", "4", 1.0, 0.0),
        ("the a", "", "4", 0.0, 0.0),  # of two articles in a row the second stays
        ("dairy-free", "dairy free", "4", 1.0, 1.0),
        ("painting", "paints", "4", 0.0, 0.0),  # no stemmer
        ("1,233", "1233", "4", 0.0, 0.0),  # the comma becomes a blank
        ("pottery and camping", "pottery, camping", "4", 2 * 2 / (3 + 2), 2 / 3),  # "and" is a word
        ("beach, forest", "beach, mountains, forest", "1", 2 * 2 / (2 + 3), 1 * math.exp(1 - 3 / 2)),  # no split
        ("Yes", "Yes; she likes it", "3", 2 * 1 / (1 + 4), 1 * math.exp(1 - 4 / 1)),  # no cut
        ("ZOË’s", "zoë s", "2", 1.0, 1.0),
    ],
)
def test_gams_locomo_by_hand(text, gold, kind, f1, bleu):
    found = score("locomo_gam", text, gold, kind=kind)
    assert found.parts == pytest.approx({"f1": f1, "bleu1": bleu}) and found.value == pytest.approx(f1)


def test_gam_does_not_rate_the_fifth_category_and_says_so():
    found = score("locomo_gam", "not mentioned", "", kind="5", abstained=True)
    assert found.value == 0.0 and found.parts == {"f1": 0.0, "bleu1": 0.0, "skipped": 1.0}
    assert "not rated" in found.why and "category 5" in found.why


@pytest.mark.parametrize(
    ("text", "golds", "precision", "recall"),
    [
        ("the cat sat", ["a cat sat down"], 2 / 3, 2 / 4),
        ("sat cat", ["cat sat"], 1 / 2, 1 / 2),  # the order counts
        ("painting cats", ["paints cat"], 1.0, 1.0),  # stems
        ("cat sat", ["dog", "cat sat down"], 2 / 2, 2 / 3),
        ("cat", ["cat sat", "cat lay"], 1 / 1, 1 / 2),  # a tie
        ("cat cat cat", ["cat"], 1 / 3, 1 / 1),
        ("one x two y three", ["one two three"], 3 / 5, 3 / 3),
        ("", ["cat"], 0.0, 0.0),
        ("the", ["the"], 1.0, 1.0),  # articles are words
        ("1,233", ["1233"], 0.0, 0.0),
        ("café", ["caf"], 1.0, 1.0),  # letters beyond ASCII are blanks to the library
        ("Ωμέγα", ["Ωμέγα"], 0.0, 0.0),
    ],
)
def test_rouge_l_by_hand(text, golds, precision, recall):
    found = score("rouge_l", text, *golds)
    f = 2 * precision * recall / (precision + recall) if precision else 0.0
    assert found.parts == pytest.approx({"precision": precision, "recall": recall, "f": f})
    assert found.value == pytest.approx(f)


@pytest.mark.parametrize("name", ["qa_f1", "rouge_l", "came_f1"])
@pytest.mark.parametrize(("gold", "value"), [("blue", 0.0), ("not", 0.0), ("", 1.0), ("Not mentioned.", 1.0)])
def test_an_abstention_is_right_when_the_gold_has_no_answer(name, gold, value):
    found = score(name, "not mentioned", gold, abstained=True)
    assert found.value == value and set(found.parts.values()) == {value} and "abstained" in found.why


@pytest.mark.parametrize(
    ("text", "abstained", "gold", "value", "mistake"),
    [
        ("not mentioned", True, "", 1.0, None),
        ("not mentioned", True, "not mentioned", 1.0, None),
        ("Not mentioned.", False, "Not Mentioned", 1.0, None),
        ("", False, "", 1.0, None),
        (" ... ", False, "blue", 0.0, "false_abstention"),
        ("not mentioned", True, "blue", 0.0, "false_abstention"),
        ("red", False, "blue", 1.0, None),  # wrong, but no abstention
        ("red", False, "", 0.0, "false_answer"),
        ("not mentioned by Ana", False, "", 0.0, "false_answer"),  # says more, and did not abstain
        ("A", False, "A", 1.0, None),  # nothing is left of an article, and yet it is an answer
        ("無", False, "", 0.0, "false_answer"),
    ],
)
def test_abstention_by_hand(text, abstained, gold, value, mistake):
    found = score("abstention", text, gold, abstained=abstained)
    mistakes = {name: float(name == mistake) for name in ("false_answer", "false_abstention")}
    assert found.value == value and found.parts == {"correct": value} | mistakes
    assert ("rightly" if value else "wrongly") in found.why


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("qa_f1", "missing: 'door'; too much: 'red'"),
        ("locomo_f1", "missing: 'door'; too much: 'red'"),
        ("locomo_gam", "missing: 'door'; too much: 'red'"),
        ("rouge_l", "expected 'blue door'"),
        ("came_f1", "missing: 'blue door'; extra: 'red blue'"),
    ],
)
def test_a_reason_tells_what_to_mend(name, told):
    assert told in score(name, "red blue", "blue door").why


def test_a_long_difference_is_cut():
    why = score("qa_f1", "x", " ".join(map(str, range(9)))).why
    assert "missing: '0', '1', '2', '3', '4', '5' and 3 more" in why


@pytest.mark.parametrize(
    ("name", "module", "package"), [("locomo_f1", "nltk", "nltk"), ("rouge_l", "rouge_score", "rouge-score")]
)
def test_a_missing_scorer_is_named_with_its_install_line_before_anything_is_scored(monkeypatch, name, module, package):
    for loaded in [one for one in sys.modules if one.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    cached = forms.porter if module == "nltk" else answers._rouge
    cached.cache_clear()
    with pytest.raises(MissingExtra, match=rf"needs '{package}'; run: pip install 'stitchjam\[bench\]'"):
        make_metric(name, [], STORE)
    cached.cache_clear()


RATED = sorted(set(METRICS) - {"choice"})


@seeded
@given(name=st.sampled_from([name for name in RATED if "answer" in METRICS[name].needs and name != "end"]), text=TEXTS,
       gold=TEXTS, kind=st.sampled_from(["", "1", "3", "4", "5", "type_4"]))  # fmt: skip
def test_every_value_and_part_lies_between_0_and_1(name, text, gold, kind):
    with dspy.context(lm=scripted_lm({"judge_answer": {"missing": "", "verdict": "CORRECT"}})):
        found = score(name, text, gold, kind=kind)
    assert all(0 <= value <= 1 for value in (found.value, *found.parts.values())) and found.why


@seeded
@given(name=st.sampled_from(["qa_f1", "locomo_f1", "locomo_gam", "rouge_l"]), one=TEXTS, other=TEXTS)
def test_f1_does_not_care_which_text_is_the_gold(name, one, other):
    assert score(name, one, other).value == pytest.approx(score(name, other, one).value)


@seeded
@given(words=st.lists(st.sampled_from(["blue", "door", "ten", "Zoë"]), min_size=1, max_size=6), random=st.randoms())
def test_f1_does_not_care_for_order_and_rouge_does(words, random):
    mixed = random.sample(words, len(words))
    text, gold = " ".join(mixed), " ".join(words)
    assert score("qa_f1", text, gold).value == score("locomo_f1", text, gold).value == 1.0
    assert score("rouge_l", text, gold).value <= 1.0
