"""The format of a file is detected or named, and its bytes give what the file gave."""

import json
from pathlib import Path

import pytest

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import FORMATS, detect_format, parse_histories, read_histories, read_history

REAL = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

MESSAGE = {"role": "user", "content": "Hi"}
CONVERSATION = {"session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi"}]}

# One file of each format, and the name that it has.
FILES = {
    "chat": ("chat.json", json.dumps([MESSAGE])),
    "stitch": ("turns.jsonl", json.dumps({"id": "a-turn-1", **MESSAGE})),
    "sessions": ("a.sessions.jsonl", json.dumps({"id": "s", "turns": [{"speaker": "Ann", "text": "Hi"}]})),
    "locomo": ("locomo.json", json.dumps([{"sample_id": name, "conversation": CONVERSATION} for name in "ab"])),
    "tau-bench": ("tau.json", json.dumps([{"task_id": 1, "traj": [MESSAGE]}])),
    "swe-agent": ("a.traj", json.dumps({"trajectory": [{"response": "Hi"}]})),
    "transcript": ("talk.txt", "Ann: hi\r\nBob: hey\r\n"),
    "document": ("notes.md", "# Notes\n\nAnn: hi\n"),
}


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_there_is_a_file_of_each_format():
    assert FILES.keys() == FORMATS.keys()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_the_bytes_of_a_file_give_what_the_file_gave(write, format, mark):
    name, content = FILES[format]
    path = write(name, mark + content)
    histories = read_histories(path)
    assert detect_format(path) == format and read_histories(str(path), format) == histories
    content = path.read_bytes()
    path.unlink()
    assert parse_histories(content, str(path), format) == histories


def test_the_bytes_of_a_broken_file_give_the_error_of_the_file(write):
    path = write("a.sessions.jsonl", '{"id": "s", "turns": []}')
    with pytest.raises(DataError) as of_file:
        read_histories(path)
    with pytest.raises(DataError) as of_bytes:
        parse_histories(path.read_bytes(), str(path), "sessions")
    assert str(of_file.value) == str(of_bytes.value)
    with pytest.raises(UsageError, match="chat, stitch, .*document"):
        parse_histories(b"", "a", "csv")


def test_turns_of_stitch_are_named_by_their_folder_even_when_it_is_gone():
    content = FILES["stitch"][1].encode()
    (history,) = parse_histories(content, "/nowhere/trip/turns.jsonl", "stitch")
    assert history.id == "trip" == parse_histories(content, "/nowhere/x/../trip/turns.jsonl", "stitch")[0].id


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.txt", '\n [ {\n"role": "user", "content": "x"}]', "chat"),
        ("a.MD", "Ann: hi\nBob: hey", "document"),
        ("a.markdown", '{"messages": []}', "document"),
        ("a.txt", "Ann: hi", "document"),
        ("a.txt", "Ann: hi\nx\nBob: hey\ny", "document"),
        ("a.txt", "Ann: hi\nx\nBob: hey\ny\nAnn: z", "transcript"),
        ("a.txt", "[2026-03-02 18:30] Ann: hi\n[2026-03-02 18:31] Bob: hey", "transcript"),
        ("a.txt", "[18:30] Ann: hi\n[18:31] Bob: hey", "transcript"),
        ("a.txt", "[a link](http://x)", "document"),
        ("a.txt", "[ ] a task", "document"),
        ("a.txt", "{% include header %}\nText", "document"),
        ("a.rst", "Title\n=====\n", "document"),
        ("README", "http://a.b\nhttp://c.d", "document"),
        ("a.txt", "12:30 lunch\n13:00 nap", "document"),
    ],
)
def test_content_tells_the_format_and_the_name_what_is_a_document(write, name, content, format):
    path = write(name, content)
    assert detect_format(path) == format


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", "a,b\n1,2\n", "line 1: expected chat .*--format document"),
        ("a.py", "x = 1\n", "line 1: expected chat .*--format document"),
        ("a.json", "Ann: hi\nBob: hey", "line 1, column 1: not valid JSON"),
        ("a.jsonl", "[]", "line 1: expected chat .*LoCoMo"),
        ("a.json", '[{"turns": []}]', "line 1: expected chat .*found an object with other fields"),
        ("a.txt", '{"a": ', "line 1, column 7: not valid JSON"),
        ("a.txt", "", "line 1: the file is empty"),
        ("a.md", "\n \n", "line 1: the file is empty"),
        ("a.json", "", "the file is empty"),
        ("a.txt", "Ann: hi\nBob: \0", "line 2: expected text, found a NUL byte"),
        ("a.txt", "Ann: hi\n".encode("utf-16-le"), "line 1: expected text, found a NUL byte"),
        ("a.txt", "Ann: hi\n".encode("utf-16"), r"byte 0 \(line 1\) is not UTF-8"),
        ("a.pdf", b"%PDF-1.7\n\xe2\xe3", r"byte 9 \(line 2\) is not UTF-8"),
        ("a.json", b'{"a": "\xff"}', r"byte 7 \(line 1\) is not UTF-8"),
    ],
)
def test_what_is_none_of_the_formats_is_an_error_with_file_and_place(write, name, content, place):
    with pytest.raises(DataError, match=rf"{name}(:|,) ?{place}"):
        read_history(write(name, content))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data is not on this machine")
@pytest.mark.parametrize("folder", ["longmemeval", "raw_corpora", "tooltalk/easy"])
def test_real_files_of_other_formats_are_refused_with_their_line(folder):
    for path in (REAL / folder).glob("*.json*"):
        with pytest.raises(DataError, match=r", line 1: expected chat messages"):
            detect_format(path)


@pytest.mark.parametrize("name", ["app.log", "mail.eml", "conf.yaml"])
def test_key_value_text_of_another_suffix_is_no_transcript(tmp_path, name):
    (tmp_path / name).write_text("ERROR: disk\nINFO: started\nWARN: low\n", encoding="utf-8")
    with pytest.raises(DataError, match="--format document"):
        detect_format(tmp_path / name)


def test_messages_that_stand_on_lines_of_their_own_are_one_conversation(tmp_path):
    lines = '{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "hello"}\n'
    (tmp_path / "log.jsonl").write_text(lines, encoding="utf-8")
    (history,) = read_histories(tmp_path / "log.jsonl")
    assert [[turn.text for turn in session.turns] for session in history.sessions] == [["hi", "hello"]]
