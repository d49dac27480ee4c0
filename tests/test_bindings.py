"""stitchjam.toml: what it may say, what it must not hold, and what is said about mistakes."""

import copy
import re
from typing import Any

import dspy
import pytest
from loopback import serving

from stitchjam.backends import models
from stitchjam.backends.bindings import EXAMPLE, Bindings, ModelConfig, bind_model, open_bindings, read_config
from stitchjam.backends.engine import make_lm
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import BackendError, UsageError
from stitchjam.programs.step import Step, settings_for
from stitchjam.signatures.answer import AnswerQuestion
from stitchjam.signatures.jam import BrowseSource

SECRET = "sk-never-show-me-0123456789"


@pytest.fixture(autouse=True)
def _homes(monkeypatch, tmp_path):
    monkeypatch.setenv("STITCHJAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STITCHJAM_MODELS", str(tmp_path / "models"))


@pytest.fixture
def write(tmp_path):
    def write(text):
        file = tmp_path / "stitchjam.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


ONE = '[models.a]\nmodel = "openai/m"\napi_base = "http://127.0.0.1:9/v1"\n'
TASK = '[roles]\ntask = "a"\n'


def mistake(file):
    with pytest.raises(UsageError) as caught:
        read_config(file)
    assert SECRET not in str(caught.value) and str(file) in str(caught.value)
    return str(caught.value)


def test_the_example_of_init_is_read_before_its_model_is_there(write):
    bindings = read_config(write(EXAMPLE))
    (endpoint,) = bindings.endpoints
    assert endpoint.alias == "local" and endpoint.structure == "json_schema"


def test_a_known_model_that_is_not_there_says_how_to_pull_it_when_first_called(write):
    with settings_for(read_config(write(EXAMPLE))), pytest.raises(UsageError, match="models pull smollm2-135m"):
        Step(AnswerQuestion)(context="c", question="q")


def test_a_model_file_that_is_not_there_is_named_at_once(write, tmp_path):
    text = f'[models.a]\nmodel = "local:{(tmp_path / "no.gguf").as_posix()}"\n' + TASK
    with pytest.raises(UsageError, match=r"there is no file .*no\.gguf"):
        read_config(write(text))


def test_the_commented_models_of_the_example_are_right_too(write):
    text = re.sub(r'^# (?=\[|\w+ = ")', "", EXAMPLE, flags=re.MULTILINE)
    text = text.replace("local:path/to/model.gguf", "local:smollm2-135m")
    bindings = read_config(write(text))
    assert bindings.lm("browse_source").model.startswith("local@") and "[models.vllm]" in text.splitlines()


def test_steps_go_to_their_own_model_and_so_does_a_role_without_one(write):
    two = ONE.replace("models.a", "models.b").replace("/m", "/n")
    bindings = read_config(write(ONE + two + TASK + 'judge = "b"\n[steps]\nbrowse_source = "b"\n'))
    assert bindings.lm("answer_question").model.startswith("a@") and bindings.lm("browse_source").model.startswith("b@")
    assert bindings.as_role("judge").lm("answer_question").model.startswith("b@")
    assert bindings.as_role("teacher").lm("browse_source").model.startswith("b@")
    assert bindings.as_role("teacher").lm("answer_question").model.startswith("a@")
    assert [endpoint.alias for endpoint in bindings.endpoints] == ["a", "b"]


def test_calls_really_go_where_they_are_bound(write):
    with serving({"sources": [], "answer": "x"}) as one, serving({"lines": []}) as two:
        text = "".join(
            f'[models.{n}]\nmodel = "openai/{n}"\napi_base = "{s.base}"\n' for n, s in (("a", one), ("b", two))
        )
        with settings_for(read_config(write(text + TASK + '[steps]\nbrowse_source = "b"\n'))):
            Step(AnswerQuestion)(context="c", question="q")
            Step(BrowseSource)(source="s", request="r")
    assert [seen.body["model"] for seen in one.seen + two.seen] == ["a", "b"]


def test_describe_holds_neither_address_nor_key(write):
    text = ONE.replace("127.0.0.1:9", "internal.example") + 'api_key_env = "MY_KEY"\n' + TASK
    described = read_config(write(text)).describe()
    assert set(described) == {"role:task"} and "internal" not in str(described) and "MY_KEY" not in str(described)


