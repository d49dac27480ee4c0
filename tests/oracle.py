"""A scripted model that knows the sample's gold: right where a test wants it right, and better with demos than without.

So that optimizers have something to find: without demos every second question is answered wrongly.
"""

import re
from typing import Any

from stitchjam.backends.scripted import ScriptedCall, scripted_lm
from stitchjam.data.records import Question
from stitchjam.data.sample import Data
from stitchjam.data.text import escape, one_line

_LINE = re.compile(r"^([cet]\d+) \|", re.MULTILINE)


def field(prompt: str, name: str) -> str:
    """The value of one input field in a prompt."""
    part = prompt.split(f"[[ ## {name} ## ]]\n", 1)[1]
    return part.split("\n\n[[ ## ", 1)[0].strip()


def labels(block: str) -> list[str]:
    """Labels of the lines in a block, in order."""
    return _LINE.findall(block)


class Oracle:
    """Answers each step from gold. `always_right` answers right without demos too."""

    def __init__(self, data: Data, always_right: bool = False):
        self.data, self.always_right = data, always_right
        self.by_text = {question.text: question for question in data.questions}
        self.ids = [question.id for question in data.questions]

    def lm(self, **overrides: Any):
        """A dspy LM; `overrides` replace scripts by step name."""
        return scripted_lm(self.scripts() | overrides)

    def scripts(self) -> dict[str, Any]:
        """One script a step."""
        return {
            "answer_question": self.answer,
            "plan_first": self.plan,
            "plan_next": {"actions": []},
            "browse_source": self.browse,
            "judge_sufficiency": self.judge,
            "compose_context": self.compose,
        }

    def _question(self, call: ScriptedCall) -> Question:
        return self.by_text[field(call.prompt, "question")]

    def answer(self, call: ScriptedCall) -> dict:
        """Gold with the lines that hold it, or "wrong" for every second question while there are no demos."""
        question = self._question(call)
        has_demos = len(call.messages) > 1
        right = self.always_right or has_demos or self.ids.index(question.id) % 2 == 0
        sources = self._lines_with_gold(field(call.prompt, "context"), question)
        return {"sources": sources or ["c1"], "answer": question.answer if right else "wrong"}

    def _lines_with_gold(self, block: str, question: Question) -> list[str]:
        texts = [escape(one_line(self.data.store.turn(turn_id).text)) for turn_id in question.evidence]
        return [line.split(" |")[0] for line in block.splitlines() if any(text in line for text in texts)]

    def plan(self, call: ScriptedCall) -> dict:
        """Browse every candidate shown."""
        actions = [{"tool": "browse", "target": label, "query": ""} for label in labels(call.prompt)[:5]]
        return {"needs": [self._question(call).text[:120]], "actions": actions}

    def browse(self, call: ScriptedCall) -> dict:
        """Lines that hold gold of the request, which is the question."""
        question = self.by_text.get(field(call.prompt, "request"))
        return {"lines": self._lines_with_gold(field(call.prompt, "source"), question) if question else []}

    def judge(self, call: ScriptedCall) -> dict:
        """The first line that holds gold."""
        found = self._lines_with_gold(field(call.prompt, "evidence"), self._question(call))
        return {"entry": found[0] if found else "none"}

    def compose(self, call: ScriptedCall) -> dict:
        """One claim a line of gold."""
        lines = self._lines_with_gold(field(call.prompt, "evidence"), self._question(call))
        return {"claims": [{"entry": label, "claim": "it says so"} for label in lines]}
