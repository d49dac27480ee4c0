"""Recall by intent: labels that know of order are trusted, wrong ones do no harm, and the budget holds."""

from random import Random

import numpy as np
import pytest
from made_entries import entries, history

from stitchjam.data.intents.matching import Limits, match_intent
from stitchjam.data.intents.records import FACETS, Intent
from stitchjam.data.intents.structure import TRUSTED, structure
from stitchjam.data.records import History
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens

# Structure


def told(count, length=10, session=50):
    """Session and intent of turns: a topic lasts for some turns, and what turns do goes in a circle."""
    return [
        (f"day {at // session}", Intent(scopes=(f"s{at // length}",), events=(f"e{at % 3}",), entities=("k1",)))
        for at in range(count)
    ]


def shuffled(rows, seed):
    intents = [intent for _, intent in rows]
    Random(seed).shuffle(intents)
    return [(session, intent) for (session, _), intent in zip(rows, intents, strict=True)]


@pytest.mark.parametrize("count", [60, 300, 3_000])
def test_labels_of_topics_that_go_on_and_of_acts_that_follow_each_other_are_trusted(count):
    found = structure(told(count))
    assert found["scope"] > TRUSTED and found["event"] > TRUSTED


@pytest.mark.parametrize("count", [40, 300, 3_000])
def test_shuffled_labels_are_not_trusted(count):
    for seed in range(8):
        found = structure(shuffled(told(count), seed))
        assert max(found.values()) < TRUSTED, seed


def test_shuffled_labels_of_a_long_memory_are_not_trusted():
    rows = [(f"day {at // 50}", Intent(events=(f"e{Random(at).randrange(5)}",))) for at in range(30_000)]
    assert max(structure(shuffled(rows, seed))["event"] for seed in range(3)) < TRUSTED


def test_topics_are_trusted_also_where_two_turns_of_a_long_memory_hardly_ever_share_one():
    assert structure(told(30_000, length=5))["scope"] > TRUSTED


def test_several_shuffled_labels_a_turn_are_not_trusted():
    for seed in range(8):
        dice = Random(seed)
        rows = [
            ("s", Intent(entities=tuple(f"k{one}" for one in dice.sample(range(9), dice.randint(0, 4)))))
            for _ in range(400)
        ]
        assert structure(rows)["entity"] < TRUSTED, seed


def test_labels_that_are_all_the_same_say_nothing():
    assert structure(told(300))["entity"] == 0
    assert structure([("s", Intent(scopes=("s1", "s2"), events=("e1",))) for _ in range(300)]) == dict.fromkeys(
        FACETS, 0
    )


def test_labels_that_no_two_turns_share_say_nothing():
    assert structure(told(300, length=1))["scope"] == 0


@pytest.mark.parametrize("rows", [[], told(7), [("s", Intent())] * 50, told(7) + [("s", Intent())] * 50])
def test_a_few_labelled_turns_say_nothing(rows):
    assert structure(iter(rows)) == dict.fromkeys(FACETS, 0)


def test_a_turn_with_very_many_labels_is_counted():
    rows = [("s", Intent(entities=tuple(f"k{at // 20 * 30 + one}" for one in range(30)))) for at in range(200)]
    assert structure(rows)["entity"] > TRUSTED


def test_the_structure_does_not_depend_on_what_labels_are_called():
    rows = told(300)
    renamed = [
        (session, Intent(scopes=tuple(f"z{one[::-1]}" for one in x.scopes), events=x.events)) for session, x in rows
    ]
    assert structure(renamed)["scope"] == structure(rows)["scope"]


# Matching

TALK = history(*(f"thing{at} of topic{at // 10} and word{at % 7}" for at in range(60)), size=20)
LABELS = [f"s{at // 10} e{at % 3}" for at in range(60)]
STORE = Store.of(TALK, "none", entries(TALK, *LABELS))
MIXED = Store.of(TALK, "none", entries(TALK, *(Random(1).sample(LABELS, 60))))
ALL = Limits(k=60, tokens=100_000)


ANY = Intent()


def order(request="thing7", intent=ANY, store=STORE, limits=ALL, **more):
    return [int(one.turn.text.split()[0][5:]) for one in match_intent(request, intent, store, limits, **more).ranked]


def by_similarity(request, store=STORE):
    return np.argsort(-store.index.score(request).turns, kind="stable").tolist()


def test_without_an_intent_the_order_is_that_of_similarity():
    assert order("thing7 word3") == by_similarity("thing7 word3")
    matched = match_intent("thing7", Intent(), STORE)
    assert {one.by for one in matched.ranked} == {"similarity"} and {one.density for one in matched.ranked} == {0}
    assert matched.facets == dict.fromkeys(FACETS, "not determined by the request")


def test_labels_that_are_not_trusted_change_nothing():
    matched = match_intent("word3", Intent(scopes=("s1",), events=("e1",)), MIXED, ALL)
    assert order("word3", Intent(scopes=("s1",), events=("e1",)), MIXED) == by_similarity("word3", MIXED)
    assert "no better than chance" in matched.facets["scope"] and matched.facets["entity"].startswith("not determined")
    assert not any(one.facets for one in matched.ranked)


def test_labels_that_are_not_trusted_count_when_all_are_said_to():
    limits = Limits(k=60, tokens=100_000, trusted=0)
    assert order("word3", Intent(scopes=("s1",)), MIXED, limits) != by_similarity("word3", MIXED)


