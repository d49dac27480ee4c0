"""A store is looked up, searched and shared; nothing that is asked of it raises anything but what it documents."""

import copy
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stitchjam.data import shelf as shelf_module
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.index.ranking import Index
from stitchjam.data.index.terms import terms
from stitchjam.data.readers import read_questions, write_sessions
from stitchjam.data.records import Filter, History
from stitchjam.data.store import Hit, Store

LOCOMO = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "locomo" / "locomo_dev6.json"

TALKS = {
    "boat": [
        "We bought a sailing boat.",
        "Which colour?",
        "Green, with white sails.",
        "When?",
        "Last Tuesday.",
        "Nice.",
    ],
    "garden": [
        "The tomatoes are ripe.",
        "All of them?",
        "Most. The basil died.",
        "Sad.",
        "I will plant mint.",
        "Good.",
    ],
    "job": [
        "I start at the museum on Monday.",
        "Doing what?",
        "Restoring paintings of boats.",
        "Lovely.",
        "Yes.",
        "Ok.",
    ],
}


def session(name, texts):
    speakers = ("Ann", "Bob")
    return build_session(name, "", [{"speaker": speakers[at % 2], "text": text} for at, text in enumerate(texts)])


def history_of(talks):
    return History(id="h", sessions=tuple(session(name, texts) for name, texts in talks.items()))


def words_of(history):
    """A store that compares words only, so that what it finds can be told from the text."""
    return Store.of(history, encoder="none")


@pytest.fixture(scope="module")
def store():
    return words_of(history_of(TALKS))


def texts(hits):
    return [hit.turn.text for hit in hits]


def test_a_turn_is_found_by_a_form_of_its_words(store):
    assert store.search("planted") == store.search("plant") != ()
    assert {hit.turn.session_id for hit in store.search("tomato basil")} == {"garden"}
    assert store.search("museum painting", k=1)[0].turn.session_id == "job"


def test_a_turn_is_found_by_the_words_beside_it_and_no_further(store):
    assert set(texts(store.search("sailing sails", k=99))) == {*TALKS["boat"][:5]}
    assert set(texts(store.search("basil", k=99))) == {*TALKS["garden"][:5]}


def test_hits_come_best_first_and_equal_ones_in_time_order(store):
    hits = store.search("boat museum tomatoes", k=99)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 for hit in hits) and isinstance(hits[0], Hit)
    twins = words_of(history_of({"a": ["same words here"], "b": ["same words here"], "c": ["same words here"]}))
    assert [hit.turn.session_id for hit in twins.search("words", k=2)] == ["a", "b"]
    assert store.search("boat museum tomatoes", k=3) == hits[:3]


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zyzzyva", "?!", "\ud800", "a", "の"])
def test_a_query_without_known_words_finds_nothing(store, query):
    assert store.search(query) == () and store.search_sessions(query) == ()


@pytest.mark.parametrize("history", [history_of({}), history_of({"s": ["", "the of"]}), history_of({"s": ["boat"]})])
def test_small_histories_work(history):
    small = words_of(history)
    assert len(small.search("boat", k=50)) == len(small.search_sessions("boat", k=50)) == int("boat" in str(history))
    assert (
        small.search("boat", k=0) == small.search("boat", k=-1) == small.search("boat", where=Filter(sessions=())) == ()
    )


def test_filters_act_before_the_best_are_chosen(store):
    hits = store.search("boat", k=2, where=Filter(sessions=["job"], speakers=["ANN"]))
    assert len(hits) == 2 and {(hit.turn.session_id, hit.turn.speaker) for hit in hits} == {("job", "Ann")}
    assert store.search("boat", where=Filter(sessions="job")) == store.search("boat", where=Filter(sessions=["job"]))
    assert store.search("tomatoes", where=Filter(sessions=["job"])) == ()
    with pytest.raises(UsageError, match="no session 'jobs'; .*job"):
        store.search("boat", where=Filter(sessions=["jobs"]))
    with pytest.raises(UsageError, match="no speaker 'Anne'; .*Ann"):
        store.search("boat", where=Filter(speakers=["Anne"]))


def test_neighbours_follow_the_hits_in_time_order_each_once(store):
    alone, wide = store.search("tomatoes ripe boat", k=2), store.search("tomatoes ripe boat", k=2, neighbours=2)
    assert wide[:2] == alone
    added = [store.turns.index(hit.turn) for hit in wide[2:]]
    assert added == sorted(added) and len({hit.turn.id for hit in wide}) == len(wide) > 2
    assert {hit.score for hit in wide[2:]} == {0.0}
    assert {hit.turn.session_id for hit in wide[2:]} == {hit.turn.session_id for hit in alone}


