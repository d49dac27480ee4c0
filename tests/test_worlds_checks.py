"""Questions of a fresh world have no fault, and every fault that is planted in one is found and called by its name.

A plant changes one thing in a sound question or in what its world says. Each way to plant returns None where it does
not fit; 40 of each kind are spread over questions of all types.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from itertools import islice
from random import Random
from typing import Any, NamedTuple

import pytest

from stitchjam.data.records import NOT_MENTIONED
from stitchjam.data.worlds.asking.draft import Draft
from stitchjam.data.worlds.checks import SHARED, Known, answer_from, faults
from stitchjam.data.worlds.choose import Pool, wanted
from stitchjam.data.worlds.dates import date_phrases, iso_day, read_date, say_day
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.generate import generate_world
from stitchjam.data.worlds.query import solve
from stitchjam.data.worlds.records import Evidence, Fact, Pattern, Place, Query, Statement, WorldQuestion

EACH = 40
FIELDS = ("subject", "goal", "value")
DATED = ("date", "moved", "paid_on")


class Sample(NamedTuple):
    """A question, what its world says, and the facts that its answer rests on."""

    question: WorldQuestion
    known: Known
    used: tuple[Fact, ...]


class Plant(NamedTuple):
    """A question with a fault, or in a world with one."""

    question: WorldQuestion
    known: Known


Way = Callable[[Sample, Random], Plant | None]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worlds")
    for seed in (1, 2):
        generate_world(folder, f"w{seed}", Dials(seed=seed, sessions=60, hops=4, noise=0.3, questions=80))
    found = []
    for world in read_worlds(folder):
        facts = sorted((one.fact for one in world.known.statements), key=lambda fact: fact.at)
        found += [Sample(one, world.known, solve(one.query, facts).used) for one in world.asked]
    return found


def asks(sample, **changes):
    return Plant(sample.question.model_copy(update=changes), sample.known)


def says(sample, *facts, **changes):
    """The same question, in a world that states more."""
    stated = [
        Statement(fact=fact, place=Place(turn=f"s9999t{at:02}", start=0, end=1, text="x"))
        for at, fact in enumerate(facts, 1)
    ]
    return Plant(sample.question, replace(sample.known, statements=[*sample.known.statements, *stated], **changes))


def edits(sample, at, **changes):
    """The same question with one piece of evidence changed."""
    evidence = list(sample.question.evidence)
    evidence[at] = evidence[at].model_copy(update=changes)
    return asks(sample, evidence=tuple(evidence))


# Leaks.


def leak(words: Callable[[str, str], str], of: Callable[[Sample, Random], str | None]) -> Way:
    """A leak of a form of the answer, put into the question's text in some way."""

    def plant(sample, dice):
        form = None if sample.question.type == "unanswerable" else of(sample, dice)
        return asks(sample, text=words(sample.question.text, form)) if form else None

    return plant


def the_answer(sample, _):
    return sample.question.answer


def an_alias(sample, dice):
    return dice.choice(sample.question.aliases or ("",))


def a_member(sample, dice):
    members = sample.question.answer.split(", ")
    return dice.choice(members) if sample.question.query.how == "list" and len(members) > 1 else None


def a_part(sample, dice):
    """One value of a plan."""
    query = sample.question.query
    value = dice.choice(sample.used).value if query.how == "one" and query.form else ""
    day = iso_day(value)
    return say_day(day) if day else value


def a_date(sample, _):
    day = read_date(sample.question.answer, date.min)
    return day and say_day(day)


def an_amount(sample, _):
    number, _, unit = sample.question.answer.partition(" ")
    return sample.question.answer if number.isdigit() and unit.isalpha() else None


def a_hidden_name(sample, dice):
    """The option that a question describes, or the goal."""
    query = sample.question.query
    if not (query.described or query.clues):
        return None
    last, fact = query.where[-1], sample.used[-1]
    return fact.subject if last.subject.startswith("?") else fact.goal


def month_first(text, form):
    day, month, year = form.split()
    return f"{text} ({month} {day}, {year})"


