"""The page of a labelled memory: topics over time, each turn with its note, nothing from elsewhere, never too much."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_notes import TRIP, Said, memory_of, store_of

from stitchjam.data.errors import UsageError
from stitchjam.optimizers.noted import told
from stitchjam.optimizers.pages import lanes, timeline
from stitchjam.optimizers.pages.lanes import band
from stitchjam.optimizers.pages.timeline import write_timeline

HOSTILE = (
    "</title></style></script><script>alert(1)</script><img src=x onerror=y> \u202eevil \x1b[31m & \"q\" 'x' {{ 7*7 }}"
)
MARKER = "[[ ## completed ## ]]"
ARABIC = "\u0645\u0631\u062d\u0628\u0627"


class Parsed(HTMLParser):
    """Tags with their attributes, in order."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def page(tmp_path):
    def written(sessions=TRIP, session: str = "") -> str:
        write_timeline(tmp_path / "page.html", told(store_of(sessions), session))
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    return written


def text_of(part: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", part)).split())


def turn_of(found: str, at: int) -> str:
    match = re.search(rf'<article [^>]*id="t{at}".*?</article>', found, re.DOTALL)
    assert match
    return match[0]


def test_a_turn_is_shown_with_its_note(page):
    found = page()
    asked = turn_of(found, 1)
    assert "1 day 1 Mira 2026-03-01T09:00 D1:2 What does it cost?" in text_of(asked)
    assert "ask Oak Inn: says Oak Inn · asks, price" in text_of(asked) and "“it” → the Oak Inn" in text_of(asked)
    assert '<span class="reference" title="the Oak Inn">it</span>' in asked and "<mark>" not in asked
    assert "<mark>Oak Inn</mark>" in turn_of(found, 0) and 'class="move">open<' in turn_of(found, 0)
    assert "no note" in turn_of(found, 4) and 'data-s="n"' in turn_of(found, 4)
    assert 'class="move">return<' in turn_of(found, 6)  # its topic was merged into one that was there
    assert "Elm House is booked for the first night" in found


def test_a_decision_that_was_replaced_links_to_what_replaced_it(page):
    found = page()
    assert '<a href="#t5">turn <bdi>D2:1</bdi></a>' in turn_of(found, 2) and 'data-s="d"' in turn_of(found, 2)
    assert '<a href="#t2">turn <bdi>D1:3</bdi></a>' in turn_of(found, 5)
    alone = page(session="s2")
    assert "<article" in alone and "which is not on this page" in turn_of(alone, 0)


def test_hostile_text_is_shown_and_does_nothing(page):
    said = Said(
        f"{HOSTILE} {MARKER}", HOSTILE, "open", HOSTILE + "2", (HOSTILE + "3",), "tell", HOSTILE,
        ((HOSTILE[:30], HOSTILE),), (), HOSTILE, HOSTILE,
    )  # fmt: skip
    found = page([[said, Said(HOSTILE, speaker=HOSTILE)]])
    parsed = Parsed(found)
    assert len(parsed.of("script")) == 1 and not parsed.of("img")
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", found)
    assert "<script>alert(1)</script>" in text_of(found) and "{{ 7*7 }}" in found and MARKER in found


def test_text_that_runs_the_other_way_and_half_characters_keep_their_place(page):
    said = Said(f"{ARABIC} the boat", "boat", "open", target="boat", gist=f"{ARABIC} \ud800")
    found = page([[said]])
    assert f'<p class="said" dir="auto">{ARABIC} the <mark>boat</mark></p>' in found and "\ud800" not in found


def test_nothing_is_loaded_and_only_the_page_itself_runs(page):
    found = page()
    assert "http:" not in found and "https:" not in found and "url(" not in found and "@import" not in found
    parsed = Parsed(found)
    loaded = [a[name] for _, a in parsed.tags for name in ("src", "href", "style") if name in a]
    assert all(link and re.fullmatch(r"#t\d+", link) for link in loaded)
    [policy] = [a["content"] for a in parsed.of("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy and policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy


def test_the_same_memory_gives_the_same_bytes(run, tmp_path):
    for name in ("one", "two"):
        memory_of(tmp_path / name).close()
        code, out, err = run(
            "show", "--timeline", "--html", str(tmp_path / f"{name}.html"), "--memory", str(tmp_path / name)
        )
        assert code == 0, err
        assert "8 turns on 3 topics" in out
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert not list(tmp_path.glob(".*partial"))


def test_a_page_that_cannot_be_written_is_an_error_that_helps(tmp_path):
    with pytest.raises(UsageError, match="choose another file"):
        write_timeline(tmp_path, told(store_of(TRIP)))


def many(turns: int, topics: int) -> list[list[Said]]:
    said = [
        Said(
            f"turn {at}",
            f"topic {at % topics}",
            "open" if at < topics else "return",
            act="decide",
            target=f"x{at}",
            kinds=("day",),
        )
        for at in range(turns)
    ]
    return [said[at : at + 20] for at in range(0, turns, 20)]  # fmt: skip


def test_a_large_memory_is_shown_in_part_and_the_page_says_so(page, monkeypatch):
    monkeypatch.setattr(timeline, "_TURNS", 30)
    monkeypatch.setattr(timeline, "_TOPICS", 5)
    monkeypatch.setattr(lanes, "_TURNS", 50)
    monkeypatch.setattr(lanes, "_LANES", 4)
    found = page(many(60, 12))
    assert found.count("<article") == 30 and 'id="t30"' in found and 'id="t29"' not in found
    assert "The newest 30 of 60 turns are listed" in found and "The band shows the newest 50 turns" in found
    assert "The 5 of 12 topics with the most turns are listed" in found and "8 other topics" in found
    assert 'data-first="10"' in found and "which is not on this page" in turn_of(found, 31)


def test_many_turns_give_a_page_that_opens(page):
    found = page(many(4_000, 400))
    assert found.count("<article") == 3_000 and len(found.encode()) < 8_000_000


def test_long_turns_are_cut_and_marks_stay_where_they_were(page, monkeypatch):
    monkeypatch.setattr(timeline, "_LONGEST", 100)
    early = Said("  the boat " + "& " * 200, "boat", "open", target="boat")
    late = Said("& " * 200 + "the boat", "boat", target="boat")
    found = page([[early, late]])
    assert "  the <mark>boat</mark>" in turn_of(found, 0) and "…</p>" in turn_of(found, 0)
    assert "<mark>" not in turn_of(found, 1) and "2 turns longer than 100 bytes are cut" in found


def test_a_target_that_is_not_named_is_not_marked_and_words_are_whole(page):
    found = page([[Said("With it we sit.", "boat", "open", target="boat", refs=(("it", "the boat"), ("we", "Mira")))]])
    said = turn_of(found, 0)
    assert "<mark>" not in said and 'With <span class="reference" title="the boat">it</span> <span' in said


def test_the_band_has_a_lane_a_topic_and_marks_where_one_opens_or_returns():
    shown = told(store_of(TRIP))
    drawn = band(shown.rows, tuple(shown.topics.values()))
    assert [lane.name for lane in drawn.lanes] == ["day 1", "day 2", "food", "no note"]
    css = [stroke.css for stroke in drawn.strokes]
    assert css == ["grid", "lead", "bar bare", "bar c1", "bar c2", "bar c3", "open c1", "open c2", "open c3",
                   "return c1", "return c2"]  # fmt: skip
    assert drawn.width == 8 * drawn.each and drawn.height == 4 * 18
    [bars] = [stroke.path for stroke in drawn.strokes if stroke.css == "bar c1"]
    assert bars.count("M") == 2 and f"h{3 * drawn.each}v" in bars  # three turns, then one in the next session
    assert band((), ()).strokes == []


def test_the_height_of_a_lane_is_that_of_its_name():
    style = (Path(timeline.__file__).with_name("templates") / "timeline.css").read_text(encoding="utf-8")
    assert f".lanes li {{ height: {lanes._LANE}px;" in style
