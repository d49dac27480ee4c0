"""The wheel holds the whole package and nothing else."""

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import stitchjam

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "*.egg-info", "__pycache__", "build", "dist", ".*_cache")


def folders() -> set[Path]:
    """Folders of the package, relative to the root."""
    inside = {path.parent.relative_to(ROOT) for path in ROOT.glob("[!.]*/**/__init__.py")}
    return {Path("."), *(folder for folder in inside if folder.parts[0] not in ("build", "dist", "notebooks", "tests"))}


def files_to_ship() -> set[str]:
    modules = {path for folder in folders() for path in (ROOT / folder).glob("*.py")}
    samples = {path for path in (ROOT / "data" / "samples").rglob("*") if path.is_file()}
    templates = set((ROOT / "optimizers" / "pages" / "templates").iterdir())
    shipped = {*modules, *samples, *templates, ROOT / "py.typed", *(ROOT / "data" / "worlds").glob("*/*.toml")}
    return {Path("stitchjam", path.relative_to(ROOT)).as_posix() for path in shipped}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory) -> set[str]:
    """Names in a wheel built, without a network, from a copy: building leaves files in the folder that it builds."""
    source, out = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, source, symlinks=True, ignore=NOT_COPIED)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = out.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_every_folder_of_the_package_is_listed():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert listed == sorted(listed)
    assert listed == sorted(".".join(["stitchjam", *folder.parts]) for folder in folders())


def test_every_folder_with_modules_is_a_package():
    rings = {folder.parts[0] for folder in folders() if folder.parts}
    with_modules = {path.parent.relative_to(ROOT) for ring in rings for path in (ROOT / ring).rglob("*.py")}
    assert with_modules <= folders()


def test_the_root_holds_no_stray_module():
    # Any *.py in the root would be shipped.
    assert {path.name for path in ROOT.glob("*.py")} - {"__init__.py", "cli.py", "server.py"} == set()


def test_the_wheel_holds_exactly_the_package(wheel_names):
    assert {name for name in wheel_names if ".dist-info/" not in name} == files_to_ship()


def test_the_wheel_holds_the_licence(wheel_names):
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)


def test_the_version_is_said_once():
    assert PROJECT["project"]["version"] == stitchjam.__version__ == importlib.metadata.version("stitchjam")
