"""Transcripts and documents become histories, with their words as they were written."""

import json
import time
from pathlib import Path

import pytest

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import detect_format, read_document, read_transcript
from stitchjam.data.readers.dates import first_time, iso_time

CORPORA = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "raw_corpora"


@pytest.fixture
def write(tmp_path):
    def write(content, name="talk.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def said(history):
    return [(turn.speaker, turn.text) for turn in history.turns]


def blocks(history):
    return [(session.id, [turn.text for turn in session.turns]) for session in history.sessions]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Ann: hi\nBob: hey", [("Ann", "hi"), ("Bob", "hey")]),
        ("\ufeffAnn: hi  \r\n\r\nBob:\they\r\n", [("Ann", "hi  "), ("Bob", "hey")]),
        ("Ann: one\n  two\n\nthree\n\n\nBob: x\n", [("Ann", "one\n  two\n\nthree"), ("Bob", "x")]),
        ("Ann:\nlate\nBob:", [("Ann", "late"), ("Bob", "")]),
        ("Ann :  spaced\nAnn: a: b", [("Ann", " spaced"), ("Ann", "a: b")]),
        ("田中: こんにちは\n山田：やあ", [("田中", "こんにちは"), ("山田", "やあ")]),
        ("أحمد: مرحبا\n\u200fדנה: שלום", [("أحمد", "مرحبا"), ("דנה", "שלום")]),
        ("Jean-Luc O'Neil (host): a\nspk_1: b\nspeaker 2: c", None),
        (
            "Ann: see\nhttp://x.org/a\n12:30 lunch\n1: no\nBob:no",
            [("Ann", "see\nhttp://x.org/a\n12:30 lunch\n1: no\nBob:no")],
        ),
        ("Ann: so\nThis is the point: no", [("Ann", "so\nThis is the point: no")]),
        ("Ann: so\nA b c d e F: no", [("Ann", "so\nA b c d e F: no")]),
        ("Minutes of Monday\nAnn: hi", [("talk", "Minutes of Monday"), ("Ann", "hi")]),
        ("[00:12:05] Ann: hi\n(12:07) Bob: hey", [("Ann", "[00:12:05] hi"), ("Bob", "(12:07) hey")]),
        ("[02/03/26, 18:30] Ann: hi\n[1] Smith: a source", [("Ann", "[02/03/26, 18:30] hi\n[1] Smith: a source")]),
        ("[2026-03-02 6:30 PM] Ann: hi", [("Ann", "[2026-03-02 6:30 PM] hi")]),
        ("Ann: a\u2028b\x0bc\rd", [("Ann", "a\u2028b\x0bc\rd")]),
    ],
)
def test_a_turn_is_what_stands_behind_a_speaker(write, text, turns):
    history = read_transcript(write(text))
    turns = turns or [("Jean-Luc O'Neil (host)", "a"), ("spk_1", "b"), ("speaker 2", "c")]
    assert said(history) == turns
    assert [session.id for session in history.sessions] == ["talk"] and history.id == "talk"


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("[2026-03-02 18:30]", "2026-03-02T18:30"),
        ("(2026/03/02, 9:05)", "2026-03-02T09:05"),
        ("2026-03-02T18:30", "2026-03-02T18:30"),
        ("2026-03-02 18:30 -", "2026-03-02T18:30"),
        ("2026-03-02T18:30:05.25Z", "2026-03-02T18:30:05.250000+00:00"),
        ("[2026-03-02 18:30:05 +0100]", "2026-03-02T18:30:05+01:00"),
        ("2026-03-02", "2026-03-02"),
    ],
)
def test_a_date_before_a_speaker_is_the_time_of_the_turn(write, stamp, expected):
    turn, other = read_transcript(write(f"{stamp} Ann: hi\nBob: hey")).turns
    assert (turn.speaker, turn.text, turn.time, other.time) == ("Ann", "hi", expected, expected)


