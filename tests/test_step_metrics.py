"""Figures of labelling steps, against values that were computed by hand or the slow way."""

import json
from itertools import permutations
from math import log
from pathlib import Path
from random import Random

import numpy as np
import pytest

from stitchjam.data.errors import UsageError
from stitchjam.data.labelled import LabelledHistory, labelled_rows, read_labelled
from stitchjam.optimizers.steps import Predicted, StepReport, score_steps, step_tables
from stitchjam.optimizers.steps.clusters import b_cubed, v_measure
from stitchjam.optimizers.steps.mapping import assign, best_of_each, one_to_one, typing_figures
from stitchjam.optimizers.steps.notes import content_words
from stitchjam.optimizers.steps.records import FIGURES
from stitchjam.optimizers.steps.segments import Labelling, segmentation, window_size

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not beside the project")


@pytest.fixture
def labelled(tmp_path):
    """Histories from gold by name of history and of session, one mapping a turn."""

    def make(histories) -> list[LabelledHistory]:
        rows = [
            {
                "step": "label_turn",
                "inputs": {"session": session, "id": f"{session}{at}", "speaker": "A", "text": f"turn {at}"},
                "outputs": gold,
                "group": name,
            }
            for name, sessions in histories.items()
            for session, golds in sessions.items()
            for at, gold in enumerate(golds)
        ]
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return list(read_labelled("rows", path))

    return make


def scopes(text):
    """A turn a letter; a blank for no scope, a dot for no gold."""
    return [{} if letter == "." else {"scope": letter.strip()} for letter in text]


def said(histories, words):
    """Predictions by the external ids of turns."""
    return {
        one.name: {turn.id: words[turn.external_id] for turn in one.history.turns if turn.external_id in words}
        for one in histories
    }


def values(scored, kind):
    return {name.partition(".")[2]: one.value for name, one in scored.figures.items() if name.startswith(f"{kind}.")}


# Groups.


def test_v_measure_and_b_cubed_of_four_turns():
    gold, given = "aabb", "xxxy"
    entropy, mutual = 0.75 * log(4 / 3) + 0.25 * log(4), 0.75 * log(4 / 3) + 0.25 * log(4) + log(2) - 1.5 * log(2)
    homogeneity, completeness = mutual / log(2), mutual / entropy
    assert v_measure(gold, given) == pytest.approx(
        {
            "homogeneity": homogeneity,  # 0.3113
            "completeness": completeness,  # 0.3837
            "v_measure": 2 * homogeneity * completeness / (homogeneity + completeness),  # 0.3437
        }
    )
    assert v_measure(gold, given)["v_measure"] == pytest.approx(0.3437, abs=1e-4)
    # Precision 2/3, 2/3, 1/3, 1; recall 1, 1, 1/2, 1/2.
    assert b_cubed(gold, given) == pytest.approx({"b3_precision": 2 / 3, "b3_recall": 3 / 4, "b3_f1": 12 / 17})


@pytest.mark.parametrize(
    ("gold", "given", "expected", "b3"),
    [
        ("aabb", "xxyy", (1, 1, 1), (1, 1, 1)),
        ("aabb", "xxxx", (0, 1, 0), (0.5, 1, 2 / 3)),
        ("aabb", "wxyz", (1, 0.5, 2 / 3), (1, 0.5, 2 / 3)),
        ("aabb", "xyxy", (0, 0, 0), (0.5, 0.5, 0.5)),
        ("aaaa", "xxyy", (1, 0, 0), (1, 0.5, 2 / 3)),
        ("a", "x", (1, 1, 1), (1, 1, 1)),
    ],
)
def test_groups_at_their_ends(gold, given, expected, b3):
    assert tuple(v_measure(gold, given).values()) == pytest.approx(expected, abs=1e-12)
    assert tuple(b_cubed(gold, given).values()) == pytest.approx(b3)


# Places of change.


def cut(*sessions):
    found = segmentation([Labelling(tuple(gold), tuple(given)) for gold, given in sessions])
    return {name: value for name, (value, _) in found.items()}, {name: turns for name, (_, turns) in found.items()}


def test_pk_and_window_diff_by_hand():
    # Two segments in six turns: a window goes over 2 of the 5 places. By gold they hold 0 1 1 0 boundaries.
    assert window_size(["aaabbb"]) == 2
    found, turns = cut(("aaabbb", "aabbbb"))  # 1 1 0 0
    assert found == {
        "pk": 0.5, "window_diff": 0.5, "boundary_precision": 0, "boundary_recall": 0, "boundary_f1": 0
    }  # fmt: skip
    assert set(turns.values()) == {6}
    found, _ = cut(("aaabbb", "aacbbb"))  # 1 2 1 0: the second window has one too many, and both end elsewhere
    assert (found["pk"], found["window_diff"]) == (0.25, 0.5)
    assert found["boundary_precision"] == 0.5 and found["boundary_recall"] == 1
    assert found["boundary_f1"] == pytest.approx(2 / 3)


