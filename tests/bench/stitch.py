"""What labelling costs: calls and prompt tokens a turn, on the travel trajectory and at turn 1,000 and 100,000.

A scripted model answers, so figures say what is asked, not how well it is answered. Give a number of turns to go to
another length: `python tests/bench/stitch.py 20000`.
"""

import sys
import time
from pathlib import Path

import dspy

sys.path.insert(0, str(Path(__file__).parents[1]))

from stitching import attentive, history_of, said  # noqa: E402

from stitchjam.data.index.encoders import open_encoder  # noqa: E402
from stitchjam.data.intents.notebook import Notebook  # noqa: E402
from stitchjam.data.readers.came import read_came  # noqa: E402
from stitchjam.data.store import Store  # noqa: E402
from stitchjam.data.tokens import count_tokens  # noqa: E402
from stitchjam.programs.stitch.labelers import Labeler, Reading  # noqa: E402
from stitchjam.programs.stitch.recall import StitchAgent  # noqa: E402
from stitchjam.programs.stitch.stitcher import SEED_TURNS, FusedStitcher  # noqa: E402

TRAVEL = Path(__file__).parents[3] / "shared" / "data" / "came_bench_site" / "travel_plan_example"
WINDOW = 100  # turns whose mean is shown


class Silent(Labeler):
    """Reads a turn without a model: fills a notebook at the speed of our own code."""

    def forward(self, view):
        at = int(view.turn.text.rsplit(" ", 1)[1])
        reading = Reading(
            topic=f"topic {at // 30 % 400}",
            scope="none",
            event=f"does thing {at % 23}",
            entities=(f"kind {at % 41}",),
            references=(),
            act="propose",
            target=f"Thing {at}",
            summary=f"It is said that thing {at} is part of it",
            gist=f"so far {at} things were said about it",
        )
        return dspy.Prediction(reading=reading)


def typical(call):
    """What a model would say, of the length that one says it."""
    words = said(call)
    return {
        "topic": f"plan for day {1 + len(words) % 2}",
        "scope": "c1",
        "event": "e1",
        "entities": ["k1", "k2"],
        "references": [],
        "act": "propose",
        "target": words[20:60],
        "summary": words[:110],
        "gist": words[:80],
    }


def travel() -> None:
    """Calls and tokens a turn and a question on the public trajectory."""
    if not TRAVEL.is_dir():
        return print(f"travel: skipped, {TRAVEL.name} is not there")
    [loaded] = read_came(TRAVEL)
    lm = attentive(
        label_turn=typical,
        read_intent={"scopes": ["c1"], "events": ["e1"], "entities": []},
        answer_question={"sources": ["c1"], "answer": "x"},
    )
    notebook = grown(loaded.history, FusedStitcher(), lm)
    calls = lm.engine.calls
    sizes = [count_tokens(call.system + call.messages[-1]) for call in calls]
    turns = len(loaded.history.turns)
    print(f"travel: {turns} turns, {len(calls) / turns:.3f} calls and {sum(sizes) / turns:.0f} prompt tokens a turn")
    store, before = Store.of(loaded.history, entries=notebook.entries), len(calls)
    with dspy.context(lm=lm):
        for question in loaded.questions:
            StitchAgent()(question=question.text, store=store)
    asked = calls[before:]
    sizes = [count_tokens(call.system + call.messages[-1]) for call in asked]
    questions = len(loaded.questions)
    print(
        f"        {questions} questions: {len(asked) / questions:.2f} calls, {sum(sizes) / questions:.0f} tokens each"
    )


def growth(turns: int) -> None:
    """Calls, tokens and our own time a turn early and late in one memory."""
    texts = [f"we talk about thing number {at}" for at in range(turns)]
    history = history_of(*texts)
    notebook, silent, real, lm = Notebook(open_encoder("static")), FusedStitcher(Silent()), FusedStitcher(), attentive()
    all_turns, marks = history.turns, {1000, turns - WINDOW}
    known = {"first": all_turns[:SEED_TURNS], "program": "bench"}
    at = 0
    with dspy.context(lm=lm):
        while at < turns:
            if at in marks:
                notebook = measured(at, all_turns, notebook, (silent, real), lm, known)
            entry = silent(turn=all_turns[at], notebook=notebook, before=all_turns[max(0, at - 2) : at], **known).entry
            notebook.add(entry)
            at += 1


def measured(at, turns, notebook, stitchers, lm, known):
    """Print what the next turns cost, labelled by the scripted model and, for the time, without any."""
    silent, real = stitchers
    before, entries = len(lm.engine.calls), []
    for n in range(at, at + WINDOW):
        entries.append(real(turn=turns[n], notebook=notebook, before=turns[n - 2 : n], **known).entry)
    sizes = [count_tokens(call.system + call.messages[-1]) for call in lm.engine.calls[before:]]
    start = time.perf_counter()
    for n in range(at, at + WINDOW):
        silent(turn=turns[n], notebook=notebook, before=turns[n - 2 : n], **known)
    own = 1000 * (time.perf_counter() - start) / WINDOW
    print(
        f"turn {at:>7,}: {len(sizes) / WINDOW:.2f} calls, {sum(sizes) / WINDOW:.0f} prompt tokens, {own:.2f} ms of ours"
    )
    return notebook


def grown(history, stitcher, lm) -> Notebook:
    """The notebook of a history."""
    notebook, known = Notebook(open_encoder("static")), {"first": history.turns[:SEED_TURNS], "program": "bench"}
    with dspy.context(lm=lm):
        for at, turn in enumerate(history.turns):
            notebook.add(
                stitcher(turn=turn, notebook=notebook, before=history.turns[max(0, at - 2) : at], **known).entry
            )
    return notebook


if __name__ == "__main__":
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)  # a call that is answered there is none
    travel()
    growth(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
