"""Our modules and metrics fit dspy's own optimizers without anything else of ours."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("plain_dspy_script.py")


def code_lines() -> list[str]:
    lines = SCRIPT.read_text(encoding="utf-8").split('"""', 2)[2].splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def test_the_script_is_short():
    assert len(code_lines()) <= 25


def test_plain_dspy_optimizes_saves_and_loads(tmp_path):
    env = os.environ | {"PYTHONPATH": str(SCRIPT.parent), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-W", "error", str(SCRIPT), str(tmp_path / "state.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    reflections, answer = done.stdout.splitlines()[-2:]
    assert int(reflections.split()[1]) > 0 and answer == "31,000 euros"
    assert not (tmp_path / "stitchjam.toml").exists()
