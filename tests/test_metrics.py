"""Metrics: hand-checked values, what counts as forged, the three faces, and where gold is kept."""

from typing import Any

import dspy
import pytest

from stitchjam.data.errors import UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.records import Answer, Claim, Context, History, Question, Round, Span
from stitchjam.data.store import Store
from stitchjam.optimizers.metrics import (
    AnswerF1,
    EndMetric,
    EvidencePrecision,
    EvidenceRecall,
    Metric,
    answer_f1,
    check_fit,
    make_metric,
)

ROWS = [
    {"speaker": "Ana", "text": "The ferry leaves at nine.", "external_id": "a1"},
    {"speaker": "Ben", "text": "I like the blue door.", "external_id": "a2"},
]
STORE = Store.of(
    History(
        id="h",
        sessions=(
            build_session("one", "2026-01-02", ROWS),
            build_session("two", "2026-01-03", [{"speaker": "Ana", "text": "Now it leaves at ten."}]),
        ),
    )
)
FERRY, DOOR, LATER = STORE.turns
GOLD = Question(id="q", text="When does the ferry leave?", answer="at ten", aliases=("10:00",), evidence=(LATER.id,))
EXAMPLE = dspy.Example(id="q", question=GOLD.text).with_inputs("question")


def claim(*turns, text: str = "it says so") -> Claim:
    return Claim(text=text, quote=" ".join(t.text for t in turns), speaker="Ana", spans=tuple(map(Span.of, turns)))


def predicted(text: str = "at ten", *turns, context: Context | None = None, abstained: bool = False):
    answer = Answer(text=text, claims=tuple(claim(turn) for turn in turns), abstained=abstained)
    return dspy.Prediction(answer=answer) if context is None else dspy.Prediction(answer=answer, context=context)


def researched(*turns, browsed=("one", "two"), **more: Any) -> Context:
    return Context(request="r", claims=tuple(map(claim, turns)), browsed=browsed, stop="sufficient", **more)


def f1(text: str, answer: str = "at ten", aliases: tuple[str, ...] = (), abstained: bool = False) -> float:
    gold = Question(id="q", text="?", answer=answer, aliases=aliases)
    return answer_f1(Answer(text=text, abstained=abstained), gold)


@pytest.mark.parametrize(
    ("text", "answer", "value"),
    [
        ("The Blue Door!", "blue door", 1.0),
        ("blue", "blue door", 2 / 3),
        ("blue blue", "blue door", 0.5),
        ("blue blue door", "blue blue", 0.8),
        ("red", "blue", 0.0),
        ("", "blue", 0.0),
        ("the", "a", 0.0),
    ],
)
def test_answer_f1_by_hand(text, answer, value):
    assert f1(text, answer) == pytest.approx(value)


def test_the_best_of_answer_and_aliases_counts():
    assert f1("10:00", "at ten", ("10:00",)) == 1.0


def test_an_abstention_is_wrong_when_there_is_an_answer():
    assert f1("not mentioned", "not mentioned here", abstained=True) == 0.0


@pytest.mark.parametrize("answer", ["", "not mentioned", "Not mentioned."])
def test_an_abstention_is_right_when_the_gold_has_no_answer(answer):
    assert f1("not mentioned", answer, abstained=True) == 1.0


def test_answer_metric_says_why_and_gives_parts():
    score = AnswerF1([GOLD], STORE)(EXAMPLE, predicted("ten"))
    assert score.value == pytest.approx(2 / 3) and score.parts == {"f1": score.value, "exact": 0.0}
    assert "'ten'" in score.why and "'at ten'" in score.why


def two_of_one_session() -> Question:
    return GOLD.model_copy(update={"evidence": (FERRY.id, DOOR.id)})


@pytest.mark.parametrize(
    ("cited", "level", "recall", "precision"),
    [
        ((FERRY, LATER), "turn", 1 / 2, 1 / 2),
        ((FERRY, LATER), "session", 1.0, 1 / 2),
        ((FERRY,), "turn", 1 / 2, 1.0),
        ((FERRY,), "session", 1.0, 1.0),
        ((FERRY, DOOR), "turn", 1.0, 1.0),
        ((FERRY, DOOR, LATER), "turn", 1.0, 2 / 3),
        ((FERRY, DOOR, LATER), "session", 1.0, 1 / 2),
        ((LATER,), "turn", 0.0, 0.0),
        ((LATER,), "session", 0.0, 0.0),
        ((), "turn", 0.0, 0.0),
    ],
)
def test_evidence_at_turn_and_session_level(cited, level, recall, precision):
    prediction = predicted("x", *cited)
    gold = [two_of_one_session()]
    assert EvidenceRecall(gold, STORE, level=level)(EXAMPLE, prediction).value == recall
    assert EvidencePrecision(gold, STORE, level=level)(EXAMPLE, prediction).value == precision


