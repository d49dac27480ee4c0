"""The front door: data on standard output, notes and one-line errors on standard error, documented exit codes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from jobs import oracle_lm, small_data
from oracle import Oracle
from typer.testing import CliRunner

from stitchjam import cli
from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.data import errors
from stitchjam.data.readers import write_questions, write_sessions
from stitchjam.data.sample import load_data
from stitchjam.optimizers.rows import read_report

TESTS = Path(__file__).parent
QUESTION = "At what time did the last ferry leave Ardle Island, which ended the idea of a birthday picnic there?"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Each test in an empty folder, with the hash seed that keeps `compile` from starting itself again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def script(monkeypatch):
    """Put a scripted model behind every command; returns a function that replaces its steps."""

    def replace(lm: Any = None, **steps: Any) -> Any:
        lm = lm or oracle_lm(load_data(), **steps)
        monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
        return lm

    return replace


@pytest.fixture
def small():
    """Options for a history with eight questions."""
    data = small_data()
    write_sessions(Path("h.jsonl"), data.store.history)
    write_questions(Path("q.jsonl"), data.questions, data.store.history)
    return ["--history", "h.jsonl", "--questions", "q.jsonl"]


def assert_one_line(err: str, *parts: str) -> None:
    [line] = [line for line in err.splitlines() if not line.startswith("plan")]
    assert line.startswith("error: ") and "Traceback" not in err
    for part in parts:
        assert part in line


# -- init


def test_init_writes_a_config_that_can_be_read(run):
    code, out, err = run("init")
    assert (code, out) == (0, "") and "wrote stitchjam.toml" in err
    assert "[roles]" in Path("stitchjam.toml").read_text()


def test_init_does_not_overwrite_unless_told(run):
    Path("stitchjam.toml").write_text("mine")
    code, _, err = run("init")
    assert code == 2 and Path("stitchjam.toml").read_text() == "mine"
    assert_one_line(err, "--force")
    assert run("init", "--force")[0] == 0 and Path("stitchjam.toml").read_text() != "mine"


def test_init_where_nothing_can_be_written_is_one_line(run):
    Path("stitchjam.toml").mkdir()
    code, _, err = run("init", "--force")
    assert code == 1
    assert_one_line(err, "stitchjam.toml")


# -- ask


def test_ask_prints_answer_and_cited_turn_and_usage_apart(run, script):
    script()
    code, out, err = run("ask", QUESTION)
    assert code == 0
    assert out.splitlines()[0] == "17:10" and out.splitlines()[1].startswith("  [s04t13]")
    assert "calls" in err and "calls" not in out


def test_ask_with_a_trace(run, script):
    script()
    _, out, _ = run("ask", QUESTION, "--trace")
    assert "round 1: browse c1" in out and "stopped: sufficient" in out


def test_ask_as_json_is_one_object(run, script):
    script()
    code, out, _ = run("ask", QUESTION, "--json")
    found = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1
    assert found["answer"]["text"] == "17:10" and found["usage"] and found["context"]["stop"] == "sufficient"


@pytest.mark.parametrize("program", ["answerer", "researcher", "memory_agent"])
def test_every_program_can_be_asked(run, script, program):
    script()
    assert run("ask", QUESTION, "--program", program)[1].startswith("17:10")


def test_text_of_a_memory_is_printed_as_it_is_but_for_terminal_commands(run, script):
    script(answer_question={"sources": [], "answer": "[red]a:x:b[/red] \x1b[31m"})
    _, out, _ = run("ask", QUESTION)
    assert out.splitlines()[0] == "[red]a:x:b[/red] ␛[31m"


# -- eval


def test_eval_scores_and_shows_a_row_a_question(run, script, small):
    script()
    code, out, err = run("eval", *small)
    assert code == 0 and "answer_f1 0.500 (95 % interval 0.000 to 1.000) on 4 questions; answered 100%" in out
    assert err.count("eval ") == 4


def test_eval_as_json_is_one_object(run, script, small):
    script()
    code, out, err = run("eval", *small, "--json")
    found = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1 and err
    assert (found["score"], found["n"], found["coverage"]) == (0.5, 4, 1.0)


def test_eval_limit_and_split(run, script):
    lm = script()
    found = json.loads(run("eval", "--limit", "3", "--split", "train", "--json")[1])
    assert found["n"] == len(lm.engine.calls) == 3


def test_eval_writes_rows_into_new_folders(run, script, small):
    script()
    assert run("eval", *small, "--out", "new/rows.jsonl")[0] == 0
    assert [row.id for row in read_report(Path("new/rows.jsonl")).rows] == ["q25", "q26", "q27", "q28"]


def test_rows_that_cannot_be_written_are_said_before_a_model_is_asked(run, script, small):
    lm = script()
    Path("file").touch()
    code, _, err = run("eval", *small, "--out", "file/rows.jsonl")
    assert code == 2 and "Traceback" not in err and "cannot be written" in err.splitlines()[-1]
    assert lm.engine.calls == []


def test_eval_again_asks_nothing_twice(run, script, small):
    lm = script()
    first = json.loads(run("eval", *small, "--json")[1])
    code, out, err = run("eval", *small, "--json")
    assert code == 0 and len(lm.engine.calls) == 4 and "holds 4 of 4 rows; to do: 0" in err
    assert json.loads(out) == first | {"usage": []}


def test_replies_are_kept_apart_from_rows(run, script, small):
    lm = script()
    run("eval", *small, "--out", "one.jsonl")
    found = json.loads(run("eval", *small, "--out", "two.jsonl", "--json")[1])
    assert len(lm.engine.calls) == 4 and [row["cache_hits"] for row in found["usage"]] == [4]


def test_eval_in_threads(run, script, small):
    script()
    found = json.loads(run("eval", *small, "--threads", "4", "--json")[1])
    assert found["score"] == 0.5


# -- compile and artifact


def test_compile_then_show_check_and_use(run, script, small):
    script()
    code, out, err = run("compile", *small, "--demos", "2")
    assert code == 0 and "seed 0.500 -> compiled 1.000" in out and "artifacts/answerer: published" in out
    assert err.splitlines()[0].split() == ["plan", "1/2", "q01"] and "plan: at most 12 program runs" in err
    assert "2 demos from q01, q03" in run("artifact", "show", "artifacts/answerer")[1]
    assert run("artifact", "check", "artifacts/answerer")[:2] == (0, "artifacts/answerer: fine\n")
    found = json.loads(run("eval", *small, "--program", "artifacts/answerer", "--json")[1])
    assert found["score"] == 1.0


def test_compile_as_json_is_one_object(run, script, small):
    script()
    code, out, _ = run("compile", *small, "--out", "mine", "--json")
    found = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1
    assert found["published"] and found["artifact"] == "mine" and found["scores"]["held_out"]["gain"] == 0.5
    assert json.loads(run("artifact", "show", "mine", "--json")[1])["published"]


def test_compile_of_the_memory_agent(run, script, small):
    script()
    code, out, _ = run("compile", *small, "--program", "memory_agent", "--metric", "end", "--threads", "4")
    assert code == 0 and "published" in out


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_plan_alone_writes_no_artifact(run, script, small, as_json):
    lm = script()
    code, out, _ = run("compile", *small, "--plan", *as_json)
    assert code == 0 and len(out.splitlines()) == 1 and not Path("artifacts").joinpath("answerer").exists()
    assert json.loads(out)["calls"] == 12 if as_json else out.startswith("plan: at most 12")
    assert len(lm.engine.calls) == 2


def test_a_refused_compile_prints_its_figures_and_exits_5(run, script, small):
    script(Oracle(load_data(), always_right=True).lm())
    code, out, err = run("compile", *small, "--json")
    assert code == 5 and json.loads(out)["published"] is False
    assert err.splitlines()[-1].startswith("error: not published: no gain")
    assert "not published: no gain" in run("artifact", "show", "artifacts/answerer")[1]


def test_a_spent_budget_exits_6_and_the_same_command_goes_on(run, script, small):
    lm = script()
    code, out, err = run("compile", *small, "--calls", "5")
    assert (code, out, len(lm.engine.calls)) == (6, "", 5) and not Path("artifacts/answerer").exists()
    assert err.splitlines()[-1] == "error: stopped (calls): 5 of 5 calls used. Raise the budget to go on"
    assert run("compile", *small)[0] == 0


# -- every error is one line and an exit code


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["ask", "x"], 2, "stitchjam init"),
        (["eval"], 2, "stitchjam init"),
        (
            ["ask", "x", "--program", "oracle"],
            2,
            "none of answer_judge, answerer, candidate_judge, intent_recall",
        ),
        (["eval", "--metric", "f2"], 2, "unknown metric 'f2'"),
        (["eval", "--metric", "end"], 2, "it scores: memory_agent"),
        (["compile", "--metric", "end"], 2, "it scores: memory_agent"),
        (["compile", "--recipe", "gepa"], 2, "unknown recipe 'gepa'"),
        (["eval", "--split", "test"], 2, "use one of all, held_out, train"),
        (["eval", "--questions", "q.jsonl"], 2, "questions need their history"),
        (["ask", "x", "--history", "none.jsonl"], 2, "none.jsonl"),
        (["ask", "x", "--history", "empty.jsonl"], 3, "empty.jsonl"),
        (["ask", "x", "--history", "garbage.jsonl"], 3, "garbage.jsonl"),
        (["ask", "x", "--history", "binary.jsonl"], 3, "binary.jsonl"),
        (["artifact", "show", "nowhere"], 3, "stitchjam compile"),
        (["artifact", "check", "."], 3, "manifest.json"),
        (["models", "check"], 2, "stitchjam init"),
        (["models", "pull", "gpt-9"], 2, "gpt-9"),
    ],
)
def test_what_the_caller_or_the_data_did_wrong_is_one_line(run, arguments, code, part):
    Path("empty.jsonl").touch()
    Path("garbage.jsonl").write_text("{")
    Path("binary.jsonl").write_bytes(b"\xff\xfe\x00")
    found, out, err = run(*arguments)
    assert (found, out) == (code, "")
    assert_one_line(err, part)


@pytest.mark.parametrize("command", ["eval", "compile"])
def test_a_history_without_questions_is_one_line(run, script, small, command):
    script()
    code, _, err = run(command, *small[:2])
    assert code == 2
    assert_one_line(err, "questions")


@pytest.mark.parametrize("place", ["file/out", "file", "taken"])
def test_an_output_folder_that_cannot_be_used_is_one_line_before_any_call(run, script, small, place):
    lm = script()
    Path("file").touch()
    Path("taken").mkdir()
    Path("taken/thesis.txt").touch()
    code, _, err = run("compile", *small, "--out", place)
    assert code == 2 and lm.engine.calls == []
    assert_one_line(err, "choose another --out")


def test_a_run_folder_that_cannot_be_used_is_one_line(run, script, small):
    script()
    Path("file").touch()
    code, _, err = run("compile", *small, "--runs", "file/runs")
    assert code == 1
    assert_one_line(err, "file/runs")


def test_an_answer_that_cannot_be_used_exits_4(run, script):
    script(plan_first="no json", browse_source="no json")
    code, _, err = run("ask", "x")
    assert code == 4
    assert_one_line(err, "plan_first")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.StitchjamError("x"), 1),
        (errors.UsageError("x"), 2),
        (errors.MissingExtra("p", "e", "this"), 2),
        (errors.DataError("x"), 3),
        (errors.ArtifactError("x"), 3),
        (errors.BackendError("x"), 4),
        (errors.ModelOutputError("s", "r"), 4),
        (errors.PublishRefused(("x",)), 5),
        (errors.BudgetStop("calls", "x"), 6),
        (OSError(28, "No space left on device"), 1),
    ],
)
def test_every_class_of_error_has_its_exit_code(run, monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(bindings_module, "open_bindings", fail)
    found, out, err = run("ask", "x")
    assert (found, out) == (code, "")
    assert_one_line(err)


def test_the_exit_codes_are_in_the_help(run):
    out = " ".join(run("--help")[1].split())
    for part in ("0 done", "2 wrong usage", "3 wrong data", "4 model", "5 compiled but not published", "130 interrupt"):
        assert part in out


@pytest.mark.parametrize("arguments", [["--debug", "ask", "x"], ["ask", "x", "--debug"], ["ask", "--debug", "x"]])
def test_debug_shows_the_traceback_wherever_it_stands_and_keeps_the_code(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2 and "Traceback" in err and err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [["ask"], ["ask", "x", "--wrong"], ["dance"], ["eval", "--limit", "0"], ["compile", "--demos", "99"],
     ["ask", "x", "--effort", "huge"]],
)  # fmt: skip
def test_a_wrong_command_line_exits_2(arguments):
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2 and done.stdout == "" and "Traceback" not in done.stderr


def test_no_command_shows_the_help():
    assert "compile" in CliRunner().invoke(cli.app, []).output


# -- processes of their own


def stitchjam(*arguments: str, code: str = "") -> subprocess.Popen[str]:
    """A process with the command line; `code` runs first."""
    start = f"import sys; sys.argv[0] = 'stitchjam'\n{textwrap.dedent(code)}\nfrom stitchjam import cli\ncli.main()"
    env = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(TESTS), "COLUMNS": "100"}
    command = [sys.executable, "-c", start, *arguments]
    return subprocess.Popen(command, text=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_help_imports_neither_dspy_nor_litellm():
    code = """
        import atexit
        heavy = {"dspy", "litellm", "numpy", "pydantic", "openai"}
        atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))
    """
    process = stitchjam("--help", code=code)
    out, err = process.communicate(timeout=60)
    assert "compile" in out and err.strip() == "[]"


SCRIPTED = """
    import signal
    import time
    from pathlib import Path
    from jobs import oracle_lm
    from oracle import Oracle
    from stitchjam.backends import bindings
    from stitchjam.data.sample import load_data

    # A shell that runs the tests in the background has them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    oracle = Oracle(load_data())
    def answer(call):
        time.sleep(SECONDS)
        return oracle.answer(call)
    lm = oracle_lm(load_data(), answer_question=answer)
    bindings.open_bindings = lambda *_: bindings.Bindings({"task": lm})
