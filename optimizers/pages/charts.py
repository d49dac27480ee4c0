"""Turns figures of systems into charts: recall against a token budget, score by type of question and against cost."""

from collections.abc import Sequence
from typing import NamedTuple

from stitchjam.optimizers.pages.drawing import (
    COLOURS,
    HEIGHT,
    WIDTH,
    Spot,
    Stroke,
    Text,
    across,
    amount,
    axes,
    labelled,
    line,
    linear_ticks,
    log_ticks,
    marker,
    scale,
    shortened,
    tick_texts,
    up,
)
from stitchjam.optimizers.pages.figures import Estimate, Price, System

__all__ = ["Chart", "cost_chart", "kinds_chart", "recall_chart"]

_KINDS = 40  # types of questions drawn; LoCoMo has five, worlds have 19


class Chart(NamedTuple):
    """A drawing, or `why` there is none. `words` tells what it shows to those who cannot see it."""

    title: str
    height: float = HEIGHT
    strokes: Sequence[Stroke] = ()
    texts: Sequence[Text] = ()
    shown: Sequence[int] = ()  # the systems that its legend names
    numbered: bool = False  # points have numbers, which the legend explains
    words: str = ""
    notes: Sequence[str] = ()
    why: str = ""


def recall_chart(systems: Sequence[System]) -> Chart:
    """Share of the evidence within the first so many tokens of what was cited, a line for each system."""
    title = "Evidence found within a token budget"
    shown = [number for number, one in enumerate(systems) if one.recall]
    if not shown:
        return Chart(title, why="No question names its evidence, or no system says what it cited.")
    budgets = sorted({budget for one in systems for budget, _ in one.recall})
    x = scale(budgets[0], budgets[-1], log=True)
    strokes, texts = axes("tokens of what was cited, first to last", "recall of evidence")
    texts += tick_texts([(x(budget), f"{budget:,}") for budget in budgets])
    for number in shown:
        one = systems[number]
        points = [(x(budget), up(share)) for budget, share in one.recall]
        strokes.append(Stroke(line(points), f"line c{number % len(COLOURS)} d{number % 4}"))
        tips = [f"{one.label}: {share:.3f} within {budget:,} tokens" for budget, share in one.recall]
        strokes += [
            Stroke(marker(*p, number), f"mark c{number % len(COLOURS)}", tip)
            for p, tip in zip(points, tips, strict=True)
        ]
    silent = [one.label for one in systems if one.run and not one.recall]
    return Chart(
        title,
        strokes=strokes,
        texts=texts,
        shown=shown,
        words="; ".join(f"{systems[n].label}: {_spoken(systems[n].recall)}" for n in shown),
        notes=[
            f"Questions with evidence: {_spread([systems[n].with_evidence for n in shown])}. A failed one counts as 0.",
            *([f"Without figures of recall: {', '.join(silent)}."] if silent else []),
        ],
    )


def kinds_chart(systems: Sequence[System]) -> Chart:
    """Score with interval of each type of question, one dot for each system."""
    title = "Score by type of question"
    every = sorted({kind for one in systems for kind in one.kinds})
    if why := _not_drawn(systems) or _too_alike(every):
        return Chart(title, why=why)
    counts = {kind: [one.kinds[kind].n for one in systems if kind in one.kinds] for kind in every}
    kinds = sorted(sorted(every, key=lambda kind: -max(counts[kind]))[:_KINDS])
    shown = [number for number, one in enumerate(systems) if one.kinds]
    step = 15 if len(shown) < 6 else 11
    top, strokes, texts = 10.0, [], []
    for kind in kinds:
        name = shortened(kind or "no type", 38)
        texts.append(Text(8, top + 13, f"{name} (n = {_spread(counts[kind])})", css="name"))
        rows = [(number, one) for number, one in enumerate(systems) if kind in one.kinds]
        for at, (number, one) in enumerate(rows):
            strokes += _dot(top + 27 + step * at, number, one.kinds[kind], one.label)
        top += 33 + step * len(rows)
    grid, ticks = _shares_below(top)
    left_out = len(every) - len(kinds)
    return Chart(
        title,
        height=top + 46,
        strokes=[*grid, *strokes],
        texts=[*texts, *ticks],
        shown=shown,
        words="The table after the plots, Score by type of question, holds the figures.",
        notes=[f"The {left_out} rarest types are left out here; the table holds them."] if left_out else [],
    )


