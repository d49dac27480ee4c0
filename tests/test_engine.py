"""One call through litellm: what goes out, what is counted, what is tried again, and where a key may appear."""

import copy
import logging
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from loopback import OUTPUT_TOKENS, PROMPT_TOKENS, Reply, dead_base, refusal, serving

from stitchjam.backends.engine import Endpoint, make_lm
from stitchjam.backends.usage import Budget, metered
from stitchjam.data.errors import BackendError, BudgetStop, DataError, ModelOutputError, UsageError
from stitchjam.programs.step import Step
from stitchjam.signatures.answer import AnswerQuestion

GOOD = {"sources": ["c1"], "answer": "a lantern"}
KEY = "sk-never-show-me-0123456789"


@pytest.fixture
def naps(monkeypatch):
    """Seconds that were waited, without waiting."""
    waited = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waited.append))
    return waited


def endpoint(server, **options):
    return Endpoint(**{"alias": "m", "model": "openai/m", "api_base": server.base, "retries": 0} | options)


def ask(where, question="What?", cache=False, budget=None, ledger=None):
    with dspy.context(lm=make_lm(where, cache=cache)), metered(ledger, budget) as ledger:
        return Step(AnswerQuestion)(context="c1 | a lantern", question=question).reply.answer, ledger.total()


def failure(where, kind, budget=None):
    with metered() as ledger, pytest.raises(kind) as caught:
        ask(where, budget=budget, ledger=ledger)
    return caught.value, ledger.total()


def test_what_goes_out():
    with serving(GOOD) as server:
        ask(endpoint(server, temperature=0.3, max_tokens=77))
    (seen,) = server.seen
    assert seen.path == "/v1/chat/completions" and seen.format == "json_schema"
    wanted = {"model": "m", "temperature": 0.3, "max_tokens": 77, "n": 1}
    assert {name: seen.body[name] for name in wanted} == wanted
    assert set(seen.body) == {*wanted, "messages", "response_format"}
    assert [message["role"] for message in seen.body["messages"]] == ["system", "user"]


def test_no_sampling_setting_goes_out_unless_it_is_set():
    with serving(GOOD) as server:
        ask(endpoint(server, temperature=None, max_tokens=None))
    assert not {"temperature", "max_tokens", "max_completion_tokens"} & set(server.seen[0].body)


def test_tokens_and_cost_are_recorded():
    with serving(GOOD) as server:
        _, known = ask(endpoint(server, model="openai/gpt-4.1-mini"))
        _, unknown = ask(endpoint(server))
    assert (known.calls, known.input_tokens, known.output_tokens) == (1, PROMPT_TOKENS, OUTPUT_TOKENS)
    assert known.cost > 0 and unknown.cost == 0 and known.seconds > 0 and known.failures == 0


def test_a_cached_reply_costs_nothing():
    with serving(GOOD) as server:
        ask(endpoint(server), cache=True)
        answer, usage = ask(endpoint(server), cache=True)
    assert answer == "a lantern" and usage.calls == usage.tokens == usage.cost == 0 and len(server.seen) == 1


def test_two_addresses_with_one_model_name_do_not_share_replies():
    with serving(GOOD) as one, serving(GOOD | {"answer": "other"}) as two:
        assert ask(endpoint(one), cache=True)[0] == "a lantern"
        assert ask(endpoint(two), cache=True)[0] == "other"


def test_the_name_follows_what_changes_replies_and_nothing_else():
    plain = Endpoint(alias="m", model="openai/m", api_base="http://127.0.0.1:1/v1")
    assert plain.name.startswith("m@")
    assert replace(plain, timeout=5, retries=0, api_key_env="KEY").name == plain.name
    changes = [{"api_base": "http://127.0.0.1:2/v1"}, {"model": "openai/n"}, {"structure": "text"}]
    assert len({plain.name, *(replace(plain, **change).name for change in changes)}) == 4


def test_a_model_we_serve_keeps_its_name_whatever_the_port():
    with serving(GOOD) as one, serving(GOOD) as two:
        local = [
            Endpoint(alias="m", model="openai/m", start=lambda s=s: s.base, identity="m.gguf:1") for s in (one, two)
        ]
        for where in local:
            ask(where, cache=True)
    assert local[0].name == local[1].name
    assert (len(one.seen), len(two.seen)) == (1, 0)  # the second one was answered from the cache


# Failures


@pytest.mark.parametrize("status", [429, 500, 503])
def test_each_try_is_a_call_and_each_failed_one_a_failure(status, naps):
    replies = iter([refusal(status), refusal(status), Reply(GOOD)])
    with serving(lambda body: next(replies)) as server:
        answer, usage = ask(endpoint(server, retries=2))
    assert answer == "a lantern" and len(server.seen) == 3
    assert (usage.calls, usage.failures, usage.input_tokens) == (3, 2, PROMPT_TOKENS)
    assert 1 <= naps[0] <= 2 and 2 <= naps[1] <= 3


def test_the_servers_own_waiting_time_is_kept_up_to_a_minute(naps):
    replies = iter([refusal(429, retry_after="7"), refusal(429, retry_after="3600"), Reply(GOOD)])
    with serving(lambda body: next(replies)) as server:
        ask(endpoint(server, retries=2))
    assert naps == [7, 60]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_cannot_get_better_is_tried_once(status, naps):
    with serving(refusal(status)) as server:
        error, usage = failure(endpoint(server, retries=5), BackendError)
    assert len(server.seen) == usage.calls == usage.failures == 1 and naps == []
    assert "step 'answer_question'" in str(error)


