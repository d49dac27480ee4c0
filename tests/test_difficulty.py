"""How hard worlds are: the solver knows all from the evidence, little from BM25's hits, next to nothing by a guess."""

import sys
from pathlib import Path

import pytest
from made_worlds import make

from stitchjam.data.errors import MissingExtra, UsageError
from stitchjam.data.ids import build_session
from stitchjam.data.worlds.asking import FAMILIES
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.optimizers import sweep as sweep_module
from stitchjam.optimizers.difficulty import bm25_search, measure
from stitchjam.optimizers.sweep import Curve, Point, draw, require_drawing, sweep

TALK = ["The ferry leaves at nine.", "The ferry and the other ferry.", "Tomatoes are ripe.", "I saw tomatoes leaving."]


@pytest.fixture(scope="module")
def found(worlds):
    """The figures of all worlds."""
    return measure(worlds)


def search(question: str, k: int) -> list[str]:
    turns = build_session("s", "", [{"speaker": "Ann", "text": text} for text in TALK]).turns
    return [next(turn.text for turn in turns if turn.id == id) for id in bm25_search(turns, k)(question)]


def curve(dial: str, *values: float) -> Curve:
    points = tuple(
        Point(value=value, questions=9, recall=0.5, solved=0.4, multi_hop=0.3, closed=0.1) for value in values
    )
    return Curve.model_validate({"dial": dial, "worlds": 2, "types": ("counting",), "points": points})


def test_evidence_answers_all_search_some_and_a_guess_almost_nothing(found):
    all_rows = found.together
    assert all_rows.questions == 240 and found.faulty == {}
    assert all_rows.oracle == 1.0
    assert all_rows.closed < 0.10
    assert all_rows.closed < all_rows.bm25 < 0.9
    assert all_rows.hybrid is None and all_rows.hybrid_recall is None  # not asked for


def test_rows_by_type_family_and_hops_sum_to_all(found):
    assert {row.name for row in found.types} == {name for types in FAMILIES.values() for name in types}
    assert [row.name for row in found.families] == list(FAMILIES)
    assert [row.name for row in found.hops] == ["1", "2", "3", "4"]
    for rows in (found.types, found.families, found.hops):
        assert sum(row.questions for row in rows) == found.together.questions
        for name in ("oracle", "closed", "bm25"):
            mean = sum(getattr(row, name) * row.questions for row in rows) / found.together.questions
            assert mean == pytest.approx(getattr(found.together, name))
    for family in found.families:
        assert family.questions == sum(row.questions for row in found.types if row.name in FAMILIES[family.name])


def test_recall_is_over_questions_that_have_evidence(found):
    by_type = {row.name: row for row in found.types}
    assert by_type["unanswerable"].recall == 0 and by_type["unanswerable"].bm25 == 1
    with_evidence = [row for row in found.types if row.name != "unanswerable"]
    mean = sum(row.recall * row.questions for row in with_evidence) / sum(row.questions for row in with_evidence)
    assert found.together.recall == pytest.approx(mean) and 0 < mean < 1


def test_more_turns_find_more(worlds, found):
    few, many = measure(worlds[:1], k=1).together, measure(worlds[:1], k=1000).together
    assert few.recall < many.recall and few.bm25 < many.bm25
    assert measure(worlds[:1]).together.oracle == 1 and found.k == 10


def test_the_search_of_this_package_is_measured_when_asked_for(tmp_path):
    all_rows = measure([make(tmp_path, sessions=10, questions=10)], hybrid=True).together
    assert all_rows.hybrid is not None and all_rows.hybrid_recall is not None
    assert 0 < all_rows.hybrid <= 1 and 0 < all_rows.hybrid_recall <= 1


def test_worlds_without_questions_can_be_measured(tmp_path):
    found = measure([make(tmp_path, sessions=10, questions=0)])
    assert found.together.questions == 0 and found.types == () and found.worlds == ("w",)


def test_bm25_ranks_by_rare_stemmed_words_and_gives_only_what_shares_one():
    assert search("When does the ferry leave?", 10)[0] == TALK[0]
    assert search("ferries", 10) == [TALK[1], TALK[0]]  # twice counts more, whatever the form
    assert search("a tomato", 1) == [TALK[2]]
    assert sorted(search("Ann", 10)) == sorted(TALK)  # the speaker counts
    assert search("something else", 10) == [] and search("", 10) == []


def test_a_sweep_measures_each_value_of_a_dial(monkeypatch, tmp_path):
    monkeypatch.setattr(sweep_module, "SWEEPS", {"overlap": (0.0, 1.0), "sessions": (10, 20)})
    monkeypatch.setattr(sweep_module, "_LONG", 12)
    ticks = []
    dials = Dials(seed=3, sessions=12, questions=19)
    found = sweep("overlap", dials, 2, lambda *tick: ticks.append(tick))
    assert ticks == [("overlap", 1, 2), ("overlap", 2, 2)]
    assert [point.value for point in found.points] == [0.0, 1.0] and found.worlds == 2
    assert "unanswerable" not in found.types and set(found.types) <= {n for types in FAMILIES.values() for n in types}
    for point, overlap in zip(found.points, (0.0, 1.0), strict=True):
        for number in range(2):
            make(tmp_path / str(overlap), f"w{3 + number}", **(dict(dials) | {"seed": 3 + number, "overlap": overlap}))
        alone = measure(read_worlds(tmp_path / str(overlap)))
        rows = [row for row in alone.types if row.name in found.types]
        assert point.questions == alone.together.questions and point.closed == alone.together.closed
        assert point.recall == pytest.approx(sum(row.recall for row in rows) / len(rows))
        assert point.solved == pytest.approx(sum(row.bm25 for row in rows) / len(rows))
    assert [point.value for point in sweep("sessions", dials, 1).points] == [10, 20]


def test_a_sweep_without_a_type_at_every_point_says_what_to_do(monkeypatch):
    monkeypatch.setattr(sweep_module, "SWEEPS", {"overlap": (0.0,)})
    with pytest.raises(UsageError, match="--questions"):
        sweep("overlap", Dials(sessions=10, questions=0), 1)


@pytest.mark.parametrize("name", ["a.svg", "new/folder/a.svg", "a.png"])
def test_curves_are_drawn_into_a_picture(tmp_path, name):
    pytest.importorskip("matplotlib")
    draw([curve("overlap", 0, 0.5, 1), curve("sessions", 20, 80)], tmp_path / name)
    drawn = (tmp_path / name).read_bytes()
    assert len(drawn) > 1000 and (b"<svg" in drawn if name.endswith("svg") else drawn.startswith(b"\x89PNG"))


def test_a_picture_of_another_kind_is_refused(tmp_path):
    with pytest.raises(UsageError, match=".svg, .png or .pdf"):
        require_drawing(tmp_path / "a.docx")


def test_without_matplotlib_the_install_line_comes_before_any_work(monkeypatch, tmp_path, run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # importing it fails
    monkeypatch.setattr(sweep_module, "SWEEPS", {"no such dial": ()})  # working on it would fail
    with pytest.raises(MissingExtra, match=r"stitchjam\[report\]"):
        draw([curve("overlap", 0, 1)], tmp_path / "a.svg")
    code, _, err = run("gym", "stats", "--sweep", "--plot", "a.svg")
    assert code == 2 and "pip install 'stitchjam[report]'" in err and not Path("a.svg").exists()
