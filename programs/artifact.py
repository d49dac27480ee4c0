"""Turns an artifact folder back into a program: read as data, verified first, loaded all or nothing.

An artifact holds `program.json` (state), `manifest.json` (contract, scores, hashes; the same bytes for the same run),
`run.json` (time, cost, host) and `prompts.md` (for people). No code is imported because a file names it.
"""

import json
import logging
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from stitchjam.backends.adapter import reply_model
from stitchjam.data.errors import ArtifactError, UsageError
from stitchjam.data.records import Effort, Record
from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.contract import PredictorContract, contract_of, digest, predictors_of, signature_of
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.step import Program

__all__ = ["Manifest", "PROGRAMS", "SCHEMA", "differences", "load", "open_program", "read_manifest"]

SCHEMA = "stitchjam.artifact/1"
PROGRAMS: dict[str, type[Program]] = {"answerer": Answerer, "memory_agent": MemoryAgent, "researcher": Researcher}
_HASHED = ("program.json", "prompts.md")
_LIMIT = 20_000_000
log = logging.getLogger("stitchjam")


class Manifest(Record):
    """What an artifact says about itself. Everything here is the same for the same run on any machine."""

    format: str
    program: str
    version: str
    hparams: dict[str, Any]
    predictors: dict[str, PredictorContract]
    config: dict[str, dict[str, Any]] = Field(default_factory=dict)
    adapter: dict[str, Any]
    compiled_for: dict[str, str]
    recipe: dict[str, Any]
    metric: dict[str, Any]
    data: dict[str, Any]
    scores: dict[str, Any]
    published: bool
    refused: tuple[str, ...] = ()
    demos: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str]


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LIMIT:
            raise ArtifactError(f"{path}: larger than {_LIMIT} bytes; this is not an artifact of stitchjam")
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"there is no {path}; give the folder that `stitchjam compile` wrote") from None
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8 text ({error}); compile again") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: not JSON ({error}); compile again") from None


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an artifact, with the hashes of its files checked.

    Raises:
        ArtifactError: a file is missing, was changed after it was written, or has another format.
    """
    table = _json(folder / "manifest.json")
    if not isinstance(table, dict) or table.get("format") != SCHEMA:
        raise ArtifactError(f"{folder}: not an artifact of format {SCHEMA!r}; compile it again with this version")
    try:
        manifest = Manifest.model_validate(table)
    except ValidationError as error:
        found = tuple(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ArtifactError(f"{folder}/manifest.json is not complete; compile again", found) from None
    changed = [name for name in _HASHED if digest(_read(folder / name)) != manifest.files.get(name)]
    if changed:
        raise ArtifactError(f"{folder}: changed after it was written: {', '.join(changed)}; compile again")
    return manifest


def differences(manifest: Manifest, program: Program) -> tuple[str, ...]:
    """Every way in which a program does not fit the contract in a manifest; empty when it fits."""
    saved, ours = manifest.predictors, contract_of(program)
    found = [f"predictor {name!r} is in the artifact and not in the program" for name in saved if name not in ours]
    found += [f"predictor {name!r} is in the program and not in the artifact" for name in ours if name not in saved]
    for name in (name for name in saved if name in ours):
        for side in ("inputs", "outputs"):
            found += _field_differences(f"{name}.{side}", getattr(saved[name], side), getattr(ours[name], side))
    return tuple(found)


def _field_differences(place: str, saved: tuple, ours: tuple) -> list[str]:
    before, now = dict(saved), dict(ours)
    found = [f"{place}: field {name!r} is gone" for name in before if name not in now]
    found += [f"{place}: field {name!r} is new" for name in now if name not in before]
    found += [
        f"{place}: field {name!r} has another type" for name in before if now.get(name, before[name]) != before[name]
    ]
    if not found and list(before) != list(now):
        found = [f"{place}: the order was {list(before)} and is {list(now)}"]
    return found


def load(path: str | Path, program: Program | None = None) -> Program:
    """Load a compiled program.

    Args:
        path: the artifact folder.
        program: a program of your own to load the state into, for one with replaced steps; default: built by name.

    Raises:
        ArtifactError: damaged, tampered with, made for another contract (all differences are listed), or unsafe.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    program = program or _build(manifest, folder)
    found = differences(manifest, program)
    if found:
        raise ArtifactError(f"{folder} does not fit this version of {manifest.program!r}; compile it again:", found)
    state = _json(folder / "program.json")
    _check_state(state, manifest, folder)
    for name, predictor in predictors_of(program).items():
        predictor.load_state(state[name])
        predictor.demos = [_typed_demo(predictor, demo, folder) for demo in state[name]["demos"]]
        predictor.config = dict(manifest.config.get(name, {}))
    _warn_about_prompts(manifest, program, folder)
    return program


def open_program(name: str, effort: Effort = "low") -> tuple[str, Program]:
    """Name and program of an artifact folder, or a fresh program by its name.

    Args:
        name: a folder, or one of `PROGRAMS`.
        effort: how hard a fresh researcher tries.

    Raises:
        UsageError: it is neither. ArtifactError: see `load`.
    """
    if Path(name).is_dir():
        return read_manifest(Path(name)).program, load(name)
    if name == "answerer":
        return name, Answerer()
    researcher = Researcher(effort)
    if name not in PROGRAMS:
        raise UsageError(f"{name!r} is no artifact folder and none of {', '.join(sorted(PROGRAMS))}; check the path")
    return name, researcher if name == "researcher" else MemoryAgent(researcher)


def _build(manifest: Manifest, folder: Path) -> Program:
    if manifest.program not in PROGRAMS:
        known = ", ".join(sorted(PROGRAMS))
        raise ArtifactError(f"{folder}: program {manifest.program!r} is not one of {known}; load(path, program=...) it")
    try:
        return PROGRAMS[manifest.program].build(manifest.hparams)
    except (TypeError, KeyError, AttributeError) as error:
        raise ArtifactError(
            f"{folder}: hyperparameters do not fit {manifest.program!r} ({error}); compile again"
        ) from None


def _check_state(state: Any, manifest: Manifest, folder: Path) -> None:
    if not isinstance(state, dict) or set(state) != set(manifest.predictors):
        raise ArtifactError(f"{folder}/program.json and manifest.json name different predictors; compile again")
    holders = [name for name, part in state.items() if part.get("lm")]
    if holders:
        raise ArtifactError(
            f"{folder}: holds LM state for {', '.join(holders)}, which is unsafe; bind models at run time"
        )


def _typed_demo(predictor: Any, demo: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A demo with its reply as the step's own model again, so that prompts are the same bytes as before saving."""
    model = reply_model(signature_of(predictor))
    if model is None or model[0] not in demo:
        return demo
    try:
        return demo | {model[0]: model[1].model_validate(demo[model[0]])}
    except ValidationError as error:
        raise ArtifactError(f"{folder}: a demo does not fit {model[1].__name__} ({error}); compile again") from None


def _warn_about_prompts(manifest: Manifest, program: Program, folder: Path) -> None:
    now = contract_of(program)
    changed = [name for name, saved in manifest.predictors.items() if saved.prompt != now[name].prompt]
    if changed:
        log.warning(
            "%s: prompts of %s read differently than when compiled (other dspy or stitchjam version); "
            "evaluate again before use",
            folder,
            ", ".join(changed),
        )
