"""Recall follows the intent of a question, excludes nothing, and says why."""

import dspy
import pytest
from stitching import attentive, history_of, label_of, labelled, said

from stitchjam.data.errors import UsageError
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens
from stitchjam.programs.answer import Answerer
from stitchjam.programs.artifact import PROGRAMS
from stitchjam.programs.stitch.recall import ABLATIONS, IntentRecall, StitchAgent
from stitchjam.programs.stitch.released import ReleasedAgent, ReleasedRecall
from stitchjam.programs.systems import SYSTEMS, asker, open_system

TOPICS = ("boat", "garden", "school")


@pytest.fixture(scope="module")
def store():
    """120 turns on three topics in runs of ten, each of which ends in decisions; notes by an attentive model."""
    texts = [
        f"{TOPICS[at // 10 % 3]}: we {verb} the hotel Name{chr(65 + at % 23)}ab, number {at}"
        for at in range(120)
        for verb in ["decide on" if at % 10 > 6 else "propose"]
    ]
    history = history_of(*texts)
    return Store.of(history, entries=labelled(history, attentive()).entries)


def intent(scopes=(), events=(), entities=()):
    """A reader that picks labels by name."""

    def reply(call):
        pick = lambda field, names: [label_of(call, field, name) for name in names]  # noqa: E731
        return {
            "scopes": pick("scopes", scopes),
            "events": pick("events", events),
            "entities": pick("entities", entities),
        }

    return attentive(read_intent=reply)


def recalled(store, lm, question="Which hotel was it at last?", **settings):
    """Prediction, and the calls that it took."""
    before = len(lm.engine.calls)
    with dspy.context(lm=lm):
        found = IntentRecall(**settings)(question=question, store=store)
    return found, [call.step for call in lm.engine.calls[before:]]


def test_a_question_recalls_the_turns_that_bear_its_labels_in_time_order_with_one_call(store):
    found, steps = recalled(store, intent(["garden"], ["decides"]), k=8)
    turns = [store.turn(one) for one in found.context.turn_ids]

    decided = [turn for turn in turns if turn.text.startswith("garden: we decide")]
    assert steps == ["read_intent"] and len(decided) >= 4
    assert all(one.facets == ("scope", "event") for one in found.recall.matched.ranked[:8] if one.by == "intent")
    assert [turn.time for turn in turns] == sorted(turn.time for turn in turns)
    assert found.recall.names["scope"] == ("garden",) and any("garden" in gist for gist in found.context.gists)


def test_half_of_what_is_recalled_is_what_similarity_finds_so_wrong_labels_cost_little(store):
    question = "number 13"
    wrong, _ = recalled(store, intent(["boat"], ["proposes"]), question, k=20)
    plain, _ = recalled(store, attentive(), question, k=10, ablate="similarity-only")

    assert set(plain.context.turn_ids) <= set(wrong.context.turn_ids)


@pytest.mark.parametrize("reply", [{"scopes": [], "events": [], "entities": []}, "garbage"])
def test_an_intent_that_is_not_determined_excludes_nothing(store, reply):
    found, _ = recalled(store, attentive(read_intent=reply), "number 13", k=9)
    plain, steps = recalled(store, attentive(), "number 13", k=9, ablate="similarity-only")

    assert found.context.turn_ids == plain.context.turn_ids and steps == []
    assert bool(found.context.failures) == (reply == "garbage")


def test_unknown_labels_in_an_intent_are_left_out(store):
    reply = {"scopes": ["c99", "the moon", "none"], "events": "e0", "entities": None}
    found, _ = recalled(store, attentive(read_intent=reply))
    assert found.recall.intent.ids == () and found.context.claims


@pytest.mark.parametrize("ablate", ABLATIONS)
def test_a_switch_leaves_its_facet_out(store, ablate):
    found, _ = recalled(store, intent(["garden"], ["decides"], ["hotel"]), ablate=ablate)
    off = {facet for facet, why in found.recall.matched.facets.items() if why == "switched off"}
    assert off == ABLATIONS[ablate]


