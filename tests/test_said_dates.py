"""Dates are read as they were meant on the day on which they were said, whatever a model takes them for."""

import pytest

from stitchjam.data.said_dates import meant_date

WEDNESDAY = "2026-03-04T18:00"


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [
        ("yesterday", "2026-03-03"),
        ("the day before yesterday", "2026-03-02"),
        ("in two weeks", "2026-03-18"),
        ("nine days ago", "2026-02-23"),
        ("last Friday", "2026-02-27"),
        ("next month", "2026-04"),
        ("in 2023", "2023"),
        ("7 May 2023", "2023-05-07"),
        ("the 15th of next month", "2026-04-15"),
        ("gestern", "2026-03-03"),
        ("昨日", "2026-03-03"),
    ],
)
def test_words_with_one_meaning_are_read_whatever_is_claimed(phrase, meant):
    assert meant_date(phrase, "1999-01-01", WEDNESDAY) == meant


def test_of_two_meanings_the_claim_chooses_one():
    assert meant_date("Friday", "2026-03-06", WEDNESDAY) == "2026-03-06"
    assert meant_date("Friday", "2026-02-27", WEDNESDAY) == "2026-02-27"
    assert meant_date("Friday", "2026-03-20", WEDNESDAY) == ""


def test_words_that_cannot_be_read_are_what_is_claimed_when_that_is_a_date():
    assert meant_date("the weekend after the storm", "2026-03-07", WEDNESDAY) == "2026-03-07"
    assert meant_date("the weekend after the storm", "2026-03", WEDNESDAY) == "2026-03"
    assert meant_date("the weekend after the storm", "soon", WEDNESDAY) == ""
    assert meant_date("the weekend after the storm", "2026-13-40", WEDNESDAY) == ""


def test_without_a_day_on_which_it_was_said_only_a_year_that_is_named_can_be_read():
    assert meant_date("7 May 2023", "", "") == "2023-05-07"
    assert meant_date("yesterday", "2026-03-03", "") == ""
    assert meant_date("Friday", "2026-03-06", "") == ""


@pytest.mark.parametrize("phrase", ["12", "", "9:30", "no date at all"])
def test_a_bare_number_is_no_month(phrase):
    assert meant_date(phrase, "", WEDNESDAY) == ""
