"""Questions about what changed, when, and in which order: the types that JAM's own tasks lack."""

from collections.abc import Iterator

from stitchjam.data.worlds.asking.draft import Asker, Draft
from stitchjam.data.worlds.asking.single import value_of
from stitchjam.data.worlds.records import Query

__all__ = ["ordinals", "temporal", "updates"]


def updates(ask: Asker) -> Iterator[Draft]:
    """Knowledge update: the date after it was moved, a value after it was put right."""
    if len(ask.ledger.of("date")) > 1:
        query = Query(where=(ask.here("date", value="?d", last=True),), give=("?d",))
        yield Draft("knowledge_update", ask.words("date_now"), query, "date")
    wrong = [fact for fact in ask.ledger.valid if fact.voids and ask.is_property(fact.relation)]
    for fact in ask.some(wrong, 2):
        asked = ask.asks(fact.relation, fact.subject)
        text = ask.words("corrected", question=asked)
        yield Draft("knowledge_update", text, value_of(ask, fact.relation, fact.subject), fact.relation)


def temporal(ask: Asker) -> Iterator[Draft]:
    """Temporal arithmetic: days between two dates, of which one or both may be told relative to the day of talking."""
    dates = ask.ledger.of("date")
    if len(dates) > 1 and not ask.ledger.corrected("date"):
        query = Query(where=(ask.here("date", value="?d"),), give=("?d",), how="days")
        yield Draft("temporal_arithmetic", ask.words("moved_days"), query, "days", hops=2)
    for fact in ask.some(ask.ledger.of("paid_on"), 2):
        paid = ask.here("paid_on", subject=fact.subject, value="?p")
        query = Query(where=(paid, ask.here("date", value="?d", last=True)), give=("?p", "?d"), how="days")
        text = ask.words("paid_before", item=fact.subject)
        yield Draft("temporal_arithmetic", text, query, "days", hops=2)


def ordinals(ask: Asker) -> Iterator[Draft]:
    """Ordinal mention: the n-th proposal of somebody, the n-th option ruled out."""
    nth = ask.wording["questions"]["words"]["nth"]
    for kind in ask.kinds:
        for person, proposed in ask.people(f"{kind}.proposed"):
            if len(proposed) > 1:
                number = ask.dice.randint(2, len(proposed))
                query = Query(
                    where=(ask.here(f"{kind}.proposed", subject="?o", value=person),), give=("?o",), how="nth", n=number
                )
                text = ask.words("nth", kind=kind, person=person, nth=nth[number - 1])
                yield Draft("ordinal_mention", text, query, kind)
        if len(ask.ledger.of(f"{kind}.ruled_out")) > 1:
            out = ask.here(f"{kind}.ruled_out", subject="?o", value="?r")
            query = Query(where=(out,), give=("?r",), how="nth", n=2)
            text = ask.words("nth_out", kind=kind, nth=nth[1])
            yield Draft("ordinal_mention", text, query, f"{kind}.ruled_out")