def test_an_unknown_switch_names_those_that_exist():
    with pytest.raises(UsageError, match="no-scope, no-event, no-entity, similarity-only"):
        IntentRecall(ablate="no-such")


@pytest.mark.parametrize("tokens", [1, 50, 200, 1000])
def test_the_context_never_takes_more_tokens_than_its_budget(store, tokens):
    found, _ = recalled(store, intent(["garden"]), tokens=tokens)
    lines = [f"{claim.speaker}: {claim.quote}" for claim in found.context.claims] + list(found.context.gists)
    assert sum(count_tokens(line) + 1 for line in lines) <= tokens
    assert bool(found.context.claims) == (tokens >= 50)


def test_an_agent_in_the_middle_of_a_topic_is_shown_that_topic_first(store):
    now = store.turns[10:12]
    lm = intent(["garden"])
    with dspy.context(lm=lm):
        IntentRecall()(question="decide on the hotel", store=store, now=now)
    call = lm.engine.calls[-1]
    assert "now" in said(call, "scopes").splitlines()[0] or len(TOPICS) == 3
    assert now[-1].text[:20] in said(call, "now")


def test_ranking_drops_turns_that_do_not_help_and_costs_one_call_more(store):
    lm = intent(["garden"], ["decides"])
    lm.engine.scripts = {**lm.engine.scripts, "rank_turns": lambda call: {"useful": ["t1", "t99", "none"]}}
    found, steps = recalled(store, lm, k=15, rank=True)
    plain, _ = recalled(store, lm, k=15)

    assert steps == ["read_intent", "rank_turns"]
    assert len(found.context.claims) == len(plain.context.claims) - 11


def test_a_store_without_notes_is_searched_without_a_call():
    plain = Store.of(history_of("boat: hello", "garden: hotel"))
    found, steps = recalled(plain, attentive(), "hotel")
    assert steps == [] and found.context.claims


def test_an_agent_answers_in_at_most_four_calls_and_cites_what_was_recalled(store):
    lm = intent(["garden"], ["decides"])
    lm.engine.scripts = {
        **lm.engine.scripts,
        "rank_turns": {"useful": ["t1"]},
        "answer_question": {"sources": ["c1"], "answer": "Name"},
    }
    with dspy.context(lm=lm):
        found = StitchAgent(IntentRecall(rank=True))(question="Which hotel?", store=store)
    assert len(lm.engine.calls) <= 4 and found.answer.turn_ids[0] in found.context.turn_ids
    assert "about | garden" in said(lm.engine.calls[-1], "context")


def test_decisions_that_were_replaced_are_told_to_the_reader():
    history = history_of("trip: we decide on the hotel Lux", "trip: no, we decide on the hotel Rex")
    noted = Store.of(history, entries=labelled(history, attentive()).entries)
    found, _ = recalled(noted, intent())
    assert [claim.text for claim in found.context.claims] == ["decided otherwise later", history.turns[1].text]


def test_the_released_recall_asks_five_times_and_then_of_up_to_39_turns(store):
    scripts = {
        "focus_roles": {"roles": []},
        "select_labels": lambda call: {"values": said(call, "values").splitlines()},
        "judge_useful": {"useful": False},
        "answer_question": {"sources": [], "answer": "x"},
    }
    lm = attentive(**scripts)
    with dspy.context(lm=lm):
        found = ReleasedAgent()(question="Which hotel?", store=store)
    steps = [call.step for call in lm.engine.calls]
    assert steps.count("judge_useful") == 39 and len(steps) == 5 + 39 + 1
    assert len(found.context.claims) == 20  # nothing was useful: by similarity then


