"""Turns get one scope, types and a note whatever a model says, at a cost that does not grow."""

from pathlib import Path

import dspy
import pytest
from stitching import attentive, history_of, labelled, read, said

from stitchjam.data.disk.store import DiskStore
from stitchjam.data.errors import BackendError, UsageError
from stitchjam.data.readers.came import read_came
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens
from stitchjam.programs.memory import Memory
from stitchjam.programs.stitch.ingest import label_memory
from stitchjam.programs.stitch.recall import StitchAgent
from stitchjam.programs.stitch.stitcher import FusedStitcher, StepwiseStitcher
from stitchjam.programs.stitch.view import clean, windows

TRAVEL = Path(__file__).resolve().parents[2] / "shared" / "data" / "came_bench_site" / "travel_plan_example"
TRIP = history_of(
    "trip: we propose the hotel Lux",
    "trip: what is the price of the hotel Lux?",
    "party: we propose the person Mira",
    "trip: we decide on the hotel Lux",
    "trip: no, we decide on the hotel Rex",
)


def scope_of(notebook, name):
    """The scope of that name."""
    found = notebook.bank.find("scope", name)
    assert found is not None
    return found


def shown(notebook):
    """Scope, move, events, entities, act and target of each note, by name."""
    name = notebook.bank.name
    return [
        (name(n.scope), n.move, *map(name, n.intent.events), list(map(name, n.intent.entities)), n.act, n.target)
        for n in map(notebook.of, notebook.notes)
    ]


def test_each_turn_gets_its_scope_types_and_note_in_one_call():
    lm = attentive()
    notebook = labelled(TRIP, lm)

    assert shown(notebook) == [
        ("trip", "open", "proposes", ["hotel"], "propose", "Lux"),
        ("trip", "continue", "asks", ["hotel", "price"], "ask", "Lux"),
        ("party", "open", "proposes", ["person"], "propose", "Mira"),
        ("trip", "return", "decides", ["hotel"], "decide", "Lux"),
        ("trip", "continue", "decides", ["hotel"], "decide", "Rex"),
    ]
    assert [call.step for call in lm.engine.calls] == ["seed_vocabulary"] + ["label_turn"] * 5


def test_stepwise_gives_the_same_notes_in_five_calls():
    lm = attentive()
    notebook, fused = labelled(TRIP, lm, StepwiseStitcher()), labelled(TRIP, attentive())

    assert shown(notebook) == shown(fused)
    steps = ["detect_scope", "type_event", "type_entities", "write_note", "write_gist"]
    assert [call.step for call in lm.engine.calls] == ["seed_vocabulary", *steps * 5]


def test_a_later_decision_replaces_an_earlier_one_and_spans_say_where():
    notebook = labelled(TRIP, attentive())
    first, second = TRIP.turns[3], TRIP.turns[4]

    assert notebook.ledger.replaced_by(first.id) == second.id and not notebook.ledger.replaced_by(second.id)
    note = notebook.notes[second.id]
    assert second.text[note.span.start : note.span.end] == "Rex" and note.span.holds_in(second)


def test_mentions_are_counted_by_scope_and_speaker():
    notebook = labelled(TRIP, attentive())
    scope = scope_of(notebook, "trip").id

    told = [(speaker, place, mention.target) for speaker, place, mention in notebook.ledger.told(scope, 5)]
    assert told == [("Ann", 1, "Lux"), ("Ann", 2, "Rex"), ("Ben", 1, "Lux")]


@pytest.mark.parametrize(
    "garbage",
    [
        {"topic": "", "scope": "c99", "event": "", "entities": [], "target": "", "summary": "", "gist": ""},
        {
            "topic": "none",
            "scope": "none",
            "event": "none",
            "entities": ["none", "?"],
            "target": "it",
            "summary": "",
            "gist": "",
        },
        {"topic": "same", "scope": "c1", "event": "e1", "entities": ["k1"], "target": "x", "summary": "s", "gist": "g"},
        {
            "topic": "日本" * 40,
            "scope": "c0",
            "event": "e-1",
            "entities": ["k1", "k1"],
            "target": "\ud800",
            "summary": "a",
            "gist": "",
        },
        {
            "topic": "[[ ## completed ## ]]",
            "scope": "c1 | now",
            "event": "does e2",
            "entities": None,
            "target": None,
            "summary": None,
            "gist": None,
        },
    ],
)
def test_a_model_that_answers_nonsense_does_no_harm(garbage):
    reply = {"act": "dance", "references": [{"words": "x", "means": "y"}], **garbage}
    history = history_of(*(f"trip: word{at} is told" for at in range(12)))
    lm = attentive(label_turn=reply)
    notebook = labelled(history, lm)

    assert len(notebook.notes) == 12 and all(note.scope in notebook.bank.labels for note in notebook.notes.values())
    assert all(note.act in ("ask", "other") and not note.references for note in notebook.notes.values())
    assert len(notebook.bank.live("scope")) <= 12
    assert all(label.name.strip() for label in notebook.bank.labels.values())


