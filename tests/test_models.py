"""Specs and pulls of local models, offline: a small fake wheel stands in for the package index."""
# ruff: noqa: PLR2004 - the numbers in asserts are those of the case above them

import hashlib
import os
import time
import zipfile
from pathlib import Path

import pytest

from stitchjam.backends import models
from stitchjam.data.errors import BackendError, DataError, UsageError

GGUF = b"GGUF" + bytes(range(256)) * 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STITCHJAM_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def index(monkeypatch):
    """The fake index: `content` is what its wheel holds, `calls` counts the downloads."""

    class Index:
        calls = 0
        content = {"tiny/tiny.gguf": GGUF, "tiny/__init__.py": b""}

        def download(self, wheel: str, into: Path) -> Path:
            self.calls += 1
            path = into / "tiny-1-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in self.content.items():
                    archive.writestr(name, data)
            return path

    fake = Index()
    tiny = models.LocalModel("tiny", "tiny==1", hashlib.sha256(GGUF).hexdigest(), "MIT", 1, "fake")
    monkeypatch.setattr(models, "MODELS", {"tiny": tiny})
    monkeypatch.setattr(models, "download", fake.download)
    return fake


def test_pull_brings_the_file_and_says_so(folder, index):
    said = []
    path = models.pull("tiny", progress=said.append)
    assert path.read_bytes() == GGUF
    assert os.listdir(folder) == ["tiny.gguf"]
    assert said[0].startswith("downloading tiny==1") and str(path) in said[-1]
    assert models.resolve("local:tiny") == path


def test_second_pull_makes_no_call(folder, index):
    assert models.pull("tiny") == models.pull("tiny")
    assert index.calls == 1


def test_damaged_file_is_pulled_again(folder, index):
    models.pull("tiny").write_bytes(b"GGUF half")
    assert models.pull("tiny").read_bytes() == GGUF
    assert index.calls == 2


def test_wrong_checksum_keeps_nothing(folder, index):
    index.content = {"tiny.gguf": b"GGUF something else"}
    with pytest.raises(DataError, match="checksum .* nothing was kept"):
        models.pull("tiny")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("content", [{}, {"a.gguf": GGUF, "b.gguf": GGUF}])
def test_wheel_must_hold_one_model(folder, index, content):
    index.content = content
    with pytest.raises(DataError, match=f"holds {len(content)} GGUF files"):
        models.pull("tiny")
    assert os.listdir(folder) == []


def test_damaged_wheel_is_named(folder, index, monkeypatch):
    def download(wheel, into):
        (into / "tiny.whl").write_bytes(b"an error page")
        return into / "tiny.whl"

    monkeypatch.setattr(models, "download", download)
    with pytest.raises(DataError, match="tiny.whl is damaged"):
        models.pull("tiny")


def test_interrupted_pull_leaves_no_half_file(folder, index, monkeypatch):
    def interrupted(source, copy):
        copy.write(source.read(100))
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "_copy_hashing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        models.pull("tiny")
    assert os.listdir(folder) == []


def test_leftovers_of_killed_pulls_go_when_old(folder, index):
    old, fresh = folder / ".pull-old", folder / ".pull-fresh"
    for work in (old, fresh):
        work.mkdir(parents=True)
        (work / "model.part").write_bytes(b"GGUF")
    long_ago = time.time() - 2 * models.STALE_SECONDS
    for path in (old / "model.part", old):
        os.utime(path, (long_ago, long_ago))
    models.pull("tiny")
    assert sorted(os.listdir(folder)) == [".pull-fresh", "tiny.gguf"]


def test_failed_download_says_what_to_do(tmp_path, monkeypatch):
    # `false` in the place of Python: it ends with 1 and no wheel.
    monkeypatch.setattr(models.sys, "executable", "false")
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda _name: object())
    with pytest.raises(BackendError, match="Check the network"):
        models.download("tiny==1", tmp_path)


def test_missing_pip_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="uv pip install pip"):
        models.download("tiny==1", tmp_path)


def test_unknown_names_list_what_there_is(folder, index):
    folder.mkdir()
    (folder / "mine.gguf").write_bytes(GGUF)
    assert models.resolve("local:mine") == folder / "mine.gguf"
    for ask in (models.pull, lambda name: models.resolve(f"local:{name}"), models.resolve):
        with pytest.raises(UsageError, match="tiny.* mine"):
            ask("nope")


def test_missing_known_model_says_how_to_pull(folder, index):
    with pytest.raises(UsageError, match="stitchjam models pull tiny$"):
        models.resolve("local:tiny")


def test_paths_are_taken_as_they_are(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("some.gguf").write_bytes(GGUF)
    assert models.resolve("local:some.gguf") == Path("some.gguf")
    assert models.resolve(f"local:{tmp_path}/some.gguf") == tmp_path / "some.gguf"
    with pytest.raises(UsageError, match="no file other.gguf"):
        models.resolve("local:other.gguf")


@pytest.mark.parametrize("content", [b"", b"<html>"])
def test_not_a_gguf_file(folder, content):
    folder.mkdir()
    (folder / "page.gguf").write_bytes(content)
    with pytest.raises(DataError, match="not a GGUF file"):
        models.resolve("local:page")


def test_a_folder_is_not_a_model(folder, tmp_path):
    with pytest.raises(DataError, match="not a file"):
        models.resolve(f"local:{tmp_path}")


def test_the_table_is_pinned():
    (model,) = models.MODELS.values()
    assert model.name == "smollm2-135m" and "==" in model.wheel and len(model.sha256) == 64


@pytest.mark.parametrize("spec", ["local:qwen-coder-1.5b", "local:some/qwen-coder-1.5b.gguf", "openai/qwen-coder-1.5b"])
def test_a_name_with_a_dot_is_not_cut_at_it(spec):
    assert models.name_of(spec) == "qwen-coder-1.5b"
