"""Systems that programs are compared with: each answers a question about a store, and sees what it should see."""

from typing import Any

import dspy
import pytest

from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.index.ranking import BM25
from stitchjam.data.records import NOT_MENTIONED, History
from stitchjam.data.store import Store
from stitchjam.programs.answer import OneShot
from stitchjam.programs.jam.memo_recall import MemoAgent
from stitchjam.programs.systems import SYSTEMS, ClosedBook, FullContext, open_system

ANSWER = {"sources": ["c1"], "answer": "red"}


@pytest.fixture
def store():
    texts = [f"Number {at} is about boats." for at in range(30)] + ["The kite is red.", "It flew far."]
    rows = [{"speaker": "Ann", "text": text} for text in texts]
    return Store.of(History(id="h", sessions=(build_session("s", "2026-03-01", rows),)))


def ask(system, store, **steps):
    lm: Any = scripted_lm(steps)
    with dspy.context(lm=lm):
        return system(question="What colour is the kite?", store=store), lm.engine.calls


def test_closed_book_sees_nothing_of_the_store(store):
    found, [call] = ask(ClosedBook(), store, answer_from_knowledge={"answer": "red"})
    assert found.answer.text == "red" and found.context.claims == () and "boats" not in call.prompt
    assert "kite is red" not in call.prompt


@pytest.mark.parametrize("reply", ["not mentioned", "Unknown.", "none"])
def test_closed_book_may_abstain(store, reply):
    found, _ = ask(ClosedBook(), store, answer_from_knowledge={"answer": reply})
    assert found.answer.abstained and found.answer.text == NOT_MENTIONED


def test_full_context_sees_all_in_time_order(store):
    found, [call] = ask(FullContext(), store, answer_question=ANSWER)
    assert call.prompt.index("Number 0 ") < call.prompt.index("Number 29 ") < call.prompt.index("It flew far.")
    assert len(found.context.claims) == 32 and found.note == ""


def test_full_context_that_is_too_long_shows_the_newest_and_says_so(store):
    found, [call] = ask(FullContext(tokens=100), store, answer_question=ANSWER)
    shown = len(found.context.claims)
    assert found.note == f"the newest {shown} of 32 turns" and 2 < shown < 32
    assert "It flew far." in call.prompt and "Number 0 " not in call.prompt
    assert call.prompt.count("Ann: ") == shown


def test_bm25_finds_the_words_and_hybrid_what_is_beside_them_too(store):
    for ranking in ("bm25", "hybrid"):
        found, _ = ask(OneShot(k=1, ranking=ranking), store, answer_question=ANSWER)
        assert [claim.quote for claim in found.context.claims] == ["The kite is red."]
    with pytest.raises(UsageError, match="choose hybrid or bm25"):
        OneShot(ranking="dense")  # type: ignore[arg-type]


def test_bm25_looks_at_a_turn_s_own_words_alone():
    rows = [{"speaker": "Ann", "text": text} for text in ("The kite flew.", "Far away it went.", "Boats stay here.")]
    store = Store.of(History(id="h", sessions=(build_session("s", "", rows),)))
    assert len(store.search("kite", 3)) > 1  # a turn beside one with the word counts as well
    assert [hit.turn.text for hit in store.search("kite", 3, weights=BM25)] == ["The kite flew."]


def test_systems_are_opened_by_name():
    assert [type(open_system(name)).__name__ for name in SYSTEMS] == [
        "ClosedBook",
        "FullContext",
        "OneShot",
        "OneShot",
        "MemoAgent",
        *["MemoryAgent"] * 5,
        "StitchAgent",
        "ReleasedAgent",
        *["StitchAgent"] * 4,
    ]
    with pytest.raises(UsageError, match="unknown system 'oracle'; choose one of: closed_book, full_context"):
        open_system("oracle")


@pytest.mark.parametrize("system", [ClosedBook(), FullContext(tokens=77), OneShot(k=3, ranking="bm25"), MemoAgent(k=4)])
def test_a_system_can_be_built_again_from_its_hyperparameters(system):
    assert type(system).build(system.hparams()).hparams() == system.hparams()