LEAKS: dict[str, Way] = {
    "a date with its month first": leak(month_first, a_date),
    "a date without its year": leak(lambda text, form: f"On {form[:-5]}: {text}", a_date),
    "glued to its unit": leak(lambda text, form: f"{text} {form.replace(' ', '')}?", an_amount),
    "the name of what it describes": leak(lambda text, form: f"{text} I mean {form}.", a_hidden_name),
    "in capitals": leak(lambda text, form: f"{text} Perhaps {form.upper()}.", the_answer),
    "in quotes": leak(lambda text, form: f'"{form}": {text}', the_answer),
    "in curly quotes": leak(lambda text, form: f"{text[:-1]}, “{form}”?", the_answer),
    "in brackets": leak(lambda text, form: f"({form}) {text}", the_answer),
    "without its article": leak(lambda text, form: f"{text} It is that {form.removeprefix('the ')}!", the_answer),
    "over two lines": leak(lambda text, form: f"{text} {form.replace(' ', chr(10))}", the_answer),
    "between dashes": leak(lambda text, form: f"{text[:-1]} — {form}—or not?", the_answer),
    "an alias": leak(lambda text, form: f"{text} We said {form.title()}...", an_alias),
    "an alias in quotes": leak(lambda text, form: f"‘{form}’? {text}", an_alias),
    "a member": leak(lambda text, form: f"Besides {form.lower()}: {text}", a_member),
    "a member in quotes": leak(lambda text, form: f"{text} (“{form}” is one.)", a_member),
    "a part of a plan": leak(lambda text, form: f"{text} I know of {form}.", a_part),
}

# Second answers.


def another(name: str, fact: Fact, pattern: Pattern) -> str:
    """A value for a variable that it has nowhere else."""
    if pattern.value != name:
        return "the Other One"
    if fact.relation in DATED:
        return "2031-03-01"
    changed = re.sub(r"\d+", lambda number: f"{int(number[0]) + 5000}", fact.value, count=1)
    return changed if changed != fact.value else "quite another"


def otherwise(sample: Sample, names: set[str]) -> Plant:
    """The world says once more what the answer rests on, with other values for some variables."""
    query = sample.question.query
    facts = sample.used or [
        Fact(id="f0", relation=one.relation, subject=one.subject, goal=one.goal, value="9 euros", at=1)
        for one in query.where
    ]
    values: dict[str, str] = {}
    found = []
    for pattern, fact in zip(query.where, facts, strict=False):
        fields = {field: getattr(pattern, field) for field in FIELDS if getattr(pattern, field) in names}
        if fields:
            new = {field: values.setdefault(name, another(name, fact, pattern)) for field, name in fields.items()}
            at = 0 if query.how == "nth" else 10**6
            found.append(fact.model_copy(update={**new, "id": f"new{len(found)}", "at": at, "voids": ""}))
    return says(sample, *found)


def another_value(sample, dice):
    query = sample.question.query
    if query.how in ("one", "gap", "days"):
        return otherwise(sample, {dice.choice(query.give)})
    return None


def another_member(sample, _):
    query = sample.question.query
    return otherwise(sample, {query.give[0]}) if query.how not in ("one", "gap", "days") else None


def another_way_there(sample, dice):
    """Another person, goal or option that all clues fit as well, with another value."""
    query = sample.question.query
    names = {getattr(one, field) for one in query.where for field in FIELDS}
    between = sorted(name for name in names if len(name) > 1 and name[0] == "?" and name not in query.give)
    return otherwise(sample, {query.give[0], dice.choice(between)}) if between and query.how == "one" else None


def a_neighbour(field: str) -> Way:
    """Another option has the same value for this goal, or the same option has it for another goal."""

    def plant(sample, _):
        query = sample.question.query
        if query.how != "one" or query.form or not sample.used or sample.used[-1].relation.endswith(SHARED):
            return None
        fact = sample.used[-1]
        return says(sample, fact.model_copy(update={"id": "new", "at": 10**6, "voids": "", field: "the Other One"}))

    return plant


SECOND_ANSWERS: dict[str, Way] = {
    "another value": another_value,
    "another member": another_member,
    "another way there": another_way_there,
    "a neighbouring option": a_neighbour("subject"),
    "a neighbouring goal": a_neighbour("goal"),
}

# Unneeded evidence.


def adds(sample, one: Evidence, dice):
    evidence = list(sample.question.evidence)
    evidence.insert(dice.randint(0, len(evidence)), one)
    return asks(sample, evidence=tuple(evidence))


def session_of(turn):
    return turn.rpartition("t")[0]