def test_a_time_that_cannot_be_stays_in_the_text(write):
    turn = read_transcript(write("[2026-13-45 18:30] Ann: hi")).turns[0]
    assert (turn.text, turn.time) == ("[2026-13-45 18:30] hi", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann: a\n---\nBob: b\n***\n\nAnn: c\n---\n", {"talk": "", "talk-2": "", "talk-3": ""}),
        (
            "# Plans\n2026-03-02\n\nAnn: a\n=== Plans, 2026-03-09 18:00 ===\nBob: b",
            {"talk/plans-2026-03-02": "2026-03-02", "talk/plans-2026-03-09-18-00": "2026-03-09T18:00"},
        ),
        ("## A\nAnn: a\n## A\nAnn: a\n## A\nAnn: a", {"talk/a": "", "talk/a-2": "", "talk/a-3": ""}),
        (
            "[2026-03-09]\nAnn: b\n2026-03-02 08:00\nAnn: a",
            {"talk/2026-03-02-08-00": "2026-03-02T08:00", "talk/2026-03-09": "2026-03-09"},
        ),
    ],
)
def test_headings_rules_and_dates_between_turns_start_sessions(write, text, expected):
    history = read_transcript(write(text))
    assert {session.id: session.time for session in history.sessions} == expected
    assert [session.id for session in history.sessions] == list(expected)


def test_a_rule_or_heading_inside_a_turn_belongs_to_it(write):
    text = "Here:\n---\n# A list\n- x\n\n| a | b |"
    assert said(read_transcript(write(f"Ann: {text}\n---\nBob: b")))[0] == ("Ann", text)


def test_a_transcript_that_grows_keeps_its_turn_ids(write):
    before = read_transcript(write("Ann: a\nBob: b\n"))
    after = read_transcript(write("Ann: a\nBob: b\nAnn: c\n---\nBob: d\n"))
    assert after.turns[:2] == before.turns


def test_the_line_ends_of_a_file_do_not_matter(write):
    text = "# T\nAnn: a\n\n  b\n---\nBob: c"
    for read in (read_transcript, read_document):
        assert read(write(text)) == read(write("\ufeff" + text.replace("\n", "\r\n") + "\r\n"))


def test_a_document_is_a_session_a_heading_and_a_turn_a_block(write):
    text = (
        "Before.\n\n# Guide #\nIntro\nline two\n\n- one\n- two\n\nSet up\n======\n| a |\n|---|\n\n"
        "```sh\n# no heading\n\nls\n```\n\nOf C#\n---\nLast.\n##\n# Guide\n#tag\n"
    )
    history = read_document(write(text, "the.guide.md"))
    assert blocks(history) == [
        ("the", ["Before."]),
        ("the/guide", ["# Guide #", "Intro\nline two", "- one\n- two"]),
        ("the/set-up", ["Set up\n======", "| a |\n|---|", "```sh\n# no heading\n\nls\n```"]),
        ("the/of-c", ["Of C#\n---", "Last."]),
        ("the-2", ["##"]),
        ("the/guide-2", ["# Guide", "#tag"]),
    ]
    assert {turn.speaker for turn in history.turns} == {"Guide"} and {turn.time for turn in history.turns} == {""}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# C#\n", "C#"),
        ("# Of  C# ##\n", "Of C#"),
        ("   ### deep\n", "deep"),
        ("# " + "long " * 50, ("long " * 16)),
        ("1. Start\n===\n", "1. Start"),
        ("    # code\n", "notes"),
        ("####### seven\n", "notes"),
        ("- a list\n---\n", "notes"),
        ("> a quote\n---\n", "notes"),
        ("two\nlines\n---\n", "notes"),
        ("regards\n--\n", "notes"),
        ("---\n---\n", "notes"),
        ("~~~\n# code\n\n```\n# code\n~~\n", "notes"),
        ("    ```\n    # code\n    ```\n\nx", "notes"),
        ("plain", "notes"),
    ],
)
def test_the_speaker_of_a_document_is_its_first_heading_or_its_name(write, text, title):
    assert {turn.speaker for turn in read_document(write(text, "notes.md")).turns} == {title}


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2026-03-02", "2026-03-02"),
        ('"2026-03-02 18:30:00 +0100"', "2026-03-02T18:30:00+01:00"),
        ("2026-03-02T06:30:00Z  # draft", "2026-03-02T06:30:00+00:00"),
        ("soon", ""),
    ],
)
def test_front_matter_is_a_turn_and_gives_the_date(write, date, expected):
    front = f"---\ntitle: x\n\n# no heading\ndate: {date}\n---"
    history = read_document(write(f"{front}\n# Post\n\nHello.", "post.md"))
    assert blocks(history) == [("post", [front]), ("post/post", ["# Post", "Hello."])]
    assert {session.time for session in history.sessions} == {expected}


