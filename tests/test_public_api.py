"""What the package offers is listed, in order, and there."""

import importlib
from pathlib import Path

import pytest

import stitchjam

ROOT = Path(__file__).resolve().parent.parent
RINGS = ("data", "signatures", "backends", "programs", "optimizers", "cli")
MODULES = sorted(
    ".".join(["stitchjam", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
    for path in [*ROOT.glob("*.py"), *(path for ring in RINGS for path in (ROOT / ring).rglob("*.py"))]
)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_lists_its_public_names_in_order_and_has_each(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        file = Path(module.__file__ or "")
        assert file.name == "__init__.py", f"{name} has no __all__; list its public names"
        return
    assert list(module.__all__) == sorted(module.__all__)
    assert [listed for listed in module.__all__ if not hasattr(module, listed)] == []


def test_the_root_offers_its_names_to_dir():
    assert dir(stitchjam) == sorted(stitchjam.__all__)


def test_an_unknown_name_of_the_root_is_an_attribute_error_that_says_what_there_is():
    with pytest.raises(AttributeError, match="load"):
        stitchjam.lod  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
