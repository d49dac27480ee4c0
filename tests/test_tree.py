"""A tree of folders is a view: it grows by the same rule from a batch and from appends, and moves no session."""

import random
from collections import Counter

import pytest
from filing import TOPICS

from stitchjam.data.errors import UsageError
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.tokens import count_tokens
from stitchjam.data.tree.grow import ROOT, Folder, Sizes, Tree
from stitchjam.data.tree.paths import name_of, paths_of, slug
from stitchjam.data.tree.readme import readme_text
from stitchjam.data.tree.records import Memo, Readme


def memos(count: int, seed: int = 1) -> list[tuple[str, Memo]]:
    """Topic and memo, by chance."""
    chance, made = random.Random(seed), []
    for at in range(count):
        topic = chance.choice(list(TOPICS))
        words = chance.sample(TOPICS[topic], 4)
        time = f"2026-{1 + at // 28 % 12:02d}-{1 + at % 28:02d}"
        made.append((topic, Memo(session_id=f"s{at}", title=" ".join(words[:2]), gist=" ".join(words), time=time)))
    return made


def grown(count: int, encoder: str = "static", **sizes: int) -> Tree:
    return Tree(open_encoder(encoder), [memo for _, memo in memos(count)], sizes=Sizes(**sizes))


def shape(tree: Tree) -> dict[str, tuple[list[str], list[str]]]:
    return {one.id: (one.sessions, [below.id for below in one.folders]) for one in tree.root.below}


@pytest.mark.parametrize("encoder", ["static", "none"])
def test_a_batch_and_appends_make_the_same_tree(encoder):
    batch, appended = grown(150, encoder), Tree(open_encoder(encoder))
    for _, memo in memos(150):
        appended.add(memo)
    assert shape(batch) == shape(appended) and len(shape(batch)) > 20


@pytest.mark.parametrize("count", [0, 1, 8, 9, 40, 400])
def test_every_session_is_in_one_folder_and_no_folder_is_too_full(count):
    tree = grown(count)
    held = [session for folder in tree.root.below for session in folder.sessions]
    assert sorted(held) == sorted(tree.memos) and len(held) == count
    for folder in tree.root.below:
        assert len(folder.sessions) <= tree.sizes.sessions and len(folder.folders) <= tree.sizes.folders
        assert not (folder.sessions and folder.folders)
        assert folder.count == len(tree.sessions_below(folder))
        assert folder is tree.root or folder.count >= 2
        assert all(tree.home(session) is folder for session in folder.sessions)
    assert len({folder.id for folder in tree.root.below}) == len(shape(tree))


def test_all_leaves_are_equally_deep_and_depth_grows_like_a_logarithm():
    for count, most in ((8, 0), (40, 1), (400, 3)):
        depths = {folder.depth for folder in grown(count).root.below if folder.sessions}
        assert len(depths) == 1 and max(depths) <= most


def test_sessions_on_one_topic_are_filed_together():
    tree, topic = grown(200), {memo.session_id: name for name, memo in memos(200)}
    leaves = [folder for folder in tree.root.below if folder.sessions]
    pure = sum(Counter(topic[one] for one in leaf.sessions).most_common(1)[0][1] for leaf in leaves)
    assert pure / 200 > 0.95


def test_a_new_topic_moves_no_folder_that_it_does_not_touch():
    tree = grown(60)
    before = shape(tree)
    tree.add(*(Memo(session_id=f"new{n}", title="tax form", gist="income tax letter of the office") for n in range(5)))
    kept = [folder_id for folder_id, held in before.items() if shape(tree).get(folder_id) == held]
    assert set(before) <= set(shape(tree)) and len(kept) >= len(before) - 3


def test_a_session_cannot_be_filed_twice():
    tree = grown(3)
    with pytest.raises(UsageError, match="filed already"):
        tree.add(memos(1)[0][1])


def test_memos_that_say_the_same_are_split_by_time():
    same = [Memo(session_id=f"s{n}", title="red boat", gist="the red boat") for n in range(30)]
    tree = Tree(open_encoder("static"), same)
    first = tree.root.folders[0]
    while first.folders:
        first = first.folders[0]
    assert first.sessions == [f"s{n}" for n in range(len(first.sessions))]