def extra(fits: Callable[[Sample, Statement], bool]) -> Way:
    """A turn that states something else."""

    def plant(sample, dice):
        taken = set(sample.question.turns)
        found = [one for one in sample.known.statements if one.place.turn not in taken and fits(sample, one)]
        if not found:
            return None
        place = dice.choice(found).place
        return adds(
            sample, Evidence(turn=place.turn, session=session_of(place.turn), role="states", places=(place,)), dice
        )

    return plant


def same_relation(sample, one):
    return one.fact.relation in {pattern.relation for pattern in sample.question.query.where}


def same_goal(sample, one):
    return one.fact.goal and one.fact.goal in {pattern.goal for pattern in sample.question.query.where}


def same_session(sample, one):
    return session_of(one.place.turn) in {other.session for other in sample.question.evidence}


def small_talk(sample, dice):
    taken = {one.place.turn for one in sample.known.statements} | set(sample.question.turns)
    turn = dice.choice([turn for turn in sample.known.texts if turn not in taken])
    return adds(sample, Evidence(turn=turn, session=session_of(turn), role="refers"), dice)


def twice(sample, dice):
    evidence = sample.question.evidence
    return adds(sample, dice.choice(evidence), dice) if evidence else None


UNNEEDED: dict[str, Way] = {
    "of the same kind": extra(same_relation),
    "about the same goal": extra(same_goal),
    "in the same session": extra(same_session),
    "about anything": extra(lambda sample, one: True),
    "small talk": small_talk,
    "the same turn again": twice,
}

# Wrong spans.


def stated(sample):
    """Where evidence has places: position in the evidence."""
    return [at for at, one in enumerate(sample.question.evidence) if one.places]


def span(change: Callable[[Sample, Evidence, Place, Random], Mapping[str, Any] | None]) -> Way:
    """Another piece of evidence in the place of one that states something."""

    def plant(sample, dice):
        if not stated(sample):
            return None
        at = dice.choice(stated(sample))
        one = sample.question.evidence[at]
        changes = change(sample, one, dice.choice(one.places), dice)
        return edits(sample, at, **changes) if changes is not None else None

    return plant


def swaps(one: Evidence, place: Place, **changes):
    new = place.model_copy(update=changes)
    return {"places": tuple(new if other == place else other for other in one.places)}


def shift(start: int, end: int):
    """Start and end moved, with the words that stand there."""

    def change(sample, one, place, _):
        first, last = place.start + start, place.end + end
        return swaps(one, place, start=first, end=last, text=sample.known.texts[place.turn][max(first, 0) : last])

    return span(change)


def another_turn(sample, dice):
    """A turn of a session in which nothing is that the answer needs."""
    taken = {one.session for one in sample.question.evidence}
    return dice.choice([turn for turn in sample.known.texts if session_of(turn) not in taken])


def elsewhere(sample, one, place, dice):
    turn = another_turn(sample, dice)
    moved = tuple(other.model_copy(update={"turn": turn}) for other in one.places)
    return {"turn": turn, "session": session_of(turn), "places": moved}


def other_words(sample, one, place, dice):
    """Another statement of the same turn, which the answer does not need."""
    rest = [
        other.place
        for other in sample.known.statements
        if other.place.turn == one.turn and other.place not in one.places
    ]
    return swaps(one, place, **dict(dice.choice(rest))) if rest else None


def more_words(sample, one, place, dice):
    found = other_words(sample, one, place, dice)
    return {"places": (*one.places, *(new for new in found["places"] if new not in one.places))} if found else None


SPANS: dict[str, Way] = {
    "start earlier": shift(-1, 0),
    "start later": shift(1, 0),
    "end earlier": shift(0, -1),
    "end later": shift(0, 1),
    "both later": shift(2, 2),
    "place in another turn": span(lambda sample, one, place, dice: swaps(one, place, turn=another_turn(sample, dice))),
    "evidence in another turn": span(elsewhere),
    "other text": span(lambda sample, one, place, dice: swaps(one, place, text=place.text.swapcase() + ".")),
    "empty place": span(lambda sample, one, place, dice: swaps(one, place, end=place.start, text="")),
    "no place": span(lambda sample, one, place, dice: {"places": one.places[1:]}),
    "refers with places": span(lambda sample, one, place, dice: {"role": "refers"}),
    "refers without": span(lambda sample, one, place, dice: {"role": "refers", "places": ()}),
    "another statement": span(other_words),
    "one statement more": span(more_words),
    "another session": span(lambda sample, one, place, dice: {"session": session_of(another_turn(sample, dice))}),
    "no such session": span(lambda sample, one, place, dice: {"session": "s9998"}),
}


