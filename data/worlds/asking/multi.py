"""Questions that several places answer together: JAM's multi-hop family, and CAME-Bench's context-aware multi-hop."""

from collections.abc import Iterator

from stitchjam.data.worlds.asking.draft import Asker, Draft, Ledger
from stitchjam.data.worlds.records import Fact, Pattern, Query

__all__ = ["comparisons", "context_multi_hop", "intersections", "provenance"]


def comparisons(ask: Asker) -> Iterator[Draft]:
    """Comparison: of the two options somebody proposed, or of one option for two goals."""
    for kind in ask.kinds:
        for person, proposed in ask.people(f"{kind}.proposed"):
            if len(proposed) == 2:
                yield from _two(ask, kind, person, [fact.subject for fact in proposed])
    yield from _between_goals(ask)


def _two(ask: Asker, kind: str, person: str, options: list[str]) -> Iterator[Draft]:
    for name, table in ask.some(ask.wording.attributes(kind).items(), 3):
        told = {fact.subject for fact in ask.properties() if fact.relation == f"{kind}.{name}"}
        if "more" in table and told.issuperset(options):
            how = ask.dice.choice(("more", "less"))
            proposed = ask.here(f"{kind}.proposed", subject="?o", value=person)
            value = ask.here(f"{kind}.{name}", subject="?o", value="?v")
            text = ask.words("two", kind=kind, person=person, more=table[how])
            query = Query(where=(proposed, value), give=("?o", "?v"), how=how, n=2)
            yield Draft("comparison", text, query, kind, hops=2)


def _between_goals(ask: Asker) -> Iterator[Draft]:
    pairs = [
        (fact, other.goal)
        for fact in ask.properties()
        for other in ask.others
        if any((one.relation, one.subject) == (fact.relation, fact.subject) and not one.voids for one in other.valid)
    ]
    for fact, goal in ask.some(((fact, goal) for fact, goal in pairs if "more" in ask.attribute(fact.relation)), 1):
        here, there = (
            Pattern(relation=fact.relation, subject=fact.subject, goal=name, value=value)
            for name, value in ((ask.goal, "?a"), (goal, "?b"))
        )
        of = ask.fill(ask.attribute(fact.relation)["of"], option=fact.subject)
        text = ask.words("differ_goals", of=of, other_goal=goal)
        unit = ask.attribute(fact.relation).get("unit", "")
        query = Query(where=(here, there), give=("?a", "?b"), how="gap", form=unit)
        yield Draft("comparison", text, query, f"{fact.relation} difference", hops=2)


def intersections(ask: Asker) -> Iterator[Draft]:
    """Intersection selection: two features that several options have each, and only one has both."""
    for kind in ask.kinds:
        features = ask.ledger.of(f"{kind}.feature")
        names = list(dict.fromkeys(fact.value for fact in features))
        both = (
            set.intersection(*({f.subject for f in features if f.value == name} for name in names)) if names else set()
        )
        if len(names) != 2 or len(both) != 1:
            continue
        clues = tuple(ask.here(f"{kind}.feature", subject="?o", value=name) for name in names)
        option = ask.describe("features", kind=kind, first=names[0], second=names[1])
        for fact in ask.some(_facts_about(ask, kind, both.pop()), 1):
            asked = ask.here(fact.relation, subject="?o", value="?v")
            query = Query(where=(*clues, asked), give=("?v",), clues=(0, 1))
            text = _asked(ask, fact, option)
            yield Draft("intersection_selection", text, query, fact.relation, hops=2, about=fact.subject)


def _facts_about(ask: Asker, kind: str, option: str) -> list[Fact]:
    """What can be asked about an option that is described instead of named."""
    told = [fact for fact in ask.properties() if fact.subject == option]
    return told + [fact for fact in ask.ledger.of(f"{kind}.ruled_out") if fact.subject == option]


def _asked(ask: Asker, fact: Fact, option: str) -> str:
    if fact.relation.endswith(".ruled_out"):
        return ask.words("ruled_out_described", option=option)
    return ask.asks(fact.relation, option)


def _asked_of(ask: Asker, fact: Fact, kind: str, description: str) -> str:
    """The same for a long description, which comes first in a sentence of its own."""
    question = _asked(ask, fact, ask.describe("this", kind=kind))
    return ask.describe("think_of", description=description, question=question)


