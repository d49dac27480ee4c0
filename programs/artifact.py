"""Turns an artifact folder back into a program: read as data, verified first, loaded all or nothing.

An artifact holds `program.json` (state), `manifest.json` (contract, scores, hashes; the same bytes for the same run),
`run.json` (time, cost, host) and `prompts.md` (for people). No code is imported because a file names it.
"""

import copy
import json
import logging
from pathlib import Path
from typing import Any

import dspy
from pydantic import Field, ValidationError

from stitchjam.backends.adapter import reply_model
from stitchjam.data.errors import ArtifactError, UsageError
from stitchjam.data.records import Effort, Record
from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.contract import (
    PredictorContract,
    SavedPredictor,
    contract_of,
    digest,
    field_differences,
    predictors_of,
    signature_of,
)
from stitchjam.programs.folder import steady, whole
from stitchjam.programs.jam.memorizer import Memorizer
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.judge import JUDGES
from stitchjam.programs.step import Program
from stitchjam.programs.stitch.recall import IntentRecall, StitchAgent
from stitchjam.programs.stitch.stitcher import LABELERS

__all__ = [
    "Manifest",
    "PROGRAMS",
    "SAMPLING",
    "SCHEMA",
    "differences",
    "load",
    "open_program",
    "read_manifest",
    "seal",
]

SCHEMA = "stitchjam.artifact/1"
PROGRAMS: dict[str, type[Program]] = {
    "answerer": Answerer,
    "intent_recall": IntentRecall,
    "memorizer": Memorizer,
    "memory_agent": MemoryAgent,
    "researcher": Researcher,
    "stitch_agent": StitchAgent,
    **JUDGES,
    **LABELERS,
}
# What a predictor's own config may hold; anything else could send its calls to another place (api_base, headers).
SAMPLING = frozenset(
    "frequency_penalty logprobs max_completion_tokens max_tokens min_p n presence_penalty reasoning_effort "
    "repetition_penalty rollout_id seed stop temperature top_k top_logprobs top_p".split()
)
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
        if not path.is_file():
            raise ArtifactError(f"{path}: not a file; give the folder that `stitchjam compile` wrote")
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"there is no {path}; give the folder that `stitchjam compile` wrote") from None
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror}); mend that and load again") from None
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8 text ({error}); compile again") from None


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: not JSON ({error}); compile again") from None


def _listed(error: ValidationError, place: str = "") -> tuple[str, ...]:
    return tuple(f"{'.'.join(map(str, (*filter(None, [place]), *e['loc'])))}: {e['msg']}" for e in error.errors())


