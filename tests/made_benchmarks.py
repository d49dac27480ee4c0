"""Small files of benchmarks, in the forms of their authors."""

import base64
import json
from hashlib import sha256
from itertools import cycle

NOTICE = "This is benchmark data and belongs in no training set. canary 1f2e3d"


def trajectory(folder, number, prefix=""):
    folder.mkdir(parents=True, exist_ok=True)
    turns = [
        {"id": f"trip-{number}-turn-{at}", "role": "user", "content": f"Day {at}. ----TIMESTAMP: 2025-05-15T08:0{at}",
         "partition": ["secret"], "action": "DECIDE", "action_object": "secret"} for at in (1, 2)
    ]  # fmt: skip
    question = {
        "id": f"q{number}", "type": "type 1", "content": "Which day?", "answer": {"free_form_answer": "Day 2"},
        "question_turn_ids": [turn["id"] for turn in turns], "answer_turn_ids": [turns[1]["id"]],
    }  # fmt: skip
    for name, rows in (("turns", turns), ("questions", [question])):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{prefix}{name}.jsonl").write_text(text, encoding="utf-8")


def encode(source, folder, canary=NOTICE):
    """An encoded release of a folder, by the rule of its authors."""
    files = []
    (folder / "encoded_benchmark_codec" / "blobs").mkdir(parents=True)
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        name = path.relative_to(source).as_posix()
        plain = path.read_bytes()
        key = sha256(canary.encode()).digest()
        blob = f"blobs/{sha256(name.encode()).hexdigest()}.b64"
        coded = base64.b64encode(bytes(byte ^ other for byte, other in zip(plain, cycle(key), strict=False)))
        (folder / "encoded_benchmark_codec" / blob).write_bytes(coded)
        files.append(
            {"relpath": name, "blob": blob, "canary": canary, "nbytes": len(plain), "sha256": sha256(plain).hexdigest()}
        )
    description = {"version": "1.0", "created_by": "tests", "files": files}
    (folder / "encoded_benchmark_codec" / "metadata.json").write_text(json.dumps(description), encoding="utf-8")
    return folder


def instance(id="q1", sessions=None, **more):
    talks = sessions or {"sharegpt_1": [("user", "Hi."), ("assistant", "Hello.")], "answer_2": [("user", "It is red.")]}
    return {
        "question_id": id,
        "question_type": "single-session-user",
        "question": "Which colour?",
        "answer": "red",
        "question_date": "2023/06/01 (Thu) 00:58",
        "haystack_session_ids": list(talks),
        "haystack_dates": [f"2023/05/{20 - at} (Sat) 20:21" for at in range(len(talks))],
        "haystack_sessions": [[{"role": role, "content": text} for role, text in talk] for talk in talks.values()],
        "answer_session_ids": ["answer_2"],
        **more,
    }


def hotpot(**more):
    context = [["Oslo", ["Oslo is a city.", " It is in Norway."]], ["Empty", []], ["Norway", ["Norway is cold."]]]
    return {
        "_id": "h1",
        "question": "Where is Oslo?",
        "answer": "Norway",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Oslo", 1], ["Norway", 0]],
        "context": context,
        **more,
    }
