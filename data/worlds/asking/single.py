"""Questions that one place answers: JAM's single-hop family, and what no place answers."""

from collections.abc import Iterator

from stitchjam.data.worlds.asking.draft import Asker, Draft
from stitchjam.data.worlds.records import Pattern, Query

__all__ = ["about_terms", "attributes", "causes", "context_recall", "speakers", "unanswerable", "value_of"]


def value_of(ask: Asker, relation: str, option: str) -> Query:
    """The query for the property of a named option."""
    return Query(where=(ask.here(relation, subject=option, value="?v"),), give=("?v",))


def attributes(ask: Asker) -> Iterator[Draft]:
    """Attribute extraction: a property of an option, for this goal."""
    for fact in ask.some(ask.properties(), 3):
        query = value_of(ask, fact.relation, fact.subject)
        yield Draft("attribute_extraction", ask.asks(fact.relation, fact.subject), query, fact.relation)


def context_recall(ask: Asker) -> Iterator[Draft]:
    """Context-aware recall: the same, where the same property was also told for other goals."""
    elsewhere = {(fact.relation, fact.subject) for other in ask.others for fact in other.valid}
    for fact in ask.some(fact for fact in ask.properties() if (fact.relation, fact.subject) in elsewhere):
        query = value_of(ask, fact.relation, fact.subject)
        yield Draft("context_recall", ask.asks(fact.relation, fact.subject), query, fact.relation)


def unanswerable(ask: Asker) -> Iterator[Draft]:
    """A property that was never told for this goal, though it was for other options or goals."""
    told = {(fact.relation, fact.subject) for fact in ask.ledger.valid}
    elsewhere = {(fact.relation, fact.subject) for other in ask.others for fact in other.valid}
    missing = [
        (relation, option.name)
        for kind in ask.kinds
        for option in ask.ledger.plot.options[kind]
        for relation in (f"{kind}.{name}" for name in ask.wording.attributes(kind))
        if (relation, option.name) not in told
    ]
    missing.sort(key=lambda one: one not in elsewhere)  # the same property told for another goal misleads most
    for relation, option in missing[:2]:
        yield Draft("unanswerable", ask.asks(relation, option), value_of(ask, relation, option), relation)


def about_terms(ask: Asker) -> Iterator[Draft]:
    """Concept explanation: a piece of jargon that was defined once."""
    for one in ask.some((one for one in ask.general if one.fact.relation == "term"), 1):
        pattern = Pattern(relation="term", subject=one.fact.subject, value="?d")
        text = ask.words("term", term=one.fact.subject)
        yield Draft("concept_explanation", text, Query(where=(pattern,), give=("?d",)), "term")


def causes(ask: Asker) -> Iterator[Draft]:
    """Condition localisation: why an option was ruled out, or given up after it had been chosen."""
    for kind in ask.kinds:
        for way in ("ruled_out", "dropped"):
            for fact in ask.some(ask.ledger.of(f"{kind}.{way}"), 1):
                query = Query(where=(ask.here(fact.relation, subject=fact.subject, value="?r"),), give=("?r",))
                text = ask.words(way, option=fact.subject, kind=kind)
                yield Draft("condition_localisation", text, query, fact.relation)


def speakers(ask: Asker) -> Iterator[Draft]:
    """Speaker attribution: who proposed an option, or who cited a source."""
    for kind in ask.kinds:
        for fact in ask.some(ask.ledger.of(f"{kind}.proposed"), 1):
            query = Query(where=(ask.here(fact.relation, subject=fact.subject, value="?p"),), give=("?p",))
            text = ask.words("proposer", option=fact.subject, kind=kind)
            yield Draft("speaker_attribution", text, query, "person")
