"""A probe finds out what a server really honours, keeps it, and says clearly when nothing works."""

import json
from types import SimpleNamespace

import pytest
from loopback import Reply, dead_base, refusal, serving

from stitchjam.backends.bindings import bind_model, read_config
from stitchjam.backends.engine import Endpoint
from stitchjam.backends.models import stitchjam_home
from stitchjam.backends.probe import known_structure, probe, probe_structure
from stitchjam.data.errors import BackendError, UsageError

GOOD = {"colour": "green", "reasons": ["calm"]}
FORMS = ["json_schema", "json_object", "text"]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("STITCHJAM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda seconds: None))
    return tmp_path / "home"


def endpoint(base, **options):
    return Endpoint(**{"alias": "m", "model": "openai/m", "api_base": base, "retries": 1} | options)


def form(body):
    return (body.get("response_format") or {}).get("type", "text")


def honours(weakest, otherwise):
    """A server that answers well in `weakest` form and below, and as `otherwise` above."""
    return lambda body: GOOD if FORMS.index(form(body)) >= FORMS.index(weakest) else otherwise


BAD = {
    "ignores the format": "Green, I think.",
    "refuses the format": refusal(400, "response_format is not supported"),
    "does not know the format": refusal(422, "unknown field response_format"),
    "falls over the format": refusal(500, "grammar"),
    "cuts the answer": Reply('{"colour": "green", "rea', finish="length"),
    "answers nothing": Reply(None),
    "answers another object": {"color": "green"},
}


@pytest.mark.parametrize("weakest", FORMS)
@pytest.mark.parametrize("bad", BAD)
def test_the_strictest_form_that_works_is_found_and_kept(weakest, bad):
    with serving(honours(weakest, BAD[bad])) as server:
        where = endpoint(server.base, retries=0)
        assert probe_structure(where) == weakest
    assert known_structure(where) == weakest
    assert [seen.format for seen in server.seen] == FORMS[: FORMS.index(weakest) + 1]


@pytest.mark.parametrize("garbage", ["I cannot do that.", "{}", {"colour": "blue", "reasons": []}, "[" * 9000])
def test_garbage_in_every_form_is_no_structure_and_nothing_is_kept(garbage):
    with serving(garbage) as server:
        assert probe_structure(endpoint(server.base)) is None
        assert "choose another model" in probe(endpoint(server.base)).note
    assert known_structure(endpoint(server.base)) is None


@pytest.mark.parametrize("answer", [refusal(401, "bad key"), refusal(404, "no such model"), refusal(429)], ids=repr)
def test_a_refusal_that_is_not_about_the_format_ends_the_probe(answer):
    with serving(answer) as server, pytest.raises(BackendError, match="model 'm': .*Check address, model name and key"):
        probe_structure(endpoint(server.base, retries=0))
    assert len(server.seen) == 1 and known_structure(endpoint(server.base)) is None


def test_a_server_that_refuses_everything_is_an_error_not_a_finding():
    with serving(refusal(400, "model is loading")) as server, pytest.raises(BackendError, match="model is loading"):
        probe_structure(endpoint(server.base))


def test_a_dead_endpoint_is_an_error_with_few_attempts():
    with pytest.raises(BackendError, match="onnection") as caught:
        probe_structure(endpoint(dead_base(), retries=2))
    assert "\n" not in str(caught.value)


def test_a_model_string_without_provider_is_an_error():
    with pytest.raises(BackendError, match="LLM Provider NOT provided"):
        probe_structure(Endpoint(alias="m", model="no-such-model", retries=0))


def test_a_missing_key_is_wrong_usage(monkeypatch):
    monkeypatch.delenv("STITCHJAM_TEST_KEY", raising=False)
    with serving(GOOD) as server, pytest.raises(UsageError, match="export STITCHJAM_TEST_KEY="):
        probe_structure(endpoint(server.base, api_key_env="STITCHJAM_TEST_KEY"))


def test_what_was_found_is_used_by_the_config(tmp_path):
    with serving(honours("json_object", "no")) as server:
        file = tmp_path / "stitchjam.toml"
        file.write_text(f'[models.m]\nmodel = "openai/m"\napi_base = "{server.base}"\n[roles]\ntask = "m"\n')
        assert read_config(file).endpoints[0].structure == "json_schema"
        probe_structure(read_config(file).endpoints[0])
        assert read_config(file).endpoints[0].structure == "json_object"
        file.write_text(file.read_text().replace("[roles]", 'structure = "text"\n[roles]'))
        assert read_config(file).endpoints[0].structure == "text"  # what the file says wins


def test_each_endpoint_has_its_own_finding():
    with serving(GOOD) as one, serving(honours("text", "no")) as two:
        probe_structure(endpoint(one.base))
        probe_structure(endpoint(two.base))
        assert [known_structure(endpoint(server.base)) for server in (one, two)] == ["json_schema", "text"]


@pytest.mark.parametrize("broken", ["", "{", "[]", '"x"', "\x00", '{"%s": "xml"}', '{"%s": []}'])
def test_a_broken_file_of_findings_is_ignored_and_written_anew(home, broken):
    with serving(GOOD) as server:
        where = endpoint(server.base, structure="text")
        home.mkdir()
        (home / "probes.json").write_text(broken.replace("%s", where.name))
        assert known_structure(where) is None
        assert probe_structure(where) == known_structure(where) == "json_schema"
    assert [file.name for file in home.iterdir()] == ["probes.json"]


def test_a_home_that_cannot_be_written_does_not_stop_the_probe(home):
    home.write_text("a file")
    with serving(GOOD) as server:
        assert probe_structure(endpoint(server.base)) == "json_schema"
        assert known_structure(endpoint(server.base)) is None


def test_the_home_can_be_chosen(home, monkeypatch):
    assert stitchjam_home() == home
    monkeypatch.delenv("STITCHJAM_HOME")
    assert stitchjam_home().name == "stitchjam"


LLAMA = {"/props": {"default_generation_settings": {"n_ctx": 4096}}}
VLLM = {"/v1/models": {"object": "list", "data": [{"id": "m", "max_model_len": 8192}]}}
PLAIN = {"/v1/models": {"object": "list", "data": [{"id": "m"}]}}
ODD = ["<html>", [], {"data": {}}, {"data": []}, {"data": ["m"]}, {"default_generation_settings": 3}, "", {}]


@pytest.mark.parametrize(("pages", "tokens"), [(LLAMA, 4096), (VLLM, 8192), (PLAIN, 0), ({}, 0)])
def test_the_context_is_what_the_server_says(pages, tokens):
    with serving(GOOD, pages) as server:
        assert probe(endpoint(server.base)).context == tokens
        assert probe(endpoint(server.base + "/")).context == tokens


@pytest.mark.parametrize("page", ODD, ids=json.dumps)
def test_odd_pages_are_passed_over(page):
    with serving(GOOD, {"/props": page, "/v1/models": page}) as server:
        assert probe(endpoint(server.base)).context == 0


def test_the_context_of_a_known_model_comes_from_litellm():
    with serving(GOOD) as server:
        assert probe(endpoint(server.base, model="openai/gpt-4.1-mini")).context > 100_000


def test_a_probe_tells_what_it_does_and_measures_speed():
    said = []
    with serving(GOOD) as server:
        found = probe(endpoint(server.base, temperature=0.0), said.append)
    assert said == ["probing 'm'"] and (found.alias, found.structure, found.note) == ("m", "json_schema", "")
    assert found.prompt_tokens_a_second > 0 and found.output_tokens_a_second > 0
    assert [seen.body["max_tokens"] for seen in server.seen] == [600, 1, 48]


def test_a_model_of_ours_is_not_probed_by_bindings(monkeypatch, tmp_path):
    monkeypatch.setenv("STITCHJAM_MODELS", str(tmp_path))
    bindings = bind_model("local:smollm2-135m", find=lambda endpoint: pytest.fail("probed"))
    assert bindings.endpoints[0].structure == "json_schema"
