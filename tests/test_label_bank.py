"""Names that a model gives become canonical labels, and what is shown to it is short and always the same."""

import pytest
from made_entries import WordEncoder, label

from stitchjam.data.intents.bank import LabelBank, same_numbers
from stitchjam.data.intents.records import Merge


def bank_of(*labels, encoder=None):
    bank = LabelBank(encoder)
    for one in labels:
        bank.add(one)
    return bank


def merged(bank, *pairs):
    for old, into in pairs:
        bank.merge(Merge(old=old, into=into))
    return bank


def ids(labels):
    return [one.id for one in labels]


def found(bank, facet, name):
    """The id of the label of a name."""
    label = bank.find(facet, name)
    return label and label.id


# Canonical ids


def test_a_label_is_known_by_the_last_of_a_chain_of_merges():
    bank = merged(bank_of(*(label(f"s{at}") for at in range(5))), ("s0", "s1"), ("s1", "s2"), ("s2", "s3"))
    assert [bank.canonical(f"s{at}") for at in range(5)] == ["s3", "s3", "s3", "s3", "s4"]
    assert ids(bank.live("scope")) == ["s3", "s4"] and sorted(bank.aliases("s3")) == ["s0", "s1", "s2"]
    assert bank.aliases("s0") == bank.aliases("s4") == () and bank.name("s0") == "s3"


def test_a_chain_of_merges_from_its_end_is_the_same():
    bank = merged(bank_of(*(label(f"s{at}") for at in range(4))), ("s2", "s3"), ("s1", "s2"), ("s0", "s1"))
    assert {bank.canonical(f"s{at}") for at in range(4)} == {"s3"}


@pytest.mark.parametrize("pairs", [[("s0", "s1"), ("s1", "s0")], [("s0", "s1"), ("s1", "s2"), ("s2", "s0")]])
def test_merges_in_a_circle_leave_one_label(pairs):
    bank = merged(bank_of(label("s0"), label("s1"), label("s2")), *pairs)
    last = bank.canonical("s0")
    assert bank.canonical("s1") == last and last in ids(bank.live("scope"))
    assert len(bank.live("scope")) == 4 - len(pairs)


def test_a_label_merged_into_itself_stays():
    bank = merged(bank_of(label("s0")), ("s0", "s0"))
    assert ids(bank.live("scope")) == ["s0"] and bank.canonical("s0") == "s0"


def test_uses_of_a_merged_label_count_for_the_other_one():
    bank = bank_of(label("s0"), label("s1"))
    for one in ("s0", "s0", "s1"):
        bank.use(one)
    merged(bank, ("s0", "s1"))
    bank.use("s0")
    assert bank.counts["s1"] == 4 and "s0" not in bank.counts


def test_a_merge_into_a_label_that_is_not_known_leaves_the_label_as_it_is():
    bank = merged(bank_of(label("s0", "trip"), encoder=WordEncoder()), ("s0", "s9"))
    bank.use("s0", "a gist")
    assert found(bank, "scope", "trip") == bank.canonical("s0") == "s0"
    assert ids(bank.shortlist("scope", "trip", 3, ["s0"])) == ids(bank.live("scope")) == ["s0"]


def test_a_merge_of_a_label_that_is_not_known_keeps_its_id_working():
    bank = merged(bank_of(label("s1", "trip")), ("s0", "s1"), ("s8", "s9"))
    assert bank.canonical("s0") == "s1" and bank.name("s0") == "trip" and bank.aliases("s1") == ()
    assert bank.name("s8") == bank.name("s9") == ""


def test_a_label_that_is_made_again_after_it_was_merged_is_not_shown_beside_the_other_one():
    bank = merged(bank_of(label("s1", "trip to Rome"), encoder=WordEncoder()), ("s0", "s1"))
    bank.add(label("s0", "journey to Rome"))
    assert ids(bank.live("scope")) == ["s1"] and [one.id for one, _ in bank.nearest("scope", "Rome", 5)] == ["s1"]
    assert found(bank, "scope", "journey to Rome") == "s1" and bank.aliases("s1") == ("journey to Rome",)