"""


@pytest.mark.parametrize(("command", "threads"), [("compile", "1"), ("eval", "4")])
def test_an_interrupt_says_that_the_same_command_goes_on(command, threads):
    process = stitchjam(command, "--threads", threads, code=SCRIPTED.replace("SECONDS", "0.3"))
    assert process.stderr
    lines = [process.stderr.readline(), process.stderr.readline()]  # it is in the middle of the run
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err, (lines, err)
    # Other threads may still finish a line after it.
    assert "stopped; replies so far are kept, and the same command goes on from here" in err.splitlines()
    assert not Path("artifacts/answerer").exists()


def test_an_interrupt_before_any_work_ends_with_130_too():
    code = """
    from stitchjam.data import sample
    def load_data(*_, **__):
        raise KeyboardInterrupt
    sample.load_data = load_data
    """
    process = stitchjam("ask", "Who?", code=code)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err and "stopped" in err, err


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_reader_that_goes_away_causes_no_traceback(as_json):
    process = stitchjam("eval", "--split", "all", *as_json, code=SCRIPTED.replace("SECONDS", "0"))
    assert process.stdout and process.stderr
    process.stdout.close()
    err = process.stderr.read()
    process.wait(60)
    process.stderr.close()
    assert [line for line in err.splitlines() if not line.startswith("eval ")] == []


def test_the_command_starts_itself_again_when_the_hash_seed_is_not_fixed():
    code = SCRIPTED.replace("SECONDS", "0") + "\n    import os; print('seed', os.environ.get('PYTHONHASHSEED'))"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"} | {"PYTHONPATH": str(TESTS)}
    start = f"import sys\n{textwrap.dedent(code)}\nfrom stitchjam import cli\ncli.main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "compile", "--plan", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("seed")][-1] == "seed 0"
