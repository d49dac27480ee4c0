"""The same compile gives the same bytes in every process, and the command line fixes the hash seed for that."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stitchjam.cli import shared

TESTS = Path(__file__).parent
FILES = ("program.json", "manifest.json", "prompts.md")
SCRIPT = """
    import sys
    from pathlib import Path
    from jobs import make_job, oracle_lm, small_data
    from stitchjam.optimizers.compile import compile_program

    folder, program, metric, threads = sys.argv[1:]
    data = small_data()
    # A round of the agent browses several sessions, and dspy keeps the call of one of them, chosen by a hash.
    compile_program(make_job(Path(folder), data, oracle_lm(data), program, metric, int(threads)))
"""


def compile_in_new_process(folder: Path, program: str, metric: str, threads: int) -> subprocess.Popen:
    folder.mkdir()
    env = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(TESTS)}
    arguments = [str(folder), program, metric, str(threads)]
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments], env=env, cwd=folder)


@pytest.mark.parametrize(("program", "metric"), [("answerer", "answer_f1"), ("memory_agent", "end")])
def test_two_processes_and_one_or_four_threads_give_the_same_bytes(tmp_path, program, metric):
    threads = {"a": 1, "b": 1, "c": 4}
    started = [compile_in_new_process(tmp_path / name, program, metric, n) for name, n in threads.items()]
    assert [process.wait(120) for process in started] == [0, 0, 0]
    for file in FILES:
        first, *others = [(tmp_path / name / "out" / file).read_bytes() for name in threads]
        assert others == [first, first], file


@pytest.mark.parametrize("seed", [None, "random", "1"])
def test_the_command_starts_itself_again_with_a_fixed_hash_seed(monkeypatch, seed):
    started = []
    monkeypatch.setattr(os, "execve", lambda *call: started.append(call))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "stitchjam.cli", "compile"])
    shared.fix_hash_seed()
    [(executable, argv, env)] = started
    assert executable == sys.executable and argv == [sys.executable, "-m", "stitchjam.cli", "compile"]
    assert env["PYTHONHASHSEED"] == "0" and env["PATH"] == os.environ["PATH"]


def test_with_a_fixed_hash_seed_it_goes_on(monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *call: pytest.fail("started again"))
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    shared.fix_hash_seed()