def test_labels_of_two_facets_are_never_merged():
    bank = merged(bank_of(label("s0"), label("e0")), ("s0", "e0"))
    assert ids(bank.live("scope")) == ["s0"] and ids(bank.live("event")) == ["e0"]


# Names


@pytest.mark.parametrize(
    "name, other",
    [
        ("Plan for day 1", "plan for the day 1"),
        ("the hotel", "Hotel."),
        ("asks-price", "asks price"),
        ("“Lutetia”", "lutetia"),
        ("Mira’s trip", "mira's trip"),
        ("e\u0301te", "\u00e9te"),
        ("東京。", "東京"),
        ("The", "the"),
        ("!!", " !! "),
        ("🎉", "🎉 "),
    ],
)
def test_case_articles_and_punctuation_of_a_name_do_not_count(name, other):
    bank = bank_of(label("k0", name))
    assert found(bank, "entity", other) == "k0" and bank.find("scope", other) is None


@pytest.mark.parametrize(
    "name, other", [("!!", "??"), ("🎉", "🏠"), ("東京", "京都"), ("कि", "का"), ("day 1", "day 2")]
)
def test_names_that_differ_are_told_apart(name, other):
    bank = bank_of(label("k0", name), label("k1", other))
    assert found(bank, "entity", name) == "k0" and found(bank, "entity", other) == "k1"


def test_a_merged_label_is_found_by_its_old_name():
    bank = merged(bank_of(label("k0", "price"), label("k1", "cost")), ("k1", "k0"))
    assert found(bank, "entity", "the Cost") == "k0" and bank.find("entity", "fee") is None


# Shortlists


def many(count, encoder=True, letter="s"):
    return bank_of(
        *(label(f"{letter}{at}", f"word{at}") for at in range(count)), encoder=WordEncoder() if encoder else None
    )


def test_all_labels_are_shown_where_there_are_few():
    bank = many(5)
    assert ids(bank.shortlist("scope", "word3", 5)) == ["s0", "s1", "s2", "s3", "s4"]
    assert ids(bank.shortlist("scope", "word3", 5, ["s4"])) == ["s4", "s0", "s1", "s2", "s3"]
    assert bank.shortlist("event", "word3", 5) == []


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_a_shortlist_is_full_and_no_longer_than_asked_for(k, encoder):
    bank = many(30, encoder)
    assert len(bank.shortlist("scope", "word3", k)) == k, "before any was used"
    for at in range(20):
        bank.use(f"s{at}")
    shown = bank.shortlist("scope", "word3", k, ["s29"])
    assert len(shown) == len({one.id for one in shown}) == k and shown[0].id == "s29"
    assert shown == bank.shortlist("scope", "word3", k, ["s29"])


def test_a_shortlist_takes_the_given_ones_then_the_nearest_and_the_most_recent_by_turns():
    bank = many(30)
    for at in (5, 6, 7):
        bank.use(f"s{at}")
    assert ids(bank.shortlist("scope", "word20", 4, ["s11"])) == [
        "s11",
        "s20",
        "s7",
        bank.nearest("scope", "word20", 2)[1][0].id,
    ]


def test_types_are_shown_in_one_order_whatever_is_near():
    bank = many(30, letter="e")
    for at in (25, 3):
        bank.use(f"e{at}")
    shown = ids(bank.shortlist("event", "word20 word10", 5))
    assert {"e3", "e25", "e20", "e10"} <= set(shown) and shown == sorted(shown, key=lambda one: int(one[1:]))


def test_what_is_given_first_is_shown_by_its_new_id_and_not_twice():
    bank = merged(many(30), ("s29", "s28"))
    assert ids(bank.shortlist("scope", "word1", 3, ["s29", "s28", "s77", "e1"]))[:2] == ["s28", "s1"]


def test_merged_labels_are_not_shown():
    bank = merged(many(30), *((f"s{at}", "s0") for at in range(1, 28)))
    assert ids(bank.shortlist("scope", "word5", 3)) == ["s0", "s28", "s29"] == ids(bank.live("scope"))
    assert [one.id for one, _ in bank.nearest("scope", "word5", 9)] == ["s0", "s28", "s29"]


