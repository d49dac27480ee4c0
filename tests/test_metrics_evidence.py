"""Evidence metrics by hand: what fits a budget, what a neighbour gives, where the answer stands, and what holds."""

from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.ids import build_session
from stitchjam.data.records import Answer, Claim, Context, History, Question, Span
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens
from stitchjam.optimizers.metrics import METRICS, Score, make_metric

SAID = [
    ("Ana", "What does the hotel cost?"),
    ("Ben", "It costs $1,233.50 a night."),
    ("Ana", "Then the Zoë Inn, please."),
    ("Ben", "Booked for May 7, 2023."),
]
seeded = settings(derandomize=True, deadline=None, max_examples=60)
STORE = Store.of(
    History(
        id="h",
        sessions=(
            build_session("one", "2026-01-02", [{"speaker": who, "text": text} for who, text in SAID]),
            build_session("two", "2026-01-03", [{"speaker": "Ana", "text": "Ten it is."}]),
        ),
    )
)
ASKS, COSTS, INN, BOOKED, LATER = STORE.turns
COST = {turn.id: count_tokens(f"{turn.speaker}: {turn.text}") + 1 for turn in STORE.turns}


def claim(turn, **changes: Any) -> Claim:
    return Claim(text="it says so", quote=turn.text, speaker=turn.speaker, spans=(Span.of(turn),)).model_copy(
        update=changes
    )


def score(name: str, *turns, gold=(), answer: str = "ten", aliases=(), dropped: int = 0, **settings: Any) -> Score:
    claims = tuple(turn if isinstance(turn, Claim) else claim(turn) for turn in turns)
    question = Question(id="q", text="?", answer=answer, aliases=aliases, evidence=tuple(turn.id for turn in gold))
    context = Context(request="r", claims=claims, dropped=dropped)
    prediction = dspy.Prediction(answer=Answer(text="x"), context=context)
    return make_metric(name, [question], STORE, **settings)(dspy.Example(id="q"), prediction)


@pytest.mark.parametrize(
    ("cited", "gold", "fitting", "recall"),
    [
        ([ASKS, COSTS], [COSTS], [ASKS, COSTS], 1.0),
        ([ASKS, COSTS], [COSTS], [ASKS], 0.0),  # cited, but behind the budget
        ([COSTS, ASKS], [COSTS, INN], [COSTS], 1 / 2),
        ([ASKS, COSTS, INN], [ASKS, COSTS, INN], [ASKS, COSTS], 2 / 3),
        ([ASKS], [COSTS], [ASKS], 0.0),
        ([], [COSTS], [], 0.0),
    ],
)
def test_evidence_within_a_budget(cited, gold, fitting, recall):
    found = score("evidence_at_budget", *cited, gold=gold, tokens=sum(COST[turn.id] for turn in fitting))
    share = len(fitting) / len(cited) if cited else 0.0
    assert found.parts == pytest.approx({"recall": recall, "fitting": share}) and found.value == pytest.approx(recall)


def test_one_token_too_few_ends_the_context():
    assert score("evidence_at_budget", COSTS, gold=[COSTS], tokens=COST[COSTS.id]).value == 1.0
    assert score("evidence_at_budget", COSTS, gold=[COSTS], tokens=COST[COSTS.id] - 1).value == 0.0


def test_a_turn_that_does_not_fit_ends_the_context_for_shorter_ones_too():
    assert COST[LATER.id] < COST[COSTS.id]
    assert score("evidence_at_budget", COSTS, LATER, gold=[LATER], tokens=COST[LATER.id]).value == 0.0


def test_a_turn_costs_all_of_it_whatever_was_quoted():
    part = claim(COSTS, quote="It", spans=(Span.of(COSTS, 0, 2),))
    assert score("evidence_at_budget", part, gold=[COSTS], tokens=COST[COSTS.id] - 1).value == 0.0


def test_the_reason_tells_late_from_missing_evidence():
    why = score("evidence_at_budget", ASKS, COSTS, gold=[COSTS, INN], tokens=COST[ASKS.id]).why
    assert "1 of 2 turns fit into" in why and "0 of 2 gold turns" in why
    assert "cited too late: one 'It costs $1,233.50 a night.'" in why and "not cited: one 'Then the Zoë Inn" in why


@pytest.mark.parametrize(
    ("cited", "gold", "near", "exact"),
    [
        ([COSTS], [ASKS], 1.0, 0.0),
        ([COSTS], [COSTS], 1.0, 1.0),
        ([INN], [ASKS], 0.0, 0.0),  # two away
        ([LATER], [BOOKED], 0.0, 0.0),  # the next turn, in another session
        ([COSTS], [ASKS, COSTS, INN], 3 / 3, 1 / 3),
        ([COSTS], [ASKS, BOOKED], 1 / 2, 0.0),
        ([], [ASKS], 0.0, 0.0),
    ],
)
def test_a_neighbour_counts_for_a_gold_turn(cited, gold, near, exact):
    found = score("evidence_near", *cited, gold=gold)
    assert found.parts == pytest.approx({"recall": near, "exact": exact}) and found.value == pytest.approx(near)