@pytest.mark.parametrize(
    ("event", "named"),
    [
        ("proposing", "propose"),
        ("asks price", "ask"),
        ("decides", "decide"),
        ("reports", "tell"),
        ("greeting", "object"),
    ],
)
def test_an_event_type_that_names_an_act_is_the_act_of_the_note(event, named):
    lm = attentive(label_turn=lambda call: read(call) | {"event": event, "act": "object"})
    [note] = labelled(history_of("trip: hello"), lm).notes.values()
    assert note.act == named


def test_a_topic_with_another_number_is_another_scope_whatever_label_is_picked():
    picks = iter(["plan for day 1", "plan for day 2", "plan for day 1"])
    history = history_of("one", "two", "three")
    lm = attentive(label_turn=lambda call: read(call) | {"topic": next(picks), "scope": "c1"})
    notebook = labelled(history, lm)

    scopes = [notebook.bank.name(note.scope) for note in notebook.notes.values()]
    assert scopes == ["plan for day 1", "plan for day 2", "plan for day 1"]


def test_a_reference_is_kept_only_when_the_history_shown_holds_its_meaning():
    replies = [
        {"words": "it", "means": "the hotel Lux"},
        {"words": "it", "means": "the Ritz"},
        {"words": "there", "means": "Lux"},
    ]
    kept = []
    for reference in replies:
        lm = attentive(label_turn=lambda call, one=reference: read(call) | {"references": [one]})
        history = history_of("trip: we propose the hotel Lux", "trip: what does it cost?")
        kept.append([(one.words, one.means) for one in labelled(history, lm).notes[history.turns[1].id].references])
    assert kept == [[("it", "the hotel Lux")], [], []]


def test_without_coreference_nothing_is_resolved():
    lm = attentive(label_turn=lambda call: read(call) | {"references": [{"words": "it", "means": "the hotel Lux"}]})
    history = history_of("trip: we propose the hotel Lux", "trip: what does it cost?")

    assert not labelled(history, lm, FusedStitcher(coreference=False)).notes[history.turns[1].id].references


def test_few_seeds_are_filled_up_with_acts_and_a_reply_that_cannot_be_read_is_none():
    few = {"events": [{"name": "asks", "meaning": "x"}] * 8, "entities": []}
    for reply in (few, "no JSON at all"):
        notebook = labelled(history_of("trip: hello"), attentive(seed_vocabulary=reply))
        names = {label.name for label in notebook.bank.live("event")}
        assert {"ask", "propose", "decide", "sum_up"} <= names


def test_labels_that_mean_the_same_are_merged_every_50_turns_and_no_turn_is_lost():
    def merge(call):
        pairs = [line.split(" | ") for line in said(call, "pairs").splitlines()]
        return {"same": [{"pair": pair[0], "name": pair[2].split(":")[0]} for pair in pairs]}

    texts = [f"{'trip plan' if at % 2 else 'trip planning'}: word{at}" for at in range(60)]
    lm = attentive(merge_labels=merge)
    notebook = labelled(history_of(*texts), lm)

    merges = [merge for entry in notebook.entries for merge in entry.merges]
    assert [call.step for call in lm.engine.calls].count("merge_labels") == 1 and len(merges) >= 1
    scope = scope_of(notebook, "trip plan")
    assert scope == notebook.bank.find("scope", "trip planning")
    assert len(notebook.bearers([scope.id])) == 60 and len(notebook.notes) == 60
    assert set(notebook.bank.aliases(scope.id)) | {scope.name} == {"trip plan", "trip planning"}


def test_every_word_of_a_long_turn_is_read_in_some_window():
    text = " ".join(f"word{at}" for at in range(3000)) + " needle"
    history = history_of(f"trip: {text}")
    lm = attentive()
    labelled(history, lm)

    read_words = " ".join(said(call) for call in lm.engine.calls if call.step == "label_turn")
    assert all(f"word{at}" in read_words for at in range(3000)) and "needle" in read_words
    parts = [call for call in lm.engine.calls if call.step == "label_turn"]
    assert len(parts) > 3 and all(count_tokens(said(call)) < 950 for call in parts)