def test_evidence_of_nothing_cited_is_zero():
    assert EvidenceRecall([GOLD], STORE)(EXAMPLE, predicted()).value == 0.0
    assert EvidencePrecision([GOLD], STORE)(EXAMPLE, predicted()).value == 0.0


def test_evidence_of_a_context_goes_before_that_of_the_answer():
    prediction = predicted("at ten", FERRY, context=researched(LATER))
    assert EvidenceRecall([GOLD], STORE)(EXAMPLE, prediction).value == 1.0


@pytest.mark.parametrize("level", ["turn", "session"])
def test_an_invented_turn_id_counts_as_wrong_and_is_no_crash(level):
    span = Span.of(LATER).model_copy(update={"turn_id": "nowhere"})
    context = researched(LATER).model_copy(update={"claims": (claim(LATER).model_copy(update={"spans": (span,)}),)})
    prediction = predicted("at ten", context=context)
    assert EvidencePrecision([GOLD], STORE, level=level)(EXAMPLE, prediction).value == 0.0


def end(prediction, gold: Question = GOLD, **settings: Any):
    return EndMetric([gold], STORE, **settings)(EXAMPLE, prediction)


def rounds(number: int) -> tuple[Round, ...]:
    return (Round(actions=(), observations=(), missing=()),) * number


def test_end_metric_of_a_perfect_run_without_rounds_is_one():
    assert end(predicted("at ten", LATER, context=researched(LATER))).value == pytest.approx(1.0)


def test_end_metric_weighs_its_parts():
    context = researched(LATER, FERRY, dropped=2, rounds=rounds(2))
    score = end(predicted("ten", LATER, FERRY, context=context), rounds=4)
    assert score.parts == pytest.approx({"answer": 2 / 3, "sources": 2 / 3, "support": 0.5, "saved": 0.5})
    assert score.value == pytest.approx(0.45 * 2 / 3 + 0.35 * 2 / 3 + 0.15 * 0.5 + 0.05 * 0.5)


def test_the_weights_sum_to_one():
    assert sum(EndMetric.weights.values()) == pytest.approx(1.0)


def test_more_rounds_than_the_budget_save_nothing():
    assert end(predicted(context=researched(LATER, rounds=rounds(9)))).parts["saved"] == 0.0


def forge(change: dict[str, Any]) -> Context:
    span = Span.of(LATER).model_copy(update=change)
    return researched(LATER).model_copy(update={"claims": (claim(LATER).model_copy(update={"spans": (span,)}),)})


@pytest.mark.parametrize(
    "change", [{"sha256": "0" * 64}, {"start": 1}, {"session_id": "one"}, {"turn_id": "nowhere"}, {"end": 999}]
)
def test_a_forged_span_makes_everything_zero(change):
    score = end(predicted("at ten", LATER, context=forge(change)))
    assert score.value == 0.0 and not any(score.parts.values()) and "forged" in score.why


def test_a_forged_span_in_the_answer_alone_makes_everything_zero():
    lie = claim(LATER).model_copy(update={"spans": (Span.of(LATER).model_copy(update={"start": 3}),)})
    prediction = dspy.Prediction(answer=Answer(text="at ten", claims=(lie,)), context=researched(LATER))
    assert end(prediction).value == 0.0


def test_a_quote_that_is_not_in_the_span_makes_everything_zero():
    lie = claim(LATER).model_copy(update={"quote": "It leaves at noon."})
    context = researched(LATER).model_copy(update={"claims": (lie,)})
    assert end(predicted("at ten", context=context)).value == 0.0


def test_a_cited_session_that_was_never_opened_makes_everything_zero():
    score = end(predicted("at ten", LATER, context=researched(LATER, browsed=("one",))))
    assert score.value == 0.0 and "'two'" in score.why


