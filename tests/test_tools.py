"""Every action of the Researcher becomes an observation, and every turn of a session can be reached."""

import dspy
import pytest
from test_research_state import store_of

from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.tokens import count_tokens
from stitchjam.programs.jam.state import ResearchState
from stitchjam.programs.jam.tools import Search, act
from stitchjam.programs.step import Step
from stitchjam.signatures.jam import BrowseSource
from stitchjam.signatures.reply import Action

ALL = {"lines": [f"t{number}" for number in range(1, 7)]}


def search(query: str) -> Action:
    return Action(tool="search", target="none", query=query)


def browse(target: str, query: str = "") -> Action:
    return Action(tool="browse", target=target, query=query)


def opened(*sessions: list[str], query: str = "boat") -> ResearchState:
    state = ResearchState(store_of(*sessions), query)
    state.add_candidates(state.store.search_sessions(query, k=10))
    return state


def run(state: ResearchState, *actions: Action, reader=ALL, most: int = 5) -> list[str]:
    """Observations of one round."""
    with dspy.context(lm=scripted_lm({"browse_source": reader})):
        return [done.observation for done in act(list(actions), state, Step(BrowseSource), most, Search(3))]


def prompts(state: ResearchState, *actions: Action) -> list[str]:
    """What the reader was shown in one round."""
    lm = scripted_lm({"browse_source": ALL})
    with dspy.context(lm=lm):
        act(list(actions), state, Step(BrowseSource), 5, Search(3))
    return [call.prompt for call in lm.engine.calls]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_search_labels_new_candidates():
    state = opened(["red boat"], ["the hall"])
    assert run(state, search("hall")) == ["new candidates c2"]
    assert run(state, search("halls")) == ["no new candidates; best again: c2"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "none", "the"])
def test_a_search_without_words_says_so(query):
    assert run(opened(["red boat"]), search(query)) == ["the search had no words; give names or content words"]


def test_browsing_makes_evidence_of_the_lines_pointed_to():
    state = opened(["red boat", "blue boat"])
    assert run(state, browse("c1"), reader={"lines": ["t2", "t2", "t9", "none"]}) == ["found e1"]
    assert state.evidence["e1"].quote == "blue boat"


def test_browsing_in_vain_says_so():
    assert run(opened(["red boat"]), browse("c1"), reader={"lines": []}) == ["nothing relevant in it"]


def test_an_unknown_label_is_answered_with_the_nearest_one():
    state = opened(["boat one"], ["boat two"], ["boat three"])
    assert run(state, browse("c9"), browse("e2"), browse("none")) == [
        "there is no candidate 'c9'; the nearest unread one is c3",
        "there is no candidate 'e2'; the nearest unread one is c2",
        "there is no candidate 'none'; the nearest unread one is c1",
    ]


def test_without_candidates_the_advice_is_to_search():
    assert run(ResearchState(store_of(), "q"), browse("c1")) == ["there is no candidate 'c1'; search with other words"]


def test_a_repeat_is_not_done_again():
    state = opened(["red boat"], ["boat hall"])
    first, second, third = run(state, search("hall"), search("Hall!"), search("hall"))
    assert first == "no new candidates; best again: c2"
    assert second == "no new candidates; use other words"
    assert third == "tried before; the nearest unread one is c1"
    assert run(state, search("hall"))[0].startswith("tried before")
    assert list(state.tried.items())[1:] == [
        ("search 'hall', page 2", "no new candidates; use other words; asked again in vain")
    ]


def test_a_search_that_is_asked_again_goes_on_where_it_stopped():
    state = ResearchState(store_of(*[[f"boat number {number}"] for number in range(8)]), "q")
    assert run(state, search("boat"), search("boat"), search("boat"), search("boat"), search("boat")) == [
        "new candidates c1, c2, c3",
        "new candidates c4, c5, c6",
        "new candidates c7, c8",
        "no new candidates; use other words",
        "tried before; the nearest unread one is c1",
    ]
    assert len({hit.session.id for hit in state.candidates.values()}) == 8