def test_unknown_tables_of_models_that_nothing_uses_are_not_opened(write):
    assert read_config(write(ONE + '[models.b]\nmodel = "local:not-there"\n' + TASK)).endpoints[0].alias == "a"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (ONE + '[roles]\ntask = "a"\ntaecher = "a"\n', "unknown role 'taecher'; did you mean 'teacher'?"),
        (ONE + TASK + '[steps]\nbrowse_sorce = "a"\n', "unknown step 'browse_sorce'; did you mean 'browse_source'?"),
        (ONE.replace("models.a", "models.api") + '[roles]\ntask = "apo"\n', "unknown model 'apo'; did you mean 'api'?"),
        (ONE + '[roles]\njudge = "a"\n', 'task = "a"'),
        (ONE, "roles: Field required"),
        ("", "models: Field required"),
        ("# nothing\n", "stitchjam init"),
        ("[models]\n" + TASK, "models"),
        ("models = 3\n" + TASK, "models"),
        (ONE + "[roles]\ntask = 5\n", "roles.task"),
        ("roles = 3\n" + ONE, "roles"),
        (ONE + "timeout = 0\n" + TASK, "models.a.timeout"),
        (ONE + 'structure = "xml"\n' + TASK, "models.a.structure"),
        (ONE + "modle = 3\n" + TASK, "models.a.modle"),
        ("[models.a\n", "not valid TOML"),
        (b"\xff\xfe[\x00", "not valid TOML"),
        ('[models.a]\nmodel = "openai/caf\xe9"\n'.encode("latin-1"), "not valid TOML"),
    ],
)
def test_mistakes_are_named_with_file_and_place(write, text, hint):
    assert hint in mistake(write(text))


def test_a_byte_order_mark_is_no_mistake(write):
    assert read_config(write(b"\xef\xbb\xbf" + (ONE + TASK).encode())).endpoints[0].alias == "a"


def test_a_missing_file_says_what_to_run(tmp_path):
    assert "stitchjam init" in mistake(tmp_path / "stitchjam.toml")


def test_a_folder_is_no_config_file(tmp_path):
    assert "cannot be read" in mistake(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        ONE + f'api_key = "{SECRET}"\n' + TASK,
        ONE + f'API_KEY = "{SECRET}"\n' + TASK,
        ONE + f'token = "{SECRET}"\n' + TASK,
        ONE + f'headers = {{ X = "{SECRET}" }}\n' + TASK,
        ONE + f'extra_headers = {{ Authorization = "Bearer {SECRET}" }}\n' + TASK,
        ONE + f'extra = {{ authorization = "Bearer {SECRET}" }}\n' + TASK,
        ONE + f'[models.a.extra_headers]\nX = "{SECRET}"\n' + TASK,
        ONE + f'extra = [{{ authorization = "{SECRET}" }}]\n' + TASK,
        f'api_key = "{SECRET}"\n' + ONE + TASK,
        f'[headers]\nX = "{SECRET}"\n' + ONE + TASK,
        f'[models]\napi_key = "{SECRET}"\n' + ONE + TASK,
        ONE + TASK + f'token = "{SECRET}"\n',
        ONE + TASK + f'[steps]\npassword = "{SECRET}"\n',
        ONE + f'api_key_env = "{SECRET}"\n' + TASK,
        ONE.replace("//", f"//user:{SECRET}@") + TASK,
        ONE.replace("/v1", f"/v1?api_key={SECRET}") + TASK,
        ONE + f'api_key = "{SECRET}\n' + TASK,
    ],
)
def test_a_secret_anywhere_is_refused_and_not_repeated(write, text):
    mistake(write(text))


def test_a_key_given_as_the_name_of_a_variable_is_refused():
    with pytest.raises(ValueError, match="in capitals"):
        ModelConfig(model="openai/m", api_key_env="gsk_abcdef0123456789")


@pytest.mark.parametrize("name", ["token", "key", "secret"])
def test_a_model_may_be_called_anything(write, name):
    assert read_config(write((ONE + TASK).replace("models.a", f"models.{name}").replace('"a"', f'"{name}"')))


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "azure/o3", "openrouter/openai/gpt-5.1"])
def test_sampling_defaults_are_dropped_for_reasoning_models_and_settings_kept(model):
    plain, chosen = ModelConfig(model=model), ModelConfig(model=model, temperature=1.0, max_tokens=20000)
    assert (plain.endpoint("m").temperature, plain.endpoint("m").max_tokens) == (None, None)
    assert (chosen.endpoint("m").temperature, chosen.endpoint("m").max_tokens) == (1.0, 20000)
    make_lm(plain.endpoint("gpt-5-mini"))