def test_without_an_encoder_the_most_recent_are_shown():
    bank = many(30, encoder=False)
    for at in (5, 6, 7):
        bank.use(f"s{at}")
    assert ids(bank.shortlist("scope", "word20", 2)) == ["s7", "s6"]
    assert bank.nearest("scope", "word20") == [] and bank.similarity("s1", "word1") == 0.0
    assert bank.twins("scope", 0.0, 5) == []


def test_a_new_gist_changes_what_a_scope_is_near_to():
    bank = many(30)
    assert bank.similarity("s3", "salad and soup") == 0.0
    bank.use("s3", "salad and soup")
    assert bank.nearest("scope", "soup and salad")[0][0].id == "s3" and bank.similarity("s3", "salad and soup") > 0.8
    bank.use("s3", "boats")
    assert bank.similarity("s3", "salad and soup") == 0.0 and bank.gists == {"s3": "boats"}


def test_the_nearest_of_equals_are_those_that_were_made_first():
    bank = bank_of(*(label(f"s{at}", "same words") for at in range(9)), encoder=WordEncoder())
    assert [one.id for one, _ in bank.nearest("scope", "same", 3)] == ["s0", "s1", "s2"]
    assert bank.nearest("scope", "same", 0) == [] and len(bank.nearest("scope", "same", 50)) == 9


def test_a_gist_that_is_replaced_before_anyone_looks_is_never_encoded():
    encoder = WordEncoder()
    bank = bank_of(label("s0"), label("s1"), encoder=encoder)
    for at in range(100):
        bank.use("s0", f"gist {at}")
    assert encoder.encoded == 0
    assert bank.nearest("scope", "gist 99")[0][0].id == "s0" and encoder.encoded == 2


# Twins


@pytest.mark.parametrize(
    "one, other, same", [("day 1", "day 2", False), ("day 1", "the 1st day", True), ("a", "b", True)]
)
def test_names_with_other_numbers_are_never_the_same(one, other, same):
    assert same_numbers(one, other) is same


def test_labels_that_differ_in_a_number_are_never_twins():
    bank = bank_of(label("s0", "plan for day 1"), label("s1", "plan for day 2"), encoder=WordEncoder())
    assert bank.similarity("s0", "plan for day 2") > 0.7 and bank.twins("scope", 0.5, 5) == []


def test_a_twin_is_found_behind_a_label_that_differs_in_a_number():
    names = ["plan for day 1", "plan day 2 now", "plan for day 2"]
    bank = bank_of(*(label(f"s{at}", name) for at, name in enumerate(names)), encoder=WordEncoder())
    assert [(older.id, newer.id) for older, newer, _ in bank.twins("scope", 0.5, 5)] == [("s1", "s2")]


def test_pairs_are_twins_only_when_one_is_new_since_the_last_check():
    bank = bank_of(label("k0", "hotel price"), label("k1", "price hotel"), encoder=WordEncoder())
    assert len(bank.twins("entity", 0.9, 5)) == 1
    bank.checked()
    assert bank.twins("entity", 0.9, 5) == []
    bank.add(label("k2", "hotel price"))
    assert [(older.id, newer.id) for older, newer, _ in bank.twins("entity", 0.9, 5)] == [("k0", "k2")]
    assert bank.twins("event", 0.9, 5) == []


def test_no_label_is_in_two_pairs_of_twins_and_the_most_similar_come_first():
    names = ["a b c d", "a b c d", "a b c x", "y z", "y z w"]
    bank = bank_of(*(label(f"k{at}", name) for at, name in enumerate(names)), encoder=WordEncoder())
    assert [(older.id, newer.id) for older, newer, _ in bank.twins("entity", 0.7, 5)] == [("k0", "k1"), ("k3", "k4")]
    assert [(older.id, newer.id) for older, newer, _ in bank.twins("entity", 0.7, 1)] == [("k0", "k1")]


def test_merged_labels_are_no_twins():
    bank = bank_of(*(label(f"k{at}", "hotel price") for at in range(3)), encoder=WordEncoder())
    merged(bank, ("k0", "k1"), ("k2", "k1"))
    assert bank.twins("entity", 0.1, 5) == [] == bank.twins("entity", -1.0, 5)