def test_memos_without_words_are_filed_too():
    tree = Tree(open_encoder("static"), [Memo(session_id=f"s{n}", title="", gist="") for n in range(20)])
    assert tree.size == 20 and tree.near("anything", 3) == []


def test_near_gives_what_is_alike_among_those_that_may_be_chosen():
    tree = grown(40)
    sea = [memo.session_id for name, memo in memos(40) if name == "sea"]
    assert {memo.session_id for memo in tree.near("boat anchor harbour", 3)} <= set(sea)
    assert [memo.session_id for memo in tree.near("boat anchor harbour", 3, among=sea[:1])] == sea[:1]
    assert tree.near("boat", 0) == [] and Tree().near("boat", 3) == []


@pytest.mark.parametrize(
    "bad", [{"sessions": 1}, {"folders": 0}, {"folders": 2}, {"sessions": 2.5}, {"sessions": True}]
)
def test_sizes_that_no_folder_can_have_are_refused(bad):
    with pytest.raises(UsageError, match="two sessions or more"):
        Sizes(**bad)


@pytest.mark.parametrize("drift", [-1.0, float("inf"), float("nan"), "x"])
def test_a_drift_that_is_none_is_refused(drift):
    with pytest.raises(UsageError, match="drift is a number"):
        Sizes(drift=drift)


# -- paths


def test_paths_are_unique_and_lead_back():
    tree = grown(120)
    paths = paths_of(tree)
    assert len({*paths.folders.values(), *paths.sessions.values()}) == len(paths.folders) + len(paths.sessions)
    assert all(paths.find(path) == ("folder", one) for one, path in paths.folders.items() if path)
    assert all(paths.find(f"/{path.upper()}/") == ("session", one) for one, path in paths.sessions.items())
    assert paths.folders[ROOT] == ""


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "$(touch x)", "`id`", "a\x00b", "x" * 5000, "..", "%2e%2e/", "C:\\x"]
)
def test_a_path_that_is_none_is_compared_and_never_followed(hostile):
    assert paths_of(grown(20)).find(hostile) == ("", "")


@pytest.mark.parametrize(
    "name", ["../../etc", "con", "README", "a/b\\c:d", "\u202egnp.exe", "  ", "....", "日本語 の 名前"]
)
def test_names_become_parts_of_paths_that_any_file_system_can_have(name):
    part = slug(name)
    assert part.casefold() not in {"con", "readme", ".", ".."} and not set(part) & set("/\\:.\u202e \x00")


def test_a_rename_changes_paths_and_no_id():
    tree = grown(40)
    before, folder = shape(tree), tree.root.folders[0]
    tree.write(Readme(folder=folder.id, name="Harbour suppers"))
    assert shape(tree) == before and paths_of(tree).folders[folder.id] == "harbour-suppers"
    tree.write(Readme(folder=tree.root.folders[1].id, name="harbour  suppers!"))
    assert paths_of(tree).folders[tree.root.folders[1].id] == "harbour-suppers-2"


def test_a_folder_without_a_name_is_called_by_what_its_memos_name():
    named = [
        Memo(session_id=f"s{n}", title="t", gist="boat", entities=("Heron", "Wagtail")[: 1 + n % 2]) for n in range(20)
    ]
    tree = Tree(None, named)
    assert name_of(tree, tree.root.folders[0]).startswith("Heron") and name_of(tree, tree.root) == "all sessions"


# -- READMEs


def test_a_readme_shows_memos_as_they_were_written_within_its_budget():
    tree = grown(8)
    text = readme_text(tree, tree.root, paths_of(tree))
    assert all(f"{memo.title}: {memo.gist}" in text for memo in tree.memos.values())
    assert "8 sessions; 2026-01-01 to 2026-01-08" in text
    short = readme_text(tree, tree.root, paths_of(tree), tokens=120)
    assert count_tokens(short) <= 130 and "more" in short.splitlines()[-1]


def test_folders_that_hold_most_come_first_in_a_readme():
    tree = grown(120)
    counts = [folder.count for folder in tree.ranked(tree.root)]
    assert counts == sorted(counts, reverse=True)


def test_a_folder_below_knows_its_depth():
    tree = grown(200)
    leaf = next(one for one in tree.root.below if one.sessions)
    assert [one.depth for one in leaf.above] == list(range(leaf.depth, -1, -1)) and isinstance(leaf, Folder)