def test_sampling_can_be_left_to_the_provider():
    where = ModelConfig(model="openai/m", temperature="default", max_tokens="default").endpoint("m")
    assert (where.temperature, where.max_tokens) == (None, None)


@pytest.mark.parametrize("model", ["openai/gpt-4.1-mini", "openai/gpt-5-chat-latest", "ollama_chat/qwen3:4b"])
def test_other_models_keep_the_defaults(model):
    assert ModelConfig(model=model).endpoint("m").temperature == 0.0


def test_one_model_on_the_command_line_answers_everything():
    bindings = bind_model("ollama_chat/qwen3:4b")
    assert bindings.lm("answer_question") is bindings.as_role("judge").lm("plan_next")
    assert bindings.endpoints[0].alias == "qwen3:4b"


def test_a_local_model_is_only_started_when_called(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf").write_bytes(b"GGUF....")
    with serving({"sources": [], "answer": "x"}) as server:
        started = []
        monkeypatch.setattr("stitchjam.backends.local.serve", lambda *a, **k: started.append((a, k)) or server.base)
        bindings = bind_model("local:tiny")
        assert started == []
        with settings_for(bindings):
            Step(AnswerQuestion)(context="c", question="q")
    assert started[0] == ((models.models_dir() / "tiny.gguf",), {"n_ctx": 8192})
    assert server.seen[0].body["model"] == "tiny"


def test_a_model_wins_over_the_file(tmp_path):
    assert open_bindings(tmp_path / "none.toml", "openai/m").endpoints[0].alias == "m"


def test_an_unknown_endpoint_is_probed_once_and_remembered(write):
    said = []
    with serving({"colour": "green", "reasons": ["calm"]}) as server:
        file = write(ONE.replace("http://127.0.0.1:9/v1", server.base) + TASK)
        assert open_bindings(file, say=said.append).endpoints[0].structure == "json_schema"
        calls = len(server.seen)
        open_bindings(file, say=said.append)
    assert calls == len(server.seen) == 1 and len(said) == 1


def test_a_dead_endpoint_is_found_out_before_the_work_begins(write):
    with pytest.raises(BackendError, match="'a'.*Check address"):
        open_bindings(write(ONE + "retries = 0\n" + TASK), say=lambda line: None)


def test_bindings_need_a_task_model():
    with pytest.raises(UsageError, match="task"):
        Bindings({"judge": scripted_lm({})})


def test_bindings_are_shared_by_copies_and_know_plain_models():
    class Own(dspy.BaseLM):
        def __init__(self):
            self.model = "own"

    own: Any = Own()
    bindings = Bindings({"task": scripted_lm({}), "judge": own, "teacher": dspy.LM("openai/gpt-4.1-mini")})
    assert copy.deepcopy(bindings) is bindings
    assert [endpoint.alias for endpoint in bindings.endpoints] == ["scripted"]
    assert bindings.describe()["role:teacher"] == "openai/gpt-4.1-mini"


def test_another_rollout_asks_the_same_models_anew_and_leaves_the_judge():
    task, judge = scripted_lm({}, "task"), scripted_lm({}, "judge")
    with pytest.raises(UsageError, match="at temperature 0 a model replies the same in every rollout"):
        Bindings({"task": task, "judge": judge}).rollout(3)
    task.kwargs["temperature"] = 0.7
    found = Bindings({"task": task, "judge": judge}, {"plan_next": task, "judge_answer": judge}).rollout(3)
    assert [found.lm(step).kwargs.get("rollout_id") for step in ("answer_question", "plan_next")] == [3, 3]
    assert [found.lm(step).kwargs.get("rollout_id") for step in ("judge_answer", "match_candidates")] == [None, None]
    assert found.lm("plan_next").engine is task.engine and "rollout_id" not in task.kwargs
    alone = Bindings({"task": task}).rollout(3)
    assert alone.lm("judge_answer").kwargs.get("rollout_id") is None