@pytest.mark.parametrize(("distance", "value"), [(0, 0.0), (1, 0.0), (2, 1.0)])
def test_how_far_a_neighbour_may_stand_is_set(distance, value):
    assert score("evidence_near", INN, gold=[ASKS], distance=distance).value == value


def test_gold_that_is_not_in_the_store_is_missed_and_no_crash():
    lost = COSTS.model_copy(update={"id": "nowhere"})
    assert score("evidence_near", COSTS, gold=[lost]).value == 0.0
    assert score("evidence_at_budget", COSTS, gold=[lost]).value == 0.0
    assert "missed: nowhere" in score("evidence_recall", COSTS, gold=[lost]).why


@pytest.mark.parametrize(
    ("cited", "answer", "aliases", "value"),
    [
        ([ASKS, COSTS], "$1233.50", (), 1.0),
        ([COSTS], "the night", (), 1.0),  # articles do not count
        ([COSTS], "$1", (), 0.0),  # no part of a figure
        ([COSTS], "1,233", (), 0.0),
        ([INN], "ZOE\u0308 inn", (), 1.0),  # another way to write one letter
        ([INN], "Inn Zoë", (), 0.0),
        ([BOOKED], "2023-05-07", ("May 7, 2023",), 1.0),
        ([ASKS], "$1233.50", (), 0.0),
        ([COSTS, INN], "night then", (), 0.0),  # not across turns
        ([], "ten", (), 0.0),
        ([LATER], "ten", (), 1.0),
        ([LATER], "often", (), 0.0),
    ],
)
def test_where_the_answer_stands(cited, answer, aliases, value):
    found = score("answer_in_context", *cited, answer=answer, aliases=aliases)
    assert found.value == value and found.parts == {"found": value}
    assert ("stands in one" in found.why or "stands in two" in found.why) == bool(value)


@pytest.mark.parametrize("answer", ["", "not mentioned"])
def test_an_answer_that_is_nowhere_is_not_rated(answer):
    found = score("answer_in_context", COSTS, answer=answer)
    assert found.parts == {"found": 0.0, "skipped": 1.0} and "not rated" in found.why


@pytest.mark.parametrize("name", ["evidence_at_budget", "evidence_near"])
def test_a_question_without_evidence_is_not_rated(name):
    found = score(name, COSTS)
    assert found.value == 0.0 and found.parts["skipped"] == 1.0 and "names no evidence" in found.why


FORGED = claim(COSTS, quote="It is free.")
BARE = claim(COSTS, spans=())


@pytest.mark.parametrize(
    ("claims", "dropped", "value"),
    [
        ([COSTS, INN], 0, 1.0),
        ([COSTS, BARE], 0, 1 / 2),
        ([COSTS, FORGED, BARE], 0, 1 / 3),
        ([COSTS], 3, 1 / (1 + 3)),
        ([FORGED], 0, 0.0),
        ([], 2, 0.0),
        ([], 0, 0.0),
    ],
)
def test_span_support(claims, dropped, value):
    found = score("span_support", *claims, dropped=dropped)
    assert found.value == pytest.approx(value) and found.parts == pytest.approx({"support": value})
    assert ("were dropped" in found.why) == bool(dropped)


def test_span_support_of_an_answer_alone():
    metric = make_metric("span_support", [Question(id="q", text="?", answer="x")], STORE)
    prediction = dspy.Prediction(answer=Answer(text="x", claims=(claim(COSTS), BARE)))
    assert metric(dspy.Example(id="q"), prediction).value == 1 / 2


def test_missed_and_needless_evidence_is_shown():
    assert "missed: one 'Then the Zoë Inn, please.'" in score("evidence_recall", COSTS, gold=[COSTS, INN]).why
    assert "not gold: one 'It costs" in score("evidence_precision", COSTS, INN, gold=[INN]).why


def test_settings_of_evidence_metrics_are_described():
    assert make_metric("evidence_at_budget", [], STORE, tokens=99).describe()["tokens"] == 99
    assert make_metric("evidence_near", [], STORE, distance=2).describe()["distance"] == 2


TURNS = st.lists(st.sampled_from(STORE.turns), max_size=6)


@seeded
@given(cited=TURNS, gold=TURNS.filter(bool), tokens=st.integers(0, 80))
def test_recall_grows_with_the_budget_and_with_tolerance(cited, gold, tokens):
    recall = score("evidence_recall", *cited, gold=gold).value
    assert score("evidence_at_budget", *cited, gold=gold, tokens=tokens).value <= recall
    assert score("evidence_at_budget", *cited, gold=gold, tokens=10**6).value == recall
    assert score("evidence_near", *cited, gold=gold).value >= recall
    assert score("evidence_near", *cited, gold=gold, distance=0).value == recall


@seeded
@given(name=st.sampled_from(sorted(set(METRICS) - {"choice", "end"})), cited=TURNS, gold=TURNS)
def test_every_value_lies_between_0_and_1(name, cited, gold):
    with dspy.context(lm=scripted_lm({"judge_answer": {"missing": "", "verdict": "CORRECT"}})):
        found = score(name, *cited, gold=gold)
    assert all(0 <= value <= 1 for value in (found.value, *found.parts.values())) and found.why