def test_the_released_recall_asks_of_half_of_what_matches_and_stops_at_twelve(store):
    lm = attentive(focus_roles={"roles": []}, select_labels={"values": ["garden"]}, judge_useful={"useful": True})
    with dspy.context(lm=lm):
        found = ReleasedRecall()(question="Which hotel?", store=store)
    turns = [store.turn(one) for one in found.context.turn_ids]
    assert len(turns) == 12 and all(turn.text.startswith("garden") for turn in turns)

    lm = attentive(focus_roles={"roles": ["ANN"]}, select_labels={"values": ["garden"]}, judge_useful={"useful": True})
    with dspy.context(lm=lm):
        found = ReleasedRecall()(question="Which hotel?", store=store)
    assert {store.turn(one).speaker for one in found.context.turn_ids} == {"Ann"}
    assert [call.step for call in lm.engine.calls].count("judge_useful") == 10


def test_stitch_and_its_switches_are_systems(store):
    assert {"stitch", "released", *(f"stitch {name}" for name in ABLATIONS if name)} <= set(SYSTEMS)
    assert open_system("stitch no-scope").recall.ablate == "no-scope"  # type: ignore[attr-defined]
    assert isinstance(asker(IntentRecall()), StitchAgent)
    with pytest.raises(UsageError, match="labels turns"):
        asker(PROGRAMS["stitch"]())


@pytest.mark.parametrize("room", [600, 4096])
def test_turns_that_are_recalled_all_reach_the_answering_step(room):
    """Its lines are longer than the turns: it left out those that were said last, which often decide."""
    history = history_of(*(f"{TOPICS[at // 10 % 3]}: the hotel Rex{at} {'word ' * 90}" for at in range(60)))
    noted = Store.of(history, entries=labelled(history, attentive()).entries)
    lm = attentive(
        read_intent=lambda call: {"scopes": [label_of(call, "scopes", "garden")], "events": [], "entities": []},
        answer_question={"sources": ["c1"], "answer": "Rex"},
    )
    with dspy.context(lm=lm):
        found = StitchAgent(answerer=Answerer(room))(question="Which hotel?", store=noted).context
    shown = said(lm.engine.calls[-1], "context")

    assert found.claims and all(
        f"Rex{noted.turn(one).text.split('Rex')[1].split()[0]} " in shown for one in found.turn_ids
    )
    assert count_tokens(shown) <= room


@pytest.mark.parametrize(
    "text", ["lorem ipsum " * 9000 + "the garden is blue " + "dolor " * 900, "x" * 50_000 + " garden"]
)
def test_a_turn_longer_than_the_budget_is_recalled_in_part(text):
    """It never fitted, so that a memory of long turns remembered nothing."""
    long = Store.of(history_of("hello", text))
    found = IntentRecall(tokens=1000)(question="Which colour has the garden?", store=long).context
    claim = next(one for one in found.claims if one.spans[0].turn_id == long.turns[1].id)

    assert "garden" in claim.quote and count_tokens(claim.quote) <= 250 and len(found.claims) == 2
    assert claim.quote == text[claim.spans[0].start : claim.spans[0].end] == claim.text


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 0},
        {"k": -3},
        {"tokens": 0},
        {"tokens": 1.5},
        {"tokens": "many"},
        {"k": True},
        {"rank": "no"},
        {"ablate": []},
    ],
)
def test_settings_under_which_nothing_could_be_recalled_are_refused(settings):
    with pytest.raises(UsageError):
        IntentRecall(**settings)


def test_settings_of_recall_are_saved(store):
    agent = StitchAgent(IntentRecall(k=7, tokens=99, ablate="no-event", rank=True))
    again = StitchAgent.build(agent.hparams())
    assert again.hparams() == agent.hparams() and again.recall.k == 7


def test_a_store_with_other_notes_recalls_by_them(store):
    noted = [replace_scope(entry) for entry in store.notebook.entries]
    other = store.noted(noted)
    assert other.notebook.size == store.size and not other.notebook.bank.live("scope")


def replace_scope(entry):
    """An entry without a scope."""
    kept = tuple(label for label in entry.made if label.facet != "scope")
    intent = entry.note.intent.model_copy(update={"scopes": ()})
    return entry.model_copy(update={"made": kept, "note": entry.note.model_copy(update={"intent": intent})})
