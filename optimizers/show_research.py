"""Turns a research run into JSON and lines for people: rounds, what came of each action, evidence and its source."""

from collections.abc import Mapping
from typing import Any

from stitchjam.data.records import Answer, Claim, Context, Round, Span
from stitchjam.data.store import Store
from stitchjam.data.text import one_line

__all__ = ["opened_span", "research_json", "research_lines", "round_lines", "span_name"]

_TEXT = 160  # characters of a quote in a line
_LONGEST_PLACE = 20  # letters of START-END: no turn is so long


def span_name(span: Span) -> str:
    """How a span is named on the command line: `stitchjam show NAME` opens it."""
    return f"{span.turn_id}:{span.start}-{span.end}"


def research_json(context: Context, store: Store, answer: Answer | None = None) -> dict[str, Any]:
    """The whole run: needs, rounds, evidence by label, claims with the evidence they rest on, and the answer."""
    labels = {_place(claim): f"e{number}" for number, claim in enumerate(context.evidence, 1)}
    cited = {_place(claim) for claim in answer.claims} if answer else set()
    return {
        "question": context.request,
        "answer": answer and {"text": answer.text, "abstained": answer.abstained},
        "needs": [{"need": need, "covered": held} for need, held in zip(context.needs, context.covered, strict=False)],
        "rounds": [_round(number, one) for number, one in enumerate(context.rounds, 1)],
        "evidence": [_evidence(claim, labels[_place(claim)], store) for claim in context.evidence],
        "claims": [
            _evidence(claim, labels.get(_place(claim), ""), store) | {"cited": _place(claim) in cited}
            for claim in context.claims
        ],
        "stop": context.stop,
        "dropped": context.dropped,
        "replaced": context.replaced,
        "browsed": list(context.browsed),
        "failures": list(context.failures),
    }


def _place(claim: Claim) -> tuple[str, int]:
    return claim.spans[0].turn_id, claim.spans[0].start


def _round(number: int, one: Round) -> dict[str, Any]:
    outcomes = one.outcomes or ("found",) * len(one.actions)
    return {
        "round": number,
        "actions": [
            {"action": action, "observation": seen, "outcome": outcome}
            for action, seen, outcome in zip(one.actions, one.observations, outcomes, strict=True)
        ],
        "read": list(one.read),
        "missing": list(one.missing),
    }


def _evidence(claim: Claim, label: str, store: Store) -> dict[str, Any]:
    span = claim.spans[0]
    there = span.turn_id in store.positions([span.turn_id])  # else it was forgotten since
    return {
        "label": label,
        "text": claim.text,
        "quote": claim.quote,
        "speaker": claim.speaker,
        "time": claim.time,
        "session": span.session_id,
        "span": span_name(span),
        "holds": there and span.holds_in(store.turn(span.turn_id)),
    }


def research_lines(value: Mapping[str, Any]) -> list[str]:
    """The same for people; `value` is that of `research_json`."""
    lines = [f"question: {value['question']}"]
    lines += [f"need: {one['need']} ({'covered' if one['covered'] else 'not covered'})" for one in value["needs"]]
    for one in value["rounds"]:
        lines += _told(one)
    lines.append("evidence:" if value["evidence"] else "no evidence was found")
    lines += [f"  {one['label']} {_quoted(one)}" for one in value["evidence"]]
    lines.append("claims:" if value["claims"] else "no claims")
    for one in value["claims"]:
        said = f"{one_line(one['text'])[:_TEXT]} " if one["text"] != one["quote"] else ""
        lines.append(f"  {'*' if one['cited'] else '-'} {said}<- {one['label'] or 'its turn'} {_quoted(one)}")
    dropped = f", {value['dropped']} dropped since nothing supports them" if value["dropped"] else ""
    replaced = f", {value['replaced']} replaced by what was said" if value["replaced"] else ""
    lines.append(f"stopped: {value['stop']}; {len(value['browsed'])} sessions read{dropped}{replaced}")
    lines += [f"could not be used: {failure}" for failure in value["failures"]]
    if value["answer"]:
        lines.append(f"answer: {value['answer']['text']}")
    return [*lines, "open a quote in its session: stitchjam show TURN:START-END"] if value["evidence"] else lines


def round_lines(number: int, one: Round) -> list[str]:
    """A round as it ends: its actions with what came of each, and what is still missing."""
    return _told(_round(number, one))


def opened_span(name: str, store: Store) -> tuple[str, str, str, str] | None:
    """The turn of a span that is named like turn:start-end, with its words before, in, and behind the span.

    None when it names no span of a turn that is there.
    """
    turn_id, _, place = name.rpartition(":")
    start, _, end = place.partition("-")
    if not (start.isdecimal() and end.isdecimal() and len(place) <= _LONGEST_PLACE) or turn_id not in store.positions(
        [turn_id]
    ):
        return None
    text, begin, stop = store.turn(turn_id).text, int(start), int(end)
    if not begin <= stop <= len(text):
        return None
    return turn_id, text[:begin], text[begin:stop], text[stop:]


def _told(one: Mapping[str, Any]) -> list[str]:
    lines = [
        f"round {one['round']}: {row['action']} -> {row['observation']}"
        + (f" [{row['outcome']}]" if row["outcome"] != "found" else "")
        for row in one["actions"]
    ]
    missing = "; ".join(one["missing"])
    return [
        *lines,
        f"round {one['round']}: still missing: {missing}" if missing else f"round {one['round']}: all covered",
    ]


def _quoted(one: Mapping[str, Any]) -> str:
    holds = "" if one["holds"] else " (no longer there)"
    return f'[{one["span"]}] {one["time"][:10]} {one["speaker"]}: "{one_line(one["quote"])[:_TEXT]}"{holds}'