def provenance(ask: Asker) -> Iterator[Draft]:
    """Provenance tracing: something is described by what another session says about it, and never named."""
    for kind in ask.kinds:
        for fact in ask.ledger.of(f"{kind}.recommended"):
            yield from _by_recommendation(ask, kind, fact)
        for other in ask.others:
            yield from _by_final_choice(ask, kind, other)
    for fact in ask.ledger.of("charge"):
        if trait := ask.trait(fact.value):
            who = ask.describe("trait", trait=trait)
            known = Pattern(relation="trait", subject="?p", value=trait)
            query = Query(where=(known, Pattern(relation="charge", goal="?g", value="?p")), give=("?g",), described=1)
            yield Draft("provenance_tracing", ask.words("in_charge", person=who), query, "goal", hops=2)


def _by_recommendation(ask: Asker, kind: str, praise: Fact) -> Iterator[Draft]:
    """The option that a person recommended; the person is named, or described by a trait."""
    for fact in ask.some(_facts_about(ask, kind, praise.subject), 2):
        asked = ask.here(fact.relation, subject="?o", value="?v")
        # Whoever recommends another one for another goal as well is no description of this one.
        praised = Pattern(relation=praise.relation, subject="?o", goal="?w", value=praise.value)
        text = _asked(ask, fact, ask.describe("recommended", kind=kind, person=praise.value))
        query = Query(where=(praised, asked), give=("?v",), described=1)
        yield Draft("provenance_tracing", text, query, fact.relation, hops=2, about=fact.subject)
        if trait := ask.trait(praise.value):
            known = Pattern(relation="trait", subject="?p", value=trait)
            praised = praised.model_copy(update={"value": "?p"})
            who = ask.describe("trait", trait=trait)
            text = _asked_of(ask, fact, kind, ask.describe("recommended", kind=kind, person=who))
            query = Query(where=(known, praised, asked), give=("?v",), described=2)
            yield Draft("provenance_tracing", text, query, fact.relation, hops=3, about=fact.subject)


def _by_final_choice(ask: Asker, kind: str, other: Ledger) -> Iterator[Draft]:
    """The option that was chosen in the end for another goal; that goal is named, or described by who runs it."""
    chosen, charge = other.of(f"{kind}.chosen"), other.of("charge")
    if not chosen or not charge:
        return
    person, trait = charge[-1].value, ask.trait(charge[-1].value)
    for fact in ask.some(_facts_about(ask, kind, chosen[-1].value), 1):
        asked = ask.here(fact.relation, subject="?o", value="?v")
        for hops, goal, who, before in _ways_to(ask, other.goal, person, trait):
            final = Pattern(relation=f"{kind}.chosen", subject=kind, goal=goal, value="?o", last=True)
            text = _asked_of(ask, fact, kind, ask.describe("final", kind=kind, goal=who))
            query = Query(where=(*before, final, asked), give=("?v",), described=len(before) + 1)
            yield Draft("provenance_tracing", text, query, fact.relation, hops, other.goal, fact.subject)


def _ways_to(ask: Asker, goal: str, person: str, trait: str) -> Iterator[tuple[int, str, str, tuple[Pattern, ...]]]:
    """Ways to speak of another goal: hops, the goal in patterns, the goal in words, patterns before."""
    yield 2, goal, goal, ()
    run = Pattern(relation="charge", goal="?g", value=person)
    yield 3, "?g", ask.describe("charge", person=person), (run,)
    if trait:
        known, run = Pattern(relation="trait", subject="?p", value=trait), run.model_copy(update={"value": "?p"})
        yield 4, "?g", ask.describe("charge", person=ask.describe("trait", trait=trait)), (known, run)


def context_multi_hop(ask: Asker) -> Iterator[Draft]:
    """Context-aware multi-hop: what somebody proposed that was then ruled out; what somebody cited in a debate."""
    for kind in ask.kinds:
        out = {fact.subject for fact in ask.ledger.of(f"{kind}.ruled_out")}
        for person, proposed in ask.people(f"{kind}.proposed"):
            names = {fact.subject for fact in proposed}
            if len(names) > 1 and out & names and not ask.ledger.of(f"{kind}.dropped"):
                where = (
                    ask.here(f"{kind}.proposed", subject="?o", value=person),
                    ask.here(f"{kind}.ruled_out", subject="?o"),
                )
                text = ask.words("proposed_out", kind=kind, person=person)
                yield Draft("context_multi_hop", text, Query(where=where, give=("?o",), how="list"), kind, hops=2)
    for stance in ("for", "against"):
        for person, _ in ask.people(f"cited.{stance}"):
            where = (ask.here(f"cited.{stance}", subject="?s", value=person),)
            text = ask.words("cited", person=person, stance=ask.wording["questions"]["words"][stance])
            yield Draft("context_multi_hop", text, Query(where=where, give=("?s",), how="list"), "source")