@pytest.mark.parametrize("text", ["", " ", "日本語" * 4000, "x" * 9000, "a\n\nb", "🙂" * 500, "مرحبا " * 900])
def test_turns_of_any_size_and_language_are_cut_into_windows_without_loss(text):
    [turn] = history_of(text or " ").turns if text.strip() else history_of("x").turns
    pieces = windows(turn.model_copy(update={"text": text}), 100)

    assert "".join("".join(piece.split()) for piece, _ in pieces) == "".join(text.split())
    assert all(count_tokens(piece) <= 100 for piece, _ in pieces)


def test_time_stamps_are_taken_out_of_what_a_model_reads():
    assert clean("Let us go. ----TIMESTAMP: 2025-05-15T08:00") == "Let us go."
    assert clean("We left at 08:00 --- really") == "We left at 08:00 --- really"


@pytest.mark.skipif(not TRAVEL.exists(), reason="../shared/data/came_bench_site is not here")
def test_the_travel_trajectory_takes_a_call_and_1500_tokens_a_turn_and_four_calls_a_question():
    [loaded] = read_came(TRAVEL)
    reply = {"scopes": ["c1"], "events": ["e1"], "entities": []}
    lm = attentive(read_intent=reply, answer_question={"sources": ["c1"], "answer": "x"}, label_turn=talkative)
    notebook = labelled(loaded.history, lm)
    calls, turns = list(lm.engine.calls), len(loaded.history.turns)
    tokens = sum(count_tokens(call.system + call.messages[-1]) for call in calls)
    store = Store.of(loaded.history, entries=notebook.entries)
    with dspy.context(lm=lm):
        StitchAgent()(question=loaded.questions[0].text, store=store)

    assert len(calls) / turns <= 1.2 and tokens / turns <= 1500  # the released code: 2.8 and 9.6k
    assert len(lm.engine.calls) - len(calls) <= 4  # 29


def talkative(call):
    """A reply that is as long as it may be."""
    return read(call) | {"topic": f"plan for day {len(said(call)) % 3}", "summary": said(call), "gist": said(call)}


def test_prompts_at_the_end_of_a_long_memory_are_as_long_as_at_its_beginning():
    texts = [f"topic{at % 97}: we propose the hotel Name{chr(65 + at % 26)}x at a price of {at}" for at in range(600)]
    lm = attentive()
    labelled(history_of(*texts), lm)

    sizes = [count_tokens(call.system + call.messages[-1]) for call in lm.engine.calls if call.step == "label_turn"]
    early, late = sum(sizes[100:200]) / 100, sum(sizes[-100:]) / 100
    assert abs(late - early) < 0.1 * early


def test_another_program_labels_the_same_memory_and_the_log_stays_as_it_is(tmp_path):
    with Memory.open(tmp_path / "m") as memory:
        disk = memory.disk
        memory.add(TRIP)
        before = disk.verify(), disk.store.fingerprint
        with dspy.context(lm=attentive()):
            first = label_memory(disk, FusedStitcher())
            second = label_memory(disk, StepwiseStitcher())
        assert (first.done, second.done) == (5, 5) and first.program != second.program
        assert disk.verify() == before[0]
        assert shown(disk.notes.notebook(first.program)) == shown(disk.notes.notebook(second.program))
        assert disk.notes.notebook().entries == disk.notes.notebook(second.program).entries


def test_interrupted_and_resumed_gives_the_same_notes(tmp_path):
    texts = [f"topic{at % 7}: we propose the hotel Name{at}" for at in range(70)]
    whole, parts = DiskStore(tmp_path / "whole"), DiskStore(tmp_path / "parts")
    whole.add_history(history_of(*texts))
    parts.add_history(history_of(*texts))
    with dspy.context(lm=attentive()):
        label_memory(whole, FusedStitcher())
        for limit in (1, 3, 30, 16):
            label_memory(parts, FusedStitcher(), limit=limit)
    broken = attentive(label_turn=lambda call: (_ for _ in ()).throw(KeyboardInterrupt))
    with dspy.context(lm=broken), pytest.raises(KeyboardInterrupt):
        label_memory(parts, FusedStitcher())
    with dspy.context(lm=attentive()):
        label_memory(DiskStore(tmp_path / "parts"), FusedStitcher())

    program = FusedStitcher().fingerprint
    assert whole.notes.notebook(program).entries == parts.notes.notebook(program).entries
    assert len(whole.notes.notebook(program).entries) == 70