def test_sessions_are_found_with_their_best_turns(store):
    hits = store.search_sessions("paintings of boats in the museum")
    assert hits[0].session.id == "job" and 0 < hits[-1].score <= hits[0].score <= 2
    assert len(hits[0].best) == 2 and set(hits[0].best) <= set(hits[0].session.turns)
    assert [hit.session.id for hit in store.search_sessions("boats", exclude=["job", "unknown"])] == ["boat"]
    assert len(store.search_sessions("boats tomatoes", k=1)) == 1


def test_turns_and_sessions_are_looked_up_by_id(store):
    turn = store.turns[4]
    assert store.turn(turn.id) == turn and store.session("job") == store.sessions[2]
    with pytest.raises(UsageError, match=turn.id):
        store.turn(turn.id[:-2])
    with pytest.raises(UsageError, match="no session 'gardens'; .*garden"):
        store.session("gardens")
    with pytest.raises(UsageError, match="nothing like it"):
        words_of(history_of({})).turn("t1")


def test_copies_are_the_store_itself_and_a_pickle_holds_the_history_alone(store):
    assert copy.copy(store) is store and copy.deepcopy({"store": store})["store"] is store
    hits = store.search("boat")
    again = pickle.loads(pickle.dumps(store))
    assert again.name == store.name and again.search("boat") == hits
    assert len(pickle.dumps(store)) == len(pickle.dumps(words_of(history_of(TALKS))))


def test_the_name_tells_histories_apart_and_is_the_repr(store):
    assert repr(store) == store.name == words_of(history_of(TALKS)).name
    assert len(store.name) == len("store:ab12") and int(store.name[6:], 16) >= 0
    assert words_of(history_of({"boat": TALKS["boat"]})).name != store.name


def test_the_index_is_built_once_by_many_threads(monkeypatch):
    built = []
    monkeypatch.setattr(shelf_module, "Index", lambda *args: built.append(1) or Index(*args))
    fresh = words_of(history_of(TALKS))
    assert built == []
    queries = ["boat", "tomatoes", "museum painting"] * 40
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(fresh.search, queries))
    assert built == [1] and found == [fresh.search(query) for query in queries]


def test_an_id_that_stands_twice_is_a_data_error():
    one = session("a", ["x"])
    with pytest.raises(DataError, match="twice"):
        Store.of(History(id="h", sessions=(one, one)))


def test_a_store_is_read_from_a_file(store, tmp_path):
    write_sessions(tmp_path / "h.sessions.jsonl", store.history)
    assert Store.from_file(tmp_path / "h.sessions.jsonl").name == store.name


def test_terms_are_stems_without_stop_words_and_pairs_of_unspaced_signs():
    assert terms("The boats WERE sailing") == ["boat", "sail"]
    assert terms("東京タワー") == ["東京", "京タ", "タワ", "ワー"] and terms("犬") == ["犬"]
    chinese = words_of(history_of({"s": ["我昨天去了北京大学", "今天下雨"]}))
    assert texts(chinese.search("北京", k=1)) == ["我昨天去了北京大学"]


def test_scores_have_one_entry_a_turn_or_session_and_none_outside_the_mask(store):
    entries = [shelf_module.entry(turn, at) for one in store.sessions for at, turn in enumerate(one.turns)]
    index = Index().extended(entries)
    assert index.score("boat").turns.shape == (18,) and index.score("boat").sessions.shape == (3,)
    mask = np.zeros(18, dtype=bool)
    mask[14] = True
    assert np.flatnonzero(index.score("boat", mask).turns).tolist() == [14]
    assert logging.getLogger("bm25s").level == logging.WARNING


@pytest.mark.skipif(not LOCOMO.is_file(), reason="the LoCoMo conversations are not on this machine")
def test_recall_on_a_real_conversation_is_what_was_measured(tmp_path):
    from locomo_to_sessions import convert

    sessions, questions, dropped = convert(LOCOMO, tmp_path)
    real = Store.from_file(sessions)
    rows = [row for row in read_questions(questions, real.history) if row.evidence]
    found = [{hit.turn.id for hit in real.search(row.text)}.intersection(row.evidence) for row in rows]
    recall = sum(len(hit) / len(row.evidence) for hit, row in zip(found, rows, strict=True)) / len(rows)
    assert (len(real.sessions), len(rows), dropped) == (19, 150, [])
    assert recall > 0.75
