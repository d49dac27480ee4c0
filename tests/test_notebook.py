"""A notebook is a fold of its entries: what is noted, by what labels, and what merges change."""

import copy
import pickle
import threading

import pytest
from made_entries import WordEncoder, entries, entry, history, label

from stitchjam.data.errors import UsageError
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.intents.records import Entry, Intent, Vocabulary
from stitchjam.data.records import Filter
from stitchjam.data.store import Store

TOLD = history(*(f"we talk of thing{at}" for at in range(12)), size=6)
T = [turn.id for turn in TOLD.turns]
ROWS = [
    "s1 e1 k1",
    "s1 e2 k1",
    "s2 e1 k2",
    "s2 e2",
    "s1 e1 k1 k2",
    "s3 e1",
    "s3 e2",
    "s4 e1 k3",
    "s4",
    "s1 e3",
    "s5",
    "s5 e3",
]


def state(notebook):
    """All that can be asked of a notebook."""
    bank = notebook.bank
    return (
        {turn_id: notebook.of(turn_id) for turn_id in T},
        {one: list(notebook.bearers([one])) for one in bank.labels},
        {facet: bank.live(facet) for facet in ("scope", "event", "entity")},
        {one: (bank.canonical(one), bank.counts[one], bank.gists.get(one), bank.aliases(one)) for one in bank.labels},
        {session.id: notebook.current(session.id) for session in TOLD.sessions},
        {one: notebook.ledger.told(bank.canonical(one), 9) for one in bank.labels},
        {turn_id: notebook.ledger.replaced_by(turn_id) for turn_id in T},
        dict(notebook.structure),
        notebook.next_number,
    )


def intent_of(notebook, turn_id):
    """The labels of a turn that are in use now."""
    note = notebook.of(turn_id)
    assert note
    return note.intent


def state_of(notebook):
    """Bearers, scopes and counts."""
    return (
        {one: set(notebook.bearers([one])) for one in notebook.bank.labels},
        {turn_id: note.scope for turn_id, note in notebook.notes.items()},
        notebook.bank.counts,
    )


@pytest.fixture
def told():
    """Entries with gists, targets, decisions and merges."""
    made = entries(TOLD, *ROWS)
    noted = [one.note.model_copy(update={"gist": f"gist {at}", "target": f"x{at % 3}"}) for at, one in enumerate(made)]
    noted[1], noted[4] = (noted[at].model_copy(update={"act": "decide"}) for at in (1, 4))
    made = [one.model_copy(update={"note": note}) for one, note in zip(made, noted, strict=True)]
    merges = entry(TOLD.turns[8], 8, merges=[("s4", "s1"), ("k2", "k1")], checked=True)
    made[8] = made[8].model_copy(update={"merges": merges.merges, "checked": True})
    return made


# A fold


def test_the_same_entries_give_the_same_state(told):
    assert state(Notebook(WordEncoder(), told)) == state(Notebook(WordEncoder(), told))


def test_entries_that_went_through_json_give_the_same_state(told):
    again = [Entry.model_validate_json(one.model_dump_json()) for one in told]
    assert again == told and state(Notebook(WordEncoder(), again)) == state(Notebook(WordEncoder(), told))


@pytest.mark.parametrize("at", [0, 1, 8, 9])
def test_a_notebook_that_is_read_in_two_parts_is_the_same(told, at):
    notebook = Notebook(WordEncoder(), told[:at])
    state(notebook)  # asking changes nothing
    for one in told[at:]:
        notebook.add(one)
    assert state(notebook)[:-2] == state(Notebook(WordEncoder(), told))[:-2]
    assert (notebook.size, notebook.next_number, notebook.entries) == (12, 12, told)


def test_an_empty_notebook_knows_nothing():
    notebook = Notebook()
    assert (notebook.size, notebook.next_number, notebook.of("t"), notebook.current("s")) == (0, 0, None, "")
    assert (
        notebook.bearers(["s1"]) == {} and notebook.last_in("s1", 3) == [] and set(notebook.structure.values()) == {0}
    )


def test_labels_of_a_vocabulary_are_there_before_any_turn():
    notebook = Notebook()
    notebook.begin(Vocabulary(labels=(label("e1", "asks"),)))
    assert [one.id for one in notebook.bank.live("event")] == ["e1"] and notebook.size == 0


# Merges