def test_a_scope_that_comes_back_is_a_new_segment():
    found, _ = cut(("aabbaa", "xxyyzz"))
    assert found["pk"] == found["window_diff"] == 0 and found["boundary_f1"] == 1


def test_no_window_goes_over_the_end_of_a_session_and_a_short_one_has_none():
    # Ten turns in four segments: windows over 1 place, so those of "a" have none.
    found, turns = cut(("aabb", "aabb"), ("aabbb", "aaabb"), ("a", "x"))
    assert found["pk"] == found["window_diff"] == 2 / 7 and turns["pk"] == 9
    assert found["boundary_f1"] == 0.5 and turns["boundary_f1"] == 10
    assert cut(("aabb", "xxxx"))[0]["boundary_precision"] == 0


def test_without_boundaries_in_gold_false_ones_show_in_windows_alone():
    assert cut(("aaaa", "xxxx"))[0] == {"pk": 0, "window_diff": 0}
    assert cut(("aaaa", "wxyz"))[0] == {"pk": 1, "window_diff": 1}
    assert cut(("a", "x"))[0] == {} and segmentation([]) == {}


def test_windows_agree_with_counting_them_one_by_one():
    dice = Random(1)
    for _ in range(200):
        gold, given = ("".join(dice.choices("abc", k=length)) for length in [dice.randint(2, 30)] * 2)
        size = window_size([gold])
        ends = [(at, at + size) for at in range(len(gold) - size)]
        inner = [[labels[i] != labels[i + 1] for i in range(len(gold) - 1)] for labels in (gold, given)]
        pairs = [[sum(places[at:end]) for places in inner] for at, end in ends]
        found, _ = cut((gold, given))
        if pairs:
            assert found["pk"] == pytest.approx(sum(bool(one) != bool(other) for one, other in pairs) / len(pairs))
            assert found["window_diff"] == pytest.approx(sum(one != other for one, other in pairs) / len(pairs))


# Labels.


def test_labels_stand_for_the_gold_label_that_they_are_most_often_beside():
    gold = [["ask"], ["ask"], ["tell"], ["tell", "date"]]
    found = typing_figures(gold, [["p"], ["q", "x"], ["x"], ["x"]])
    # p: ask 1. q: ask 1. x: ask 1, tell 2, date 1. Once: x is tell, p is ask, and q is nothing, so the second misses.
    assert found == pytest.approx(
        {"mapped": 1, "mapped_once": 0.75, "v_measure": 0.8, "per_turn": 1.25, "ratio": 1}
    )  # first labels: p q x x for ask ask tell tell; homogeneity 1, completeness 1 / 1.5
    assert typing_figures(gold, [[], [], ["x"], ["x"]])["mapped"] == 0.5
    assert typing_figures(gold, [[], [], [], []]) == {
        "mapped": 0, "mapped_once": 0, "v_measure": 0, "per_turn": 0, "ratio": 0
    }  # fmt: skip


def test_every_label_at_each_turn_shows_in_what_a_turn_was_given():
    found = typing_figures([["a"], ["b"], ["c"]], [["x", "y", "z"]] * 3)
    assert (found["mapped_once"], found["per_turn"], found["ratio"], found["v_measure"]) == (1, 3, 1, 0)


def test_a_label_twice_at_a_turn_is_one():
    assert typing_figures([["a", "a"], ["b"]], [["x", "x"], ["y"]])["per_turn"] == 1


def test_ties_go_to_the_first_by_name():
    assert best_of_each({("x", "b"): 1, ("x", "a"): 1, ("y", "c"): 3, ("y", "a"): 2}) == {"x": "a", "y": "c"}


def test_one_to_one_is_not_greedy_and_leaves_out_what_is_never_beside():
    beside = {("x", "a"): 5, ("x", "b"): 4, ("y", "a"): 4}
    assert one_to_one(beside) == {"x": "b", "y": "a"}
    assert one_to_one({("x", "a"): 1, ("y", "a"): 2, ("z", "a"): 1}) == {"y": "a"}
    assert one_to_one({("x", "a"): 1, ("x", "b"): 2}) == {"x": "b"}
    assert one_to_one({("x", "a"): 1, ("y", "a"): 1, ("y", "b"): 1, ("z", "c"): 1}) == {"x": "a", "y": "b", "z": "c"}
    assert one_to_one({}) == {}


