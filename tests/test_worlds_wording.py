"""The words of worlds: templates that can be filled, sentences without seams, and places that are right."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from made_worlds import make, said

from stitchjam.data.worlds import cast, references, sentences, tell
from stitchjam.data.worlds.asking import draft
from stitchjam.data.worlds.wording import Piece, Text, fill, joined, open_wording, with_field

TABLES = ("acts", "attributes", "chatter", "goals", "kinds", "people", "questions")
WEIGHTS = ("styles",)  # repeated names are weights
RARE: tuple[str, ...] = ()
FIELD = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
MAIL = re.compile(r"Subject: (.+)\n\nHi (\w+),\n\n(.+)\n\n(\w+)", re.DOTALL)

SEAMS = {
    "a field that was not filled": re.compile(r"[{}]"),
    "two spaces": re.compile(r"  "),
    "a space before a comma": re.compile(r"\s[,;:?!]|\s\.(?!\.)"),
    "a word twice": re.compile(r"\b(\w+) \1\b", re.IGNORECASE),
    "two articles": re.compile(r"\b(?:a|an|the|this) (?:a|an|the|this)\b", re.IGNORECASE),
    "a before a vowel": re.compile(r"\ba (?:hour|[aei]\w|o(?!ne\b)\w)", re.IGNORECASE),
    "an before a consonant": re.compile(r"\b[Aa]n (?!hour|hono|heir)[bcdfghjklmnpqrstvwxyz]\w"),
    "two stops": re.compile(r"[.?!,;:][.?!,;:](?<!\.\.)(?<!\.;)"),
    "a sentence that begins small": re.compile(r"(?<!\.\.)[.?!][”)]? [a-z]"),
    "no stop at the end": re.compile(r"[^.?!”)]\Z|[^.?!][”)]\Z"),
    "a small first letter": re.compile(r"\A[^A-Z0-9“(]"),
}


def seams(text: str) -> list[str]:
    """What is wrong with a text, by name."""
    found = [name for name, pattern in SEAMS.items() if pattern.search(text)]
    for opening, closing in ("“”", "()", "[]"):
        if text.count(opening) != text.count(closing):
            found.append(f"{opening} without {closing}")
    return found + ["an odd number of quotes"] * (text.count('"') % 2)


@pytest.fixture(scope="module")
def filled():
    """Each template that was filled, with the fields that it was given every time."""
    given: dict[str, set[str]] = {}

    def record(template: str, fields: Any) -> Text:
        given[template] = given.get(template, set(fields)) & set(fields)
        return fill(template, fields)

    with pytest.MonkeyPatch.context() as patch:
        for module in (cast, draft, references, sentences, tell):
            patch.setattr(module, "fill", record)
        yield given


@pytest.fixture(scope="module")
def all_worlds(worlds, tmp_path_factory, filled):
    """All worlds, and two that are made while what is filled is written down."""
    folder = tmp_path_factory.mktemp("recorded")
    many = make(folder, "many", seed=9, sessions=70, questions=60, hops=4, noise=0.5, overlap=0.7)
    debate = make(folder, "debate", sessions=10, styles={"debate": 1})
    return (*worlds, many, debate)


def lists(table: Any, name: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Every list of a table and every text that stands alone, with its path."""
    if isinstance(table, (list, str)):
        yield name, table if isinstance(table, list) else [table]
    elif isinstance(table, dict):
        for key, value in table.items():
            yield from lists(value, f"{name}.{key}")


def all_lists() -> list[tuple[str, list[Any]]]:
    words = open_wording("en")
    return [found for table in TABLES for found in lists(words[table], table)]


def fields(template: str) -> set[str]:
    return {name[0].lower() + name[1:] for name in FIELD.findall(template)}


def test_templates_name_only_fields_that_the_code_gives(all_worlds, filled):
    """A list of templates is given the same fields whichever of them is chosen."""
    for path, texts in all_lists():
        templates = [text for text in texts if isinstance(text, str) and FIELD.search(text)]
        given = [filled[text] for text in templates if text in filled]
        for template in templates if given else ():
            assert fields(template) <= set.intersection(*given), f"{path}: {template}"


def test_every_act_and_every_way_to_ask_is_in_use(all_worlds, filled):
    used: dict[str, bool] = defaultdict(bool)
    for path, texts in all_lists():
        name = path if path.startswith("questions.ask") else ".".join(path.split(".")[:2])
        if path.startswith(("acts.", "questions.ask")) and any(FIELD.search(text) for text in texts):
            used[name] |= any(text in filled for text in texts)
    assert [name for name, found in used.items() if not found and name not in RARE] == []
    assert len(used) > 40


def test_turns_read_as_sentences(all_worlds):
    for world in all_worlds:
        for one in said(world):
            text, speaker = one.turn.text, one.turn.speaker
            if speaker != "Tool" and not text.startswith("look_up("):
                mail = MAIL.fullmatch(text)
                body = mail[3] if mail else text
                assert bool(mail) == (one.session.style == "mail") and seams(body) == [], text
                if mail:
                    assert seams(f"{mail[1]}.") == [] and mail[4] == speaker != mail[2]


