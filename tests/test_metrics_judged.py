"""Metrics that ask a judge: by hand, what is settled without one, by which rule it is asked, and which judge it was."""

import json
from typing import Any

import dspy
import pytest
from jobs import make_job, oracle_lm, small_data
from made_benchmarks import instance
from oracle import field

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.benchmarks import BENCHMARKS, open_benchmark
from stitchjam.data.errors import ModelError
from stitchjam.data.records import Answer, History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.compile import fingerprint
from stitchjam.optimizers.metrics import CameF1, Judged, Score, make_metric
from stitchjam.optimizers.recipes.bootstrap import Bootstrap
from stitchjam.programs.contract import identity, predictors_of, signed_name
from stitchjam.programs.judge import RULES, AnswerJudge, CandidateJudge
from stitchjam.programs.step import settings_for
from stitchjam.signatures.judge import JudgeAnswer

STORE = Store.of(History(id="h", sessions=()))
LIKES = "single-session-preference"
REASON = "You did not say which ferry."  # LongMemEval's explanation of why there is no answer


class Case:
    """A question, an answer, what the judge would say, and the score: `asked` is 0 where it must not be called."""

    def __init__(self, text: str, gold: str, value: int, asked: int, **more: Any):
        self.text, self.gold, self.value, self.asked = text, gold, value, asked
        self.aliases, self.kind = more.get("aliases", ()), more.get("kind", "")
        self.abstained, self.says = more.get("abstained", False), more.get("says", "CORRECT")

    def __repr__(self) -> str:
        return f"{self.text[:20]}-{self.gold[:20]}-{self.kind}"

    def score(self, name: str) -> tuple[Score, list[Any]]:
        gold = Question(id="q", text="When?", answer=self.gold, aliases=self.aliases, kind=self.kind)
        lm: Any = scripted_lm({"judge_answer": {"missing": "the hour", "verdict": self.says}})
        with dspy.context(lm=lm):
            answer = Answer(text=self.text, abstained=self.abstained)
            return make_metric(name, [gold], STORE)(dspy.Example(id="q"), dspy.Prediction(answer=answer)), [
                field(call.prompt, "rule") for call in lm.engine.calls
            ]


SHARED = [
    Case("not mentioned", "not mentioned", 1, 0, abstained=True, says="WRONG", aliases=(REASON,)),
    Case("Not mentioned.", "", 1, 0, says="WRONG"),
    Case("not mentioned", "ten", 0, 0, abstained=True),
    Case("", "ten", 0, 0),
    Case(" ... ", "not mentioned", 0, 0),
    Case("The Blue Door!", "blue door", 1, 0, says="WRONG"),
    Case("1,233", "1233", 1, 0, says="WRONG"),
    Case("10:00", "at ten", 1, 0, aliases=("10:00",), says="WRONG"),
    Case("around ten", "ten", 1, 1),
    Case("around nine", "ten", 0, 1, says="WRONG"),
    Case("3.40", "3", 0, 1, says="WRONG"),
]
RULED = [
    Case("19 days", "18 days", 1, 1, kind="temporal-reasoning"),
    Case("first 27, now 25 minutes", "25 minutes", 1, 1, kind="knowledge-update"),
    Case("a quiet inn", "they would prefer quiet inns by the sea", 1, 1, kind=LIKES),
    Case("You never said which.", "not mentioned", 1, 1, aliases=(REASON,), kind="abstention"),
    Case("at ten", "not mentioned", 0, 1, aliases=(REASON,), kind="abstention", says="WRONG"),
    Case("Ana", "Ben", 0, 1, kind="multi-session", says="WRONG"),
]


@pytest.mark.parametrize("case", SHARED, ids=repr)
@pytest.mark.parametrize("name", ["judged", "longmemeval"])
def test_both_metrics_by_hand(name, case):
    score, asked = case.score(name)
    assert score.value == case.value and score.parts == {"correct": case.value, "asked_judge": case.asked}
    assert len(asked) == case.asked and ("judged" in score.why) == bool(case.asked)


@pytest.mark.parametrize("case", RULED, ids=repr)
def test_longmemeval_asks_by_the_rule_of_the_type(case):
    score, asked = case.score("longmemeval")
    assert score.value == case.value and asked == [RULES.get(case.kind, RULES[""])]


@pytest.mark.parametrize("case", [one for one in RULED if one.kind != "abstention"], ids=repr)
def test_judged_has_one_rule_for_all_types(case):
    assert case.score("judged")[1] == [RULES[""]]


def test_judged_takes_no_answer_where_there_is_none_and_asks_nobody():
    case = Case("at ten", "not mentioned", 0, 0, aliases=(REASON,))
    assert case.score("judged")[0].parts == {"correct": 0.0, "asked_judge": 0.0} and case.score("judged")[1] == []


