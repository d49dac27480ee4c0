"""The Researcher finds its way in a tree: folders open, searches can be limited, and every word can be reached."""

from typing import Any

import dspy
import pytest
from filing import FILING, calls_of, talks
from made_notes import store_of as noted_store
from oracle import field
from test_research_state import store_of

from stitchjam.backends.scripted import ScriptedCall, scripted_lm
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.ids import build_session
from stitchjam.data.passages import passages
from stitchjam.data.records import Context, Filter, History
from stitchjam.data.store import Store
from stitchjam.data.tokens import count_tokens
from stitchjam.data.tree.paths import paths_of
from stitchjam.programs.jam.filing import memorize
from stitchjam.programs.jam.memorizer import Memorizer
from stitchjam.programs.jam.places import Places
from stitchjam.programs.jam.researcher import Limits, Researcher
from stitchjam.programs.jam.state import ResearchState
from stitchjam.programs.jam.tools import Search, act
from stitchjam.programs.step import Step
from stitchjam.signatures.jam import BrowseSource
from stitchjam.signatures.reply import Action

ALL = {"lines": ["t1", "t2", "t3", "t4"]}


@pytest.fixture(scope="module")
def filed(tmp_path_factory) -> Store:
    disk = DiskStore(tmp_path_factory.mktemp("filed") / "memory")
    disk.add_history(talks(40))
    with dspy.context(lm=scripted_lm(FILING)):
        memorize(disk, Memorizer())
    return disk.store


def action(tool: str, target: str = "none", query: str = "", where: str = "") -> Action:
    return Action(tool=tool, target=target, query=query, where=where)  # type: ignore[arg-type]


def run(state: ResearchState, *actions: Action, reader: Any = ALL) -> list[str]:
    with dspy.context(lm=scripted_lm({"browse_source": reader})):
        return [one.observation for one in act(list(actions), state, Step(BrowseSource), 5, Search(3))]


def outcomes(state: ResearchState, *actions: Action) -> list[str]:
    with dspy.context(lm=scripted_lm({"browse_source": ALL})):
        return [one.outcome for one in act(list(actions), state, Step(BrowseSource), 5, Search(3))]


# -- open


def test_the_overview_lists_the_first_folders_with_labels(filed):
    overview = ResearchState(filed, "Zeta7").show_overview()
    assert overview.startswith("40 sessions, from 2026-01-01 to 2026-02-12\n")
    assert "\nf1 | " in overview and overview.count("\nf") == len(filed.tree.root.folders)
    assert count_tokens(overview) < 700


def test_a_folder_opens_by_label_and_by_path_down_to_every_session(filed):
    state, opened = ResearchState(filed, "Zeta7"), set[str]()
    for _ in range(20):
        closed = [label for label, one in state.places.folders.items() if one not in state.places.opened]
        if not closed:
            break
        by_path = paths_of(filed.tree).folders[state.places.folders[closed[0]]]
        opened.add(run(state, action("open", closed[0] if len(opened) % 2 else f"/{by_path}/"))[0])
    assert {hit.session.id for hit in state.candidates.values()} == set(filed.session_times)
    assert all(one.startswith("it holds ") for one in opened)


def test_a_session_can_be_named_by_its_path(filed):
    path = paths_of(filed.tree).sessions["s7"]
    state = ResearchState(filed, "Zeta7")
    plan = {"needs": ["Zeta7"], "actions": [{"tool": "browse", "target": path, "query": "number"}]}
    scripts = {"plan_first": plan, "browse_source": ALL, "judge_sufficiency": {"entry": "none"}}
    with dspy.context(lm=scripted_lm(scripts | {"plan_next": {"actions": []}, "compose_context": {"claims": []}})):
        context = Researcher(limits=Limits(1, 3, 1))(question="Zeta7", store=filed).context
    assert "s7" in context.browsed and state.places.session(path) == "s7"


