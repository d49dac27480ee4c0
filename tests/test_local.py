"""The embedded llama.cpp server; tests marked `model` need xllamacpp and the 98 MB model."""
# ruff: noqa: PLR2004 - the numbers in asserts are those of the case above them

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from urllib.parse import urlsplit

import pytest

from stitchjam.backends import local, models
from stitchjam.data.errors import DataError, MissingExtra

# Seconds for a process to end; the server must not hold it up.
END_SECONDS = 10


@pytest.fixture(scope="module")
def model():
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'stitchjam[local]'")
    path = models.models_dir() / "smollm2-135m.gguf"
    if not path.is_file():
        pytest.skip("the model is not here: stitchjam models pull smollm2-135m")
    return path


def _chat(base: str, prompt: str, **options) -> dict:
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **options}
    request = urllib.request.Request(
        f"{base}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


def _is_open(base: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", urlsplit(base).port)) == 0


def test_missing_package_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stitchjam\[local\]'.*Ollama"):
        local.serve(tmp_path / "any.gguf")


def test_decoding_leaves_a_core_free():
    decode, prefill = local._threads()
    assert 1 <= decode <= max(1, prefill // 2)


@pytest.mark.model
def test_starts_once_for_two_threads(model, monkeypatch):
    started, bases = [], []

    class Counted(local.LocalServer):
        def __init__(self, *key):
            started.append(key)
            super().__init__(*key)

    monkeypatch.setattr(local, "LocalServer", Counted)
    asking = [threading.Thread(target=lambda: bases.append(local.serve(model, n_ctx=512))) for _ in range(2)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(started) == 1 and len(set(bases)) == 1 and _is_open(bases[0])


@pytest.mark.model
def test_schema_and_its_limits_are_kept(model):
    tags = {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2}
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "maxLength": 12}, "tags": tags, "kind": {"enum": ["a", "b"]}},
        "required": ["title", "tags", "kind"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "note", "strict": True, "schema": schema}}
    reply = _chat(local.serve(model), "List all the animals in the zoo", max_tokens=200, response_format=wanted)
    note = json.loads(reply["choices"][0]["message"]["content"])
    assert set(note) == {"title", "tags", "kind"} and note["kind"] in "ab"
    assert len(note["title"]) <= 12 and len(note["tags"]) <= 2 and all(len(tag) <= 8 for tag in note["tags"])


@pytest.mark.model
def test_prompt_prefix_is_cached_across_alternating_prompts(model):
    base = local.serve(model)
    first, other = "The fox jumps. " * 20, "A story begins. " * 20
    for prompt in (first, other):
        _chat(base, f"{prompt} one", max_tokens=1)
    timings = _chat(base, f"{first} two", max_tokens=1)["timings"]
    assert timings["cache_n"] > 60 and timings["prompt_n"] < 20


@pytest.mark.model
def test_damaged_model_is_named(model, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + b"x" * 1000)
    with pytest.raises(DataError, match="cannot load .*bad.gguf"):
        local.serve(tmp_path / "bad.gguf")


SERVE = """
import os, sys, threading, time, urllib.request
from stitchjam.backends import local
base = local.serve(sys.argv[1], n_ctx=1024)
print(base, flush=True)
"""
# A request that would run on for a quarter of a minute or more.
BUSY = """
body = b'{"messages": [{"role": "user", "content": "hi"}], "max_tokens": 900, "ignore_eos": true}'
threading.Thread(target=urllib.request.urlopen, args=(base + "/chat/completions", body), daemon=True).start()
time.sleep(0.5)
"""
FORK = """
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
else:
    assert local.serve(sys.argv[1], n_ctx=1024) != base
    sys.exit(3)
"""


@pytest.mark.model
@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("", 0),
        ("sys.exit(7)", 7),
        (BUSY, 0),
        pytest.param(FORK, 0, marks=pytest.mark.skipif(os.name == "nt", reason="no fork")),
    ],
    ids=["idle", "exit code", "request under way", "forked child"],
)
def test_ends_with_the_process(model, then, code):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE + then, str(model)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        base = process.stdout.readline().strip()
        out, noise = process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, out, noise) == (code, "", "")
    assert not _is_open(base)
