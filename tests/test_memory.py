"""The facade: what an agent or a service does with a memory, through the names that the root offers."""

import copy
import pickle

import dspy
import pytest
from oracle import field

import stitchjam
from stitchjam import Memory
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import DataError, ModelOutputError, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.records import History
from stitchjam.programs.answer import OneShot

ROWS = [
    {"speaker": "Mira", "text": "Henrik mends the tiller on Friday.", "time": "2026-03-02T18:30", "external_id": "m1"},
    {"speaker": "Tomas", "text": "Good. I will bring the varnish.", "time": "2026-03-02T18:31", "external_id": "m2"},
]
SCRIPT = {
    "plan_first": {"needs": ["who mends the tiller"], "actions": [{"tool": "browse", "target": "c1", "query": ""}]},
    "browse_source": {"lines": ["t1"]},
    "judge_sufficiency": {"entry": "e1"},
    "compose_context": {"claims": [{"entry": "e1", "claim": "Henrik mends it."}]},
    "answer_question": {"sources": ["c1"], "answer": "Henrik"},
}


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "boat") as opened:
        for row in ROWS:
            opened.add(row, session="harbour")
        yield opened


def test_the_root_offers_the_facade():
    assert stitchjam.Memory is Memory and "Memory" in dir(stitchjam)


def test_a_turn_can_be_searched_as_soon_as_it_was_added(memory):
    assert memory.search("varnish", k=1)[0].turn.speaker == "Tomas"
    memory.add({"speaker": "Mira", "text": "The varnish is green."}, session="harbour")
    assert [hit.turn.text for hit in memory.search("green varnish", k=1)] == ["The varnish is green."]


def test_a_search_takes_the_fields_of_a_filter(memory):
    assert [hit.turn.speaker for hit in memory.search("tiller varnish", speakers="tomas")] == ["Tomas"]
    assert [hit.turn.speaker for hit in memory.search("tiller varnish", after="2026-03-02T18:31")] == ["Tomas"]
    assert len(memory.search("varnish", k=1, neighbours=1)) == 2
    with pytest.raises(UsageError, match="speaker'? *: .*its fields are"):
        memory.search("varnish", speaker="Tomas")
    with pytest.raises(UsageError, match="not an ISO 8601"):
        memory.search("varnish", after="last week")


def test_recall_gives_an_agents_step_the_turns_it_should_remember_in_time_order(memory):
    context = memory.recall("buy varnish for the tiller", k=2)
    assert [claim.speaker for claim in context.claims] == ["Mira", "Tomas"]
    assert all(claim.spans[0].holds_in(memory.store.turn(claim.spans[0].turn_id)) for claim in context.claims)


def test_ask_answers_with_spans_into_the_memory(memory):
    with dspy.context(lm=scripted_lm(SCRIPT)):
        answer = memory.ask("Who mends the tiller?")
        context = memory.research("Who mends the tiller?")
    assert answer.text == "Henrik" and answer.claims[0].quote == ROWS[0]["text"]
    assert context.browsed == ("harbour",) and context.claims[0].speaker == "Mira"


def test_an_agent_without_a_researcher_researches_by_one_search(tmp_path):
    with Memory.open(tmp_path / "boat", agent=OneShot(k=1)) as memory:
        memory.add(ROWS[0], session="harbour")
        memory.add(ROWS[1], session="harbour")
        assert len(memory.research("Who mends the tiller?").claims) == 1


def test_dspy_keeps_no_reply_about_a_memory(memory):
    lm = scripted_lm({"answer_question": {"sources": ["c1"], "answer": "Henrik"}})
    lm.cache = True
    asked = Memory(memory.disk, OneShot())
    with dspy.context(lm=lm):
        asked.ask("Who mends the tiller?")
        asked.ask("Who mends the tiller?")
    assert len(lm.engine.calls) == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_records_of_every_kind_can_be_added(memory):
    session = build_session("dock", "2026-03-05", [{"speaker": "Ida", "text": "The dock is closed."}])
    assert memory.add(session).turns == 1
    assert memory.add(History(id="again", sessions=(session,))).turns == 0
    assert memory.add(build_session("quay", "", [{"speaker": "Ida", "text": "x"}]).turns[0]).turns == 1
    assert {"dock", "quay", "harbour"} == set(memory.store.session_times)


