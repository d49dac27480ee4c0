"""Turns a compiled program into an artifact folder, published or marked as refused with every reason."""

import importlib.metadata
import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stitchjam.data.errors import UsageError
from stitchjam.data.records import Question
from stitchjam.optimizers.evaluate import Comparison, Report
from stitchjam.optimizers.leaks import leaks
from stitchjam.programs.artifact import SCHEMA, Manifest
from stitchjam.programs.contract import contract_of, digest, placeholder_messages, predictors_of
from stitchjam.programs.step import Program

__all__ = ["gate", "write_artifact"]

_VERSIONED = ("stitchjam", "dspy", "litellm", "pydantic")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8


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
    state = {name: predictor.dump_state() for name, predictor in predictors_of(program).items()}
    held = [name for name, part in state.items() if part.get("lm")]
    if held:
        raise UsageError(f"predictors {held} hold a model of their own; bind models by step instead of setting .lm")
    for part in state.values():
        part["traces"], part["train"] = [], []
    return state


def _prompts(program: Program) -> str:
    """Every prompt in full, for people: a diff of two artifacts is a diff of these files."""
    parts = []
    for name, predictor in predictors_of(program).items():
        parts.append(f"# {name}\n")
        for message in placeholder_messages(predictor):
            parts.append(f"## {message['role']}\n\n```text\n{message['content']}\n```\n")
    return "\n".join(parts)


def _refuse_secrets(files: dict[str, str]) -> None:
    values = {
        name: value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    }
    for file, text in files.items():
        for name, value in values.items():
            if value in text:
                raise UsageError(f"{file} would hold the value of ${name}; remove it from the program or its data")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write_artifact(folder: Path, name: str, program: Program, facts: dict[str, Any], run: dict[str, Any]) -> Manifest:
    """Write an artifact. The folder appears complete or not at all; an older artifact in its place is replaced.

    Args:
        folder: where to.
        name: the program's name in `PROGRAMS`.
        program: the compiled program.
        facts: manifest fields that the program itself does not know (scores, data, metric ...); deterministic ones.
        run: time, cost and host, kept outside the hashes.

    Raises:
        UsageError: the folder is something else, or a secret would be written.
    """
    if folder.exists() and not (folder / "manifest.json").exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists and is not an artifact; choose another --out")
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
    files |= {"manifest.json": _pretty(manifest.model_dump(mode="json")), "run.json": _pretty(run)}
    _refuse_secrets(files)
    _replace(folder, files)
    return manifest


def _replace(folder: Path, files: dict[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    for file, text in files.items():
        (new / file).write_text(text, encoding="utf-8")
    new.chmod(0o755)
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    if old.exists():
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
