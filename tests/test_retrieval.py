"""Figures of search are what they say they are, and weights are never chosen on what they are scored on."""

import pytest

from stitchjam.data.cases import Case
from stitchjam.data.errors import UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.index.ranking import Weights
from stitchjam.data.records import History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers import retrieval
from stitchjam.optimizers.retrieval import evaluate_search, search_tables

TALK = ["The ferry leaves at nine.", "I like the blue door.", "Tomatoes are ripe.", "The ferry was late today."]


def case(name, gold=(0,), question="When does the ferry leave?", kind="time"):
    rows = [{"speaker": "Ann", "text": text} for text in TALK]
    history = History(id=name, sessions=(build_session(name, "", rows[:2]), build_session(f"{name}2", "", rows[2:])))
    evidence = tuple(history.turns[at].id for at in gold)
    return Case(
        name, Store.of(history, "none"), (Question(id="q", text=question, answer="", evidence=evidence, kind=kind),)
    )


def quiet(what, done, total):
    pass


def test_recall_is_the_share_of_gold_turns_and_sessions_among_the_first_k():
    found = evaluate_search([case("a", gold=(0, 2))], False, quiet).together
    assert found.turns == {5: 1.0, 10: 1.0, 20: 1.0} and found.sessions[1] == 0.5 and found.sessions[3] == 1.0
    missed = evaluate_search([case("a", question="Tomatoes?", gold=(0,))], False, quiet).together
    assert missed.turns[10] == 0.0 and missed.kinds == {"time": missed.turns}


def test_figures_are_means_over_questions_and_kept_by_history():
    report = evaluate_search([case("a"), case("b", question="Tomatoes?")], False, quiet)
    assert [row.turns[10] for row in report.histories] == [1.0, 0.0] and report.together.turns[10] == 0.5
    assert report.encoder == "none" and report.weights == vars(Weights()) and report.chosen is None


def test_questions_without_evidence_are_left_out_and_counted():
    bare = case("a")._replace(questions=(*case("a").questions, Question(id="x", text="?", answer="")))
    assert evaluate_search([bare], False, quiet).without_evidence == 1
    with pytest.raises(UsageError, match="no question names evidence"):
        evaluate_search([bare._replace(questions=bare.questions[1:])], False, quiet)


def test_weights_are_chosen_on_the_other_histories(monkeypatch):
    good, bad = Weights(lexical=0.9), Weights(lexical=0.1)
    monkeypatch.setattr(retrieval, "_CHOICES", (good, bad))
    real = retrieval._search

    def search(case, weights):
        # On the first history the one is better, on the others the other.
        right = (weights == good) == (case.name == "a")
        return [row.model_copy(update={"turns": dict.fromkeys(row.turns, float(right))}) for row in real(case, weights)]

    monkeypatch.setattr(retrieval, "_search", search)
    report = evaluate_search([case("a"), case("b"), case("c")], True, quiet)
    assert report.chosen_weights["a"]["lexical"] == 0.1  # what b and c say, although it is wrong for a
    assert report.chosen is not None and report.chosen.turns[10] < 1
    with pytest.raises(UsageError, match="only one"):
        evaluate_search([case("a")], True, quiet)


def test_tables_show_every_history_and_type():
    report = evaluate_search([case("a"), case("b", kind="place")], False, quiet)
    heads = [column.header for column in search_tables(report)[1].columns]
    assert heads[:5] == ["history", "questions", "R@5", "R@10", "R@20"]
    assert [list(column.cells) for column in search_tables(report)[2].columns][0] == ["place", "time"]
