"""Turns a compiled program into an artifact folder, published or marked as refused with every reason."""

import contextlib
import importlib.metadata
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stitchjam.data.errors import ArtifactError, UsageError
from stitchjam.data.records import Question
from stitchjam.data.secrets import find_secret
from stitchjam.optimizers.compare import Comparison
from stitchjam.optimizers.leaks import leaks
from stitchjam.optimizers.rows import Report
from stitchjam.programs.artifact import SAMPLING, SCHEMA, Manifest, read_manifest, seal
from stitchjam.programs.contract import contract_of, digest, placeholder_messages, predictors_of
from stitchjam.programs.folder import set_aside, steady
from stitchjam.programs.step import Program

__all__ = ["check_target", "gate", "place_for", "write_artifact"]

_VERSIONED = ("stitchjam", "dspy", "litellm", "pydantic")
_FILES = {"manifest.json", "program.json", "prompts.md", "run.json"}
_ATTEMPTS = 20  # of two writers at once; the later one wins


def gate(program: Program, after: Report, comparison: Comparison, questions: Iterable[Question]) -> tuple[str, ...]:
    """Why a compiled program must not be published; empty when it may.

    It must beat its parent on held-out data, have answered every example without LM errors, and leak nothing.
    """
    reasons = []
    if comparison.gain <= 0:
        reasons.append(
            f"no gain on held-out data ({comparison.before:.3f} -> {comparison.after:.3f}, n {comparison.n})"
        )
    failed = [row for row in after.rows if row.outcome != "ok"]
    if failed:
        first = f"first: {failed[0].id}: {failed[0].why[:160]}"
        reasons.append(f"{len(failed)} of {len(after.rows)} held-out examples failed ({first})")
    if not any(predictor.demos for predictor in predictors_of(program).values()):
        reasons.append("nothing was compiled: no training example was answered well enough to become a demo")
    return (*reasons, *leaks(program, questions))


def _state(program: Program) -> dict[str, Any]:
    predictors = predictors_of(program)
    held = [name for name, predictor in predictors.items() if predictor.lm]
    if held:
        raise UsageError(f"predictors {held} hold a model of their own; bind models by step instead of setting .lm")
    options = {option for predictor in predictors.values() for option in predictor.config} - SAMPLING
    if options:
        raise UsageError(f"{sorted(options)} are no sampling options; put them into the model's binding")
    state = {name: predictor.dump_state() for name, predictor in predictors.items()}
    for part in state.values():
        part["traces"], part["train"] = [], []
    return state


def _prompts(program: Program) -> str:
    """Every prompt in full, for people: a diff of two artifacts is a diff of these files."""
    parts = []
    for name, predictor in predictors_of(program).items():
        parts.append(f"# {name}\n")
        for message in placeholder_messages(predictor):
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", message["content"])), 0)
            parts.append(f"## {message['role']}\n\n{fence}text\n{message['content']}\n{fence}\n")
    return "\n".join(parts)


def _refuse_secrets(files: dict[str, str]) -> None:
    for file, text in files.items():
        name = find_secret(text)
        if name:
            raise UsageError(f"{file} would hold the value of ${name}; remove it from the program or its data")


def _pretty(value: Any) -> str:
    try:
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    except TypeError as error:
        raise UsageError(f"an artifact holds JSON values only ({error}); leave it out of demos and config") from None


def check_target(folder: Path) -> None:
    """Refuse a folder that an artifact must not replace: a file, or a folder that holds anything but an artifact.

    Raises:
        UsageError: see above.
    """
    steady(folder, lambda: _check_target(folder))


def _check_target(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another --out")
    names = {path.name for path in folder.iterdir()}
    if names and not _is_artifact(folder / "manifest.json"):
        raise UsageError(f"{folder} exists and is not an artifact; choose another --out")
    if names - _FILES:
        raise UsageError(f"{folder} also holds {', '.join(sorted(names - _FILES))}; move it or choose another --out")


def place_for(out: Path, refused: bool) -> Path:
    """Where to write: a refused artifact never takes the place of a published one, which production may load."""
    try:
        published = refused and read_manifest(out).published
    except ArtifactError:  # there is none, or none that could be loaded
        published = False
    return out.with_name(f"{out.name}.refused") if published else out


def _is_artifact(manifest: Path) -> bool:
    """Whether a manifest is one of ours, of any version, damaged or not; browsers have files of that name too."""
    try:
        return manifest.is_file() and SCHEMA.partition("/")[0].encode() in manifest.read_bytes()
    except OSError:
        return False


def write_artifact(folder: Path, name: str, program: Program, facts: dict[str, Any], run: dict[str, Any]) -> Manifest:
    """Write an artifact. The folder appears complete or not at all; an older artifact in its place is replaced.

    Killed at any moment, it leaves the older artifact or the newer one: the readers know where the older one stands.

    Args:
        folder: where to.
        name: the program's name in `PROGRAMS`.
        program: the compiled program.
        facts: manifest fields that the program itself does not know (scores, data, metric ...); deterministic ones.
        run: time, cost and host, kept outside the hashes.

    Raises:
        UsageError: the folder is something else, or a secret would be written.
    """
    folder = folder.resolve()  # a link to a folder stays one
    check_target(folder)
    files = {"program.json": _pretty(_state(program)), "prompts.md": _prompts(program)}
    manifest = Manifest(
        format=SCHEMA,
        program=name,
        version=importlib.metadata.version("stitchjam"),
        hparams=program.hparams(),
        predictors=contract_of(program),
        config={path: predictor.config for path, predictor in predictors_of(program).items() if predictor.config},
        adapter={"name": "StepAdapter", "options": {}},
        versions={package: importlib.metadata.version(package) for package in _VERSIONED},
        files={file: digest(text) for file, text in files.items()},
        **facts,
    )
    table = manifest.model_dump(mode="json")
    table["files"]["manifest.json"] = seal(table)
    files |= {"manifest.json": _pretty(table), "run.json": _pretty(run)}
    _refuse_secrets(files)
    _replace(folder, files)
    return Manifest.model_validate(table)


def _replace(folder: Path, files: dict[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for file, text in files.items():
            (new / file).write_bytes(text.encode("utf-8"))
        new.chmod(0o755)
        _put(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put(new: Path, folder: Path) -> None:
    """Move a folder into its place. The older one is only removed once the newer one is there."""
    old = set_aside(folder)
    if old.is_dir() and not folder.exists():
        with contextlib.suppress(OSError):  # its writer is alive after all, and was faster
            old.rename(folder)  # its writer was killed in between; it stays until the newer one is in place
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            if folder.exists():
                shutil.rmtree(old, ignore_errors=True)
                folder.rename(old)
            new.rename(folder)
            break
        except OSError:  # another writer was faster
            if attempt == _ATTEMPTS:
                if not folder.exists() and old.exists():
                    old.rename(folder)
                raise
    shutil.rmtree(old, ignore_errors=True)