def states_nothing(sample, dice):
    found = [at for at, one in enumerate(sample.question.evidence) if not one.places]
    return edits(sample, dice.choice(found), role="states") if found else None


SPANS["states without places"] = states_nothing

# Broken dates.


def dated(sample):
    """The statements with a day that a question rests on."""
    used = {fact.id for fact in sample.used if fact.relation in DATED}
    return [one for one in sample.known.statements if one.fact.id in used] if used else []


def said_on(sample, one):
    return sample.known.days[session_of(one.place.turn)]


def retold(sample, one, words):
    """A world in which other words tell a day, and all gold goes with them."""
    place = one.place
    longer = len(words) - (place.end - place.start)

    def moved(other):
        if other == place:
            return place.model_copy(update={"end": place.end + longer, "text": words})
        later = longer if (other.turn == place.turn and other.start > place.start) else 0
        return other.model_copy(update={"start": other.start + later, "end": other.end + later}) if later else other

    text = sample.known.texts[place.turn]
    statements = [
        other.model_copy(update={"place": moved(other.place)}) if other.place.turn == place.turn else other
        for other in sample.known.statements
    ]
    texts = {**sample.known.texts, place.turn: text[: place.start] + words + text[place.end :]}
    evidence = [
        other.model_copy(update={"places": tuple(map(moved, other.places))}) for other in sample.question.evidence
    ]
    known = replace(sample.known, statements=statements, texts=texts)
    return sample._replace(question=sample.question.model_copy(update={"evidence": tuple(evidence)}), known=known)


def impossible(words: Callable[[date, date], str]) -> Way:
    def plant(sample, dice):
        if not dated(sample):
            return None
        one = dice.choice(dated(sample))
        told = retold(sample, one, words(date.fromisoformat(one.fact.value), said_on(sample, one)))
        return Plant(told.question, told.known)

    return plant


def other_value(apart: int) -> Way:
    def plant(sample, dice):
        if not dated(sample):
            return None
        one = dice.choice(dated(sample))
        day = date.fromisoformat(one.fact.value) + timedelta(days=apart)
        wrong = one.model_copy(update={"fact": one.fact.model_copy(update={"value": day.isoformat()})})
        statements = [wrong if other is one else other for other in sample.known.statements]
        return Plant(sample.question, replace(sample.known, statements=statements))

    return plant


def relative(sample):
    """A day with the ways to tell it that depend on when it is told."""
    for one in dated(sample):
        yield from (
            (one, words) for words in date_phrases(date.fromisoformat(one.fact.value), said_on(sample, one))[2:]
        )


def session_moved(apart: int) -> Way:
    """The day of a session in which a day is told by how far away it is."""

    def plant(sample, dice):
        # "this coming Sunday" and "the 14th of next month" mean the same day on several days.
        ways = [way for way in relative(sample) if not way[1].startswith(("this coming", "a week on", "on the "))]
        if not ways:
            return None
        one, words = dice.choice(ways)
        told, session = retold(sample, one, words), session_of(one.place.turn)
        days = {**told.known.days, session: told.known.days[session] + timedelta(days=apart)}
        return Plant(told.question, replace(told.known, days=days))

    return plant


DATES: dict[str, Way] = {
    "31 February": impossible(lambda day, said: f"on 31 February {day.year}"),
    "wrong weekday": impossible(lambda day, said: f"on {day + timedelta(days=1):%A}, {say_day(day)}"),
    "many days": impossible(lambda day, said: "in many days"),
    "no words": impossible(lambda day, said: ""),
    "another day": impossible(lambda day, said: date_phrases(day + timedelta(days=1), said)[0]),
    "another year": impossible(lambda day, said: f"on {say_day(date(day.year + 1, day.month, min(day.day, 28)))}"),
    "fact a day later": other_value(1),
    "fact a week earlier": other_value(-7),
    "session a day later": session_moved(1),
    "session a day earlier": session_moved(-1),
    "session a week later": session_moved(7),
}

WAYS = {"leak": LEAKS, "second answer": SECOND_ANSWERS, "unneeded": UNNEEDED, "span": SPANS, "date": DATES}
# What follows from a fault: evidence that went to another turn is missing where it was; another day, another answer.
CONSEQUENCES = {"second answer": {"clue"}, "span": {"not enough", "unneeded"}, "date": {"second answer", "not enough"}}