def test_turns_with_the_label_and_similar_turns_are_recalled_by_turns():
    found = match_intent("thing50 thing51", Intent(scopes=("s1",)), STORE, ALL).ranked
    assert [one.by for one in found[:6]] == ["intent", "similarity"] * 3
    texts = [one.turn.text for one in found]
    assert all("topic1" in text for text in texts[:20:2]) and texts[1].startswith("thing50")
    assert found[0].facets == ("scope",) and found[0].density == pytest.approx(np.log(6)) and found[1].facets == ()


def test_a_label_never_excludes_a_turn():
    for alone in (False, True):
        limits = Limits(k=60, tokens=100_000, alone=alone)
        assert sorted(order("thing7", Intent(scopes=("s1",), events=("e2",)), limits=limits)) == list(range(60))


def test_the_evidence_is_found_whatever_wrong_labels_the_intent_has():
    for scope in ("s0", "s1", "s5"):
        for k in (2, 4, 10):
            assert 42 in order("thing42", Intent(scopes=(scope,)), limits=Limits(k=k))[: 2 * k]
            taken = match_intent("thing42", Intent(scopes=(scope,)), STORE, Limits(k=k)).turns
            assert any(turn.text.startswith("thing42 ") for turn in taken)


def test_alone_the_order_is_that_of_the_paper():
    intent, request = Intent(scopes=("s1", "s2"), events=("e1",)), "thing15 word3 thing3"
    found = match_intent(request, intent, STORE, Limits(k=60, tokens=100_000, alone=True)).ranked
    keys = [(one.density, one.similarity) for one in found]
    assert keys == sorted(keys, reverse=True) and len(found) == 60
    assert [one.by for one in found] == ["intent" if one.density else "similarity" for one in found]
    assert found[0].facets == ("scope", "event")


def test_turns_are_ranked_by_density_and_then_by_similarity():
    intent, request = Intent(scopes=("s1",), events=("e1",)), "thing15 thing19 word3"
    found = [one for one in match_intent(request, intent, STORE, ALL).ranked if one.by == "intent"]
    both = [one for one in found if one.facets == ("scope", "event")]
    assert found[: len(both)] == both and len(both) > 1
    likes = [one.similarity for one in both]
    assert likes == sorted(likes, reverse=True)


@pytest.mark.parametrize("without", [("scope",), ("event",), ("scope", "event"), FACETS])
def test_a_facet_that_is_switched_off_does_not_count(without):
    intent = Intent(scopes=("s1",), events=("e1",))
    left = Intent(**{f"{facet}s": intent.of(facet) for facet in ("scope", "event") if facet not in without})
    assert order("word3", intent, without=without) == order("word3", left)
    said = match_intent("word3", intent, STORE, ALL, without).facets
    assert all(said[facet] == "switched off" for facet in without)


def test_labels_that_no_turn_or_every_turn_bears_do_not_count():
    store = Store.of(TALK, "none", entries(TALK, *(f"{row} k1" for row in LABELS)))
    trusting = Limits(k=60, tokens=100_000, trusted=0)
    matched = match_intent("word3", Intent(scopes=("s99",), entities=("k1",)), store, trusting)
    assert (matched.facets["scope"], matched.facets["entity"]) == ("no turn bears it", "all turns bear it")
    assert order("word3", Intent(scopes=("s99",), entities=("k1",)), store, trusting) == by_similarity("word3", store)


# The budget


@pytest.mark.parametrize("tokens", [0, 10, 60, 200, 1_000])
@pytest.mark.parametrize("alone", [False, True])
def test_the_budget_is_never_exceeded(tokens, alone):
    texts = [f"thing {'word ' * (at * 7 % 40)}🎉 東京" for at in range(60)]
    told = history(*texts)
    store = Store.of(told, "none", entries(told, *LABELS))
    turns = match_intent("thing word", Intent(scopes=("s1",)), store, Limits(tokens=tokens, alone=alone)).turns
    assert sum(count_tokens(f"{turn.speaker}: {turn.text}") + 1 for turn in turns) <= tokens
    assert bool(turns) == (tokens > 30)


def test_small_turns_behind_a_large_one_still_fit():
    told = history("boat " * 300, "boat " * 200, "boat " * 250, "a boat", "no")
    matched = match_intent("boat", Intent(), Store.of(told, "none"), Limits(k=1, tokens=50))
    assert [turn.text for turn in matched.turns] == ["a boat"]
    assert [(one.taken, one.tokens > 50) for one in matched.ranked] == [(False, True)] * 3 + [(True, False)]


@pytest.mark.parametrize("k", [0, 1, 3, 40, 1_000])
def test_at_most_k_turns_are_recalled(k):
    turns = match_intent("thing7", Intent(scopes=("s1",)), STORE, Limits(k=k, tokens=100_000)).turns
    assert len(turns) == len({turn.id for turn in turns}) == min(k, 60)


# Nothing to recall


def test_an_empty_store_has_nothing_to_recall():
    store = Store.of(History(id="empty", sessions=()), "none")
    matched = match_intent("thing", Intent(scopes=("s1",)), store, Limits(trusted=0))
    assert matched.ranked == matched.turns == () and matched.facets["scope"] == "no turn bears it"


@pytest.mark.parametrize("request_", ["", "?!", "the"])
def test_an_empty_request_is_matched_by_its_labels(request_):
    found = match_intent(request_, Intent(scopes=("s2",)), STORE, Limits(k=10, alone=True))
    assert all(one.facets == ("scope",) for one in found.ranked[:10]) and len(found.turns) == 10
    assert len(match_intent(request_, Intent(), STORE, Limits(k=5)).turns) == 5