def test_questions_read_as_sentences(all_worlds):
    for world in all_worlds:
        for question in world.asked:
            # What stands in quotes is the form of an answer, or a word that somebody used.
            assert seams(re.sub(r"“[^”]*”", "“X”", question.text)) == [], question.text
            assert not re.search(r"[{}]|  ", question.text)
            assert question.answer == question.answer.strip() != ""


def test_calls_and_results_of_tools_are_json(all_worlds):
    calls = results = 0
    for world in all_worlds:
        for one in said(world):
            if one.turn.speaker == "Tool":
                assert isinstance(json.loads(one.turn.text), dict) and one.session.style == "tool"
                results += 1
            elif one.turn.text.startswith("look_up("):
                assert isinstance(json.loads(one.turn.text.removeprefix("look_up(").removesuffix(")")), dict)
                calls += 1
    assert calls == results > 20


def test_no_pool_holds_anything_twice():
    for path, pool in all_lists():
        if path.rpartition(".")[2] not in WEIGHTS:
            columns = zip(*pool, strict=True) if isinstance(pool[0], list) else [pool]
            for column in columns:
                words = [item for item in column if isinstance(item, str) and item not in ("she", "he")]
                twice = {word for word in words if words.count(word) > 1}
                assert not twice, f"{path}: {twice}"


def test_nothing_that_is_named_shares_its_name():
    words = open_wording("en")
    names = [name.lower() for kind in words["kinds"].values() for pair in kind["names"] for name in pair]
    names += [name.lower() for name, _, _ in words["people"]["people"]]
    names += [name.lower() for name in words["people"]["sources"]]
    names += [term.lower() for term, _ in words["people"]["terms"]]
    names += [item.lower() for family in words["goals"].values() for item, _, _ in family["items"]]
    assert not {name for name in names if names.count(name) > 1}


def test_no_two_goals_can_have_the_same_name():
    words = open_wording("en")
    people = [name for name, _, _ in words["people"]["people"]]
    made = [
        {
            fill(name, {"person": person, "place": place, "part": part}).plain
            for name, person in product(table["names"], people)
            for place, part in product(table.get("places", [""]), table.get("parts", [""]))
        }
        for table in words["goals"].values()
    ]
    assert len(set.union(*made)) == sum(map(len, made))
    for names, table in zip(made, words["goals"].values(), strict=True):
        used = set().union(*map(fields, table["names"]))
        sizes = {"person": len(people), "place": len(table.get("places", [1])), "part": len(table.get("parts", [1]))}
        expected = len(table["names"])
        for field in used:
            expected *= sizes[field]
        assert len(names) == expected


def test_every_kind_of_goal_and_option_has_all_its_words():
    words = open_wording("en")
    for family in words["goals"].values():
        for kind in family["kinds"]:
            assert words["kinds"][kind].keys() >= {"noun", "plural", "that", "names", "features", "reasons", "switches"}
            for table in words.attributes(kind).values():
                assert table.keys() >= {"noun", "type", "from", "to", "step", "say", "ask", "short", "question", "of"}
                assert len(range(table["from"], table["to"] + 1, table["step"])) > 25 and ("more" in table) == (
                    "less" in table
                )


def test_a_filled_template_knows_where_its_fields_stand():
    text = fill("{Name} asks {value}, {name}!", {"name": "the Mill", "value": "90 euros"})
    assert text.plain == "The Mill asks 90 euros, the Mill!"
    assert text.place("name") == (0, 8) and text.place("value") == (14, 22)
    assert text.place("other") == (0, len(text.plain))  # nothing filled it: the whole text


def test_a_text_that_fills_a_field_brings_its_places_along():
    clause = fill("{option} asks {value}", {"option": "the Mill", "value": "90 euros"})
    text = fill("So {say}.", {"say": clause})
    assert text.plain == "So the Mill asks 90 euros." and text.place("value") == (17, 25)
    assert fill("{Say}.", {"say": clause}).plain == "The Mill asks 90 euros."
    assert clause.plain.startswith("the")  # the text itself is as it was


def test_texts_are_joined_with_their_places_moved():
    first, second = Text((Piece("Ä "), Piece("one", "a"))), Text((Piece("two", "b"), Piece(".")))
    text = joined([first, second], " + ")
    assert text.plain == "Ä one + two."
    assert [text.plain[slice(*text.place(name))] for name in "ab"] == ["one", "two"]
    assert joined([], " ").plain == "" and joined([first], " ") == first
    assert Text.of("x y").place("") == (0, 3)


def test_braces_in_templates_are_doubled():
    text = fill('{{"{noun}": "{value}"}}', {"noun": "fee", "value": "9"})
    assert text.plain == '{"fee": "9"}' and text.place("value") == (9, 10)


def test_templates_are_chosen_by_their_fields():
    ways = ["{Say}.", "For {goal}, {say}."]
    assert with_field(ways, "goal", True) == ways[1:] and with_field(ways, "goal", False) == ways[:1]
    assert with_field(ways, "nothing", True) == ways  # rather any than none
    assert with_field(["{Goal} is off."], "goal", True) == ["{Goal} is off."]


def test_a_style_without_its_own_words_takes_those_of_a_dialogue():
    words = open_wording("en")
    assert words.templates("charge", "trip") == words["acts"]["charge"]["dialogue"]
    assert words.templates("open", "trip") == words["acts"]["open"]["trip"] != words["acts"]["open"]["dialogue"]