def planted(kind, samples) -> Iterator[tuple[str, Sample, Plant]]:
    """Plants of a kind, way by way in turn, each on other questions for as long as there are some."""
    dice = Random(f"plant/{kind}")

    def of(name, way) -> Iterator[tuple[str, Sample, Plant]]:
        for sample in dice.sample(samples, len(samples)):
            if found := way(sample, dice):
                yield name, sample, found

    lines = deque(of(name, way) for name, way in WAYS[kind].items())
    while lines:
        line = lines.popleft()
        for row in islice(line, 1):
            yield row
            lines.append(line)


class Row(NamedTuple):
    """A planted fault, how it was planted and where, and what was found."""

    way: str
    sample: Sample
    found: set[str]


@pytest.fixture(scope="module")
def rows(samples):
    return {
        kind: [
            Row(way, sample, {fault.kind for fault in faults(*plant)})
            for way, sample, plant in islice(planted(kind, samples), EACH)
        ]
        for kind in WAYS
    }


# Fresh worlds.


def test_no_question_of_a_fresh_world_has_a_fault(samples):
    assert len(samples) >= 120 and len({one.question.type for one in samples}) >= 15
    assert {one.question.hops for one in samples} >= {1, 2, 3}
    assert [(one.question.id, found) for one in samples if (found := faults(one.question, one.known))] == []


def test_only_what_a_pattern_could_fit_has_to_be_known(samples):
    for one in samples:
        relations = {pattern.relation for pattern in one.question.query.where}
        fewer = [other for other in one.known.statements if other.fact.relation in relations]
        assert faults(one.question, replace(one.known, statements=fewer)) == []


def test_what_a_described_option_has_elsewhere_is_known_too():
    # In a world of 1,000 sessions, a hall was ruled out for the same reason for two goals, and nobody noticed.
    out = Pattern(relation="hall.ruled_out", subject="?o", goal="gala", value="?v")
    feature = Pattern(relation="hall.feature", subject="?o", goal="gala", value="a garden")
    query = Query(where=(feature, out), give=("?v",))
    fits = wanted([Draft("intersection_selection", "", query, "hall.ruled_out", 2, about="the Granary")])
    told = {"id": "f1", "relation": "hall.ruled_out", "goal": "ball", "value": "too small", "at": 1}
    assert fits(Fact(subject="the Granary", **told)) and not fits(Fact(subject="the Mill", **told))


def test_every_draft_about_a_described_option_says_which(tmp_path, monkeypatch):
    drafts: list[Draft] = []
    monkeypatch.setattr(Pool, "add", lambda self, draft: drafts.append(draft))
    generate_world(tmp_path, "w", Dials(sessions=60, overlap=0.8, questions=0))
    described = [
        draft
        for draft in drafts
        if (last := draft.query.where[-1]).subject == "?o"
        and draft.query.how == "one"
        and not last.relation.endswith(SHARED)
    ]
    assert len(described) > 20 and all(draft.about for draft in described)
    assert not any(draft.about for draft in drafts if "?o" not in {one.subject for one in draft.query.where})


def test_the_evidence_alone_gives_the_answer_and_nothing_gives_none(samples):
    for one in samples:
        facts = [other.fact for other in one.known.statements if set(other.turns) <= set(one.question.turns)]
        assert answer_from(one.question.query, facts) == one.question.answer
        assert answer_from(one.question.query, []) == NOT_MENTIONED


def test_a_day_told_in_any_right_way_is_no_fault(samples):
    ways = [(one, *way) for one in samples for way in relative(one)]
    assert len(ways) >= 5
    for one, statement, words in ways:
        told = retold(one, statement, words)
        assert faults(told.question, told.known) == []


# Planted faults.


def test_all_200_planted_faults_are_caught(rows):
    caught = Counter(kind for kind, planted in rows.items() for row in planted if kind in row.found)
    assert sum(map(len, rows.values())) == sum(caught.values()) == 200
    assert caught == dict.fromkeys(WAYS, EACH)


@pytest.mark.parametrize("kind", WAYS)
def test_a_planted_fault_is_called_by_its_name_and_no_other_is_made_up(kind, rows):
    allowed = {kind} | CONSEQUENCES.get(kind, set())
    strange = [(row.way, row.sample.question.id, row.found) for row in rows[kind] if not {kind} <= row.found <= allowed]
    assert strange == []


