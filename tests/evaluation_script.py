"""Run by tests as a process of its own, to be killed: 100 questions, of which some fail, are garbage, or hang.

Arguments: folder, and "smooth" for a run in which nothing goes wrong. Every call is written to calls.txt at once.
"""

import sys
import threading
import time
from pathlib import Path

from dspy import lm15
from oracle import field

from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.ids import build_session
from stitchjam.data.records import History, Question
from stitchjam.data.store import Store
from stitchjam.optimizers.evaluate import Terms, Trial, evaluate_kept
from stitchjam.optimizers.metrics import AnswerF1
from stitchjam.optimizers.row_file import Rows
from stitchjam.optimizers.rows import Run
from stitchjam.optimizers.task import examples
from stitchjam.programs.answer import Answerer

FAIL, GARBAGE, HANG = range(0, 100, 20), range(7, 100, 20), 33


def main(folder: Path, smooth: bool) -> None:
    trials, questions = [], {}
    for name in ("a", "b", "c", "d"):
        turns = [{"speaker": "Ann", "text": f"Number {at} of {name} is called N{at}{name}."} for at in range(25)]
        store = Store.of(History(id=name, sessions=(build_session(name, "", turns),)))
        some = [
            Question(id=f"q{at}", text=f"What is number {at} of {name} called?", answer=f"N{at}{name}", kind=name)
            for at in range(25)
        ]
        questions |= {one.text: (len(questions) + at, one) for at, one in enumerate(some)}
        trials.append(Trial(examples("answerer", some, store), AnswerF1(some, store), name))

    def answer(call):
        number, question = questions[field(call.prompt, "question")]
        with (folder / "calls.txt").open("a") as file:
            file.write(f"{number}\n")
        time.sleep(0.02)
        if not smooth and number == HANG:
            threading.Event().wait()
        if not smooth and number in FAIL:
            raise lm15.InvalidRequestError("refused")
        return "no json" if not smooth and number in GARBAGE else {"sources": ["c1"], "answer": question.answer}

    keys = [(trial.history, one.id) for trial in trials for one in trial.examples]
    rows = Rows(folder / "rows.jsonl", Run(metric="answer_f1", asked=len(keys)), keys)
    bindings = Bindings({"task": scripted_lm({"answer_question": answer})})
    evaluate_kept(Answerer(), trials, rows, Terms(bindings, folder / "replies.jsonl", threads=2, deadline=5))
    rows.settle()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "smooth" in sys.argv)