def test_merges_move_bearers_and_keep_all_turns(told):
    notebook = Notebook(None, told)
    assert list(notebook.bearers(["s1"])) == [T[at] for at in (0, 1, 4, 7, 8, 9)] == list(notebook.bearers(["s4"]))
    assert set(notebook.bearers(["k1"])) == {T[at] for at in (0, 1, 2, 4)} and notebook.size == 12
    assert set(notebook.bearers(["s2", "s5", "none"])) == {T[at] for at in (2, 3, 10, 11)}
    assert intent_of(notebook, T[7]) == Intent(scopes=("s1",), events=("e1",), entities=("k3",))
    assert intent_of(notebook, T[4]).entities == ("k1",)
    assert [one.id for one in notebook.labels(notebook.notes[T[7]])] == ["s1", "e1", "k3"]


def test_a_small_scope_that_stays_bears_the_turns_of_a_large_one_in_order():
    made = entries(TOLD, *(["s1"] * 5 + ["s2"] + ["s1"] * 6))
    made[11] = made[11].model_copy(update={"merges": entry(TOLD.turns[0], 0, merges=[("s1", "s2")]).merges})
    assert list(Notebook(None, made).bearers(["s1"])) == T


def test_mentions_and_decisions_of_merged_scopes_are_those_of_one_scope():
    rows = [("s1 k1", "decide", "Ritz"), ("s1 k1", "tell", "x"), ("s2 k1", "decide", "Savoy"), ("s2 k1", "tell", "x")]
    made = [
        entry(turn, at, *row[0].split(), act=row[1], target=row[2])
        for at, (turn, row) in enumerate(zip(TOLD.turns, rows, strict=False))
    ]
    made[0] = made[0].model_copy(update={"made": tuple(map(label, ("s1", "s2", "k1")))})
    notebook = Notebook(None, made)
    assert notebook.ledger.replaced_by(T[0]) == "" and len(notebook.ledger.told("s2", 9)) == 2
    notebook.add(entry(TOLD.turns[4], 4, "s2", merges=[("s1", "s2")]))
    said = [(speaker, place, one.target) for speaker, place, one in notebook.ledger.told("s2", 9)]
    assert said == [("Ann", 1, "Ritz"), ("Ann", 2, "Savoy"), ("Bob", 1, "x")]
    assert notebook.ledger.replaced_by(T[0]) == T[2] and notebook.ledger.told("s1", 9) == []


def test_decisions_about_merged_entity_types_are_about_one_type():
    made = [entry(TOLD.turns[0], 0, "s1", "k1", act="decide", target="Ritz", made=map(label, ("s1", "k1", "k2")))]
    made.append(entry(TOLD.turns[1], 1, "s1", merges=[("k1", "k2")]))
    made.append(entry(TOLD.turns[2], 2, "s1", "k2", act="decide", target="Savoy"))
    assert Notebook(None, made).ledger.replaced_by(T[0]) == T[2]
    late = [made[0], made[2].model_copy(update={"merges": made[1].merges})]
    assert Notebook(None, late).ledger.replaced_by(T[0]) == T[2]


def test_a_merge_with_a_label_whose_maker_is_forgotten_loses_no_turn():
    made = entries(TOLD, *ROWS)
    for pair in (("s1", "gone"), ("gone", "s1"), ("gone", "gone2")):
        merges = entry(TOLD.turns[0], 0, merges=[pair]).merges
        notebook = Notebook(None, [*made[:-1], made[-1].model_copy(update={"merges": merges})])
        assert list(notebook.bearers(["s1"])) == [T[at] for at in (0, 1, 4, 9)] and intent_of(
            notebook, T[0]
        ).scopes == ("s1",)


# Scopes


def test_the_current_scope_is_the_last_one_of_the_session(told):
    notebook = Notebook(None, told[:6])
    first, second = (session.id for session in TOLD.sessions)
    assert (notebook.current(first), notebook.current(second)) == ("s3", "")
    notebook = Notebook(None, told[:9])
    assert (notebook.current(first), notebook.current(second)) == ("s3", "s1"), "s4 was merged into it"


def test_a_turn_without_a_scope_does_not_end_the_scope_of_its_session():
    notebook = Notebook(None, [*entries(history("a"), "s1"), entry(TOLD.turns[1], 1, "s9")])
    assert intent_of(notebook, T[1]).scopes == () and notebook.current(TOLD.sessions[0].id) == "s1"