@pytest.mark.parametrize("kind", WAYS)
def test_faults_are_planted_in_all_ways_and_in_many_questions_and_types(kind, rows):
    assert {row.way for row in rows[kind]} == set(WAYS[kind])
    assert len({row.sample.question.id for row in rows[kind]}) >= (10 if kind == "date" else 20)
    assert len({row.sample.question.type for row in rows[kind]}) >= (3 if kind == "date" else 10)


@pytest.mark.parametrize("kind", WAYS)
def test_each_way_to_plant_a_fault_is_caught_in_some_more_questions(kind, samples):
    dice = Random(f"more/{kind}")
    for name, way in WAYS[kind].items():
        found = (plant for one in dice.sample(samples, len(samples)) if (plant := way(one, dice)))
        plants = list(islice(found, 5))
        missed = [plant.question.id for plant in plants if kind not in {fault.kind for fault in faults(*plant)}]
        assert plants and (name, missed) == (name, [])


# Other faults.


@pytest.mark.parametrize("said", ["1,233 euros", "1233 euros", "“1,233”", "(1233)"])
def test_a_number_leaks_with_or_without_a_comma(said, samples):
    one = next(one for one in samples if one.question.type == "aggregation")
    paid = asks(one, text=f"Was it {said}?", answer="1233 euros", aliases=("1233",))
    assert "leak" in {fault.kind for fault in faults(*paid)}
    other = asks(one, text="Was it 1,2330 euros, or 233?", answer="1233 euros", aliases=("1233",))
    assert "leak" not in {fault.kind for fault in faults(*other)}


def test_each_missing_piece_of_evidence_is_missed(samples):
    for one in samples:
        for at in range(len(one.question.evidence)):
            evidence = one.question.evidence[:at] + one.question.evidence[at + 1 :]
            assert [fault.kind for fault in faults(*asks(one, evidence=evidence))] == ["not enough"]


def test_a_wrong_answer_is_a_second_one(samples):
    for one in samples:
        assert "second answer" in {fault.kind for fault in faults(*asks(one, answer="none of these"))}


def with_clues(samples):
    found = [one for one in samples if one.question.query.clues]
    assert len(found) >= 4
    return found


def holders(one, clue):
    """Statements of who else a clue fits."""
    return [
        other
        for other in one.known.statements
        if (other.fact.relation, other.fact.goal, other.fact.value) == (clue.relation, clue.goal, clue.value)
        and other.fact not in one.used
    ]


def test_a_clue_that_alone_tells_which_one_it_is_is_a_fault(samples):
    for one in with_clues(samples):
        for at in one.question.query.clues:
            others = holders(one, one.question.query.where[at])
            statements = [other for other in one.known.statements if other not in others]
            found = faults(one.question, replace(one.known, statements=statements))
            assert others and [fault.kind for fault in found] == ["clue"]
            assert "alone tells" in found[0].why


def test_clues_that_leave_two_candidates_are_a_fault(samples):
    for one in with_clues(samples):
        first, second = (one.question.query.where[at] for at in one.question.query.clues)
        other = holders(one, first)[0].fact
        asked = one.question.query.where[-1].relation
        statements = [
            one for one in one.known.statements if (one.fact.relation, one.fact.subject) != (asked, other.subject)
        ]
        fewer = one._replace(known=replace(one.known, statements=statements))
        both = other.model_copy(update={"id": "new", "at": 10**6, "value": second.value})
        found = faults(*says(fewer, both))
        assert [fault.kind for fault in found] == ["clue"] and "leave 2" in found[0].why


def test_clues_that_no_candidate_fits_are_a_fault(samples):
    one = with_clues(samples)[0]
    clue = one.question.query.where[0]
    where = (clue.model_copy(update={"value": "a helipad"}), *one.question.query.where[1:])
    query = one.question.query.model_copy(update={"where": where})
    kinds = {fault.kind for fault in faults(*asks(one, query=query))}
    assert {"clue", "second answer"} <= kinds


def test_what_has_no_answer_may_be_in_words_of_the_question(samples):
    one = next(one for one in samples if one.question.type == "unanswerable")
    assert faults(*asks(one, text=f"{one.question.text} Say “not mentioned” if it was not mentioned.")) == []
