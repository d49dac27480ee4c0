"""Turns plans, reports and ledgers into tables and lines for people. It prints nothing itself."""

from typing import Any

from pydantic import ValidationError
from rich.table import Table

from stitchjam.backends.probe import Probe
from stitchjam.backends.usage import Ledger
from stitchjam.data.errors import ArtifactError
from stitchjam.data.records import Answer, Context
from stitchjam.data.store import Store
from stitchjam.data.text import one_line
from stitchjam.optimizers.compare import Comparison
from stitchjam.optimizers.compile import Compiled
from stitchjam.optimizers.plan import Plan
from stitchjam.programs.artifact import Manifest

__all__ = [
    "answer_lines",
    "comparison_lines",
    "compiled_lines",
    "compiled_summary",
    "manifest_lines",
    "plan_line",
    "probe_table",
    "usage_line",
    "usage_rows",
    "usage_table",
]


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def plan_line(plan: Plan) -> str:
    """The plan in one line: an upper bound, and what it rests on."""
    cost = f", ${plan.cost:.2f}" if plan.cost else ""
    return (
        f"plan: at most {plan.runs} program runs, about {plan.calls} calls, {plan.tokens:,} tokens, "
        f"{_minutes(plan.seconds)}{cost} (measured on {plan.measured} runs: {plan.calls_a_run:.1f} calls a run, "
        f"{plan.seconds_a_call:.1f} s a call, {plan.tokens_a_second:.0f} tokens a second)"
    )


def usage_rows(ledger: Ledger) -> list[dict[str, Any]]:
    """The ledger as JSON objects."""
    return [{"step": step, "model": model, **vars(usage)} for (step, model), usage in ledger.rows().items()]


def usage_table(ledger: Ledger) -> Table:
    """The ledger by step and model, with a sum."""
    if not ledger.rows():
        return Table(box=None)
    table = Table("step", "model", "calls", "cached", "failed", "tokens in", "out", "seconds", "cost", box=None)
    rows = [*((step, model, usage) for (step, model), usage in ledger.rows().items()), ("sum", "", ledger.total())]
    for step, model, use in rows:
        numbers = (use.calls, use.cache_hits, use.failures, f"{use.input_tokens:,}", f"{use.output_tokens:,}")
        table.add_row(step, model, *map(str, numbers), f"{use.seconds:.1f}", f"${use.cost:.4f}" if use.cost else "-")
    return table


def usage_line(ledger: Ledger) -> str:
    """All calls in one line."""
    use = ledger.total()
    cached = f" (and {use.cache_hits} from replies on disk)" if use.cache_hits else ""
    return f"{use.calls} calls{cached}, {use.tokens:,} tokens, {_minutes(use.seconds)}"


def compiled_summary(done: Compiled) -> dict[str, Any]:
    """A compile as one JSON object."""
    return {
        "artifact": str(done.path),
        "published": done.manifest.published,
        "refused": list(done.manifest.refused),
        "scores": done.manifest.scores,
        "seconds": round(done.seconds, 1),
        "usage": usage_rows(done.ledger),
    }


def compiled_lines(done: Compiled) -> list[object]:
    """A compile for people: scores, cost, what was written."""
    verdict = "published" if done.manifest.published else "not published, see below"
    return [
        *comparison_lines(done.comparison, done.seed.metric),
        usage_table(done.ledger),
        f"{done.path}: {verdict}; {_minutes(done.seconds)}; read {done.path / 'prompts.md'}",
    ]


def manifest_lines(manifest: Manifest) -> list[str]:
    """What an artifact says about itself."""
    try:
        held_out = Comparison.model_validate(manifest.scores.get("held_out"))
    except ValidationError:
        raise ArtifactError("the manifest holds no held-out scores; compile again") from None
    return [
        f"{manifest.program} {manifest.hparams}, compiled with {manifest.recipe.get('name')}",
        "published" if manifest.published else f"not published: {'; '.join(manifest.refused)}",
        *comparison_lines(held_out, str(manifest.metric.get("name"))),
        f"compiled for {', '.join(f'{role} {model}' for role, model in manifest.compiled_for.items())}",
        *(f"{step}: {len(ids)} demos from {', '.join(ids)}" for step, ids in manifest.demos.items()),
    ]


def probe_table(found: list[Probe]) -> Table:
    """Probes, one a line."""
    table = Table("model", "answers held by", "context", "prompt tokens/s", "output tokens/s", "note", box=None)
    for one in found:
        speed = (f"{one.prompt_tokens_a_second:.0f}", f"{one.output_tokens_a_second:.0f}")
        table.add_row(one.alias, one.structure or "nothing", str(one.context or "not known"), *speed, one.note)
    return table


def comparison_lines(comparison: Comparison, metric: str) -> list[str]:
    """Before and after on held-out data, with the interval of the gain."""
    c = comparison
    return [
        f"{metric} on {c.n} held-out questions: seed {c.before:.3f} -> compiled {c.after:.3f}",
        f"gain {c.gain:+.3f} (95 % interval {c.low:+.3f} to {c.high:+.3f}; {c.better} better, {c.worse} worse)",
    ]


def answer_lines(answer: Answer, store: Store, context: Context | None = None) -> list[str]:
    """The answer and the turns it cites, with place, date and speaker; `context` tells why there is no answer."""
    lines = [answer.text]
    if answer.abstained:
        nothing = context is not None and not context.claims
        why = "nothing was found; ask with other words, or research" if nothing else "the memory does not say"
        lines = [f"{answer.text} ({why})"]
    for turn_id in answer.turn_ids:
        turn = store.turn(turn_id)
        place = turn.external_id or turn.id
        lines.append(one_line(f"[{place}] {turn.time[:10]} {turn.speaker}: {turn.text}").join(("  ", "")))
    if not answer.abstained and not answer.turn_ids:
        lines.append("  (no turn cited)")
    return lines