def test_the_last_notes_of_a_scope_prefer_those_of_the_same_event_and_keep_their_order():
    notebook = Notebook(None, entries(TOLD, *(f"s1 e{1 + (at % 3 == 0)}" for at in range(12))))
    numbers = [note.number for note in notebook.last_in("s1", 3)]
    assert numbers == [9, 10, 11]
    assert [note.number for note in notebook.last_in("s1", 3, ["e2"])] == [3, 6, 9]
    assert [note.number for note in notebook.last_in("s1", 6, ["e2", "e7"])] == [0, 3, 6, 9, 10, 11]
    assert [note.number for note in notebook.last_in("s1", 2, ["e9"])] == [10, 11]
    assert notebook.last_in("s1", 0) == notebook.last_in("", 3) == []


def test_the_last_notes_are_found_by_labels_of_before_a_merge():
    made = entries(TOLD, *(f"s{1 + at % 2} e{1 + at % 3}" for at in range(12)))
    merges = entry(TOLD.turns[0], 0, merges=[("s1", "s2"), ("e1", "e2")]).merges
    notebook = Notebook(None, [*made[:-1], made[-1].model_copy(update={"merges": merges})])
    for scope in ("s1", "s2"):
        for event in ("e1", "e2"):
            assert [one.number for one in notebook.last_in(scope, 4, [event])] == [6, 7, 9, 10]


def test_labels_whose_maker_is_forgotten_are_left_out():
    made = entries(TOLD, *ROWS)
    notebook = Notebook(WordEncoder(), [made[0], *made[2:]])  # the second one made e2
    assert intent_of(notebook, T[3]) == Intent(scopes=("s2",)) and notebook.bearers(["e2"]) == {}
    assert notebook.of(T[1]) is None and notebook.size == 11
    assert "e2" not in {one.id for one in notebook.bank.shortlist("event", "e2", 9)}


# Stores with notes


def test_copies_and_pickles_of_a_store_keep_its_notes(told):
    store = Store.of(TOLD, "none", told)
    again = pickle.loads(pickle.dumps(store))
    assert state(again.notebook) == state(store.notebook) == state(Notebook(None, told))
    assert copy.copy(store) is store is copy.deepcopy(store) and again.fingerprint == store.fingerprint
    assert store.fingerprint != Store.of(TOLD, "none").fingerprint != Store.of(TOLD, "none", told[:3]).fingerprint


def test_a_store_whose_turns_are_labelled_while_it_is_open_has_another_fingerprint(told):
    store = Store.of(TOLD, "none", told[:3])
    before = store.fingerprint
    store.notebook.add(told[3])
    assert before != store.fingerprint == Store.of(TOLD, "none", told[:4]).fingerprint
    assert pickle.loads(pickle.dumps(store)).notebook.size == 4


def test_other_notes_of_the_same_turns_keep_the_index(told):
    store = Store.of(TOLD, "none", told[:3])
    other = store.noted(told)
    assert (store.notebook.size, other.notebook.size) == (3, 12) and other.index is store.index
    assert other.turns == store.turns


def test_turns_are_found_by_their_labels_also_by_those_of_before_a_merge(told):
    store = Store.of(TOLD, "none", told)
    for labels in ("s1", ["s4"]):
        hits = store.search("thing0 thing7 thing2", where=Filter(labels=labels))
        assert {hit.turn.id for hit in hits} >= {T[0], T[7]} and T[2] not in {hit.turn.id for hit in hits}
    with pytest.raises(UsageError, match="there is no label 's9'"):
        store.search("thing", where=Filter(labels=["s9"]))


def test_who_reads_under_the_lock_sees_whole_notes_while_others_are_added():
    told = history(*(f"turn {at}" for at in range(400)))
    made = entries(told, *(f"s{at % 7} e{at % 3} k{at % 5}" for at in range(400)))
    for at in range(20, 400, 40):
        merges = entry(told.turns[0], 0, merges=[(f"k{at // 40 % 5}", "k0"), (f"s{at // 40 % 7}", "s0")]).merges
        made[at] = made[at].model_copy(update={"merges": merges})
    notebook, errors = Notebook(WordEncoder()), []

    def read():
        try:
            while notebook.size < 400:
                with notebook.lock:
                    borne = notebook.bearers([one.id for one in notebook.bank.live("scope")])
                    assert len(borne) == notebook.size == len(notebook.entries)
                    notebook.bank.shortlist("entity", "k1", 3)
                    assert all(note.scope == "s0" for note in notebook.last_in("s0", 4))
                assert set(notebook.structure) == {"scope", "event", "entity"}
        except Exception as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for one in threads:
        one.start()
    for one in made:
        notebook.add(one)
    for one in threads:
        one.join()
    assert errors == [] and state_of(notebook) == state_of(Notebook(WordEncoder(), made))
