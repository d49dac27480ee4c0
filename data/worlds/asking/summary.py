"""Questions about all that was told of one kind: JAM's summaries, CAME-Bench's revision and synthesis, and counts."""

from collections.abc import Iterator

from stitchjam.data.worlds.asking.draft import Asker, Draft
from stitchjam.data.worlds.records import Pattern, Query

__all__ = ["aggregations", "counts", "enumerations", "evolutions", "plans", "revisions"]


def evolutions(ask: Asker) -> Iterator[Draft]:
    """State evolution: every choice, or every date, in order."""
    for kind in ask.kinds:
        if ask.ledger.of(f"{kind}.replaced"):
            replaced = ask.here(f"{kind}.replaced", subject="?a", value="?b")
            query = Query(where=(replaced,), give=("?a", "?b"), how="chain")
            yield Draft("state_evolution", ask.words("evolution", kind=kind), query, f"{kind}s")
    if len(ask.ledger.of("date")) > 1 and not ask.ledger.corrected("date"):
        query = Query(where=(ask.here("date", value="?d"),), give=("?d",), how="list")
        yield Draft("state_evolution", ask.words("dates"), query, "dates")


def _final(ask: Asker, kind: str, value: str = "?o") -> Pattern:
    return ask.here(f"{kind}.chosen", subject=kind, value=value, last=True)


def enumerations(ask: Asker) -> Iterator[Draft]:
    """Set enumeration: all that were ruled out, have a feature, or were paid for."""
    for kind in ask.kinds:
        for feature, facts in ask.people(f"{kind}.feature"):
            if len(facts) > 1:
                query = Query(
                    where=(ask.here(f"{kind}.feature", subject="?o", value=feature),), give=("?o",), how="list"
                )
                yield Draft("set_enumeration", ask.words("with_feature", kind=kind, feature=feature), query, f"{kind}s")
        if _only_ruled_out(ask, kind) > 1:
            query = Query(where=(ask.here(f"{kind}.ruled_out", subject="?o"),), give=("?o",), how="list")
            yield Draft("set_enumeration", ask.words("all_out", kind=kind), query, f"{kind}s")
    if len(ask.ledger.of("paid")) > 1:
        query = Query(where=(ask.here("paid", subject="?i"),), give=("?i",), how="list")
        yield Draft("set_enumeration", ask.words("items"), query, "items")


def _only_ruled_out(ask: Asker, kind: str) -> int:
    """How many were ruled out; 0 where one was given up after it had been chosen, which might count as well."""
    return 0 if ask.ledger.of(f"{kind}.dropped") else len(ask.ledger.of(f"{kind}.ruled_out"))


def aggregations(ask: Asker) -> Iterator[Draft]:
    """Aggregation: what all payments add up to."""
    if len(ask.ledger.of("paid")) > 1:
        query = Query(where=(ask.here("paid", subject="?i", value="?v"),), give=("?i", "?v"), how="sum")
        yield Draft("aggregation", ask.words("total"), query, "total")


def counts(ask: Asker) -> Iterator[Draft]:
    """Counting: options proposed or ruled out, changes of the date, payments."""
    for kind in ask.kinds:
        if _only_ruled_out(ask, kind):
            query = Query(where=(ask.here(f"{kind}.ruled_out", subject="?o"),), give=("?o",), how="count")
            yield Draft("counting", ask.words("count_out", kind=kind), query, "count")
        for person, _ in ask.some(ask.people(f"{kind}.proposed"), 1):
            query = Query(where=(ask.here(f"{kind}.proposed", subject="?o", value=person),), give=("?o",), how="count")
            yield Draft("counting", ask.words("count_proposed", kind=kind, person=person), query, "count")
    if len(ask.ledger.of("date")) > 1 and not ask.ledger.corrected("date"):
        query = Query(where=(ask.here("moved", value="?d"),), give=("?d",), how="count")
        yield Draft("counting", ask.words("count_moves"), query, "count")
    if len(ask.ledger.of("paid")) > 1:
        query = Query(where=(ask.here("paid", subject="?i"),), give=("?i",), how="count")
        yield Draft("counting", ask.words("count_items"), query, "count")


def revisions(ask: Asker) -> Iterator[Draft]:
    """Incremental memory revision: the latest choice after a change of mind."""
    for kind in ask.kinds:
        if len(ask.ledger.of(f"{kind}.chosen")) > 1:
            query = Query(where=(_final(ask, kind),), give=("?o",))
            yield Draft("incremental_revision", ask.words("final", kind=kind), query, kind)


def plans(ask: Asker) -> Iterator[Draft]:
    """Information synthesis: everything that was settled in the end, in a fixed form."""
    where, names = [], []
    for number, kind in enumerate(ask.kinds):
        where.append(_final(ask, kind, f"?o{number}"))
        names.append(ask.wording.noun(kind))
    names.append(ask.wording["questions"]["words"]["date"])
    where.append(ask.here("date", value="?d", last=True))
    form = "; ".join(f"{name}: {{}}" for name in names)
    give = (*(f"?o{number}" for number in range(len(ask.kinds))), "?d")
    text = ask.words("plan", form=form.replace("{}", "..."))
    yield Draft("synthesis", text, Query(where=tuple(where), give=give, form=form), "plan")
