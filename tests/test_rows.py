"""Rows are on disk as they come: a run that is stopped, killed or given garbage goes on and asks nothing twice."""

import math
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from stitchjam.data.errors import UsageError
from stitchjam.optimizers.row_file import Rows
from stitchjam.optimizers.rows import Report, Row, Run, read_report

SCRIPT = Path(__file__).with_name("evaluation_script.py")
KEYS = [("h", id) for id in "abc"]


def made(id: str, value: float = 1.0, **more) -> Row:
    return Row(**({"id": id, "history": "h", "metric": "m", "outcome": "ok", "value": value, "why": ""} | more))


def opened(folder: Path, **settled: str) -> Rows:
    return Rows(folder / "rows.jsonl", Run(metric="m", name="one", asked=3, settled=settled), KEYS)


def test_rows_that_are_there_are_known_again(tmp_path):
    opened(tmp_path).add(made("b"))
    again = opened(tmp_path)
    again.add(made("a"))
    assert set(again.done) == {("h", "a"), ("h", "b")}
    assert [row.id for row in again.settle().rows] == ["a", "b"]  # in the order of the questions
    assert [row.id for row in read_report(tmp_path / "rows.jsonl").rows] == ["b", "a"]  # as they came


def test_a_complete_file_is_in_the_order_of_the_questions(tmp_path):
    rows = opened(tmp_path)
    for id in "cab":
        rows.add(made(id))
    rows.settle()
    report = read_report(tmp_path / "rows.jsonl")
    assert [row.id for row in report.rows] == ["a", "b", "c"] and (report.name, report.asked) == ("one", 3)


def test_a_line_that_a_crash_cut_off_is_dropped_and_its_question_asked_again(tmp_path):
    opened(tmp_path).add(made("a"))
    file = tmp_path / "rows.jsonl"
    file.write_bytes(file.read_bytes() + b'{"id": "b", "outc')
    assert [row.id for row in read_report(file).rows] == ["a"]
    rows = opened(tmp_path)
    assert set(rows.done) == {("h", "a")}
    rows.add(made("b"))
    assert [row.id for row in read_report(file).rows] == ["a", "b"]


def test_rows_of_another_run_do_not_mix(tmp_path):
    opened(tmp_path, program="1", questions="1").add(made("a"))
    with pytest.raises(UsageError, match=r"holds a run with other program; choose another --out, or delete it"):
        opened(tmp_path, program="2", questions="1")
    assert set(opened(tmp_path, program="1", questions="1").done) == {("h", "a")}


def test_a_row_that_comes_again_replaces_the_one_before(tmp_path):
    rows = opened(tmp_path)
    rows.add(made("a", 0.0, outcome="lm_error"))
    rows.drop({"lm_error"})
    assert rows.done == {}
    rows.add(made("a"))
    assert [row.value for row in read_report(tmp_path / "rows.jsonl").rows] == [1.0]


def test_half_a_surrogate_pair_in_an_answer_is_kept(tmp_path):
    opened(tmp_path).add(made("a", answer="\ud83d é"))
    assert read_report(tmp_path / "rows.jsonl").rows[0].answer == "\ud83d é"


def test_figures_are_recomputed_from_the_rows():
    rows = (made("a", 1.0, kind="x"), made("b", 0.5, kind="y"), made("c", 0.0, kind="x", outcome="parse_error"))
    report = Report(metric="m", rows=rows)
    assert report.score == (1.0 + 0.5 + 0.0) / 3 and report.coverage == 2 / 3
    assert report.kinds == {"x": (2, 0.5), "y": (1, 0.5)} and report.outcomes == {"ok": 2, "parse_error": 1}


def test_a_question_that_is_not_rated_is_in_no_mean():
    rows = (made("a", 1.0, kind="x", parts={"f1": 1.0}), made("b", 0.0, kind="y", outcome="not_rated"))
    report = Report(metric="m", rows=rows)
    assert (report.score, report.coverage, report.parts, report.kinds) == (1.0, 1.0, {"f1": 1.0}, {"x": (1, 1.0)})
    assert report.summary()["n"] == 1 and report.outcomes == {"not_rated": 1, "ok": 1}