def cost_chart(systems: Sequence[System], price: Price) -> Chart:
    """Score with interval against what a question costs, one labelled point for each system."""
    title = "Score against cost"
    if why := _not_drawn(systems) or price.why:
        return Chart(title, why=why)
    rated = [(number, one, one.score) for number, one in enumerate(systems) if one.score]
    values = [price.values[number] for number, *_ in rated]
    low, high = min(values), max(values)
    log = low > 0 and high > 20 * low
    ticks = log_ticks(low, high) if log else linear_ticks(high or 1.0)
    x = scale(ticks[0], ticks[-1], log)
    strokes, texts = axes(f"{price.unit} a question{', logarithmic' if log else ''}", "score")
    spots = [_spot(x(value), score) for value, (_, _, score) in zip(values, rated, strict=True)]
    named = labelled(spots, [shortened(one.label, 30) for _, one, _ in rated])
    leads, labels = named or labelled(spots, [str(number + 1) for number, *_ in rated]) or ([], [])
    strokes += leads
    for spot, value, (number, one, score) in zip(spots, values, rated, strict=True):
        tip = f"{one.label}: {_told(score)}, {amount(value)} {price.unit}"
        strokes.append(Stroke(line([(spot.x, spot.top), (spot.x, spot.bottom)]), f"line c{number % len(COLOURS)}"))
        strokes.append(Stroke(marker(spot.x, spot.y, number, 6), f"mark c{number % len(COLOURS)}", tip))
    kept = [one.label for one in systems if one.cache_hits and price.unit != "tokens"]  # whose tokens are known
    return Chart(
        title,
        strokes=strokes,
        texts=[*texts, *tick_texts([(x(tick), amount(tick)) for tick in ticks]), *labels],
        shown=[] if named else [number for number, *_ in rated],
        numbered=not named,
        words="; ".join(stroke.tip for stroke in strokes if stroke.tip),
        notes=[f"Too cheap here, since some replies were kept on disk: {', '.join(kept)}."] if kept else [],
    )


def _not_drawn(systems: Sequence[System]) -> str:
    """Why scores cannot be drawn side by side."""
    scores = [score for one in systems for score in (one.score, *one.kinds.values()) if score]
    if not scores:
        return "No question was rated."
    if len({one.metric for one in systems}) > 1:
        return "The reports are in different metrics."
    return ""


def _too_alike(kinds: Sequence[str]) -> str:
    if len(kinds) > 1:
        return ""
    return f"All questions are of the type {kinds[0]}." if kinds[0] else "The questions have no types."


def _told(found: Estimate) -> str:
    interval = f", 95 % interval {found.bounds.low:.3f} to {found.bounds.high:.3f}" if found.bounds else ""
    return f"score {found.value:.3f}{interval}, n = {found.n:,}"


def _dot(y: float, number: int, found: Estimate, label: str) -> list[Stroke]:
    dot = Stroke(marker(across(found.value), y, number), f"mark c{number % len(COLOURS)}", f"{label}: {_told(found)}")
    if not found.bounds:
        return [dot]
    ends = [(across(bound), y) for bound in found.bounds]
    return [Stroke(line(ends), f"line c{number % len(COLOURS)}"), dot]


def _shares_below(top: float) -> tuple[list[Stroke], list[Text]]:
    marks = [tick / 5 for tick in range(6)]
    texts = [Text(across(mark), top + 16, f"{mark:.1f}", "middle") for mark in marks]
    texts.append(Text(WIDTH / 2, top + 36, "score, with 95 % interval", "middle"))
    return [Stroke(line([(across(mark), 6), (across(mark), top)]), "grid") for mark in marks], texts


def _spot(x: float, score: Estimate) -> Spot:
    low, high = score.bounds or (score.value, score.value)
    return Spot(x, up(score.value), up(high), up(low))


def _spread(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _spoken(curve: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{share:.2f} within {budget:,} tokens" for budget, share in curve)
