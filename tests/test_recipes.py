"""The recipes of docs/benchmarks.md turn real files into pairs that can be read, with all their questions and gold."""

import json
import re
from pathlib import Path

import pytest

from stitchjam.data.benchmarks import look

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
# histories, sessions, questions, questions with evidence
FILES = {
    "NarrativeQA": ("narrativeqa/narrativeqa_dev.jsonl", (50, 50, 1538, 0)),
    "SQuALITY": ("squality/squality_dev.jsonl", (10, 10, 50, 0)),
    "QMSum": ("qmsum/qmsum_dev.jsonl", (12, 12, 85, 72)),
    "MuSiQue": ("musique/musique_ans_dev.jsonl", (60, 1200, 60, 60)),
    "RealMem": ("realmem/Kenta_Tanaka_dialogues_256k.json", (88, 8916, 153, 153)),
    "BEAM": ("beam/100K/1", (1, 78, 20, 18)),
}


def recipes():
    """The code of docs/benchmarks.md by its heading; the first is what each begins with."""
    text = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    parts = re.split(r"^###? (.+)$", text, flags=re.MULTILINE)
    found = {
        name: re.findall(r"```python\n(.*?)```", body, re.DOTALL)
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }
    return found


def cook(name, source, out):
    [start] = recipes()["Everything else: the pair of files"]
    [code] = recipes()[name]
    exec(compile(start + code, name, "exec"), {"source": source, "out": out})
    return look("sessions", out)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not beside the project")
@pytest.mark.parametrize("name", FILES)
def test_a_recipe_makes_pairs_of_a_real_file(name, tmp_path):
    file, sizes = FILES[name]
    if not (SHARED / file).exists():
        pytest.skip(f"{file} is not there")
    found = cook(name, SHARED / file, tmp_path)
    assert (found.histories, found.sessions, found.questions, found.with_evidence) == sizes and not found.problems


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real files are not beside the project")
def test_2wiki_has_the_form_of_hotpotqa():
    found = look("hotpotqa", SHARED / "twowiki" / "2wiki_dev.jsonl")
    assert (found.histories, found.questions, found.with_evidence) == (60, 60, 60) and not found.problems


def test_the_recipe_of_longcodeqa_makes_a_pair_of_each_repository(tmp_path):
    # Its files are a gigabyte, so this one has their fields and no more.
    row = {"repo": "a/b", "repo_text": "x = 1\n" * 100, "question": "Which?\nA) x\nB) y", "correct_letter": "A"}
    (tmp_path / "out").mkdir()
    (tmp_path / "lcb.json").write_text(json.dumps([row, row]), encoding="utf-8")
    found = cook("LongCodeQA", tmp_path / "lcb.json", tmp_path / "out")
    assert (found.histories, found.turns, found.questions) == (2, 6, 2)


def test_there_is_a_recipe_for_each_that_was_promised():
    named = {"NarrativeQA", "SQuALITY", "QMSum", "MuSiQue", "2WikiMultihopQA", "RealMem", "BEAM", "LongCodeQA"}
    assert named <= set(recipes())