def test_a_file_is_added_by_its_path_and_forgotten_by_it(memory, tmp_path):
    file = tmp_path / "talk.txt"
    file.write_text("Ida: The crane is broken.\nMira: Again?\n", encoding="utf-8")
    assert memory.add(file).turns == 2
    assert memory.search("crane", k=1)[0].turn.speaker == "Ida"
    assert memory.forget(file.as_posix()).turns == 2
    assert "crane" not in " ".join(hit.turn.text for hit in memory.search("crane"))
    assert memory.verify().log_problems == () and memory.stats()["counts"]["turn"] == 2


@pytest.mark.parametrize(
    ("turn", "session", "match"),
    [
        ({"speaker": "Ann"}, "s", "speaker and a text"),
        ({"speaker": "Ann", "text": "x"}, "", "id of its session"),
        ({"speaker": "Ann", "text": "x", "mood": "fine"}, "s", "no field 'mood'"),
    ],
)
def test_a_turn_that_lacks_something_is_refused(memory, turn, session, match):
    with pytest.raises(UsageError, match=match):
        memory.add(turn, session=session)


def test_a_message_of_an_agent_is_added_as_it_comes(memory):
    call = {"id": "1", "type": "function", "function": {"name": "book", "arguments": '{"room": "green"}'}}
    memory.add({"role": "assistant", "content": None, "tool_calls": [call]}, session="run")
    memory.add({"role": "tool", "name": "book", "content": "The green room is booked."}, session="run")
    turns = memory.store.session("run").turns
    assert [(turn.speaker, turn.text) for turn in turns] == [
        ("assistant", 'call book({"room": "green"})'),
        ("tool:book", "The green room is booked."),
    ]
    with pytest.raises(DataError, match='the message, "content": expected text, null or a list'):
        memory.add({"role": "user", "content": 7}, session="run")


def test_a_store_is_the_state_it_was_taken_in(memory):
    before = memory.store
    memory.add({"speaker": "Mira", "text": "One more thing."}, session="harbour")
    assert (before.size, memory.store.size) == (2, 3)
    assert memory.store is not before and repr(memory).startswith("Memory(")


def test_questions_reach_the_prompt_with_the_words_of_the_memory(memory):
    seen = []

    def answer(call):
        seen.append(field(call.prompt, "context"))
        return {"sources": ["c1"], "answer": "Henrik"}

    with dspy.context(lm=scripted_lm({"answer_question": answer})):
        Memory(memory.disk, OneShot()).ask("Who mends the tiller?")
    assert "Henrik mends the tiller" in seen[0]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: m.add(42), "not int"),
        (lambda m: m.add([{"role": "user", "content": "x"}]), "not list"),
        (lambda m: m.search(None), "query is text, not None"),
        (lambda m: m.search("x", k=1.5), "k is a whole number"),
        (lambda m: m.search("x", neighbours=None), "neighbours is a whole number"),
        (lambda m: m.ask(5), "question is text"),
        (lambda m: m.research(b"x"), "question is text"),
        (lambda m: m.recall([]), "step is text"),
        (lambda m: m.forget(None), "source is text"),
        (lambda m: m.add("talk.txt", source="mine"), "leave out session and source"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(memory, call, match):
    with pytest.raises(UsageError, match=match):
        call(memory)


def test_copies_are_the_memory_itself_and_a_pickle_opens_it_again(memory):
    assert copy.copy(memory) is memory and copy.deepcopy([memory])[0] is memory
    with pickle.loads(pickle.dumps(memory)) as again:
        assert again.store.turns == memory.store.turns and type(again.agent) is type(memory.agent)


def test_a_model_that_answers_garbage_is_a_model_error(memory):
    with dspy.context(lm=scripted_lm({"answer_question": "no json at all"})), pytest.raises(ModelOutputError):
        Memory(memory.disk, OneShot()).ask("Who mends the tiller?")
