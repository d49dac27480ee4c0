"""A model for STITCH that answers from the words of a turn, so that tests know what labels and notes come of it."""

import re
from itertools import count
from typing import Any

import dspy

from stitchjam.backends.scripted import ScriptedCall, scripted_lm
from stitchjam.data.ids import build_session
from stitchjam.data.index.encoders import open_encoder
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.records import History
from stitchjam.programs.stitch.stitcher import FusedStitcher

SEEDS = {
    "events": [{"name": name, "meaning": ""} for name in ("asks", "proposes", "decides", "reports")],
    "entities": [{"name": name, "meaning": ""} for name in ("hotel", "price", "person")],
}
_count = count()
_SAID = re.compile(r"^(?P<speaker>[^:]*): (?P<words>.*)$", re.DOTALL)
_VERBS = {"?": ("asks", "ask"), "propose": ("proposes", "propose"), "decide": ("decides", "decide")}


def history_of(*texts: str, name: str = "h", session: str = "s") -> History:
    """A history of one session in which two people take turns, a minute each."""
    rows = [
        {
            "speaker": "Ann" if at % 2 == 0 else "Ben",
            "text": text,
            "time": f"2026-03-{1 + at // 60 // 24:02}T{at // 60 % 24:02}:{at % 60:02}",
        }
        for at, text in enumerate(texts)
    ]
    return History(id=name, sessions=(build_session(session, "2026-03-01", rows),))


def said(call: ScriptedCall, field: str = "turn") -> str:
    """What a prompt shows in a field."""
    return call.prompt.split(f"[[ ## {field} ## ]]\n", 1)[1].split("\n\n[[ ##", 1)[0].strip()


def label_of(call: ScriptedCall, field: str, name: str) -> str:
    """The label under which a prompt shows a name, else the name."""
    for line in said(call, field).splitlines():
        label, _, rest = line.partition(" | ")
        if rest.split(" | ")[0] == name:
            return label
    return name


def read(call: ScriptedCall) -> dict:
    """What an attentive model notes: "trip: Ann proposes the hotel Lux" is about the topic trip and the target Lux."""
    words = _SAID.match(said(call))["words"]  # type: ignore[index]
    topic, _, rest = words.partition(": ")
    topic = topic if rest else "chat"
    event, act = next((pair for sign, pair in _VERBS.items() if sign in words), ("reports", "tell"))
    names = re.findall(r"\b[A-Z][a-z]+\b", rest)
    kinds = [kind for kind in ("hotel", "price", "person", "train") if kind in words]
    return {
        "topic": topic,
        "scope": label_of(call, "scopes", topic) if "[[ ## scopes ## ]]" in call.prompt else "none",
        "event": label_of(call, "events", event) if "[[ ## events ## ]]" in call.prompt else "",
        "entities": [
            label_of(call, "entities", kind) if "[[ ## entities ## ]]" in call.prompt else kind for kind in kinds
        ],
        "act": act,
        "target": names[-1] if names else "",
        "summary": words[:60],
        "references": [],
        "gist": f"about {topic}: {words[:30]}",
    }


def _only(*fields: str):
    return lambda call: {name: value for name, value in read(call).items() if name in fields}


STEPWISE = {
    "detect_scope": _only("topic", "scope"),
    "type_event": _only("event"),
    "type_entities": _only("entities"),
    "write_note": _only("act", "target", "summary", "references"),
    "write_gist": _only("gist"),
}
SCRIPTS = {"seed_vocabulary": SEEDS, "merge_labels": {"same": []}, "label_turn": read, **STEPWISE}


def attentive(**scripts: Any) -> Any:
    """A model that answers all steps of labelling; other scripts take the place of its own."""
    return scripted_lm(SCRIPTS | scripts, f"attentive-{next(_count)}")  # a cache must not mix up two of them


def labelled(history, lm, stitcher=None, notebook=None):
    """The notebook that labelling all turns of a history gives."""
    stitcher, notebook = stitcher or FusedStitcher(), notebook or Notebook(open_encoder("static"))
    known = {"first": history.turns[:50], "program": stitcher.fingerprint}
    with dspy.context(lm=lm):
        for session in history.sessions:
            for at, turn in enumerate(session.turns):
                before = session.turns[max(0, at - 2) : at]
                notebook.add(stitcher(turn=turn, notebook=notebook, before=before, **known).entry)
    return notebook