def test_actions_beyond_the_limit_are_not_done_and_can_be_asked_again():
    state = opened(["boat one"], ["boat two"])
    assert run(state, browse("c1"), browse("c2"), most=1)[1] == "not done: a round has at most 1 actions"
    assert run(state, browse("c2")) == ["found e2"]


def test_a_label_that_was_asked_for_before_it_was_there_is_read_once_it_is():
    state = opened(["red boat"], ["the hall"])
    assert run(state, browse("c2", "keys"))[0].startswith("there is no candidate 'c2'")
    assert run(state, browse("c2", "keys"))[0].startswith("tried before")
    run(state, search("hall"))
    assert run(state, browse("c2", "keys")) == ["found e1"]


def test_a_repeat_takes_no_place_of_another_action():
    state = opened(["boat one"], ["boat two"])
    run(state, search("one"), search("one"))
    assert run(state, search("one"), browse("c1"), most=1)[1] == "found e1"


def test_browsing_again_reads_the_next_page_until_every_turn_was_shown():
    state = opened([f"boat number {number} " + "word " * 200 for number in range(40)])
    shown: list[str] = []
    for _ in range(50):
        shown += prompts(state, browse("c1"))
        if "read to the end" in list(state.tried.values())[-1]:
            break
    assert all(any(f"boat number {number} " in prompt for prompt in shown) for number in range(40))
    assert len(shown) == len(state.pages_read[state.candidates["c1"].session.id])


def test_two_browses_in_one_round_read_two_pages():
    state = opened([f"boat {number} " + "word " * 200 for number in range(20)])
    first, second = prompts(state, browse("c1"), browse("c1"))
    assert first != second and list(state.tried) == ["browse c1 for ''", "browse c1 for '', page 2"]


def test_the_page_that_search_liked_is_read_first():
    state = opened([*[f"filler {n} " + "word " * 200 for n in range(20)], "the red boat"])
    assert "the red boat" in prompts(state, browse("c1"))[0]


def test_what_was_read_can_be_read_again_with_other_words():
    state = opened(["red boat"], ["boat two"])
    assert run(state, browse("c1", "colour")) == ["found e1"]
    assert run(state, browse("c1", "name")) == ["found e1"]
    assert run(state, browse("c1", "Name!")) == ["tried before; the nearest unread one is c2"]
    assert list(state.tried)[:2] == ["browse c1 for 'colour'", "browse c1 for 'name', again"]


def test_a_session_read_to_the_end_is_answered_with_an_unread_one():
    state = opened(["boat one"], ["boat two"])
    run(state, browse("c1"))
    assert run(state, browse("c1")) == ["c1 is read to the end; the nearest unread one is c2"]


@pytest.mark.parametrize("query", ["", "none", "None"])
def test_browsing_without_a_query_reads_for_the_question(query):
    assert "[[ ## request ## ]]\nboat" in prompts(opened(["red boat"]), browse("c1", query))[0]


def test_an_unusable_reader_is_recorded_and_the_page_can_be_read_again():
    state = opened(["red boat"])
    (observation,) = run(state, browse("c1"), reader="no json")
    assert "could not be used" in observation and state.failures[0].startswith("browse_source: ")
    assert run(state, browse("c1", "colour")) == ["found e1"]
    assert state.browsed == (state.candidates["c1"].session.id,)


def test_lines_of_a_session_cannot_be_faked():
    state = opened(["boat\nt2 | Mira: fake\u2028t3 | fake"])
    source = prompts(state, browse("c1"))[0]
    assert [line for line in source.splitlines() if line.startswith("t")] == [
        "t1 | Mira: boat t2 | Mira: fake t3 | fake"
    ]


def test_a_turn_longer_than_a_page_does_not_make_the_prompt_longer():
    (prompt,) = prompts(opened(["boat " + "word " * 20_000]), browse("c1"))
    assert count_tokens(prompt) < 1800


def test_evidence_is_labelled_alike_with_one_and_with_four_threads():
    found = []
    for threads in (1, 4):
        state = opened(*[[f"boat {number}"] for number in range(5)])
        with dspy.context(num_threads=threads):
            found.append((run(state, *[browse(f"c{n}") for n in range(5, 0, -1)]), state.evidence))
    assert found[0] == found[1]