@pytest.mark.parametrize("read", [read_transcript, read_document])
def test_what_is_no_text_is_an_error_with_file_and_place(write, read):
    for bad, place in (
        (b"", "line 1"),
        (b" \r\n\n", "line 1"),
        (b"A: b\nB: \0", "line 2"),
        (b"A: \xe9", r"byte 3 \(line 1\)"),
    ):
        with pytest.raises(DataError, match=rf"talk\.txt.*{place}"):
            read(write(bad))
    with pytest.raises(UsageError, match="check the path"):
        read(Path("nowhere.txt"))


def test_a_text_without_speakers_is_no_transcript(write):
    with pytest.raises(DataError, match=r"talk\.txt, line 1: expected .*--format document"):
        read_transcript(write("Once upon a time\nhttp://x"))


@pytest.mark.parametrize(
    "text",
    [
        "Ann: " + "word " * 400_000,
        "[" + "1" * 2_000_000,
        "[" + "1:11" * 500_000,
        "Ann: a\n" + "x\n" * 200_000,
        "# a\n" * 50_000,
        "`" * 2_000_000 + "x",
        "---\nAnn: a\n" * 20_000,
        "Ann: a\n" + " " * 2_000_000 + "x",
        "# " + " #" * 500_000,
        "-" * 2_000_000 + "x",
    ],
    ids=lambda text: text[:9],
)
def test_long_lines_and_many_lines_are_read_in_a_moment(write, text):
    path, start = write(text), time.process_time()
    read_document(path)
    if detect_format(path) == "transcript" or text.startswith("Ann"):
        read_transcript(path)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("text", "whole", "first"),
    [
        ("2026-03-02", "2026-03-02", "2026-03-02"),
        ("on 2026-03-02 at 9:30", "", "2026-03-02"),
        ("2026-03-02 9:30 pm", "", "2026-03-02"),
        ("2024-02-30", "", ""),
        ("12026-03-021", "", ""),
        ("03/02/2026", "", ""),
    ],
)
def test_dates_are_read_when_they_can_mean_one_thing_only(text, whole, first):
    assert (iso_time(text), first_time(text)) == (whole, first)


@pytest.mark.skipif(not CORPORA.is_dir(), reason="the raw corpora are not on this machine")
@pytest.mark.parametrize("path", sorted(CORPORA.glob("*.jsonl")), ids=lambda path: path.stem)
def test_no_word_of_a_real_text_is_lost_and_only_dialogue_is_taken_for_a_transcript(write, path):
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        file = write(record["text"])
        assert "".join("".join(turn.text for turn in read_document(file).turns).split()) == "".join(
            record["text"].split()
        )
        if path.stem != "dialogue":
            assert detect_format(file) == "document"
        elif record["doc_id"].startswith(("qmsum", "sgd")):
            lines = record["text"].splitlines()
            assert detect_format(file) == "transcript"
            turns = [f"{speaker}: {text}".rstrip() for speaker, text in said(read_transcript(file))]
            assert turns == [line.rstrip() for line in lines]
