"""What was mentioned, in order, and what was decided and decided anew."""

import pytest
from made_entries import entry, history

from stitchjam.data.intents.ledger import Ledger
from stitchjam.data.records import Span

TURNS = history(*(f"turn {at}" for at in range(12))).turns
T = [turn.id for turn in TURNS]


def ledger_of(*rows):
    """A ledger of rows of labels, act and target, one for each turn; Ann and Bob speak by turns."""
    ledger = Ledger()
    for turn, (labels, act, target) in zip(TURNS, rows, strict=False):
        ledger.apply(entry(turn, 0, *labels.split(), act=act, target=target).note)
    return ledger


def told(ledger, scope, last=9):
    return [(speaker, place, mention.target) for speaker, place, mention in ledger.told(scope, last)]


def replaced(ledger):
    return [T.index(by) if (by := ledger.replaced_by(turn)) else None for turn in T[:5]]


# Mentions


def test_mentions_keep_the_order_of_each_speaker_in_each_scope():
    ledger = ledger_of(
        ("s1", "propose", "Lutetia"), ("s1", "ask", "price"), ("s1", "propose", "Ritz"), ("s2", "tell", "Ritz")
    )
    assert told(ledger, "s1") == [("Ann", 1, "Lutetia"), ("Ann", 2, "Ritz"), ("Bob", 1, "price")]
    assert told(ledger, "s2") == [("Bob", 1, "Ritz")] and told(ledger, "s3") == []
    first = ledger.mentions["s1"]["Ann"][0]
    assert (first.act, first.turn_id, first.span) == ("propose", T[0], Span.of(TURNS[0]))


def test_what_is_named_again_keeps_its_first_place():
    rows = [("s1", "tell", name) for name in ("Lutetia", "x", "Ritz", "y", "the lutetia!", "x")]
    assert told(ledger_of(*rows), "s1") == [("Ann", 1, "Lutetia"), ("Ann", 2, "Ritz"), ("Bob", 1, "x"), ("Bob", 2, "y")]


def test_a_target_of_signs_alone_is_a_mention_and_none_is_not():
    rows = [("s1", "tell", name) for name in ("🎉", "++", "東京", "", "A")]
    assert told(ledger_of(*rows), "s1") == [("Ann", 1, "🎉"), ("Ann", 2, "東京"), ("Ann", 3, "A"), ("Bob", 1, "++")]


@pytest.mark.parametrize("last, places", [(2, [3, 4]), (9, [1, 2, 3, 4]), (0, [])])
def test_only_the_last_mentions_are_told_with_their_places(last, places):
    ledger = ledger_of(*(("s1", "tell", f"thing {at}") for at in range(8)))
    found = [place for speaker, place, _ in ledger.told("s1", last) if speaker == "Ann"]
    assert found == places


# Decisions


def test_a_later_decision_about_the_same_types_replaces_an_earlier_one():
    ledger = ledger_of(("s1 k1", "decide", "Ritz"), ("s1 k1", "tell", "Ritz"), ("s1 k1", "decide", "Lutetia"))
    assert replaced(ledger) == [2, None, None, None, None]
    before, after = ledger.decisions["s1", ("k1",)]
    assert (before.target, before.turn_id, before.replaced_by) == ("Ritz", T[0], T[2])
    assert (after.span, after.replaced_by) == (Span.of(TURNS[2]), "")


@pytest.mark.parametrize("other", ["s2 k1", "s1 k2", "s1 k1 k2", "s1"])
def test_a_decision_in_another_scope_or_about_other_types_replaces_nothing(other):
    assert replaced(ledger_of(("s1 k1", "decide", "Ritz"), (other, "decide", "Lutetia")))[:2] == [None, None]


def test_without_entity_types_no_decision_replaces_another():
    ledger = ledger_of(("s1", "decide", "Ritz"), ("s1", "decide", "Lutetia"), ("s1", "cancel", "Ritz"))
    assert replaced(ledger)[:3] == [None] * 3 and len(ledger.decisions["s1", ()]) == 2


def test_the_order_of_entity_types_does_not_count():
    ledger = ledger_of(("s1 k1 k2", "decide", "Ritz"), ("s1 k2 k1", "decide", "Lutetia"))
    assert replaced(ledger)[:2] == [1, None]


def test_deciding_the_same_again_replaces_nothing():
    ledger = ledger_of(("s1 k1", "decide", "Ritz"), ("s1 k1", "decide", "the RITZ."))
    assert replaced(ledger)[:2] == [None, None]


def test_what_was_decided_twice_is_replaced_twice():
    ledger = ledger_of(("s1 k1", "decide", "Ritz"), ("s1 k1", "decide", "Ritz"), ("s1 k1", "decide", "Lutetia"))
    assert replaced(ledger)[:3] == [2, 2, None]


def test_each_decision_is_replaced_by_the_next_one_and_not_by_later_ones():
    ledger = ledger_of(*(("s1 k1", "decide", name) for name in ("Ritz", "Lutetia", "Ritz", "Savoy")))
    assert replaced(ledger) == [1, 2, 3, None, None]


@pytest.mark.parametrize("target", ["Ritz", "the booking", ""])
def test_what_is_cancelled_no_longer_holds_also_when_the_turn_says_only_it(target):
    ledger = ledger_of(("s1 k1", "decide", "Ritz"), ("s1 k1", "cancel", target))
    assert replaced(ledger)[:2] == [1, None] and len(ledger.decisions["s1", ("k1",)]) == 1


def test_a_decision_after_a_cancellation_leaves_the_cancellation_standing():
    ledger = ledger_of(("s1 k1", "decide", "Ritz"), ("s1 k1", "cancel", "Ritz"), ("s1 k1", "decide", "Lutetia"))
    assert replaced(ledger)[:3] == [1, None, None]


def test_what_is_decided_again_after_it_was_cancelled_holds():
    ledger = ledger_of(*(("s1 k1", act, "Ritz") for act in ("decide", "cancel", "decide")))
    assert replaced(ledger)[:3] == [1, None, None]


def test_a_cancellation_of_nothing_and_a_decision_of_nothing_do_no_harm():
    ledger = ledger_of(("s1 k1", "cancel", "Ritz"), ("s1 k1", "decide", ""), ("s1 k1", "decide", "Ritz"))
    assert replaced(ledger)[:3] == [None] * 3 and len(ledger.decisions["s1", ("k1",)]) == 1
