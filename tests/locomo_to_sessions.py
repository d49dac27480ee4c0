"""Turns one LoCoMo conversation into our sessions and questions files: python locomo_to_sessions.py JSON FOLDER [0].

Category 5 (adversarial, mostly without an answer) is left out; evidence that names no turn is dropped and returned.
"""

import sys
from pathlib import Path

from stitchjam.data.readers import read_locomo, write_questions, write_sessions


def convert(source: Path, folder: Path, number: int = 0) -> tuple[Path, Path, list[str]]:
    """Write NAME.sessions.jsonl and NAME.questions.jsonl; returns both paths and a line for each dropped evidence."""
    loaded = read_locomo(source)[number]
    name, kept = loaded.history.id, [question for question in loaded.questions if question.kind != "5"]
    numbered = [question.model_copy(update={"id": f"{name}-{at}"}) for at, question in enumerate(kept, 1)]
    paths = folder / f"{name}.sessions.jsonl", folder / f"{name}.questions.jsonl"
    write_sessions(paths[0], loaded.history)
    write_questions(paths[1], numbered, loaded.history)
    return *paths, list(loaded.problems)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
