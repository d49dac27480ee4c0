"""Worlds are the same for the same dials, keep what the dials promise, and carry gold that can be read back."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_worlds import make, said, stated

from stitchjam.data.cases import load_cases
from stitchjam.data.digest import file_hash
from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers import read_questions, read_sessions
from stitchjam.data.text import normalise
from stitchjam.data.worlds.asking import FAMILIES
from stitchjam.data.worlds.dates import read_date
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import World, is_world, read_world, read_worlds
from stitchjam.data.worlds.generate import generate_world
from stitchjam.data.worlds.query import solve
from stitchjam.data.worlds.wording import open_wording
from stitchjam.programs.memory import Memory

SMALL: dict[str, Any] = {"seed": 3, "sessions": 20, "questions": 20, "noise": 0.3}
STYLES = {"dialogue", "mail", "notes", "tool", "debate", "trip"}
HASHES = """
import json, sys
from pathlib import Path
from stitchjam.data.worlds.generate import generate_world
from stitchjam.data.worlds.dials import Dials
about = generate_world(Path(sys.argv[1]), "w", Dials.model_validate_json(sys.argv[2]))
print(json.dumps(about.sha256))
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The world that SMALL gives; tests that change it copy it first."""
    return make(tmp_path_factory.mktemp("small"), **SMALL)


def contents(world: World) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(world.folder.iterdir())}


def share(world: World, of: Any) -> float:
    turns = list(said(world))
    return sum(map(of, turns)) / len(turns)


def test_the_same_dials_give_the_same_bytes(small, tmp_path):
    assert contents(make(tmp_path, **SMALL)) == contents(small)


def test_the_hash_seed_of_the_process_changes_nothing(small, tmp_path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", HASHES, str(tmp_path / seed), json.dumps(SMALL)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1", "4242")
    ]
    shown = [process.communicate(timeout=60)[0] for process in running]
    assert [json.loads(one) for one in shown] == [small.about.sha256] * 3


def test_another_seed_gives_another_world(small, tmp_path):
    other = make(tmp_path, **{**SMALL, "seed": 4})
    assert not set(other.about.sha256.values()) & set(small.about.sha256.values())


def test_a_world_that_is_there_is_left_as_it_is(small):
    before = {path: path.stat().st_mtime_ns for path in small.folder.iterdir()}
    assert generate_world(small.folder.parent, "w", Dials.model_validate(SMALL)) == small.about
    assert {path: path.stat().st_mtime_ns for path in small.folder.iterdir()} == before


def test_other_dials_under_the_same_name_are_refused(small):
    before = contents(small)
    with pytest.raises(UsageError, match="other dials"):
        make(small.folder.parent, **{**SMALL, "noise": 0.2})
    assert contents(small) == before


def test_what_a_killed_run_left_does_no_harm(small, tmp_path):
    partial = tmp_path / ".w.abc.partial"
    shutil.copytree(small.folder, partial)
    (partial / "w.gold.jsonl").write_text("half a li", encoding="utf-8")
    assert not is_world(tmp_path)
    assert contents(make(tmp_path, **SMALL)) == contents(small) and [world.name for world in read_worlds(tmp_path)] == [
        "w"
    ]


def test_what_a_killed_run_left_an_hour_ago_is_removed(tmp_path):
    for name in (".w.0a1b2c3d.partial", ".w.9a1b2c3d.partial", ".v.0a1b2c3d.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.gold.jsonl").touch()
    for path in (tmp_path / ".w.0a1b2c3d.partial", tmp_path / ".w.0a1b2c3d.partial" / "w.gold.jsonl"):
        os.utime(path, (0, 0))
    make(tmp_path, **SMALL)
    assert sorted(os.listdir(tmp_path)) == [".v.0a1b2c3d.partial", ".w.9a1b2c3d.partial", "w"]


def test_a_run_that_fails_leaves_nothing(tmp_path):
    def fail(what: str, done: int, of: int) -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        generate_world(tmp_path, "w", Dials(sessions=10), fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("about", [None, "", "[]", "{}", '{"dials": 3}', '{"dials": {"sessions": 1}}', "[" * 100_000])
def test_a_folder_that_is_no_world_is_not_overwritten(tmp_path, about):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "mine.txt").write_text("mine", encoding="utf-8")
    if about is not None:
        (tmp_path / "w" / "world.json").write_text(about, encoding="utf-8")
    part = "is no world" if about is None else "make the world again, under another name or after removing"
    with pytest.raises(UsageError if about is None else DataError, match=part):
        make(tmp_path)
    assert (tmp_path / "w" / "mine.txt").read_text("utf-8") == "mine"


def test_a_link_to_nowhere_is_not_overwritten(tmp_path):
    (tmp_path / "w").symlink_to("nowhere")
    with pytest.raises(UsageError, match="w exists and is no world"):
        make(tmp_path)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../b", "a/", "a\n", "a\x1b[2J", "a\x00", "a\ud800", "ä" * 60, "a\\b"]
)
def test_a_world_is_written_nowhere_but_into_its_folder(tmp_path, name):
    with pytest.raises(UsageError, match="cannot name a world"):
        make(tmp_path / "out", name)
    assert list(tmp_path.iterdir()) == []


def test_every_place_reads_back_from_the_sessions_file(worlds):
    for world in worlds:
        rows = map(json.loads, (world.folder / f"{world.name}.sessions.jsonl").read_text("utf-8").splitlines())
        texts = {turn["id"]: turn["text"] for row in rows for turn in row["turns"]}
        places = [one.place for one in stated(world)]
        asked = [place for question in world.asked for one in question.evidence for place in one.places]
        assert len(places) > 400 and len(asked) > 50
        for place in places + asked:
            assert place.text and texts[place.turn][place.start : place.end] == place.text
        for turn in said(world):
            for one in turn.gold.references:
                assert texts[turn.gold.id][one.start : one.end] == one.text != one.means


def test_a_value_is_what_the_words_at_its_place_say(worlds):
    for world in worlds:
        for turn in said(world):
            means = {(one.start, one.end): one.means for one in turn.gold.references}
            for one in turn.gold.statements:
                told = means.get((one.place.start, one.place.end), one.place.text)
                if re.fullmatch(r"\d{4}-\d\d-\d\d", one.fact.value):
                    assert str(read_date(told, turn.session.day)) == one.fact.value
                elif one.fact.relation.endswith(".proposed") or one.fact.relation.startswith("cited."):  # who acts
                    assert normalise(told) == normalise(one.fact.subject)
                else:
                    assert normalise(told) == normalise(one.fact.value), one


def test_words_that_point_elsewhere_point_to_earlier_turns(worlds):
    for world in worlds:
        seen: set[str] = set()
        for turn in said(world):
            gold = turn.gold
            earlier = {id for one in (*gold.statements, *gold.references) for id in one.through}
            assert earlier <= seen and all(one.place.turn == gold.id for one in gold.statements)
            assert turn.turn.external_id == gold.id not in seen
            seen.add(gold.id)


def test_a_date_is_put_right_by_a_full_date(worlds):
    # "It starts in six weeks, not on 18 March 2026" puts an exact date right by a vague one.
    right = [one for world in worlds for one in stated(world) if one.fact.relation == "date" and one.fact.voids]
    assert len(right) > 5 and all(re.search(r"\d{4}$", one.place.text) for one in right)


def test_other_names_count_in_lists_as_well(worlds):
    lists = [one for world in worlds for one in world.asked if ", " in one.answer and one.aliases]
    assert lists
    for one in lists:
        for alias in one.aliases:
            pairs = zip(one.answer.split(", "), alias.split(", "), strict=True)
            assert 1 <= sum(name != other for name, other in pairs) <= 3


def test_you_is_said_to_somebody_who_has_spoken(worlds):
    # "The second hotel you proposed" tells nothing where only one person speaks.
    found = 0
    for world in worlds:
        spoken: dict[str, set[str]] = defaultdict(set)
        for turn in said(world):
            before = spoken[turn.session.id]
            for one in turn.gold.references:
                if turn.session.style in ("dialogue", "debate") and re.search(r"\byou\b", one.text):
                    found += 1
                    assert before - {turn.turn.speaker}, f"{turn.turn.external_id}: {one.text}"
            before.add(turn.turn.speaker)
    assert found > 5


def test_facts_are_told_in_order_and_a_correction_voids_an_earlier_fact(worlds):
    for world in worlds:
        seen: dict[str, Any] = {}
        for one in stated(world):
            fact = one.fact
            assert fact.id not in seen and fact.at == len(seen) + 1
            if fact.voids:
                wrong = seen[fact.voids]
                assert (wrong.relation, wrong.subject, wrong.goal) == (fact.relation, fact.subject, fact.goal)
                assert wrong.value != fact.value
            seen[fact.id] = fact


def test_all_types_families_and_styles_appear(worlds):
    asked = [question for world in worlds for question in world.asked]
    assert {question.type for question in asked} == {name for types in FAMILIES.values() for name in types}
    assert len({question.type for question in asked}) == 19
    assert all(question.type in FAMILIES[question.family] for question in asked)
    assert {style for question in asked for style in question.styles} == STYLES
    assert {gold.style for world in worlds for gold in world.gold()} == STYLES
    assert {question.hops for question in asked} == {1, 2, 3, 4}


def test_gold_answers_are_those_of_the_solver(worlds):
    for world in worlds:
        facts = [one.fact for one in world.known.statements]
        for question in world.asked:
            assert (solve(question.query, facts).answer or "not mentioned") == question.answer
            assert bool(question.evidence) == (question.type != "unanswerable")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_no_question_takes_more_hops_than_the_dial_says(tmp_path, hops):
    world = make(tmp_path, sessions=30, hops=hops, questions=60)
    assert max(question.hops for question in world.asked) == hops


@pytest.mark.parametrize(("dial", "low", "high"), [(0, 0, 0.06), (0.25, 0.15, 0.35), (0.6, 0.45, 0.7)])
def test_the_share_of_chatter_is_near_the_dial(tmp_path, dial, low, high):
    world = make(tmp_path, sessions=40, chatter=dial, questions=0)
    assert low <= share(world, lambda one: one.gold.events == ("small talk",)) <= high


def test_chatter_states_nothing_and_serves_no_goal(worlds):
    for world in worlds:
        chatter = [one.gold for one in said(world) if one.gold.events == ("small talk",)]
        assert chatter and not any(one.scope or one.statements or one.references for one in chatter)


def test_noise_is_the_share_of_values_told_wrong_and_put_right(tmp_path):
    found = {}
    for noise in (0.0, 0.5):
        facts = [one.fact for one in stated(make(tmp_path, f"n{noise}", sessions=30, noise=noise, questions=0))]
        goals = {fact.goal for fact in facts}
        found[noise] = sum(bool(fact.voids) for fact in facts) / len(goals)
    assert found[0.0] == 0 and found[0.5] > 3


def test_goals_share_options_as_much_as_overlap_says(tmp_path):
    options = {}
    for overlap in (0.0, 0.5, 1.0):
        facts = [one.fact for one in stated(make(tmp_path, f"o{overlap}", sessions=60, overlap=overlap, questions=0))]
        goals: dict[str, set[str]] = defaultdict(set)
        for fact in facts:
            if fact.relation.endswith(".proposed"):
                goals[fact.subject].add(fact.goal)
        options[overlap] = sum(map(len, goals.values())) / len(goals)  # goals an option is proposed for
    assert options[0.0] < options[0.5] < options[1.0]
    assert options[0.0] < 1.2 and options[1.0] > 1.5


@pytest.mark.parametrize("styles", [{"mail": 1, "notes": 0, "tool": 2}, {"trip": 1}, {"debate": 0.1}])
def test_a_style_without_weight_does_not_appear(tmp_path, styles):
    world = make(tmp_path, sessions=30, styles=styles)
    assert {gold.style for gold in world.gold()} == {style for style, weight in styles.items() if weight}
    assert len(world.asked) > 10


@pytest.mark.parametrize("styles", [{}, {"mail": 0}, {"mail": -1, "tool": 2}, {"mail": float("nan")}, {"opera": 1}])
def test_styles_that_cannot_be_drawn_from_are_refused(styles):
    with pytest.raises(ValueError, match="styles"):
        Dials(styles=styles)


@pytest.mark.parametrize(("sessions", "seed"), [(24, 26), (100, 25)])
def test_time_goes_forward_and_a_goal_is_over_before_its_date(tmp_path, sessions, seed):
    # 24 sessions are one team that meets seldom, 100 are five teams whose goals wait for each other.
    world = make(tmp_path, seed=seed, sessions=sessions, questions=0)
    times = [session.time for session in world.history.sessions]
    assert times == sorted(times) and [str(gold.day) for gold in world.gold()] == [time[:10] for time in times]
    final: dict[str, str] = {}
    for one in stated(world):
        if one.fact.relation == "date":
            final[one.fact.goal] = one.fact.value
    late = [one.gold.id for one in said(world) if one.gold.scope and str(one.session.day) >= final[one.gold.scope]]
    assert late == []


def test_every_goal_is_told_to_its_end(worlds):
    for world in worlds:
        done = {one.fact.goal for one in stated(world) if one.fact.relation.endswith(".chosen")}
        assert done == {one.gold.scope for one in said(world)} - {""}


def test_the_split_depends_on_the_seed_alone(small, tmp_path):
    other = make(tmp_path, "another", **{**SMALL, "questions": 5, "noise": 0.11, "overlap": 0.9})
    assert other.split == small.split == small.questions[0].split


def test_both_splits_appear(tmp_path):
    splits = Counter(make(tmp_path, f"w{seed}", seed=seed, sessions=10, questions=0).split for seed in range(40))
    assert min(splits["train"], splits["held_out"]) > 10


def test_programs_see_no_gold(worlds):
    for world in worlds:
        lines = (world.folder / f"{world.name}.sessions.jsonl").read_text("utf-8").splitlines()
        rows = list(map(json.loads, lines))
        assert {key for row in rows for key in row} == {"id", "time", "turns"}
        assert {key for row in rows for turn in row["turns"] for key in turn} == {"id", "speaker", "text"}


def test_the_files_are_read_by_the_readers_of_our_own_formats(small):
    history = read_sessions(small.folder / "w.sessions.jsonl")
    questions = read_questions(small.folder / "w.questions.jsonl", history)
    assert history == small.history and questions == small.questions
    external = {turn.id: turn.external_id for turn in history.turns}
    for question, gold in zip(questions, small.asked, strict=True):
        assert (question.id, question.text, question.answer, question.kind) == (
            gold.id,
            gold.text,
            gold.answer,
            gold.type,
        )
        assert [external[id] for id in question.evidence] == list(gold.turns)


def test_counts_are_those_of_the_files(worlds):
    for world in worlds:
        counts = world.about.counts
        assert counts["sessions"] == len(world.history.sessions) == world.dials.sessions
        assert counts["turns"] == len(world.history.turns) and counts["questions"] == len(world.asked)
        assert world.about.types == dict(sorted(Counter(one.type for one in world.asked).items()))


@pytest.mark.parametrize("what", ["sessions", "questions", "gold", "asked"])
@pytest.mark.parametrize("how", ["changed", "missing", "truncated"])
def test_a_file_that_is_not_as_it_was_made_is_named(small, tmp_path, what, how):
    file = Path(shutil.copytree(small.folder, tmp_path / "w")) / f"w.{what}.jsonl"
    whole = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(whole[:-1] if how == "truncated" else whole.replace(b"a", b"b", 1))
    with pytest.raises(DataError, match=f"w.{what}.jsonl: missing or changed"):
        read_worlds(tmp_path)


@pytest.mark.parametrize(
    ("about", "part"),
    [
        ("", "Invalid JSON: EOF"),
        ("[" * 100_000, "Invalid JSON: recursion limit"),
        ("[]", "Input should be an object"),
        ('{"format": 1}', "name: Field required"),
        ({"format": 99}, "format: it is 99, this version reads 1"),
        ({"sha256": {}}, "missing or changed"),
        ({"sha256": ["w.gold.jsonl"]}, "sha256: Input should be"),
        ({"dials": {"sessions": 3}}, "dials.sessions: Input should be greater"),
        ({"counts": {"sessions": 20, "turns": 3}}, "counts: there is no number of questions"),
        ({"split": "test"}, "split: Input should be 'train' or 'held_out'"),
        ({"split": "train"}, "split: a world of seed 3 is held_out"),
        ({"counts": {"sessions": 20, "turns": 3, "questions": -1}}, "counts.questions: Input should be greater"),
        ({"name": "v"}, "missing or changed"),
        ({"name": "../w/w"}, "name: a name has no slash"),
    ],
)
def test_a_description_that_is_damaged_is_named(small, tmp_path, about, part):
    file = Path(shutil.copytree(small.folder, tmp_path / "w")) / "world.json"
    whole = small.about.model_dump(mode="json")
    file.write_text(about if isinstance(about, str) else json.dumps(whole | about), encoding="utf-8")
    with pytest.raises(DataError, match=f"world.json: {part}|{part}.*make the world again"):
        read_worlds(tmp_path)


def damaged(world: World, folder: Path, what: str, damage: Callable[[list[bytes]], list[bytes]]) -> World:
    """A copy of a world with other lines in a file, and the hash of that file."""
    copy = Path(shutil.copytree(world.folder, folder / "w"))
    file = copy / f"w.{what}.jsonl"
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))
    about = world.about.model_copy(update={"sha256": world.about.sha256 | {file.name: file_hash(file)}})
    (copy / "world.json").write_text(about.model_dump_json(), encoding="utf-8")
    return read_world(copy)


def swap(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


@pytest.mark.parametrize("what", ["gold", "asked"])
@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (swap, 1),
        (lambda lines: [*lines[:3], b"\xff\n", *lines[4:]], 4),
        (lambda lines: [*lines[:-1], lines[-1][:40]], 20),
        (lambda lines: [*lines, lines[-1]], 21),
        (lambda lines: [b"[" * 100_000, *lines[1:]], 1),
        (lambda lines: [lines[0].replace(b'"id"', b'"di"', 1), *lines[1:]], 1),
        (lambda lines: [lines[0].replace(b"s0", b"s9"), *lines[1:]], 1),
    ],
)
def test_a_line_of_gold_that_does_not_fit_is_named_even_where_hashes_agree(small, tmp_path, what, damage, line):
    world = damaged(small, tmp_path, what, damage)
    with pytest.raises(DataError, match=f"w.{what}.jsonl, line {line}: .*make the world again"):
        list(world.gold() if what == "gold" else world.asked)


@pytest.mark.parametrize(("what", "missing"), [("gold", "session w-s0020"), ("asked", "question w-q020")])
def test_missing_gold_is_noticed_even_where_hashes_agree(small, tmp_path, what, missing):
    world = damaged(small, tmp_path, what, lambda lines: lines[:-1])
    with pytest.raises(DataError, match=f"w.{what}.jsonl: no gold for {missing}; make the world again"):
        list(world.gold() if what == "gold" else world.asked)


def test_a_copy_of_a_world_beside_it_is_not_counted_twice(small, tmp_path):
    for name in ("w", "copy"):
        shutil.copytree(small.folder, tmp_path / name)
    with pytest.raises(DataError, match="copy and .*w are both the world 'w'; remove one"):
        read_worlds(tmp_path)


def test_worlds_are_found_by_their_folder_or_the_one_above(small, tmp_path):
    assert [world.name for world in read_worlds(small.folder.parent)] == ["w"]
    assert read_worlds(small.folder)[0].about == small.about
    shutil.copytree(small.folder, tmp_path / "moved")  # a folder can be renamed
    assert read_worlds(tmp_path)[0].asked == small.asked
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="stitchjam gym world"):
        read_worlds(tmp_path / "empty")


def test_a_folder_of_worlds_gives_a_case_for_each(worlds):
    cases = load_cases(worlds[0].folder.parent, encoder="none")
    assert [case.name for case in cases] == [world.name for world in worlds]
    assert [case.questions for case in cases] == [world.questions for world in worlds]
    [alone] = load_cases(worlds[1].folder, encoder="none")
    assert alone.questions == worlds[1].questions and alone.store.history.turns == worlds[1].history.turns


@pytest.mark.parametrize("language", ["xx", "", "../en", "asking"])
def test_a_language_without_templates_is_refused(tmp_path, language):
    with pytest.raises(UsageError, match="no templates"):
        make(tmp_path, language=language)
    assert list(tmp_path.iterdir()) == []


def test_ten_sessions_are_enough_and_give_what_they_can(tmp_path):
    assert len(make(tmp_path, "few", sessions=10, questions=5).asked) == 5
    many = make(tmp_path, "many", sessions=10, questions=300)
    assert 15 < len(many.asked) == len({question.text for question in many.asked}) < 300
    assert make(tmp_path, "none", sessions=10, questions=0).asked == ()


def test_worlds_share_a_memory(worlds, tmp_path):
    with Memory.open(tmp_path / "m", encoder="none") as memory:
        for world in worlds[:2]:
            memory.add(world.folder / f"{world.name}.sessions.jsonl")
        assert memory.stats()["counts"]["turn"] == sum(len(world.history.turns) for world in worlds[:2])


def test_an_option_never_has_a_value_again_that_it_had(worlds):
    for world in worlds:
        seen = [(one.fact.subject, one.fact.relation, one.fact.value) for one in stated(world) if not one.fact.voids]
        told = [one for one in seen if one[2][0].isdigit() and one[1].partition(".")[0] in open_wording("en")["kinds"]]
        assert len(set(told)) > 0.97 * len(told)  # mistakes may hit one by chance


def test_what_an_option_has_does_not_change_with_what_is_told_elsewhere(worlds):
    for world in worlds:
        facts = [one.fact for one in stated(world)]
        listed = {(one.goal, one.subject) for one in facts if one.relation.endswith(".proposed")}
        has = {(one.subject, one.value) for one in facts if one.relation.endswith(".feature")}
        for goal, feature in {(one.goal, one.value) for one in facts if one.relation.endswith(".feature")}:
            here = {one.subject for one in facts if (one.goal, one.value) == (goal, feature)}
            assert here == {option for at, option in listed if at == goal and (option, feature) in has}


def test_equal_dials_gave_other_bytes_when_styles_came_in_another_order(tmp_path):
    one = make(tmp_path / "a", "w", sessions=10, questions=5, styles={"mail": 1, "notes": 2})
    other = make(tmp_path / "b", "w", sessions=10, questions=5, styles={"notes": 2, "mail": 1})
    assert one.about == other.about