@pytest.mark.parametrize(
    "target",
    ["../../etc/passwd", "$(touch pwned)", "`id`; rm -rf /", "/etc/shadow", "f99", "boat things/../..", "\x00"],
)
def test_shell_syntax_and_traversal_are_only_names_that_do_not_exist(filed, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = ResearchState(filed, "Zeta7")
    state.add_candidates(filed.search_sessions("Zeta7", k=1))
    for tool in ("open", "browse"):
        (observation,) = run(state, action(tool, target))
        assert observation.startswith("there is no ") and "the nearest" in observation
    assert outcomes(ResearchState(filed, "q"), action("open", target)) == ["invalid"]
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_nearly_right_is_answered_with_the_right_one(filed):
    path = paths_of(filed.tree).folders[filed.tree.root.folders[0].id]
    (observation,) = run(ResearchState(filed, "q"), action("open", path[:-1] + "x"))
    assert f"the nearest is {path!r}" in observation


def test_opening_again_is_a_repeat_and_what_is_read_is_not_listed(filed):
    leaf = next(one for one in filed.tree.root.below if one.sessions)
    path, state = paths_of(filed.tree).folders[leaf.id], ResearchState(filed, "q")
    run(state, action("open", path))
    assert outcomes(state, action("open", path)) == ["repeated"]


def test_without_a_tree_there_is_no_folder():
    state = ResearchState(store_of(["red boat"]), "boat")
    assert run(state, action("open", "f1")) == ["there is no folder 'f1'; search with other words"]
    assert state.places.show_folders() == "(nothing)"


def test_candidates_show_their_memos_beside_the_line_that_was_found(filed):
    state = ResearchState(filed, "Zeta7")
    state.add_candidates(filed.search_sessions("Zeta7", k=1))
    memo = filed.tree.memos["s7"]
    assert memo.title in state.show_candidates() and "Zeta7" in state.show_candidates()


# -- filters


def test_a_search_can_be_limited_to_speaker_folder_and_period(filed):
    state = ResearchState(filed, "number")
    sea = next(label for label, one in state.places.folders.items() if filed.tree.folders()[one].count)
    assert "s1 speaker Mira" in state.places.show_filters()
    place = state.places.place(f"s1, {sea}, 2026-01-03 to 2026-01-20")
    assert place.where == Filter(
        speakers=["Mira"], folders=[state.places.folders[sea]], after="2026-01-03", before="2026-01-21"
    )
    run(state, action("search", query="number Zeta", where="2026-02"))
    assert {hit.session.time[:7] for hit in state.candidates.values()} == {"2026-02"}


@pytest.mark.parametrize(
    ("where", "period"),
    [
        ("2026", ("2026-01-01", "2027-01-01")),
        ("2026-12", ("2026-12-01", "2027-01-01")),
        ("2026-02-28", ("2026-02-28", "2026-03-01")),
        ("2026-01 to 2026-02", ("2026-01-01", "2026-03-01")),
        ("2026-13-45", ("", "")),
        ("2026-05 to 2026-01", ("2026-01-01", "2026-06-01")),
        ("after 2026-03", ("2026-04-01", "")),
        ("since 2026-03", ("2026-03-01", "")),
        ("before 2026-03", ("", "2026-03-01")),
        ("until 2026-03-05", ("", "2026-03-06")),
        ("from 2026-3-2 to 2026-3-4", ("2026-03-02", "2026-03-05")),
        ("9999-12-31", ("", "")),
        ("soon", ("", "")),
    ],
)
def test_periods_are_read_as_days_months_or_years(filed, where, period):
    place = ResearchState(filed, "q").places.place(where)
    assert (place.where.after, place.where.before) == period if place.where else period == ("", "")


def test_filters_can_be_named_in_words(filed):
    state = ResearchState(filed, "Zeta7")
    label, folder_id = next(iter(state.places.folders.items()))
    path = paths_of(filed.tree).folders[folder_id]
    place = state.places.place(f"speaker mira in {path}")
    assert place.where == Filter(speakers=["Mira"], folders=[folder_id]) and place.called == f"{label}, s1"
    assert not place.unknown
    assert state.places.place("Bob, 2026-13").unknown == ("Bob", "2026-13")


def test_a_filter_that_leaves_nothing_hides_nothing(filed):
    state = ResearchState(filed, "q")
    (observation,) = run(state, action("search", query="Zeta7", where="2030"))
    assert observation.startswith("nothing more in 2030-01-01 to 2031-01-01; without it: new candidates c1")


def test_a_filter_that_does_not_exist_is_told_and_the_others_hold(filed):
    state = ResearchState(filed, "q")
    (observation,) = run(state, action("search", query="Zeta7", where="s1, i9"))
    assert observation.endswith("; there is no filter i9") and "in s1" in next(iter(state.tried))


def test_topics_and_types_can_be_filters_when_turns_have_notes():
    store = noted_store()
    shown = Places(store, "Where do we sleep on day 1?").show_filters()
    assert "topic: day 1" in shown and "what is done: decides" in shown and "kind of thing: hotel" in shown
    state = ResearchState(store, "hotel")
    labels = dict(line.split(" ", 1)[::-1] for line in shown.splitlines())
    both = f"{labels['topic: day 1']} {labels['what is done: decides']}"
    where = Places(store, "Where do we sleep on day 1?").place(both).where
    hits = store.search("the Oak Inn museum Elm House", k=9, where=where)
    assert {hit.turn.text for hit in hits} == {"Then we take the Oak Inn.", "No, we take Elm House instead."}
    assert state.places.show_filters()


def test_without_filters_none_are_shown_or_used(filed):
    places = Places(filed, "q", filters=False)
    assert places.show_filters() == "(nothing)" and places.place("s1, 2026").where is None


# -- long sources


def needle_store(at_end: bool) -> Store:
    filler = "".join(f"Boat {number} sails at nine and is back at noon. " for number in range(4_700))
    text = f"{filler}The needle is under the mast Zeta7." if at_end else filler
    sessions = (
        build_session("long", "2026-03-01", [{"speaker": "Mira", "text": text}]),
        build_session("short", "2026-03-02", [{"speaker": "Mira", "text": "The hall is booked."}]),
    )
    return Store.of(History(id="h", sessions=sessions))


def point(call: ScriptedCall) -> dict[str, Any]:
    lines = field(call.prompt, "source").splitlines()
    return {"lines": [line.split(" | ")[0] for line in lines if "needle is" in line]}


def test_a_session_of_200_kib_is_found_at_its_last_byte():
    store = needle_store(at_end=True)
    assert len(store.turns[0].text.encode()) > 200_000
    state = ResearchState(store, "Where is the needle under the mast Zeta7?")
    state.add_candidates(store.search_sessions(state.question, k=1))
    assert state.candidates["c1"].session.id == "long"
    assert run(state, action("browse", "c1", "needle Zeta7"), reader=point) == [
        f"found e1; {len(list(passages(store.turns[:1]))) and state_pages(store) - 1} more pages"
    ]
    (claim,) = state.evidence.values()
    assert claim.quote.endswith("Zeta7.") and claim.spans[0].end == len(store.turns[0].text)
    assert claim.spans[0].holds_in(store.turns[0]) and len(claim.quote) < 2_000


def state_pages(store: Store) -> int:
    from stitchjam.data.passages import pages

    return len(pages(store.session("long"), 1_500))


def test_every_page_of_a_long_source_can_be_read():
    store = needle_store(at_end=False)
    state = ResearchState(store, "boat")
    state.add_candidates(store.search_sessions("boat", k=1))
    total, shown = state_pages(store), list[str]()

    def read(call: ScriptedCall) -> dict[str, Any]:
        shown.append(field(call.prompt, "source"))
        return {"lines": []}

    for _ in range(total):
        run(state, action("browse", "c1"), reader=read)
    assert len(set(shown)) == len(shown) == total
    whole = "".join(shown)
    assert all(f"Boat {number} " in whole for number in range(4_700))
    assert run(state, action("browse", "c1"), reader=read)[0].startswith("c1 is read to the end")


def test_a_long_source_that_is_read_in_part_is_found_again_by_a_word_on_another_page():
    store = needle_store(at_end=True)
    state = ResearchState(store, "hall")
    state.add_candidates(store.search_sessions("sails at nine", k=1))
    run(state, action("browse", "c1", query="boat"), reader={"lines": []})
    run(state, action("search", query="needle mast"))
    assert "not read" in state.show_candidates(unread_only=True) and "needle" in state.show_candidates(unread_only=True)
    (observation,) = run(state, action("browse", "c1", query="needle mast"), reader={"lines": ["t1"]})
    assert observation.startswith("found e1")


# -- the loop


SCRIPTS: dict[str, Any] = {
    "plan_first": {"needs": ["number of Zeta7"], "actions": [{"tool": "open", "target": "f1", "query": ""}]},
    "plan_next": {"actions": []},
    "browse_source": ALL,
    "judge_sufficiency": {"entry": "none"},
    "compose_context": {"claims": [{"entry": "e1", "claim": "It is so."}]},
}


def research(store: Store, program: Researcher | None = None, lm: Any = None, **scripts: Any) -> Context:
    with dspy.context(lm=lm or scripted_lm(SCRIPTS | scripts)):
        return (program or Researcher(least=1))(question="What is the number of Zeta7?", store=store).context


def test_each_round_says_of_what_kind_its_observations_are(filed):
    actions = [
        {"tool": "open", "target": "f1", "query": ""},
        {"tool": "open", "target": "no/such", "query": ""},
        {"tool": "browse", "target": "c1", "query": ""},
        {"tool": "browse", "target": "c2", "query": ""},
    ]
    (first, *_) = research(filed, plan_first={"needs": ["x"], "actions": actions}).rounds
    assert first.outcomes == ("found", "invalid", "found", "beyond")


def test_rounds_can_be_watched_as_they_end(filed):
    seen = []
    with dspy.context(watch=lambda number, one: seen.append((number, one))):
        context = research(filed, plan_next={"actions": [{"tool": "search", "target": "none", "query": "boat"}]})
    assert [number for number, _ in seen] == [1, 2] and tuple(one for _, one in seen) == context.rounds


def test_evidence_is_kept_with_the_context_by_its_labels(filed):
    context = research(filed)
    assert context.evidence and set(context.turn_ids) <= {claim.spans[0].turn_id for claim in context.evidence}
    assert Context.model_validate_json(context.model_dump_json()) == context


def test_a_number_that_no_one_said_gives_way_to_the_words_that_were_said(filed):
    context = research(filed, compose_context={"claims": [{"entry": "e1", "claim": "The number is Zeta4711."}]})
    assert (context.dropped, context.replaced) == (0, 1) and context.claims[0].text == context.claims[0].quote


def test_a_name_that_no_one_said_gives_way_to_the_words_that_were_said(filed):
    line = {"entry": "e1", "claim": "Then the number was told in Paris."}
    context = research(filed, compose_context={"claims": [line]})
    assert (context.dropped, context.replaced) == (0, 1) and context.claims[0].text == context.claims[0].quote


def test_several_claims_on_one_piece_of_evidence_are_all_kept(filed):
    told = ["It is so.", "It has a number.", "It is so."]
    context = research(filed, compose_context={"claims": [{"entry": "e1", "claim": one} for one in told]})
    assert [claim.text for claim in context.claims] == told[:2] and len(context.turn_ids) == 1
    assert (context.dropped, context.replaced) == (0, 0)


@pytest.mark.parametrize("switch", [{"tree": False}, {"filters": False}, {"ranking": "bm25"}, {"ranking": "dense"}])
def test_what_is_switched_off_stays_off_when_it_is_built_again(filed, switch):
    program = Researcher.build(Researcher(**switch).hparams())
    lm = scripted_lm(SCRIPTS)
    context = research(filed, program, lm)
    assert context.rounds and program.hparams() == Researcher(**switch).hparams()
    if "tree" in switch:
        assert "f1 |" not in calls_of(lm)[0].prompt and "invalid" in context.rounds[0].outcomes


def test_prompts_stay_bounded_in_a_long_run_over_a_tree(filed):
    searches = iter(range(10_000))

    def more(call: ScriptedCall) -> dict[str, Any]:
        number = next(searches)
        return {
            "actions": [
                {"tool": "search", "target": "none", "query": f"Zeta{number} boat", "where": "s1"},
                {"tool": "open", "target": f"f{1 + number % 6}", "query": ""},
                {"tool": "browse", "target": f"c{1 + number}", "query": "number"},
            ]
        }

    lm = scripted_lm(SCRIPTS | {"plan_next": more})
    research(filed, Researcher(effort="high"), lm)
    sizes = [count_tokens(call.prompt) for call in calls_of(lm) if call.step == "plan_next"]
    assert len(sizes) == 19 and max(sizes) < 3_600


def test_a_planner_that_writes_nonsense_ends_in_budget_with_a_clear_result(filed):
    nonsense = [
        {"tool": tool, "target": target, "query": query, "where": where}
        for tool, target, query, where in (
            ("open", "c1/../f1", "x" * 200, "f1 f2 f3 s9 2026-99"),
            ("search", "\x00", "?!", "9" * 80),
            ("browse", "e1", "[[ ## reply ## ]]", ""),
            ("search", "none", "zzzz qqqq", "i1 i2 i3"),
        )
    ]
    first = {"needs": ["?"], "actions": nonsense}
    context = research(filed, Researcher(effort="high"), plan_first=first, plan_next={"actions": nonsense})
    assert context.stop in ("rounds", "nothing_more") and len(context.rounds) <= 20
    assert not any(context.covered)


def test_a_new_topic_leaves_every_earlier_citation_valid(tmp_path):
    disk = DiskStore(tmp_path / "memory")
    disk.add_history(talks(20))
    with dspy.context(lm=scripted_lm(FILING)):
        memorize(disk, Memorizer())
    context = research(disk.store)
    taxes = (
        build_session(f"tax{n}", "2026-05-01", [{"speaker": "Ann", "text": f"The income form {n}."}]) for n in range(20)
    )
    disk.add_history(History(id="tax", sessions=tuple(taxes)))
    with dspy.context(lm=scripted_lm(FILING)):
        memorize(disk, Memorizer())
    for claim in context.claims:
        assert claim.spans[0].holds_in(disk.store.turn(claim.spans[0].turn_id))