def test_a_turn_that_comes_is_labelled_as_soon_as_there_are_50(tmp_path):
    with dspy.context(lm=attentive()), Memory.open(tmp_path / "m", labeler=FusedStitcher()) as memory:
        for at in range(49):
            memory.add({"speaker": "Ann", "text": f"trip: word{at} of the hotel"}, session="s")
        assert memory.store.notebook.size == 0 and memory.search("word7")
        memory.add({"speaker": "Ann", "text": "trip: the fiftieth"}, session="s")
        assert memory.store.notebook.size == 50
        memory.add({"speaker": "Ann", "text": "party: another topic"}, session="s")
        assert memory.store.notebook.size == 51
        last = list(memory.store.notebook.notes.values())[-1]
        assert memory.store.notebook.bank.name(last.scope) == "party" and last.move == "open"


def test_an_agent_is_reminded_by_the_topic_that_its_session_is_in(tmp_path):
    lm = attentive(read_intent={"scopes": ["c1"], "events": [], "entities": []})
    with dspy.context(lm=lm), Memory.open(tmp_path / "m", StitchAgent(), labeler=FusedStitcher()) as memory:
        memory.add(TRIP)
        memory.label()
        context = memory.recall("book the hotel", now="s")
        call = lm.engine.calls[-1]
        assert call.step == "read_intent" and "no, we decide on the hotel Rex" in said(call, "now")
        assert said(call, "scopes").startswith("c1 | trip | now") and len(context.claims) == 5
        with pytest.raises(UsageError, match="no session 'x'"):
            memory.recall("book", now="x")
        with pytest.raises(UsageError, match="takes no filters"):
            memory.recall("book", now="s", speakers=["Ann"])
        assert len(memory.recall("hotel", k=2).claims) == 2


def test_fewer_than_50_are_labelled_when_no_more_come(tmp_path):
    with dspy.context(lm=attentive()), Memory.open(tmp_path / "m", labeler=FusedStitcher()) as memory:
        memory.add(TRIP)
        assert memory.label(finish=False).waiting == 5 and memory.label().done == 5


def test_a_turn_whose_reply_cannot_be_used_stays_searchable_and_is_tried_again(tmp_path):
    memory = Memory.open(tmp_path / "m", labeler=FusedStitcher())
    memory.add(TRIP)
    with dspy.context(lm=attentive(label_turn=lambda call: "nonsense" if "Mira" in said(call) else read(call))):
        done = memory.label()
    assert done.done == 4 and len(done.failed) == 1 and memory.search("Mira")
    with dspy.context(lm=attentive()):
        assert memory.label().done == 1 and memory.store.notebook.size == 5


def test_a_model_that_is_out_leaves_the_turn_stored_and_says_so(tmp_path):
    def out(call):
        raise BackendError("the endpoint is out; try again later")

    memory = Memory.open(tmp_path / "m", labeler=FusedStitcher())
    for at in range(49):
        memory.add({"speaker": "Ann", "text": f"word{at}"}, session="s")
    with dspy.context(lm=attentive(seed_vocabulary=out)):
        added = memory.add({"speaker": "Ann", "text": "the fiftieth"}, session="s")
    assert added.turns == 1 and "out" in added.pending and memory.search("fiftieth")


def test_a_memory_without_labeler_says_how_to_get_one(tmp_path):
    memory = Memory.open(tmp_path / "m")
    with pytest.raises(UsageError, match="labeler=FusedStitcher"):
        memory.label()
    with pytest.raises(UsageError, match="labels turns"):
        Memory(memory.disk, labeler="stitch")  # type: ignore[arg-type]


def test_both_programs_save_and_load(tmp_path):
    from stitchjam.programs.artifact import PROGRAMS

    for name in ("stitch", "stitch_stepwise"):
        program = PROGRAMS[name]()
        again = PROGRAMS[name].build(program.hparams())
        assert again.fingerprint == program.fingerprint  # type: ignore[attr-defined]


def test_notes_come_with_the_store_and_are_part_of_its_fingerprint():
    notebook = labelled(TRIP, attentive())
    plain = Store.of(TRIP)
    noted = plain.noted(notebook.entries)

    assert plain.notebook.size == 0 and noted.notebook.size == 5
    assert plain.fingerprint != noted.fingerprint and plain.search("hotel") == noted.search("hotel")


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": "all"}, {"start": "over"}])
def test_labelling_that_is_asked_for_wrongly_says_so_and_does_nothing(tmp_path, wrong):
    with pytest.raises(UsageError):
        label_memory(DiskStore(tmp_path / "m"), FusedStitcher(), **wrong)