def test_assignments_cost_no_more_than_the_best_of_all():
    dice = np.random.default_rng(1)
    for rows, columns in [(1, 1), (1, 4), (2, 2), (3, 5), (4, 4), (5, 6)] * 10:
        costs = dice.integers(-5, 6, (rows, columns))
        found = assign(costs)
        best = min(sum(costs[row, at] for row, at in enumerate(way)) for way in permutations(range(columns), rows))
        assert len(set(found)) == rows and sum(costs[row, at] for row, at in enumerate(found)) == best


# Notes.


def test_content_words_are_without_articles_and_stop_words():
    assert content_words("The Oak Inn, that's what I'd said; 72 euros.") == {"oak", "inn", "said", "72", "euros"}


def test_what_notes_keep(labelled):
    histories = labelled(
        {
            "h": {
                "s": [
                    {"references": [{"words": "it", "means": "the Oak Inn"}, {"words": "she", "means": "Ann"}]},
                    {"references": [{"words": "there", "means": "Elm House"}], "targets": ["72 euros a night"]},
                    {"references": [{"words": "that", "means": "the other one's"}], "targets": []},
                    {"references": [{"words": "that", "means": "it"}], "targets": ["Elm House", "the House of Ann"]},
                    {"targets": ["lost"]},
                ]
            }
        }
    )
    words = {
        "s0": Predicted(text="Ann prefers an oak table."),  # Ann, and half of the Oak Inn
        "s1": Predicted(text="Elm-House costs 72 EUROS!"),  # all of it, and two of three words
        "s3": Predicted(text="the house of elms"),  # one of elm, house, ann
    }
    found = score_steps(histories, said(histories, words)).together
    assert values(found, "note") == pytest.approx({"references_resolved": 2 / 4, "key_tokens_kept": 3 / 7})
    assert (found.figures["note.references_resolved"].turns, found.figures["note.key_tokens_kept"].turns) == (3, 3)
    assert (found.turns, found.labelled) == (5, 3)


# Reports.


def test_what_gold_itself_scores_is_all(labelled):
    gold = {"scope": "a", "events": ["ask"], "entities": ["hall", "price"], "targets": ["Oak"]}
    other = {"scope": "b", "events": ["tell"], "entities": ["hotel"], "references": [{"words": "it", "means": "Oak"}]}
    histories = labelled({"h": {"s": [gold, gold, other, other], "r": [gold, other]}})
    [one] = histories
    perfect = {
        id: Predicted(scope=each.scope, events=each.events, entities=each.entities, text="oak")
        for id, each in one.labels.items()
    }
    report = score_steps(histories, {"h": perfect})
    assert report.histories[0].figures == report.together.figures and list(report.together.figures) == list(FIGURES)
    for name, figure in report.together.figures.items():
        wanted = {"scope.pk": 0, "scope.window_diff": 0, "entities.per_turn": 1.5}.get(name, 1)
        assert figure.value == pytest.approx(wanted), name
    assert StepReport.model_validate_json(report.model_dump_json()) == report


def test_turns_without_gold_are_left_out_and_turns_without_a_label_count(labelled):
    histories = labelled({"h": {"s": scopes("aa. bb")}})
    words = {at: Predicted(scope=scope) for at, scope in zip(("s0", "s1", "s2", "s3"), "xxqr", strict=True)}
    report = score_steps(histories, said(histories, words))
    found = values(report.together, "scope")
    assert report.together.figures["scope.v_measure"].turns == 4
    assert found["v_measure"] == found["b3_f1"] == found["boundary_f1"] == found["ratio"] == 1  # x x, and "" for b b
    assert (report.together.turns, report.together.labelled) == (5, 3)  # "." has no gold at all


def test_histories_are_weighted_by_the_turns_that_a_figure_rests_on(labelled):
    histories = labelled(
        {"h": {"s": [*scopes("aabb"), {"events": ["ask"]}]}, "g": {"s": [*scopes("ab"), {"events": ["ask"]}, {}]}}
    )
    words = said(histories, {f"s{at}": Predicted(scope="x", events=("q",)) for at in range(5)})
    report = score_steps(histories, words)
    assert [one.figures["scope.b3_precision"].value for one in report.histories] == [0.5, 0.5]
    words["h"] = {id: Predicted(scope=histories[0].labels[id].scope) for id in words["h"]}
    report = score_steps(histories, words)
    assert report.together.figures["scope.b3_precision"].value == pytest.approx((4 * 1 + 2 * 0.5) / 6)
    assert report.together.figures["events.mapped"].value == pytest.approx((1 * 0 + 1 * 1) / 2)
    assert report.together.figures["events.mapped"].turns == 2