def test_one_shot_recall_opens_no_session_and_is_not_forged():
    context = Context(request="r", claims=(claim(LATER),), stop="one_shot")
    assert end(predicted("at ten", LATER, context=context)).value == pytest.approx(1.0)


def test_unsupported_claims_lower_support():
    bare = Claim(text="made up", quote="", speaker="", spans=())
    context = researched(LATER).model_copy(update={"claims": (claim(LATER), bare)})
    assert end(predicted("at ten", LATER, context=context)).parts["support"] == 0.5


def test_a_right_abstention_needs_no_source():
    unanswerable = GOLD.model_copy(update={"answer": "", "aliases": (), "evidence": ()})
    score = end(predicted("not mentioned", context=researched(), abstained=True), unanswerable)
    assert (score.parts["answer"], score.parts["sources"]) == (1.0, 1.0)


def test_sessions_that_were_missed_are_named():
    assert "never opened two" in end(predicted("x", context=researched(browsed=()))).why


def test_the_three_faces():
    metric = AnswerF1([GOLD], STORE, threshold=0.7)
    assert metric.as_float(EXAMPLE, predicted("ten")) == pytest.approx(2 / 3)
    assert metric.as_bool(EXAMPLE, predicted("at ten"), []) is True
    told = metric.as_feedback(EXAMPLE, predicted("ten"), None, "answer_question", None)
    assert isinstance(told, dspy.Prediction) and told.score == pytest.approx(2 / 3) and "expected" in told.feedback


class Tiny(Metric):
    name = "tiny"

    def score(self, gold, prediction):
        from stitchjam.optimizers.metrics import Score

        return Score(0.01, "a little")


def test_a_score_of_one_hundredth_is_no_success():
    assert Tiny([GOLD], STORE).as_bool(EXAMPLE, predicted()) is False
    assert Tiny([GOLD], STORE, threshold=0.01).as_bool(EXAMPLE, predicted()) is True


@pytest.mark.parametrize(
    ("name", "question", "reason"),
    [
        ("answer_f1", {"answer": ""}, ""),
        ("evidence_recall", {"evidence": ()}, "names no gold turn"),
        ("evidence_precision", {"evidence": ()}, "names no gold turn"),
        ("evidence_recall", {}, ""),
        ("evidence_at_budget", {}, ""),
        ("evidence_at_budget", {"evidence": ()}, "names no evidence"),
        ("evidence_near", {"evidence": ()}, "names no evidence"),
        ("answer_in_context", {"answer": ""}, "no answer"),
        ("answer_in_context", {}, ""),
        ("locomo_gam", {"kind": "5"}, "category 5"),
        ("locomo_gam", {"kind": "4"}, ""),
    ],
)
def test_a_metric_says_without_an_answer_which_questions_it_does_not_rate(name, question, reason):
    gold = GOLD.model_copy(update=question)
    metric = make_metric(name, [gold], STORE)
    assert reason in metric.unrated(gold) and bool(metric.unrated(gold)) == bool(reason)
    assert ("skipped" in metric(EXAMPLE, predicted(context=researched())).parts) == bool(reason)


@pytest.mark.parametrize("example", [dspy.Example(question="x"), dspy.Example(id="other", question="x")])
def test_an_example_without_known_id_is_a_usage_error(example):
    with pytest.raises(UsageError, match="no gold for example id"):
        AnswerF1([GOLD], STORE)(example, predicted())


def test_an_unknown_metric_names_the_known_ones():
    with pytest.raises(UsageError, match="unknown metric .f2.; known: .*answer_f1, .*end, evidence_at_budget"):
        make_metric("f2", [GOLD], STORE)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("answer_f1", {"answerer", "memory_agent"}),
        ("end", {"memory_agent"}),
        ("evidence_recall", {"answerer", "researcher", "memory_agent"}),
        ("evidence_precision", {"answerer", "researcher", "memory_agent"}),
    ],
)
def test_a_metric_fits_the_programs_that_give_what_it_reads(name, fits):
    metric = make_metric(name, [GOLD], STORE)
    for program in ("answerer", "researcher", "memory_agent"):
        if program in fits:
            check_fit(metric, program)
        else:
            with pytest.raises(UsageError, match="cannot score"):
                check_fit(metric, program)


def test_settings_are_described():
    assert EvidenceRecall([GOLD], STORE, level="session").describe()["level"] == "session"
    assert EndMetric([GOLD], STORE, rounds=3).describe()["rounds"] == 3
