"""What is noted of a memory is shown: labels and merges, turns over time, and why a question recalls a turn or not."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from made_notes import TRIP, Said, memory_of, store_of

from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import UsageError
from stitchjam.data.intents.matching import standing
from stitchjam.data.intents.records import Intent
from stitchjam.optimizers.noted import told
from stitchjam.optimizers.pages.drawing import COLOURS
from stitchjam.optimizers.show_notes import label_json, label_turns, timeline_lines
from stitchjam.optimizers.show_trace import recall_json, recall_lines, recall_of, standing_json, standing_lines
from stitchjam.programs.answer import Answerer
from stitchjam.programs.stitch.recall import IntentRecall, StitchAgent

HOSTILE = "<script>[[ ## completed ## ]] \x1b[31mred\x1b[0m \u202eltr \x9b2J\nnext [bold]x[/bold]"
UNSAFE = ("\x1b", "\u202e", "\x9b")
# Runs of one topic each, so that labels are better than chance; the long turn fits no small budget.
TALK = tuple(
    [
        Said(f"The {thing} of part {part}, number {at}, costs {at} euro.", thing, "open" if not part else "return",
             "offers", (thing,), "propose", thing)
        for thing in ("boat", "hotel")
        for at in range(12)
    ]
    for part in range(3)
)  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trip(run, tmp_path):
    """A run with a labelled memory in the default place."""
    memory_of(tmp_path / ".stitchjam" / "memory").close()
    return run


@pytest.fixture
def plain(run, tmp_path):
    """A run with a memory of which nothing is noted."""
    memory_of(tmp_path / ".stitchjam" / "memory", noted=False).close()
    return run


def as_json(done: tuple[int, str, str]) -> Any:
    assert done[0] == 0, done[2]
    return json.loads(done[1])


# Labels.


def test_labels_are_listed_by_kind_with_their_use(trip):
    value = as_json(trip("show", "--labels", "--json"))
    assert (value["turns"], value["noted"]) == (8, 7)
    topics = {row["name"]: row for row in value["labels"]["scope"]}
    assert list(topics) == ["day 1", "day 2", "food"]  # by use
    first = topics["day 1"]
    assert first["about"] == "Elm House is booked for the first night" and first["turns"] == 4
    assert (first["first"], first["last"], first["move"]) == ("2026-03-01T09:00", "2026-03-02T09:00", "return")
    assert topics["day 2"]["aliases"] == ["second day"] and topics["day 2"]["turns"] == 2
    assert [(row["name"], row["turns"]) for row in value["labels"]["entity"]][0] == ("hotel", 3)
    assert "move" not in value["labels"]["event"][0]


def test_the_trail_says_what_was_merged_into_what_and_when(trip):
    [merge] = as_json(trip("show", "--labels", "--json"))["merges"]
    assert (merge["old_name"], merge["into_name"], merge["similarity"]) == ("second day", "day 2", 0.91)
    assert merge["place"] == "D2:3" and merge["time"] == "2026-03-02T09:00"
    shown = trip("show", "--labels")[1]
    assert "7 of 8 turns are labelled; the others wait: stitchjam label" in shown
    assert "topics: 3 labels, 3 in use" in shown and "second day (scope-8)" in shown


@pytest.mark.parametrize("name", ["day 2", "Second day", "scope-6", "scope-8"])
def test_a_label_is_shown_with_the_turns_that_bear_it(trip, name):
    value = as_json(trip("show", "--labels", name, "--json"))
    assert value["label"]["id"] == "scope-6"
    assert [turn["external_id"] for turn in value["turns"]] == ["D1:4", "D2:2"]
    assert "[D2:2] Mira: tell museum: says museum" in trip("show", "--labels", name)[1]


def test_a_label_that_is_not_there_or_not_clear_is_an_error_that_helps(trip):
    code, _, err = trip("show", "--labels", "day 9")
    assert code == 2 and "there is no label 'day 9'; use one of those that exist, such as day" in err
    store = store_of([[Said("a", "price", "open", "price")]])
    with pytest.raises(UsageError, match=r"name of several labels; name one of these: scope-0 \(topics\), event-1"):
        label_turns(store, "price")


def test_labels_that_no_turn_bears_come_last():
    value = label_json(store_of(TRIP[:1]))
    assert [row["turns"] for row in value["labels"]["scope"]] == [3, 1]


# Timeline.


def test_the_timeline_is_a_line_a_turn_under_its_session(trip):
    shown = trip("show", "--timeline")[1]
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines[0] == "7 of 8 turns are labelled, on 3 topics; the others wait: stitchjam label"
    assert lines[2:] == [
        "s1 2026-03-01T09:00",
        "■ 1 open     day 1  [D1:1] Mira: propose Oak Inn: says Oak Inn",
        "■ 1          [D1:2] Mira: ask Oak Inn: says Oak Inn",
        "■ 1          [D1:3] Mira: decide Oak Inn: says Oak Inn  (decided otherwise later)",
        "■ 2 open     day 2  [D1:4] Mira: propose museum: says museum",
        "□ - no note  [D1:5] Mira: Good morning.",
        "",
        "s2 2026-03-02T09:00",
        "■ 1 return   day 1  [D2:1] Mira: decide Elm House: says Elm House",
        # It was noted as another topic that opens, which was merged since.
        "■ 2 return   day 2  [D2:2] Mira: tell museum: says museum",
        "■ 3 open     food  [D2:3] Mira: ask: says",
    ]


def test_the_timeline_of_a_session_keeps_the_numbers_of_the_whole(trip):
    rows = as_json(trip("show", "s2", "--timeline", "--json"))
    assert [row["external_id"] for row in rows] == ["D2:1", "D2:2", "D2:3"]
    assert [row["note"]["topic"]["number"] for row in rows] == [1, 2, 3]
    first = as_json(trip("show", "--timeline", "--json"))
    assert first[5]["note"]["replaces"] == [first[2]["id"]] and first[2]["note"]["replaced_by"] == first[5]["id"]
    assert first[4]["note"] is None and first[1]["note"]["references"] == [{"words": "it", "means": "the Oak Inn"}]
    assert trip("show", "D2:1", "--timeline", "--json")[1] == trip("show", "s2", "--timeline", "--json")[1]
    assert "there is no session and no turn 's7'" in trip("show", "s7", "--timeline")[2]


def test_hostile_text_reaches_no_terminal(run):
    said = Said(HOSTILE, HOSTILE, "open", HOSTILE, (HOSTILE,), "tell", HOSTILE, ((HOSTILE, HOSTILE),), (), HOSTILE)
    said.speaker = HOSTILE
    memory_of(Path("m"), [[said, Said(HOSTILE, speaker=HOSTILE)]]).close()
    traced = ["--trace", HOSTILE, "--turn", "D1:2", "--ablate", "similarity-only"]
    for how in (["--labels"], ["--labels", "scope-0"], ["--timeline"], traced):
        code, out, err = run("show", *how, "--memory", "m")
        assert code == 0, err
        assert not [mark for mark in UNSAFE if mark in out + err] and "<script>" in out and "[bold]x[/bold]" in out
    assert len(run("show", "--timeline", "--memory", "m")[1].splitlines()) == 5


# What is not there, or was forgotten.


@pytest.mark.parametrize("how", [["--labels"], ["--labels", "x"], ["--timeline"], ["--timeline", "--html", "t.html"]])
def test_a_memory_without_notes_says_what_to_do(plain, how):
    assert plain("show", *how)[::2] == (2, "error: nothing is labelled yet; label it first: stitchjam label\n")
    assert not Path("t.html").exists()


def test_without_notes_a_question_is_traced_by_similarity_and_without_a_model(plain):
    code, out, err = plain("show", "--trace", "museum", "--turn", "D2:2")
    assert code == 0 and "by similarity" in out and "it has no note" in out
    assert "nothing is labelled yet, so similarity alone decides" in err and "0 calls" in err


def test_what_was_forgotten_is_not_shown(run):
    kitchen = [Said("The kettle is broken.", "kitchen", "open", "reports", ("kettle",), "tell", "kettle")]
    memory_of(Path(".stitchjam/memory"), (kitchen, *TRIP)).close()
    assert run("forget", "s3", "--yes")[0] == 0
    value = as_json(run("show", "--labels", "--json"))
    names = {row["name"] for rows in value["labels"].values() for row in rows}
    # The gist of "day 1" told of the forgotten turns, so all turns of their topics are to be labelled anew.
    assert names == {"kitchen", "reports", "kettle"} and value["merges"] == []
    rows = as_json(run("show", "--timeline", "--json"))
    assert [row["external_id"] for row in rows if row["note"]] == ["D1:1"] and "Elm" not in json.dumps(rows)
    assert run("forget", "s1", "--yes")[0] == 0
    assert "nothing is labelled yet" in run("show", "--timeline")[2]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--labels", "--timeline"], "choose one of --labels, --tree, --timeline, --trace"),
        (["--html", "x.html"], "--html is a form of --timeline"),
        (["--turn", "D1:1"], "give it with --trace"),
        (["D1:1", "--trace", "x"], "to ask about a turn: --turn D1:1"),
        (["--trace", "x", "--program", "answerer"], "Answerer does not recall by intent; choose stitch_agent"),
        (["--trace", "x", "--ablate", "no-verbs"], "choose one of: no-scope"),
        (["--trace", "x", "--ablate", "similarity-only", "--turn", "D9:9"], "there is no turn 'D9:9'"),
    ],
)
def test_what_does_not_go_together_is_one_line(trip, arguments, part):
    code, _, err = trip("show", *arguments)
    assert code == 2 and part in err and "Traceback" not in err


# Trace.


def intent(scopes=(), events=(), entities=()):
    return scripted_lm({"read_intent": {"scopes": list(scopes), "events": list(events), "entities": list(entities)}})


def trace(store, question, recall, lm, turn=None):
    with dspy.context(lm=lm):
        found = recall(question=question, store=store)
    value = recall_json(found.recall, found.context)
    return value, turn and standing_json(turn, found.recall, recall, store, found.context)


def test_a_trace_says_why_turns_were_taken_or_not():
    store = store_of(TALK)
    value, _ = trace(store, "What does the boat cost?", IntentRecall(k=6, tokens=150), intent(["boat"]))
    assert value["intent"] == {"scope": [{"id": "scope-0", "name": "boat"}], "event": [], "entity": []}
    assert value["facets"]["scope"] == "36 of 72 turns bear it"
    assert value["facets"]["event"] == "not determined by the request"
    why = [row["why"] for row in value["ranked"]]
    assert why[:4] == ["by intent", "by similarity", "by intent", "by similarity"]
    assert set(why[value["taken"] :]) == {"does not fit the budget"} and value["tokens"] <= 150
    assert value["ranked"][0]["facets"] == ["scope"] and value["ranked"][0]["density"] > 0
    few, _ = trace(store, "What does the boat cost?", IntentRecall(k=3), intent(["boat"]))
    assert [row["why"] for row in few["ranked"][2:]] == ["by intent", "beyond k", "beyond k", "beyond k"]
    assert few["taken"] == 3 and "beyond k" in [row["why"] for row in few["ranked"]]
    assert recall_lines(few)[1] == "topics: boat (36 of 72 turns bear it)"


def test_a_turn_that_was_not_recalled_is_explained():
    store = store_of(TALK)
    other = next(turn for turn in store.turns if "hotel of part 0, number 7" in turn.text)
    recall = IntentRecall(k=5)
    value, found = trace(store, "What does the boat cost?", recall, intent(["boat"]), other)
    assert other.id not in [row["turn"]["id"] for row in value["ranked"]]
    assert not found["recalled"] and found["by_intent"] is None and found["of"] == 72
    assert found["place"] > 10 and found["by_similarity"] > 1 and found["lacks"] == ["scope"]
    assert found["why"].endswith("and the first 10 (twice k) are looked at")
    lines = "\n".join(standing_lines(found))
    assert "topics: hotel" in lines and "does not bear, or it does not count: scope" in lines and "rank -" in lines


def test_the_places_of_a_turn_are_those_of_the_ranking():
    store, recall = store_of(TALK), IntentRecall(k=40)
    value, _ = trace(store, "boat number 7", recall, intent(["boat"], (), ["hotel"]))
    for row in value["ranked"][:12]:
        turn = store.turn(row["turn"]["id"])
        _, found = trace(store, "boat number 7", recall, intent(["boat"], (), ["hotel"]), turn)
        assert (found["place"], found["by"], found["density"]) == (row["place"], row["by"], row["density"])
        assert found["why"] == f"recalled by {row['by']}, at place {row['place']}"
        order = found["by_intent"] if row["by"] == "intent" else found["by_similarity"]
        assert order and order <= row["place"]


def test_what_the_ranking_step_drops_is_said():
    store, turns = store_of(TRIP), store_of(TRIP).turns
    lm = scripted_lm({"read_intent": {"scopes": [], "events": [], "entities": []}, "rank_turns": {"useful": ["t1"]}})
    value, found = trace(store, "Oak Inn", IntentRecall(rank=True), lm, turns[5])
    assert [row["why"] for row in value["ranked"]].count("taken, then dropped by the step that ranks") == 7
    assert found["why"] == "not recalled: taken, then dropped by the step that ranks"


def test_a_reply_that_cannot_be_used_is_in_the_trace():
    value, _ = trace(store_of(TRIP), "Oak Inn", IntentRecall(), scripted_lm({"read_intent": "no json"}))
    assert value["failures"] and "could not be used: " in str(recall_lines(value))


def test_an_ablation_replaces_that_of_the_program():
    assert recall_of(StitchAgent(IntentRecall(ablate="no-event")), "no-scope").ablate == "no-scope"
    assert recall_of(IntentRecall(ablate="no-event")).ablate == "no-event"
    with pytest.raises(UsageError, match="does not recall by intent"):
        recall_of(Answerer())


def test_show_trace_asks_the_model_for_the_intent_alone(trip, monkeypatch):
    lm = intent(["day 1"], ["decides"])
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
    shown = trip("show", "--trace", "Where do we sleep?", "--turn", "D1:5")
    assert shown[0] == 0 and "topics: day 1 (" in shown[1] and "what turns do: decides (" in shown[1]
    assert "turn [s1 D1:5] Mira: Good morning." in shown[1] and "1 calls" in shown[2]
    value = as_json(trip("show", "--trace", "Where do we sleep?", "--ablate", "no-scope", "--turn", "D1:5", "--json"))
    assert value["facets"]["scope"] == "switched off" and value["turn"]["note"] is None
    assert value["usage"][0]["step"] == "read_intent"


def test_ask_with_trace_tells_how_it_recalled(trip, monkeypatch):
    replies = {
        "read_intent": {"scopes": ["day 1"], "events": [], "entities": []},
        "answer_question": {"answer": "Elm House", "sources": ["c1"]},
    }
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": scripted_lm(replies)}))
    code, out, err = trip("ask", "Where do we sleep?", "--program", "stitch_agent", "--trace")
    assert code == 0, err
    assert "Elm House" in out and "topics: day 1 (" in out and "by similarity" in out
    value = as_json(trip("ask", "Where do we sleep?", "--program", "stitch_agent", "--trace", "--json"))
    assert value["recall"]["taken"] == 8


def test_lines_of_a_timeline_have_the_colours_of_its_page():
    lines = [line for line in timeline_lines(told(store_of(TRIP))) if getattr(line, "spans", ())]
    assert [str(line.spans[0].style) for line in lines[:4]] == [COLOURS[1]] * 3 + [COLOURS[2]]


def test_a_turn_of_another_memory_has_no_place():
    store, other = store_of(TRIP), store_of(TALK).turns[0]
    with pytest.raises(UsageError, match="is not in this memory"):
        standing(other, "boat", Intent(), store)
