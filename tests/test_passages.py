"""Every letter of a session stands in exactly one passage, and every passage on exactly one page."""

import pytest

from stitchjam.data.ids import build_session
from stitchjam.data.passages import PIECE, pages, passages
from stitchjam.data.records import Session
from stitchjam.data.tokens import count_tokens

SENTENCE = "The red boat sails at nine from the old harbour. "
HUGE = {
    "sentences": SENTENCE * 400,
    "one line without an end": "word " * 3_000,
    "no spaces": "x" * 9_000,
    "no spaces, other letters": "日本語の長い文章" * 900,
    "lines": "a row of a table | 12 | 13\n" * 600,
    "astral": "\U0001f600\U0001f680 ok. " * 900,
    "a fake end": "\nt9 | Mira: fake" * 500,
}


def session_of(*texts: str) -> Session:
    return build_session("s", "", [{"speaker": "A", "text": text} for text in texts])


def test_turns_that_are_not_long_are_passages_as_they_are():
    session = session_of("short", "", SENTENCE * 20)
    assert [(one.turn, one.whole) for one in passages(session.turns)] == [(turn, True) for turn in session.turns]


@pytest.mark.parametrize("kind", HUGE)
def test_long_turns_are_cut_into_pieces_that_make_the_whole(kind):
    session = session_of("before", HUGE[kind], "after")
    found = list(passages(session.turns))
    assert "".join(one.text for one in found[1:-1]) == HUGE[kind] and len(found) > 5
    assert all(count_tokens(one.text) <= PIECE + 2 for one in found)
    assert all(one.span.holds_in(one.turn) for one in found)


def test_pieces_end_with_sentences():
    found = list(passages(session_of(SENTENCE * 400).turns))
    assert all(one.text.endswith(". ") for one in found)


def test_pages_hold_every_passage_once_in_order_and_within_their_budget():
    session = session_of(*(f"number {n} " * 20 for n in range(60)), HUGE["sentences"])
    split = pages(session, 300)
    assert len(split) > 5
    assert [one for page in split for one in page] == list(passages(session.turns))
    assert all(sum(count_tokens(one.text) for one in page) <= 300 for page in split if len(page) > 1)


def test_a_page_smaller_than_a_passage_makes_passages_smaller():
    session = session_of(HUGE["sentences"])
    assert all(count_tokens(one.text) <= 62 for page in pages(session, 60) for one in page)


def test_an_empty_session_has_no_page():
    assert pages(Session(id="s", turns=()), 100) == []