def test_the_reason_holds_the_verdict_and_what_is_missing():
    score, _ = Case("nine", "ten", 0, 1, says="WRONG").score("judged")
    assert score.why == "answered 'nine', expected 'ten'; judged WRONG, missing: the hour"


def test_all_accepted_answers_are_shown_to_the_judge():
    lm: Any = scripted_lm({"judge_answer": {"missing": "", "verdict": "yes"}})
    gold = Question(id="q", text="When?", answer="at ten", aliases=("10:00",))
    with dspy.context(lm=lm, trace=[]):
        Judged([gold], STORE)(dspy.Example(id="q"), dspy.Prediction(answer=Answer(text="tennish")))
        assert dspy.settings.trace == []  # an optimizer would take the judge's calls for the program's
    assert field(lm.engine.calls[0].prompt, "reference") == "at ten; or: 10:00"


def test_questions_of_the_benchmark_are_judged_by_their_types(tmp_path):
    rows = [instance("q1", question_type=LIKES), instance("q2_abs", answer=REASON, question_type="temporal-reasoning")]
    (tmp_path / "l.json").write_text(json.dumps(rows), encoding="utf-8")
    [loaded] = open_benchmark("longmemeval", tmp_path / "l.json")
    lm: Any = scripted_lm({"judge_answer": {"missing": "", "verdict": "CORRECT"}})
    metric = make_metric(BENCHMARKS["longmemeval"].metric, loaded.questions, Store.of(loaded.history))
    with dspy.context(lm=lm):
        for one in loaded.questions:
            metric(dspy.Example(id=one.id), dspy.Prediction(answer=Answer(text="some ferry")))
    shown = [(field(call.prompt, "rule"), field(call.prompt, "reference")) for call in lm.engine.calls]
    assert shown == [(RULES[LIKES], "red"), (RULES["abstention"], REASON)]


def test_a_judge_that_cannot_judge_is_a_model_error():
    with pytest.raises(ModelError, match="judge_answer"):
        Case("nine", "ten", 0, 1, says="perhaps").score("judged")


def came(reply: Any) -> Score:
    gold = Question(id="q", text="Which?", answer="AIC (2023); CFR (2024)", kind="type_3")
    lm: Any = scripted_lm({"match_candidates": reply})
    with dspy.context(lm=lm):
        prediction = dspy.Prediction(answer=Answer(text="AIC (2023); the report of CFR"))
        return CameF1([gold], STORE, judge=CandidateJudge())(dspy.Example(id="q"), prediction)


@pytest.mark.parametrize(("pairs", "value"), [([{"reference": "g1", "answer": "a1"}], 1.0), ([], 0.5)])
def test_the_candidate_judge_sees_what_words_left_over(pairs, value):
    assert came({"pairs": pairs}).value == value


def test_the_judge_is_part_of_the_fingerprint(tmp_path):
    class Stricter(JudgeAnswer):
        """Judge the answer, and be strict."""

    with_demo = AnswerJudge()
    shown = {"rule": "r", "question": "?", "reference": "x", "answer": "y"}
    predictors_of(with_demo)["judge_answer"].demos = [shown | {"reply": {"missing": "", "verdict": "CORRECT"}}]
    judges = [AnswerJudge(), AnswerJudge(Stricter), with_demo]
    assert len({Judged([], STORE, judge=one).describe()["judge"] for one in judges}) == 3
    assert Judged([], STORE).describe() == Judged([], STORE, judge=AnswerJudge()).describe()
    assert CameF1([], STORE, judge=CandidateJudge()).describe()["judge"] == signed_name(CandidateJudge())
    data = small_data(2, 2)
    jobs = [make_job(tmp_path, data, oracle_lm(data), metric="judged", judge=one) for one in judges]
    assert len({job.folder for job in jobs}) == 3
    assert fingerprint(jobs[0]).items() >= identity(jobs[0].program).items()


def test_a_compile_by_a_judge_asks_the_judges_model_and_a_failed_verdict_is_a_bad_example(tmp_path):
    data = small_data(2, 2)
    verdicts = iter([{"missing": "", "verdict": "perhaps"}, {"missing": "", "verdict": "CORRECT"}])
    teacher = oracle_lm(data, answer_question={"sources": ["c1"], "answer": "in other words"})
    judged: Any = scripted_lm({"judge_answer": lambda call: next(verdicts)})
    bindings = Bindings({"task": oracle_lm(data), "teacher": teacher, "judge": judged})
    job = make_job(tmp_path, data, None, metric="judged", bindings=bindings)
    with settings_for(bindings):
        candidate = Bootstrap(2).compile(job.program, job.task, job.metric, bindings)
    assert candidate.sources == {"answer_question": (job.task.train[1].id,)} and len(judged.engine.calls) == 2
