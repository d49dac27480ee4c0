"""Records are immutable, keep their JSON form, and hold hashes of what was said."""

import random
from hashlib import sha256

import pytest
from pydantic import ValidationError

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order, turn_id
from stitchjam.data.records import Answer, Claim, Context, History, Question, Session, Span, Turn

ODD = ["", "a", "Zoë", "日本", "👩‍🚀", "\u2028", "\x00", '"', "\\", "\r\n", "[[ ## x ## ]]", "𝕏", "\u0301"]


def rows(*texts, **more):
    return [{"speaker": "Ann" if at % 2 else "Bob", "text": text, **more} for at, text in enumerate(texts)]


def some_text(rng):
    return "".join(rng.choices(ODD, k=rng.randrange(6)))


def test_a_turn_id_is_a_hash_of_what_it_documents():
    assert turn_id("", "Ann", "Hi", "") == turn_id("", "Ann", "Hi", "")
    one = turn_id("s", "Ann", "Hi", "2025")
    others = [
        ("x", "Ann", "Hi", "2025"),
        ("s", "An", "nHi", "2025"),
        ("s", "Ann", "hi", "2025"),
        ("s", "Ann", "Hi", ""),
    ]
    assert one not in {turn_id(*other) for other in others}
    assert one[0] == "t" and len(one) == 17 and int(one[1:], 16) >= 0


def test_turn_ids_do_not_change_between_versions():
    # They are written into evidence files and artifacts: a change here makes all of them point nowhere.
    canonical = r'["s1","Zo\u00eb","say \"hi\"\n","2025-05-15T08:02"]'
    expected = "t" + sha256(canonical.encode()).hexdigest()[:16]
    assert turn_id("s1", "Zoë", 'say "hi"\n', "2025-05-15T08:02") == expected == "t5fc315fe59b6b883"


def test_the_same_words_twice_are_two_turns():
    turns = build_session("s", "", rows("Thanks", "Thanks", "Thanks")).turns
    assert len({turn.id for turn in turns}) == 3


def test_a_longer_session_keeps_the_ids_it_had():
    short, long = build_session("", "", rows("a", "b")), build_session("", "", rows("a", "b", "c"))
    assert long.id == short.id
    assert long.turns[:2] == short.turns


def test_a_session_without_a_name_is_named_by_its_first_turn():
    session = build_session("", "", rows("a", "b"))
    assert session.id == "s" + session.turns[0].id[1:]
    assert {turn.session_id for turn in session.turns} == {session.id}
    assert build_session(session.id, "", rows("a", "b")) == session  # as it comes back from a file


def test_turns_inherit_the_time_of_their_session():
    session = build_session("s", "2025-01-01", [*rows("a"), {"speaker": "Ann", "text": "b", "time": "2025-01-02"}])
    assert [turn.time for turn in session.turns] == ["2025-01-01", "2025-01-02"]
    assert build_session("s", "", rows("a", time="2025-03-01")).time == "2025-03-01"


@pytest.mark.parametrize("bad", [[], rows("a", "half of a pair \ud83d")])
def test_a_session_that_cannot_be_stored_is_a_data_error(bad):
    with pytest.raises(DataError, match="session 's'.*(give|remove)"):
        build_session("s", "", bad)


def test_sessions_come_oldest_first_when_all_times_can_be_read():
    times = ["2025-03-01T10:00", "2025-03-01T09:00+00:00", "2025-02-28", "2025-03-01T10:00"]
    sessions = [build_session(f"s{at}", time, rows("a")) for at, time in enumerate(times)]
    assert [session.id for session in in_time_order(sessions)] == ["s2", "s1", "s0", "s3"]
    unknown = [*sessions, build_session("s4", "last May", rows("a"))]
    assert in_time_order(unknown) == tuple(unknown)


def test_a_history_lists_its_turns_in_order():
    one, two = build_session("1", "", rows("a", "b")), build_session("2", "", rows("c"))
    assert [turn.text for turn in History(id="h", sessions=(one, two)).turns] == ["a", "b", "c"]


def test_a_span_holds_where_its_words_stand():
    turn = build_session("s", "", rows("naïve 👩‍🚀 words")).turns[0]
    span = Span.of(turn, 0, 5)
    assert span.holds_in(turn) and Span.of(turn).end == len(turn.text)
    assert not span.holds_in(turn.model_copy(update={"text": "native"}))
    assert not span.holds_in(turn.model_copy(update={"id": "t0"}))
    with pytest.raises(ValidationError):
        Span(turn_id="t", session_id="s", start=-1, end=2, sha256="")


def test_contexts_and_answers_list_what_they_cite_once_in_order():
    session = build_session("s", "", rows("a", "b"))
    first, second = (Span.of(turn) for turn in session.turns)
    claims = (
        Claim(text="x", quote="b", speaker="Ann", spans=(second, first)),
        Claim(text="y", quote="b", speaker="Ann", spans=(second,)),
    )
    context = Context(request="?", claims=claims)
    assert context.turn_ids == Answer(text="z", claims=claims).turn_ids == (second.turn_id, first.turn_id)
    assert context.session_ids == ("s",)


def test_records_are_immutable_and_refuse_unknown_fields():
    turn = Turn(id="t", session_id="s", speaker="Ann", text="a")
    with pytest.raises(ValidationError):
        turn.text = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValidationError):
        Turn.model_validate({"id": "t", "session_id": "s", "speaker": "Ann", "text": "a", "action": "DECIDE"})


@pytest.mark.parametrize("seed", range(30))
def test_records_survive_json(seed):
    rng = random.Random(seed)
    session = build_session(some_text(rng), some_text(rng), rows(*(some_text(rng) for _ in range(1 + seed % 4))))
    spans = tuple(Span.of(turn, 0, min(2, len(turn.text))) for turn in session.turns)
    claim = Claim(text=some_text(rng), quote=some_text(rng), speaker="Ann", spans=spans)
    question = Question(id=some_text(rng), text=some_text(rng), answer=some_text(rng), evidence=(spans[0].turn_id,))
    for record in (
        session,
        History(id="h", sessions=(session,)),
        claim,
        question,
        Context(request="", claims=(claim,)),
    ):
        assert type(record).model_validate_json(record.model_dump_json()) == record
    assert [turn.id for turn in Session.model_validate_json(session.model_dump_json()).turns] == [
        turn.id for turn in session.turns
    ]
