"""Turns what was told about a finished goal into questions of every type."""

from collections.abc import Callable, Iterator

from stitchjam.data.worlds.asking import change, multi, single, summary
from stitchjam.data.worlds.asking.draft import Asker, Draft

__all__ = ["FAMILIES", "drafts"]

# Types by family: JAM's three (its table in section 3), CAME-Bench's four capabilities, and what JAM's tasks lack.
FAMILIES = {
    "single-hop": ("attribute_extraction", "concept_explanation", "condition_localisation"),
    "multi-hop": ("comparison", "provenance_tracing", "intersection_selection"),
    "summarisation": ("state_evolution", "set_enumeration", "aggregation"),
    "came": ("incremental_revision", "context_recall", "context_multi_hop", "synthesis"),
    "memory": (
        "unanswerable",
        "knowledge_update",
        "temporal_arithmetic",
        "ordinal_mention",
        "speaker_attribution",
        "counting",
    ),
}
_WRITERS: tuple[Callable[[Asker], Iterator[Draft]], ...] = (
    single.attributes,
    single.about_terms,
    single.causes,
    multi.comparisons,
    multi.provenance,
    multi.intersections,
    summary.evolutions,
    summary.enumerations,
    summary.aggregations,
    summary.revisions,
    single.context_recall,
    multi.context_multi_hop,
    summary.plans,
    single.unanswerable,
    change.updates,
    change.temporal,
    change.ordinals,
    single.speakers,
    summary.counts,
)


def drafts(ask: Asker) -> Iterator[Draft]:
    """Questions of all types that what was told about a goal allows."""
    for writer in _WRITERS:
        yield from writer(ask)