def test_baselines_tell_what_saying_nothing_scores(labelled):
    turns = [{"scope": "a", "events": ["ask"]}] * 3 + [{"scope": "b", "events": ["tell"], "targets": ["Oak"]}]
    report = score_steps(labelled({"h": {"s": turns}}), {})
    one, own = report.baselines
    assert (one.name, own.name) == ("one label", "a label a turn")
    assert values(one, "events") == pytest.approx(
        {"mapped": 0.75, "mapped_once": 0.75, "v_measure": 0, "per_turn": 1, "ratio": 0.5}
    )
    assert values(own, "events")["mapped"] == 1 and values(own, "events")["mapped_once"] == 0.5
    assert values(one, "scope")["completeness"] == 1 and values(own, "scope")["homogeneity"] == 1
    assert values(own, "scope")["ratio"] == 2 and values(one, "note") == {}
    assert values(report.together, "note") == {"key_tokens_kept": 0} and report.together.labelled == 0


def test_predictions_of_other_histories_and_turns_are_refused(labelled):
    histories = labelled({"h": {"s": scopes("ab")}})
    with pytest.raises(UsageError, match="predictions for 'g', which is none of the histories; there are: h"):
        score_steps(histories, {"g": {}})
    with pytest.raises(UsageError, match="'h' has no turn 'nope'; label the same history"):
        score_steps(histories, {"h": {"nope": Predicted()}})
    with pytest.raises(UsageError, match="two histories have the same name"):
        score_steps([*histories, *histories], {})
    for none in ([], labelled({"h": {"s": scopes("..")}})):
        with pytest.raises(UsageError, match="no turn has gold labels"):
            score_steps(none, {})


def test_turns_whose_gold_says_that_there_is_nothing_are_no_ground_for_figures(labelled):
    histories = labelled(
        {"h": {"s": [{"scope": "", "events": [], "entities": [], "targets": [], "references": []}] * 2}}
    )
    report = score_steps(histories, {})
    assert report.together.figures == {} and report.together.turns == 2
    assert "take more of them" in step_tables(report)[1] and len(step_tables(report)) == 3


# Tables.


def cells(table):
    heads = [str(column.header) for column in table.columns]
    rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def test_tables_show_what_there_is_gold_for(labelled):
    histories = labelled(
        {"h": {"s": [*scopes("aabb")], "r": scopes("a")}, "g": {"s": [{"scope": "a", "events": ["ask"]}]}}
    )
    words = said(histories, {f"s{at}": Predicted(scope=scope) for at, scope in enumerate("aabb")})
    first, title, changes, _, groups, _, types, how = step_tables(score_steps(histories, words))
    assert first == "labels of 6 turns with gold; 1 got no label, which counts as no scope, no type and an empty note"
    assert title.startswith("where scopes change") and "weighted by the turns" in how
    assert [row["history"] for row in cells(groups)] == ["h", "g", "all", "one label", "a label a turn"]
    assert cells(changes)[0] == {
        "history": "h", "turns": "5", "pk": "0.0 (n 4)", "window diff": "0.0 (n 4)",
        "boundary precision": "100.0", "boundary recall": "100.0", "boundary f1": "100.0",
    }  # fmt: skip
    assert [row["history"] for row in cells(types)] == ["g", "all", "one label", "a label a turn"]
    assert cells(types)[0] == {
        "history": "g", "turns": "1", "mapped": "0.0", "mapped once": "0.0", "v measure": "100.0",
        "per turn": "0.00", "ratio": "0.00",
    }  # fmt: skip


def test_many_histories_are_counted_instead_of_shown(labelled):
    histories = labelled({f"h{at}": {"s": scopes("aab")} for at in range(23)})
    lines = step_tables(score_steps(histories, {}))
    assert "3 more histories are in the report" in lines and len(cells(lines[2])) == 23


@needs_shared
@pytest.mark.parametrize("kind", ["came", "qmsum", "realmem", "sgd", "tiage", "worlds"])
def test_gold_of_real_sets_scores_all_and_nothing_scores_less(kind):
    path = {"came": "came_bench_site", "worlds": None}.get(kind, kind)
    histories = list(read_labelled(kind, path and SHARED / path))
    perfect = {
        one.name: {
            id: Predicted(
                scope=gold.scope,
                events=gold.events,
                entities=gold.entities,
                text=" ".join([*gold.targets, *(each.means for each in gold.references)]),
            )
            for id, gold in one.labels.items()
        }
        for one in histories
    }
    report = score_steps(histories, perfect)
    for name, figure in report.together.figures.items():
        if not name.endswith(("per_turn", "scope.pk", "window_diff")):
            assert figure.value == pytest.approx(1), name
    nothing = score_steps(histories, {}).together.figures
    assert nothing["scope.v_measure"].value < 0.3 and nothing["scope.b3_f1"].value < 0.8
    assert report.together.turns == sum(1 for one in histories for row in labelled_rows(one) if row["outputs"])
