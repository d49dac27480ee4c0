"""Every way to say a day is read back as that day, and words that are no day are read as none."""

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchjam.data.worlds.dates import date_phrases, read_date, say_day

SAID = date(2026, 5, 14)  # a Thursday
DAYS = st.dates(date(1000, 1, 1), date(9999, 12, 31))
NEAR = range(-40, 41)
seeded = settings(derandomize=True, deadline=None, max_examples=60)


@seeded
@given(DAYS, DAYS)
def test_any_day_said_on_any_day_is_read_back(day, said):
    phrases = date_phrases(day, said)
    assert phrases and len(set(phrases)) == len(phrases)
    assert {read_date(phrase, said) for phrase in phrases} == {day}


@seeded
@given(st.dates(date(1000, 3, 1), date(9999, 10, 1)))
def test_days_near_by_are_read_back_and_no_two_share_a_phrase(said):
    days = [said + timedelta(days=apart) for apart in NEAR]
    found = {phrase: day for day in days for phrase in date_phrases(day, said)}
    assert len(found) == sum(len(date_phrases(day, said)) for day in days)
    assert all(read_date(phrase, said) == day for phrase, day in found.items())


@seeded
@given(DAYS, DAYS, DAYS)
def test_two_different_days_share_no_phrase(one, other, said):
    assert one == other or not set(date_phrases(one, said)) & set(date_phrases(other, said))


@seeded
@given(DAYS)
def test_a_day_as_an_answer_gives_it_is_read_back_whenever_it_is_said(day):
    assert read_date(say_day(day), date.min) == read_date(day.isoformat(), date.max) == day


@pytest.mark.parametrize(
    ("apart", "phrases"),
    [
        (0, ["today"]),
        (1, ["tomorrow"]),
        (2, ["the day after tomorrow"]),
        (3, ["in three days", "this coming Sunday"]),
        (6, ["in six days", "this coming Wednesday"]),
        (7, ["a week from today", "in seven days"]),
        (9, ["in nine days", "a week on Saturday"]),
        (14, ["two weeks from today", "in fourteen days"]),
        (15, ["in fifteen days"]),
        (16, []),
        (21, ["three weeks from today", "in three weeks", "on the 4th of next month"]),
        (40, ["on the 23rd of next month"]),
        (42, ["in six weeks", "on the 25th of next month"]),
        (70, []),
        (-1, ["yesterday"]),
        (-2, ["the day before yesterday"]),
        (-3, ["three days ago"]),
        (-7, ["a week ago today", "seven days ago"]),
        (-15, ["fifteen days ago"]),
        (-16, []),
    ],
)
def test_phrases_say_how_far_away_a_day_is(apart, phrases):
    assert list(date_phrases(SAID + timedelta(days=apart), SAID)[2:]) == phrases


def test_absolute_phrases_come_first_and_hold_on_any_day():
    absolute = ("on 9 July 2026", "on Thursday, 9 July 2026")
    assert date_phrases(date(2026, 7, 10), SAID) == ("on 10 July 2026", "on Friday, 10 July 2026")
    assert date_phrases(date(2026, 7, 9), date(2026, 7, 8))[:2] == absolute


@pytest.mark.parametrize(
    ("day", "spoken"),
    [
        (date(2026, 5, 14), "14 May 2026"),
        (date(2024, 2, 29), "29 February 2024"),
        (date(1999, 12, 1), "1 December 1999"),
    ],
)
def test_an_answer_gives_a_day_without_zeros_in_front(day, spoken):
    assert say_day(day) == spoken


@pytest.mark.parametrize(
    "words", ["14 May 2026", " on 14 May 2026\n", "Thursday, 14 May 2026", "2026-05-14", "on today"]
)
def test_a_day_is_read_with_space_around_it_and_with_on_or_without(words):
    assert read_date(words, SAID) == SAID


IMPOSSIBLE = ["31 February 2026", "on 29 February 2025", "on 31 April 2026", "0 May 2026", "32 May 2026", "2026-02-30"]
WRONG = ["on Monday, 14 May 2026", "Someday, 14 May 2026", "Thursday 14 May 2026", "x, Thursday, 14 May 2026"]
WRONG += [", 14 May 2026", "on , 14 May 2026", "14 Mai 2026", "14 may 2026", "May 14, 2026", "14 May", "14 May 26"]
VAGUE = ["in many days", "many days ago", "in sixteen days", "in  days", "this coming May", "a week on", "next week"]
VAGUE += ["a week on today", "this coming ", "Monday", "on Monday", "soon", "never", "two weeks ago"]
NONSENSE = ["", " ", "on", "on ", "\x00", "🗓", "today\x00", "not mentioned", "1e3", "nan", "-1", "14 May 2026" * 99]
DIGITS = ["١٤ May ٢٠٢٦", "１４ May ２０２６", "14 May ２０２６", "²4 May 2026", "２０２６-05-14", "in ３ days"]
# date.fromisoformat reads these from Python 3.11 on, and not on 3.10.
NEWER = ["20260514", "2026-W20-4", "2026W204", "2026-05-14T10:00"]


@pytest.mark.parametrize("words", [*IMPOSSIBLE, *WRONG, *VAGUE, *NONSENSE, *DIGITS, *NEWER])
def test_words_that_are_no_day_are_read_as_none(words):
    assert read_date(words, SAID) is None


@pytest.mark.parametrize("said", [date.min, date.max])
def test_days_beyond_the_calendar_are_read_as_none(said):
    words = ["tomorrow", "yesterday", "in three days", "three days ago", "this coming Monday", "a week on Monday"]
    read = {word: read_date(word, said) for word in words}
    assert [word for word, day in read.items() if day is None] == (
        ["yesterday", "three days ago"]
        if said == date.min
        else [word for word in words if word not in ("yesterday", "three days ago")]
    )


PIECES = [
    "on",
    "in",
    "ago",
    "days",
    "three",
    "a week",
    "this coming",
    "Monday",
    "May",
    "14",
    "2026",
    "31",
    ",",
    "-",
    "٣",
    "",
]


@seeded
@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=7).map(" ".join), st.dates())
def test_reading_never_fails(words, said):
    day = read_date(words, said)
    assert day is None or isinstance(day, date)


@seeded
@given(st.sampled_from(IMPOSSIBLE + WRONG + VAGUE), st.dates())
def test_no_day_makes_wrong_words_right(words, said):
    assert read_date(words, said) is None


def test_a_day_of_next_month_exists_and_is_spelled_right():
    assert read_date("on the 30th of next month", date(2026, 5, 14)) == date(2026, 6, 30)
    assert read_date("on the 1st of next month", date(2026, 12, 31)) == date(2027, 1, 1)
    assert read_date("on the 31st of next month", date(2026, 5, 14)) is None
    assert read_date("on the 2th of next month", date(2026, 5, 14)) is None
    assert read_date("on the 0th of next month", date(2026, 5, 14)) is None
    assert read_date("on the 1st of next month", date(9999, 12, 1)) is None