def test_a_server_that_hangs_is_given_up():
    with serving(Reply(GOOD, wait=0.6)) as server:
        start = time.monotonic()
        error, usage = failure(endpoint(server, timeout=0.2), BackendError)
    assert time.monotonic() - start < 0.6 and "imed out" in str(error) and usage.failures == 1


@pytest.mark.parametrize("raw", ["<html>busy</html>", '{"a": 1}', ""])
def test_what_is_no_completion_is_the_backends_fault(raw):
    with serving(Reply(raw=raw)) as server:
        failure(endpoint(server), BackendError)


def test_a_truncated_reply_is_the_models_fault_and_was_paid_for(caplog):
    caplog.set_level(logging.ERROR, logger="dspy")
    with serving(Reply('{"sources": ["c1"], "ans', finish="length")) as server:
        _, usage = failure(endpoint(server, retries=3), ModelOutputError)
    assert (usage.calls, usage.failures, usage.output_tokens) == (1, 0, OUTPUT_TOKENS)


def outages(server):
    return {
        "dead": endpoint(server, api_base=dead_base()),
        "broken": endpoint(server),
        "no key": endpoint(server, api_key_env="STITCHJAM_TEST_KEY"),
    }


@pytest.mark.parametrize("what", ["dead", "broken"])
def test_an_outage_is_an_error_alone_and_a_stop_in_a_metered_run(what):
    with serving(refusal(500)) as server:
        failure(outages(server)[what], BackendError)
        stop, _ = failure(outages(server)[what], BudgetStop, Budget())
    assert stop.what == "backend out" and stop.exit_code == 6 and "same command again" in str(stop)


@pytest.mark.parametrize("status", [401, 404])
def test_a_key_or_model_that_is_refused_stops_a_metered_run(status):
    with serving(refusal(status)) as server:
        assert failure(endpoint(server), BudgetStop, Budget())[0].what == "backend out"


def test_one_refused_prompt_does_not_stop_a_metered_run():
    with serving(refusal(400, "prompt too long", "context_length_exceeded")) as server:
        failure(endpoint(server), BackendError, Budget())


def test_a_missing_key_is_wrong_usage_and_no_call(monkeypatch):
    monkeypatch.delenv("STITCHJAM_TEST_KEY", raising=False)
    with serving(GOOD) as server:
        error, usage = failure(outages(server)["no key"], UsageError)
        stop, _ = failure(outages(server)["no key"], BudgetStop, Budget())
    assert "export STITCHJAM_TEST_KEY=" in str(error) and "export STITCHJAM_TEST_KEY=" in str(stop)
    assert usage.calls == len(server.seen) == 0 and stop.exit_code == error.exit_code == 2


def test_a_server_of_ours_that_cannot_start_keeps_its_error():
    def start():
        raise DataError("llama.cpp cannot load it; pull it again")

    error, usage = failure(Endpoint(alias="m", model="openai/m", start=start), DataError)
    assert "pull it again" in str(error) and usage.calls == 0


# Keys


def test_the_key_comes_from_its_variable_and_goes_nowhere_else(monkeypatch):
    monkeypatch.setenv("STITCHJAM_TEST_KEY", KEY)
    with serving(GOOD) as server:
        where = endpoint(server, api_key_env="STITCHJAM_TEST_KEY")
        lm: Any = make_lm(where)
        with dspy.context(lm=lm, trace=[]):
            Step(AnswerQuestion)(context="c", question="q")
            shown = [repr(where), repr(lm), repr(lm.engine), lm.kwargs, lm.history, vars(lm)]
            shown.append(dspy.settings.trace)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(shown)


def test_the_key_of_openai_is_not_sent_to_another_address(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(GOOD) as server:
        ask(endpoint(server))
    assert KEY not in str(server.seen[0].headers)


def test_a_key_that_the_server_repeats_is_not_shown(monkeypatch):
    monkeypatch.setenv("STITCHJAM_TEST_KEY", KEY)
    with serving(refusal(401, f"Incorrect API key provided: {KEY}")) as server:
        where = endpoint(server, api_key_env="STITCHJAM_TEST_KEY")
        assert KEY not in str(failure(where, BackendError)[0])
        assert KEY not in str(failure(where, BudgetStop, Budget())[0])


# The LM object


def test_copies_share_the_engine():
    lm = make_lm(Endpoint(alias="m", model="openai/m"))
    assert copy.deepcopy(lm).engine is lm.copy(temperature=1.0).engine is lm.engine


def test_a_saved_lm_holds_no_address():
    lm: Any = make_lm(Endpoint(alias="m", model="openai/m", api_base="http://secret.host/v1"))
    with pytest.raises(TypeError, match="cannot be saved"):
        lm.dump_state()


@pytest.mark.parametrize("alias", ["gpt-5-mini", "o3-mini", "gpt-5"])
def test_an_alias_that_dspy_knows_as_a_reasoning_model_is_only_a_name(alias):
    with serving(GOOD) as server:
        ask(endpoint(server, alias=alias))
    assert server.seen[0].body["max_tokens"] == 600


def test_streaming_is_counted_and_budgeted_too():
    with serving(GOOD) as server:
        lm = make_lm(endpoint(server))
        program: Any = dspy.streamify(Step(AnswerQuestion), async_streaming=False)
        with dspy.context(lm=lm), metered(budget=Budget(calls=1)) as ledger:
            *_, last = program(context="c", question="q")
    assert last.reply.answer == "a lantern"
    assert ledger.total().calls == 1 and ledger.total().output_tokens == OUTPUT_TOKENS


def test_nothing_is_printed_when_a_call_fails(capfd):
    with serving(refusal(500)) as server:
        failure(endpoint(server), BackendError)
        failure(endpoint(server, model="no-such-provider"), BackendError)
    assert capfd.readouterr() == ("", "")
