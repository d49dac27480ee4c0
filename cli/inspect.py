"""Commands that look at models and compiled programs."""

from pathlib import Path
from typing import Annotated

import typer

from stitchjam.cli.shared import CONFIG, Config, Json, Model, app, result, say
from stitchjam.data.errors import UsageError

__all__: list[str] = []

models_app = typer.Typer(no_args_is_help=True, help="Fetch small local models; probe any model.")
artifact_app = typer.Typer(no_args_is_help=True, help="Look at compiled programs.")
app.add_typer(models_app, name="models")
app.add_typer(artifact_app, name="artifact")


@models_app.command("pull")
def models_pull(name: str) -> None:
    """Fetch a small model and check its SHA-256."""
    from stitchjam.backends.models import pull

    print(pull(name, progress=say))


@models_app.command("check")
def models_check(alias: Annotated[str | None, typer.Argument()] = None, config: Config = CONFIG, model: Model = None,
                 as_json: Json = False) -> None:  # fmt: skip
    """Probe how answers can be constrained, how long a prompt may be, and how fast the model is."""
    from stitchjam.backends.bindings import open_bindings
    from stitchjam.backends.probe import probe
    from stitchjam.optimizers.report import probe_table

    endpoints = open_bindings(config, model).endpoints
    chosen = [endpoint for endpoint in endpoints if alias in (None, endpoint.alias)]
    if not chosen:
        raise UsageError(f"no role or step uses a model {alias!r}; used: {', '.join(e.alias for e in endpoints)}")
    found = [probe(endpoint, say=say) for endpoint in chosen]
    result(as_json, [vars(one) for one in found], probe_table(found))


@artifact_app.command("show")
def artifact_show(folder: Path, as_json: Json = False) -> None:
    """What a compiled program is for, how it scored, and what is in it."""
    from stitchjam.optimizers.report import manifest_lines
    from stitchjam.programs.artifact import read_manifest

    manifest = read_manifest(folder)
    result(as_json, manifest.model_dump(mode="json"), *manifest_lines(manifest))


@artifact_app.command("check")
def artifact_check(folder: Path) -> None:
    """Verify hashes and contract, and load it as production would."""
    from stitchjam.programs.artifact import load

    load(folder)
    print(f"{folder}: fine")