def seal(table: dict[str, Any]) -> str:
    """The hash of a manifest over everything but this hash, which it holds as that of its own file."""
    files = {name: value for name, value in table["files"].items() if name != "manifest.json"}
    return digest(table | {"files": files})


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an artifact, with the hashes of its files checked.

    Raises:
        ArtifactError: a file is missing, was changed after it was written, or has another format.
    """
    return _open(folder)[0]


def _open(folder: Path) -> tuple[Manifest, str]:
    """The manifest and the text of the state, read once, so that what was checked is what is used."""
    return steady(folder, lambda: _open_at(whole(folder)))


def _open_at(folder: Path) -> tuple[Manifest, str]:
    place = folder / "manifest.json"
    table = _json(_read(place), place)
    if not isinstance(table, dict) or table.get("format") != SCHEMA:
        raise ArtifactError(f"{folder}: not an artifact of format {SCHEMA!r}; compile it again with this version")
    try:
        manifest = Manifest.model_validate(table)
    except ValidationError as error:
        raise ArtifactError(f"{place} is not complete; compile again", _listed(error)) from None
    texts = {name: _read(folder / name) for name in _HASHED}
    hashes = {name: digest(text) for name, text in texts.items()} | {"manifest.json": seal(table)}
    changed = [name for name, value in hashes.items() if value != manifest.files.get(name)]
    if changed:
        raise ArtifactError(f"{folder}: changed after it was written: {', '.join(changed)}; compile again")
    return manifest, texts["program.json"]


def differences(manifest: Manifest, program: Program) -> tuple[str, ...]:
    """Every way in which a program does not fit the contract in a manifest; empty when it fits."""
    saved, ours = manifest.predictors, contract_of(program)
    found = [f"predictor {name!r} is in the artifact and not in the program" for name in saved if name not in ours]
    found += [f"predictor {name!r} is in the program and not in the artifact" for name in ours if name not in saved]
    for name in (name for name in saved if name in ours):
        for side in ("inputs", "outputs"):
            found += field_differences(f"{name}.{side}", getattr(saved[name], side), getattr(ours[name], side))
    return tuple(found)


def load(path: str | Path, program: Program | None = None) -> Program:
    """Load a compiled program. When it cannot be loaded, a program given is left as it was.

    Args:
        path: the artifact folder.
        program: a program of your own to load the state into, for one with replaced steps; default: built by name.

    Raises:
        ArtifactError: damaged, tampered with, made for another contract (all differences are listed), or unsafe.
    """
    folder = Path(path)
    manifest, text = _open(folder)
    program = _build(manifest, folder) if program is None else program
    found = differences(manifest, program)
    if found:
        raise ArtifactError(f"{folder} does not fit this version of {manifest.program!r}; compile it again:", found)
    state = _checked(_json(text, folder / "program.json"), manifest, folder)
    predictors = predictors_of(program)
    restored = {name: _restored(predictor, state[name], folder) for name, predictor in predictors.items()}
    for name, predictor in predictors.items():  # from here on nothing can fail
        for attribute in SavedPredictor.model_fields:
            setattr(predictor, attribute, getattr(restored[name], attribute))
        predictor.config = dict(manifest.config.get(name, {}))
    if not manifest.published:
        log.warning("%s was not published: %s", folder, "; ".join(manifest.refused))
    _warn_about_prompts(manifest, program, folder)
    return program


def _restored(predictor: dspy.Predict, state: SavedPredictor, folder: Path) -> dspy.Predict:
    """A copy of a predictor with the saved state; the predictor itself is left alone."""
    restored = copy.copy(predictor)
    try:
        restored.load_state(state.model_dump(mode="json"))
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise ArtifactError(f"{folder}/program.json cannot be used ({error}); compile again") from None
    restored.demos = [_typed_demo(restored, demo, folder) for demo in restored.demos]
    return restored


def open_program(name: str, effort: Effort = "low") -> tuple[str, Program]:
    """Name and program of an artifact folder, or a fresh program by its name.

    Args:
        name: a folder, or one of `PROGRAMS`.
        effort: how hard a fresh researcher tries.

    Raises:
        UsageError: it is neither. ArtifactError: see `load`.
    """
    if whole(Path(name)).is_dir():
        return read_manifest(Path(name)).program, load(name)
    if name not in PROGRAMS:
        raise UsageError(f"{name!r} is no artifact folder and none of {', '.join(sorted(PROGRAMS))}; check the path")
    if name not in ("memory_agent", "researcher"):
        return name, PROGRAMS[name]()
    researcher = Researcher(effort)
    return name, researcher if name == "researcher" else MemoryAgent(researcher)


def _build(manifest: Manifest, folder: Path) -> Program:
    if manifest.program not in PROGRAMS:
        known = ", ".join(sorted(PROGRAMS))
        raise ArtifactError(f"{folder}: program {manifest.program!r} is not one of {known}; load(path, program=...) it")
    try:
        return PROGRAMS[manifest.program].build(manifest.hparams)
    except (TypeError, KeyError, AttributeError, UsageError) as error:
        raise ArtifactError(
            f"{folder}: hyperparameters do not fit {manifest.program!r} ({error}); compile again"
        ) from None


def _checked(table: Any, manifest: Manifest, folder: Path) -> dict[str, SavedPredictor]:
    """The state of each predictor, with everything refused that is unsafe or does not fit."""
    if not isinstance(table, dict) or set(table) != set(manifest.predictors) or set(manifest.config) - set(table):
        raise ArtifactError(f"{folder}/program.json and manifest.json name different predictors; compile again")
    holders = [name for name, part in table.items() if isinstance(part, dict) and part.get("lm")]
    if holders:
        raise ArtifactError(
            f"{folder}: holds LM state for {', '.join(holders)}, which is unsafe; bind models at run time"
        )
    options = sorted({option for config in manifest.config.values() for option in config} - SAMPLING)
    if options:
        raise ArtifactError(f"{folder}: {', '.join(options)} are no sampling options, which is unsafe; compile again")
    state, found = {}, []
    for name, part in table.items():
        try:
            state[name] = SavedPredictor.model_validate(part)
        except ValidationError as error:
            found += _listed(error, name)
            continue
        expected = len(manifest.predictors[name].inputs) + len(manifest.predictors[name].outputs)
        if len(state[name].signature.fields) != expected:
            found.append(f"{name}.signature.fields: {len(state[name].signature.fields)} instead of {expected}")
    if found:
        raise ArtifactError(f"{folder}/program.json cannot be used; compile again", tuple(found))
    return state


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
