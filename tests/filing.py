"""A model that writes memos, names and summaries from the words that it is shown, and nothing else."""

import re
from collections import Counter
from typing import Any

from oracle import field

from stitchjam.backends.scripted import ScriptedCall
from stitchjam.data.ids import build_session
from stitchjam.data.index.terms import terms
from stitchjam.data.records import History

_WORDS = {
    "sea": "boat sail mast anchor harbour tide",
    "kitchen": "pasta tomato basil oven soup bread",
    "rail": "train ticket station platform delay conductor",
    "garden": "roses soil spade seed hedge compost",
}
TOPICS = {name: [str(word) for word in words.split()] for name, words in _WORDS.items()}
_LINE = re.compile(r"(t\d+) \| (.*)")


def talks(count: int, turns: int = 3, topics: dict[str, list[str]] = TOPICS) -> History:
    """Sessions on a few topics by turns, each with a word of its own."""
    names, sessions = list(topics), []
    for at in range(count):
        words = topics[names[at % len(names)]]
        said = [
            {
                "speaker": ("Mira", "Jonas")[n % 2],
                "text": f"The {words[(at + n) % 6]} and the {words[(at + n + 1) % 6]}.",
            }
            for n in range(turns)
        ][:turns]
        said[-1]["text"] += f" Its number is Zeta{at}."
        sessions.append(build_session(f"s{at}", f"2026-{1 + at // 28 % 12:02d}-{1 + at % 28:02d}", said))
    return History(id="talks", sessions=tuple(sessions))


def memo(call: ScriptedCall) -> dict[str, Any]:
    """Facts are the first and the last line, the title the words said most."""
    lines = _LINE.findall(field(call.prompt, "source"))
    said = " ".join(text.partition(": ")[2] or text for _, text in lines)
    best = [word for word, _ in Counter(re.findall(r"[a-z]{4,}", said.lower())).most_common(4)]
    ends = [lines[0], lines[-1]] if len(lines) > 1 else lines
    return {
        "facts": [{"line": label, "fact": text.partition(": ")[2][:100] or text[:100]} for label, text in ends],
        "entities": list(dict.fromkeys(re.findall(r"\bZeta\d+", said)))[:6],
        "dates": [],
        "gist": f"{', '.join(best)}.",
        "title": " ".join(best) or "empty",
    }


def group(call: ScriptedCall) -> dict[str, Any]:
    """The word that most members share."""
    members = field(call.prompt, "members")
    word = Counter(term for term in terms(members) if term.isalpha() and len(term) > 3).most_common(1)[0][0]
    return {"about": f"All about {word}.", "name": f"{word} things"}


def readme(call: ScriptedCall) -> dict[str, Any]:
    """The name, and how many members there are."""
    members = field(call.prompt, "members").splitlines()
    return {"summary": f"{field(call.prompt, 'name')}: {len(members)} entries."}


def calls_of(lm: Any) -> list[ScriptedCall]:
    """The calls that a scripted model got; dspy says that its engine is a name."""
    return lm.engine.calls


FILING = {"write_memo": memo, "group_memos": group, "write_readme": readme}
