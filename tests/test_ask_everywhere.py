"""The same `ask` on every kind of backend: it answers with citations or fails with the step named, never silently.

The same on a local GGUF file stands in test_real_model.py.
"""

import json
import sys

import pytest
from loopback import Reply, refusal, serving
from oracle import Oracle

from stitchjam import cli
from stitchjam.backends import bindings as bindings_module
from stitchjam.backends.bindings import Bindings
from stitchjam.backends.scripted import ScriptedCall
from stitchjam.data.sample import load_data
from stitchjam.signatures import STEPS

PROBE = {"colour": "green", "reasons": ["quiet"]}
PROGRAMS = ["answerer", "memory_agent"]


@pytest.fixture(scope="module")
def data():
    return load_data()


@pytest.fixture
def ask(data, tmp_path, monkeypatch, capsys):
    """Run `stitchjam ask` on the sample; returns exit code, the JSON object on standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STITCHJAM_HOME", str(tmp_path))

    def run(program: str, *arguments: str) -> tuple[int, dict, str]:
        question = data.questions[0].text
        monkeypatch.setattr(sys, "argv", ["stitchjam", "ask", question, "--program", program, "--json", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return int(stopped.value.code or 0), json.loads(shown.out or "{}"), shown.err

    return run


def answered(data, body: dict) -> dict:
    """What a good model would say to a request, whichever step it is."""
    system, *rest = [message["content"] for message in body["messages"]]
    for step, signature in STEPS.items():
        if system.startswith(signature.instructions.split("\n")[0]):
            return Oracle(data, always_right=True).scripts()[step](ScriptedCall(step, system, tuple(rest)))
    return PROBE


def assert_right(data, result: tuple[int, dict, str]) -> None:
    code, found, err = result
    assert code == 0, err
    assert found["answer"]["text"] == data.questions[0].answer
    cited = {span["turn_id"] for claim in found["answer"]["claims"] for span in claim["spans"]}
    assert cited == set(data.questions[0].evidence)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_scripted_engine(ask, data, monkeypatch, program):
    lm = Oracle(data, always_right=True).lm()
    monkeypatch.setattr(bindings_module, "open_bindings", lambda *_: Bindings({"task": lm}))
    assert_right(data, ask(program))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_openai_compatible_server_from_a_config_file(ask, data, tmp_path, program):
    with serving(lambda body: answered(data, body)) as server:
        config = f'[models.mine]\nmodel = "openai/m"\napi_base = "{server.base}"\n[roles]\ntask = "mine"\n'
        (tmp_path / "stitchjam.toml").write_text(config)
        assert_right(data, ask(program))
        assert {seen.format for seen in server.seen} == {"json_schema"}


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses schemas", "ignores schemas"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_that_chats_around_its_json(ask, data, tmp_path, program, refuses):
    def chatty(body: dict):
        if refuses and body.get("response_format"):
            return refusal(400, "response_format is not supported")
        return f"Sure! Here you are:\n```json\n{json.dumps(answered(data, body))}\n```\nAnything else?"

    with serving(chatty) as server:
        config = f'[models.mine]\nmodel = "openai/m"\napi_base = "{server.base}"\n[roles]\ntask = "mine"\n'
        (tmp_path / "stitchjam.toml").write_text(config)
        assert_right(data, ask(program))


@pytest.mark.parametrize("program, step", [("answerer", "answer_question"), ("memory_agent", "plan_first")])
@pytest.mark.parametrize(
    "bad",
    ["", "I would rather not.", '{"sources": ["c1"], "answer": "31,0', "{}", Reply("{", finish="length"), Reply(None)],
    ids=["empty", "prose", "truncated", "no fields", "length", "null"],
)
def test_a_server_that_ignores_schemas_fails_with_the_step_named(ask, tmp_path, program, step, bad):
    with serving(bad) as server:
        config = f'[models.mine]\nmodel = "openai/m"\napi_base = "{server.base}"\nstructure = "json_schema"\n'
        (tmp_path / "stitchjam.toml").write_text(config + '[roles]\ntask = "mine"\n')
        code, found, err = ask(program)
    assert code == 4 and found == {}
    assert err.count("error: ") == 1 and step in err and "Traceback" not in err