def start(folder: Path, *more: str) -> subprocess.Popen:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, SCRIPT, folder, *more], stderr=subprocess.PIPE)


def finish(folder: Path, *more: str) -> Report:
    process = start(folder, *more)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    return read_report(folder / "rows.jsonl")


def calls(folder: Path) -> Counter[int]:
    file = folder / "calls.txt"
    return Counter(map(int, file.read_text().split())) if file.exists() else Counter()


def test_errors_garbage_a_hung_call_and_a_kill_half_way_lose_nothing_and_ask_nothing_twice(tmp_path):
    smooth, killed = tmp_path / "smooth", tmp_path / "killed"
    process = start(killed)
    while sum(calls(killed).values()) < 50:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.communicate()
    under_way = {n for n, row in enumerate(numbered(read_report(killed / "rows.jsonl"))) if row is None}
    report = finish(killed)
    assert len(report.rows) == report.asked == 100
    assert report.outcomes == {"budget": 1, "lm_error": 5, "ok": 89, "parse_error": 5}
    twice = {number for number, count in calls(killed).items() if count > 1}
    assert set(calls(killed)) == set(range(100)) and len(twice) <= 2 and twice <= under_way  # one a thread
    undisturbed = finish(smooth, "smooth")  # two threads, and its file is in the order of the questions
    assert [row.history for row in undisturbed.rows] == ["a"] * 25 + ["b"] * 25 + ["c"] * 25 + ["d"] * 25
    assert undisturbed.score == 1.0
    for row, other in zip(report.rows, undisturbed.rows, strict=True):
        assert row.key == other.key
        assert (row.value, row.answer) == ((other.value, other.answer) if row.outcome == "ok" else (0.0, ""))
    assert report.score == sum(row.value for row in report.rows) / 100 == 0.89 and report.coverage == 0.89


def numbered(report: Report) -> list[Row | None]:
    """Rows by the number of their question in the script."""
    rows = {row.key: row for row in report.rows}
    return [rows.get((history, f"q{at}")) for history in "abcd" for at in range(25)]


def test_another_process_does_not_write_the_same_rows(tmp_path):
    rows = opened(tmp_path)
    with pytest.raises(UsageError, match="is being written by another process"):
        opened(tmp_path)
    rows.settle()
    assert opened(tmp_path).done == {}


@pytest.mark.parametrize("path", ["/dev/stdout", "/proc/self/fd/1", "."])
def test_rows_go_into_ordinary_files_only(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is no ordinary file"):
        Rows(Path(path), Run(metric="m"), KEYS)


def test_a_file_that_was_removed_meanwhile_is_not_made_anew_without_its_first_line(tmp_path):
    rows = opened(tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(UsageError, match="cannot be written"):
        rows.add(made("a"))


def test_rows_that_cannot_be_put_in_order_are_a_report_all_the_same(tmp_path, monkeypatch):
    rows = opened(tmp_path)
    for id in "cab":
        rows.add(made(id))
    monkeypatch.setattr("stitchjam.optimizers.row_file.write_run", lambda *_: (_ for _ in ()).throw(OSError("full")))
    assert [row.id for row in rows.settle().rows] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "wrong",
    [{"value": math.nan}, {"value": 7.5}, {"value": -0.1}, {"cost": -1.0}, {"cost": 1e308}, {"seconds": math.inf}],
)
def test_a_figure_that_can_be_none_is_no_row(wrong):
    with pytest.raises(ValidationError):
        Row(**({"id": "a", "metric": "m", "outcome": "ok", "value": 1.0, "why": ""} | wrong))


def test_what_failed_has_no_value():
    with pytest.raises(ValidationError, match="has the value 0"):
        made("a", 1.0, outcome="lm_error")
