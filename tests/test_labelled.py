"""Sets with gold labels become histories that hold none of it, and rows that read back the same."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.labelled import LABELLED, LabelledHistory, TurnLabels, labelled_rows, read_labelled

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not beside the project")
REAL = {
    "worlds": None,
    "came": SHARED / "came_bench_site",
    "sgd": SHARED / "sgd",
    "realmem": SHARED / "realmem",
    "qmsum": SHARED / "qmsum",
    "tiage": SHARED / "tiage",
}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def one(kind, path):
    [found] = read_labelled(kind, path)
    return found


def scopes(found: LabelledHistory):
    return [found.labels[turn.id].scope for turn in found.history.turns]


def by_text(found: LabelledHistory):
    return {turn.text: found.labels.get(turn.id, TurnLabels()) for turn in found.history.turns}


# The sets as they are.

SIZES = {  # histories, sessions, turns, questions, scopes, events, entities
    "worlds": (5, 220, 3061, 150, 51, 19, 19),
    "came": (2, 2, 239, 48, 3, 10, 0),
    "sgd": (1, 60, 2112, 531, 240, 16, 50),
    "realmem": (1, 191, 1543, 0, 95, 0, 0),
    "qmsum": (12, 12, 9495, 0, 50, 0, 0),
    "tiage": (100, 100, 1546, 0, 411, 0, 0),
}


@needs_shared
@pytest.mark.parametrize("kind", SIZES)
def test_real_sets_have_the_sizes_that_are_known(kind):
    found = list(read_labelled(kind, REAL[kind]))
    golds = [(each.name, gold) for each in found for gold in each.labels.values()]
    assert SIZES[kind] == (
        len(found),
        sum(len(each.history.sessions) for each in found),
        sum(len(each.history.turns) for each in found),
        sum(len(each.questions) for each in found),
        len({(name, gold.scope) for name, gold in golds if gold.scope}),
        len({label for _, gold in golds for label in gold.events}),
        len({label for _, gold in golds for label in gold.entities}),
    )
    for each in found:
        turns = {turn.id for turn in each.history.turns}
        assert each.labels.keys() <= turns and len(turns) == len(each.history.turns)
        assert each.name == each.history.id and {id for q in each.questions for id in q.evidence} <= turns


@needs_shared
@pytest.mark.parametrize("kind", SIZES)
def test_real_sets_read_back_the_same_from_rows(kind, tmp_path):
    found = list(read_labelled(kind, REAL[kind]))
    path = write(tmp_path / "rows.jsonl", *(row for each in found for row in labelled_rows(each)))
    assert list(read_labelled("rows", path)) == [each.model_copy(update={"questions": ()}) for each in found]


@needs_shared
def test_gold_of_real_sets_stays_out_of_histories():
    gold = {
        "worlds": ("small talk", "scope"),  # names of goals are said
        "came": ("SET_DAY", "PROPOSE", "DECIDE", "day-1", "contention_1", "TIMESTAMP", "partition"),
        "sgd": ("Events_3", "INFORM_INTENT", "inform_intent", "departure_date", "dontcare"),
        "realmem": ("Mental_Health_Support_", "Enhanced:", "S10063", "is_query", '"topic"'),
        "qmsum": ("Belief net Intentions", "topic_list"),
        "tiage": ('"-1"', '"1"'),
    }
    for kind, hidden in gold.items():
        for each in read_labelled(kind, REAL[kind]):
            shown = each.history.model_dump_json()
            rows = json.dumps([row["inputs"] for row in labelled_rows(each)], ensure_ascii=False)
            assert not [word for word in hidden if word in shown or word in rows]


# Records.


def test_a_field_with_gold_is_known_and_known_fields_stand_in_one_order():
    assert TurnLabels(scope="a", events=("b",), known=("events", "scope")).known == ("scope", "events")
    with pytest.raises(ValidationError, match="known: events has gold and is not named"):
        TurnLabels(scope="a", events=("b",), known=("scope",))


def test_what_is_not_there_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match="unknown kind of labelled set 'multiwoz'; choose one of: worlds, came, sgd"):
        read_labelled("multiwoz", tmp_path)
    for kind in set(LABELLED) - {"worlds"}:
        with pytest.raises(UsageError, match=f"{kind} does not ship with this package; give the path"):
            read_labelled(kind)
    with pytest.raises(UsageError, match="there is no such file or folder"):
        read_labelled("tiage", tmp_path / "none.json")
    for kind in ("qmsum", "realmem", "tiage"):
        with pytest.raises(UsageError, match="no such file here; expected"):
            list(read_labelled(kind, tmp_path))


# Worlds.


def test_worlds_tell_scope_events_entities_words_and_references():
    found = list(read_labelled("worlds"))
    golds = [gold for each in found for gold in each.labels.values()]
    assert {gold.known for gold in golds} == {("scope", "events", "entities", "targets", "references")}
    assert not any(re.search(r"\byesterday\b", target) for gold in golds for target in gold.targets)
    for each in found:
        for turn in each.history.turns:
            gold = each.labels[turn.id]
            assert all(words in turn.text for words in (*gold.targets, *(ref.words for ref in gold.references)))
            assert all(ref.means for ref in gold.references)


# CAME-Bench.


def came(folder, *labels):
    rows = [
        {"id": f"trip-a-turn-{at}", "role": "user", "content": f"{text} ----TIMESTAMP: 2025-05-15T08:0{at}", **gold}
        for at, (text, gold) in enumerate(labels, 1)
    ]
    write(folder / "turns.jsonl", *rows)
    answer = {"free_form_answer": "Oak"}
    write(
        folder / "questions.jsonl",
        {"id": "q", "content": "Which?", "answer": answer, "answer_turn_ids": [rows[0]["id"]]},
    )
    return folder


def test_labels_of_came_become_gold_of_its_turns(tmp_path):
    day = {"partition": ["trip-a", "day-1"]}
    labels = by_text(
        found := one(
            "came",
            came(
                tmp_path / "traj-1",
                ("The Oak Inn?", {**day, "action": "PROPOSE", "action_object": "The Oak Inn"}),
                ("Or Elm House.", {**day, "action": "COMPARE", "action_object": "the Oak Inn; Elm House,"}),
                ("Which one is it?", {**day, "action": "INQUIRE", "action_object": "Elm House"}),
                ("Day 1 now.", {**day, "action": "SET_DAY", "action_object": ""}),
                ("I attack.", {"partition": ["topic-b"], "action": "attack", "action_object": "pro_contention_1"}),
                ("Hm.", {}),
            ),
        )
    )
    assert found.name == "traj-1" and len(found.questions) == 1
    assert labels["The Oak Inn?"] == TurnLabels(
        scope="day-1", events=("PROPOSE",), targets=("The Oak Inn",), known=("scope", "events", "targets")
    )
    assert labels["Or Elm House."].targets == ("the Oak Inn", "Elm House")
    assert labels["Which one is it?"].targets == ("Elm House",)  # named elsewhere: that is what a note has to resolve
    assert labels["Day 1 now."].known == ("scope", "events", "targets") and not labels["Day 1 now."].targets
    assert labels["Hm."] == TurnLabels()


def test_the_object_of_a_debate_is_an_id_and_no_target(tmp_path):
    gold = {"partition": ["topic-b"], "action": "attack", "action_object": "pro_contention_1, 8dcf27e2-389b"}
    [label] = one("came", came(tmp_path / "traj-1", ("I attack.", gold))).labels.values()
    assert label == TurnLabels(scope="topic-b", events=("attack",), known=("scope", "events"))


# Schema-guided dialogues.

SCHEMA = [
    {
        "service_name": "Buses_3",
        "description": "Bus travel",
        "slots": [
            {"name": "to_city", "description": "Where to"},
            {"name": "departure_date", "description": "Which day"},
            {"name": "departure_time", "description": "When"},
            {"name": "count_of", "description": "How many"},
            {"name": "direct", "description": "Whether direct"},
        ],
    },
    {"service_name": "Events_3", "description": "Events", "slots": [{"name": "city", "description": "City"}]},
]


def act(name, slot="", *values, canonical=()):
    return {"act": name, "slot": slot, "values": list(values), "canonical_values": list(canonical or values)}


def user(text, *frames):
    """Frames of service, state and acts."""
    return {
        "speaker": "USER",
        "utterance": text,
        "frames": [
            {"service": service, "actions": acts, "slots": [], "state": {"slot_values": state}}
            for service, state, *acts in frames
        ],
    }


def system(text, service, *acts):
    return {
        "speaker": "SYSTEM",
        "utterance": text,
        "frames": [{"service": service, "actions": list(acts), "slots": []}],
    }


def trip(id, city, day="May 1st", iso="2019-05-01", time="7:40 am"):
    told = {"to_city": [city], "departure_date": [day]}
    return {
        "dialogue_id": id,
        "services": ["Buses_3"],
        "turns": [
            user(
                f"A bus to {city} on {day}.",
                (
                    "Buses_3",
                    told,
                    act("INFORM", "to_city", city),
                    act("INFORM", "departure_date", day, canonical=[iso]),
                ),
            ),
            system(f"One leaves at {time}.", "Buses_3", act("OFFER", "departure_time", time)),
            user("Sounds good.", ("Buses_3", {**told, "departure_time": [time]}, act("SELECT"))),
        ],
    }


def sgd(folder, *dialogues, schema=SCHEMA):
    write(folder / "schema.json", schema)
    return write(folder / "dialogues_001.json", list(dialogues))


def asked(found):
    """By id of a question: text, answer and the text of its evidence."""
    turns = {turn.id: turn for turn in found.history.turns}
    return {q.id: (q.text, q.answer, turns[q.evidence[0]].text) for q in found.questions}


def test_frames_become_scope_acts_and_slots(tmp_path):
    talk = {
        "dialogue_id": "21_1",
        "turns": [
            user(
                "A show? And a bus there.",
                ("Events_3", {}, act("INFORM_INTENT", "intent", "FindEvents"), act("REQUEST", "city")),
                ("Buses_3", {}, act("INFORM", "to_city", "Bonn"), act("REQUEST", "city")),
            ),
            system("There are 9.", "Events_3", act("INFORM_COUNT", "count", "9"), act("REQUEST", "city")),
            {"speaker": "USER", "utterance": "Hm.", "frames": []},
        ],
    }
    found = one("sgd", sgd(tmp_path, talk))
    labels = by_text(found)
    assert labels["A show? And a bus there."] == TurnLabels(
        scope="21_1 Events_3",
        events=("inform_intent", "request", "inform"),
        entities=("city", "to_city"),  # "city" is no slot of Buses_3, "intent" and "count" of no service
        known=("scope", "events", "entities"),
    )
    assert labels["There are 9."].events == ("inform_count", "request") and labels["Hm."] == TurnLabels()
    assert [turn.speaker for turn in found.history.turns] == ["user", "system", "user"]


def test_questions_tell_a_dialogue_apart_by_as_few_values_as_can_be(tmp_path):
    found = asked(
        one("sgd", sgd(tmp_path, trip("a", "Bonn"), trip("b", "Bonn", "May 2nd", "2019-05-02"), trip("c", "Ulm")))
    )
    text, answer, said = found["b/Buses_3/departure_time"]
    assert answer == "7:40 am" and said == "One leaves at 7:40 am."  # the offer that was accepted
    assert text == (
        'About this service: "Bus travel". Of the user who settled on "May 2nd" (Which day): '
        'what did this user settle on in the end for "When"?'
    )
    assert found["a/Buses_3/departure_time"][0].count('" (') == 2  # Bonn and May 1st, neither is enough
    assert '"Ulm" (Where to)' in found["c/Buses_3/departure_date"][0]
    assert "a/Buses_3/departure_date" not in found  # two went to Bonn at 7:40 am


def test_a_date_in_other_words_does_not_tell_dialogues_apart(tmp_path):
    found = one("sgd", sgd(tmp_path, trip("a", "Bonn", "May 1st"), trip("b", "Ulm", "next Wednesday")))
    assert '"Bonn"' in asked(found)["a/Buses_3/departure_time"][0]
    aliases = {q.id: q.aliases for q in found.questions}
    assert aliases["b/Buses_3/departure_date"] == ("2019-05-01",)
    same = one("sgd", sgd(tmp_path, trip("a", "Bonn", "May 1st"), trip("b", "Bonn", "next Wednesday")))
    assert same.questions == ()


def test_a_value_that_no_turn_says_is_not_asked_for(tmp_path):
    state = {"to_city": ["Bonn"], "direct": ["True"], "count_of": ["1"], "departure_date": ["dontcare"]}
    talk = {"dialogue_id": "a", "turns": [user("There at 11:20, by True Bus, dontcare.", ("Buses_3", state))]}
    assert one("sgd", sgd(tmp_path, talk)).questions == ()


def test_files_without_canonical_forms_have_the_same_questions_with_fewer_aliases(tmp_path):
    old = trip("a", "Bonn")
    for frame in (frame for turn in old["turns"] for frame in turn["frames"]):
        frame["actions"] = [{k: v for k, v in one.items() if k != "canonical_values"} for one in frame["actions"]]
    new, bare = (one("sgd", sgd(tmp_path, each)).questions for each in (trip("a", "Bonn"), old))
    assert [(q.id, q.text, q.answer) for q in bare] == [(q.id, q.text, q.answer) for q in new] and len(new) == 3
    assert [q.aliases for q in new] != [q.aliases for q in bare] == [(), (), ()]


def test_what_was_settled_last_counts_and_another_form_of_it_settles_nothing(tmp_path):
    talk = {
        "dialogue_id": "a",
        "turns": [
            user("To Bonn.", ("Buses_3", {"to_city": ["Bonn"]})),
            user("No, to Ulm, BW.", ("Buses_3", {"to_city": ["Ulm, BW"]})),
            system("To Ulm?", "Buses_3", act("CONFIRM", "to_city", "Ulm")),
            user("Yes, Ulm.", ("Buses_3", {"to_city": ["Ulm", "Ulm, BW"]})),
        ],
    }
    [question] = one("sgd", sgd(tmp_path, talk)).questions
    found = asked(one("sgd", tmp_path))["a/Buses_3/to_city"]
    assert found[1:] == ("Ulm, BW", "No, to Ulm, BW.") and question.aliases == ("Ulm",)
    assert "Of the only user of it" in found[0]


@needs_shared
def test_real_answers_stand_in_their_evidence_and_not_in_their_question():
    [found] = read_labelled("sgd", REAL["sgd"])
    turns = {turn.id: turn for turn in found.history.turns}
    texts = Counter(q.text for q in found.questions)
    assert max(texts.values()) == 1
    for q in found.questions:
        assert len(q.evidence) == 1 and q.answer in turns[q.evidence[0]].text
        assert turns[q.evidence[0]].session_id == q.sessions[0]
        assert not [form for form in (q.answer, *q.aliases) if f'"{form}"' in q.text]


def test_dialogues_without_their_schema_are_refused(tmp_path):
    path = sgd(tmp_path, trip("a", "Bonn"))
    write(tmp_path / "other_schema.json", SCHEMA)
    with pytest.raises(UsageError, match=r"2 files \*schema.json here; put the one of these dialogues beside them"):
        list(read_labelled("sgd", path))
    (tmp_path / "other_schema.json").unlink()
    with pytest.raises(UsageError, match="there is no history in it"):
        list(read_labelled("sgd", tmp_path / "schema.json"))
    sgd(tmp_path, trip("a", "Bonn"), schema=SCHEMA[1:])
    with pytest.raises(DataError, match=r"dialogues_001.json, line 1, entry 1, .*no service 'Buses_3'"):
        list(read_labelled("sgd", tmp_path))
    sgd(tmp_path, trip("a", "Bonn"), trip("a", "Ulm"))
    with pytest.raises(DataError, match="entry 2: the id 'a' was used before"):
        list(read_labelled("sgd", tmp_path))


# RealMem.


def talk(identifier, uuid, day, *texts):
    turns = [{"speaker": "User", "is_query": False, "content": text, "query_id": None} for text in texts]
    return {"session_identifier": identifier, "session_uuid": uuid, "current_time": day, "dialogue_turns": turns}


def test_projects_are_scopes_and_sessions_stand_in_time_order(tmp_path):
    whole = {
        "_metadata": {},
        "dialogues": [
            talk("Travel_1:S2_01", "u2", "2026-01-02 (Friday)", "c", ""),
            talk("Enhanced:S7", "u3", "2026-01-03 (Saturday)", "d"),
            talk("Enhanced:S8", "u4", "2026-01-04 (Sunday)", "e"),
            talk("Travel_1:S1_01", "u1", "2026-01-01 (Thursday)", "a", "b"),
        ],
    }
    found = one("realmem", write(tmp_path / "Ann_dialogues_1k.json", whole))
    assert found.name == "Ann_dialogues_1k" and [turn.text for turn in found.history.turns] == [
        "a",
        "b",
        "c",
        "",
        "d",
        "e",
    ]
    assert scopes(found) == ["Travel_1"] * 4 + ["Enhanced:S7", "Enhanced:S8"]
    assert [(session.id, session.time) for session in found.history.sessions][0] == ("u1", "2026-01-01")
    whole["dialogues"][0]["dialogue_turns"] = []
    with pytest.raises(DataError, match=r'entry 1, "dialogue_turns": expected at least one turn'):
        list(read_labelled("realmem", write(tmp_path / "Ann_dialogues_1k.json", whole)))


# QMSum.


def meeting(*spans, **more):
    said = [{"speaker": "A", "content": text} for text in "abcdef"]
    topics = [{"topic": topic, "relevant_text_span": list(parts)} for topic, *parts in spans]
    return {"meeting_transcripts": said, "topic_list": topics, **more}


def test_topics_are_inclusive_the_first_counts_and_between_them_is_none(tmp_path):
    rows = [
        meeting(("x", ["0", "1"]), ("y", ["1", "3"], ["5", "5"]), meeting_id="M1"),
        meeting(("later", ["4", "5"]), ("earlier", ["0", "0"])),
    ]
    first, second = read_labelled("qmsum", write(tmp_path / "dev.jsonl", *rows))
    assert (first.name, second.name) == ("M1", "dev-2")
    assert scopes(first) == ["x", "x", "y", "y", "", "y"]
    assert scopes(second) == ["earlier", "", "", "", "later", "later"]
    assert {gold.known for gold in first.labels.values()} == {("scope",)}


@pytest.mark.parametrize("span", [["0", "6"], ["3", "2"], ["0"], ["a", "2"], ["-1", "2"], ["0", "1", "2"], ["²", "3"]])
def test_a_span_that_cannot_be_is_named(tmp_path, span):
    path = write(tmp_path / "dev.jsonl", meeting(), meeting(("x", span)))
    with pytest.raises(
        DataError, match=r'dev.jsonl, line 2, "topic_list", entry 1, .*the first and the last turn of a'
    ):
        list(read_labelled("qmsum", path))


# TIAGE.


def test_each_shift_begins_a_scope(tmp_path):
    marks = ["-1", "0", "1", "1", "0"]
    whole = {"1": [[f"line {at}", mark] for at, mark in enumerate(marks)], "2": [["hi", "-1"]]}
    first, second = read_labelled("tiage", write(tmp_path / "anno_dev.json", whole))
    assert (first.name, second.name) == ("anno_dev-1", "anno_dev-2")
    assert scopes(first) == ["1", "1", "2", "3", "3"] and scopes(second) == ["1"]
    assert [turn.speaker for turn in first.history.turns] == ["A", "B", "A", "B", "A"]


@pytest.mark.parametrize(("marks", "entry"), [(["0", "0"], 1), (["-1", "0", "-1"], 3), (["-1", "2"], 2)])
def test_a_mark_that_is_none_is_named(tmp_path, marks, entry):
    path = write(tmp_path / "anno_dev.json", {"7": [["hi", mark] for mark in marks]})
    with pytest.raises(DataError, match=rf'line 1, "7", entry {entry}: expected (the|a) mark'):
        list(read_labelled("tiage", path))


# Rows.


def row(session="s", text="hi", group="g", outputs=None, **inputs):
    told = {"session": session, "speaker": "Ann", "text": text, **inputs}
    return {"step": "label_turn", "inputs": told, "outputs": outputs or {}, "group": group}


def test_rows_are_gathered_by_group_and_session(tmp_path):
    rows = [
        row("s2", "b", time="2026-01-02", outputs={"scope": "x"}),
        row("s1", "other", group="h"),
        row("s1", "a", time="2026-01-01", outputs={"events": [], "references": [{"words": "it", "means": "Oak"}]}),
        row("s2", "c", outputs={"scope": ""}, id="t3"),
    ]
    first, second = read_labelled("rows", write(tmp_path / "rows.jsonl", *rows))
    assert (first.name, second.name) == ("g", "h") and second.labels == {}
    labels = by_text(first)
    assert list(labels) == ["a", "b", "c"]
    assert labels["a"].known == ("events", "references") and labels["a"].references[0].means == "Oak"
    assert labels["c"] == TurnLabels(known=("scope",))
    assert [turn.external_id for turn in first.history.turns] == ["", "", "t3"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (row() | {"step": "type_event"}, '"step": expected "label_turn"'),
        (
            row(outputs={"topic": "x"}),
            "unknown field 'topic'; the known ones are scope, events, entities, targets, ref",
        ),
        (row(outputs={"events": "x"}), '"events": expected a list, found text'),
        (row(outputs={"references": [{"words": "it"}]}), '"means": expected text, found nothing'),
        (row(turn="x"), "unknown field 'turn'; the known ones are session, id"),
        (row(session=""), '"session": expected a name that is not empty'),
        (row(id="t1"), "the id 't1' was used before"),
        (row() | {"extra": 1}, "unknown field 'extra'"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path, wrong, said):
    path = write(tmp_path / "rows.jsonl", row(id="t1"), row(id="t1", group="other"), wrong)
    with pytest.raises(DataError) as caught:
        list(read_labelled("rows", path))
    assert str(caught.value).startswith(f"{path}, line 3") and said in str(caught.value)


def test_two_histories_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "dev.jsonl", meeting(meeting_id="M1"), meeting(meeting_id="M1"))
    with pytest.raises(DataError, match="two histories are called 'M1'"):
        list(read_labelled("qmsum", path))
