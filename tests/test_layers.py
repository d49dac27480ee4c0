"""The folders are the rings, and the house rules that a program can check hold in each of them."""

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RINGS = ("data", "signatures", "backends", "programs", "optimizers")
FRONT_DOORS = ("cli", "server")
RANK = {name: rank for rank, name in enumerate(RINGS)} | {name: len(RINGS) for name in FRONT_DOORS}
HEAVY = {"bm25s", "dspy", "litellm", "numpy", "optuna"}

MODULES = sorted(path for ring in (*RINGS, *FRONT_DOORS) for path in (ROOT / ring).rglob("*.py")) + sorted(
    ROOT.glob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path, node: ast.AST | None = None) -> str:
    line = f":{getattr(node, 'lineno', '?')}" if node is not None else ""
    return f"{path.relative_to(ROOT)}{line}"


def module_name(path: Path) -> str:
    return ".".join(["stitchjam", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


NAMES = {module_name(path) for path in MODULES}


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function bodies, nothing for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def targets(node: ast.AST) -> list[str]:
    """Names of the modules that an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in NAMES else node.module for name in inner]
    return []


def imports(path: Path) -> list[tuple[ast.AST, str]]:
    return [(node, name) for node in ast.walk(tree_of(path)) for name in targets(node)]


def ring_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def test_the_rings_are_there():
    assert {ring_of(path) for path in MODULES} >= {*RINGS, "__init__"}


def test_a_ring_imports_only_itself_and_what_stands_to_its_left():
    outward = [
        f"{shown(path, node)} imports {name}"
        for path in MODULES
        if ring_of(path) in RANK
        for node, name in imports(path)
        if name.startswith("stitchjam.") and RANK.get(name.split(".")[1], 0) > RANK[ring_of(path)]
    ]
    assert outward == []


def test_imports_are_absolute_and_start_with_stitchjam():
    # `from programs import X` works by accident when the working folder is the root, and yields a second class X.
    wrong = [
        f"{shown(path, node)}: {ast.unparse(node)}"
        for path in MODULES + TESTS
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.ImportFrom) and (node.level > 0 or any(alias.name == "*" for alias in node.names)))
        or any(name.split(".")[0] in RANK for name in targets(node))
    ]
    assert wrong == []


def test_no_import_circle():
    edges = {
        module_name(path): {name for node in at_import(tree_of(path)) for name in targets(node) if name in NAMES}
        - {module_name(path)}
        for path in MODULES
    }
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError, which names the circle


def test_data_knows_neither_dspy_nor_a_network_client():
    found = [
        f"{shown(path, node)} imports {name}"
        for path in MODULES
        if ring_of(path) == "data"
        for node, name in imports(path)
        if name.split(".")[0] in {"aiohttp", "dspy", "httpx", "litellm", "openai", "requests", "socket", "urllib"}
    ]
    assert found == []


def test_package_files_and_front_doors_import_nothing_heavy():
    # Not asked of signatures/: each of its modules is made of dspy, so its package file costs nothing more.
    found = [
        f"{shown(path, node)} imports {name}"
        for path in MODULES
        if (path.name == "__init__.py" and ring_of(path) != "signatures") or ring_of(path) in FRONT_DOORS
        for node in at_import(tree_of(path))
        for name in targets(node)
        if name.split(".")[0] in HEAVY
    ]
    assert found == []


@pytest.mark.parametrize("module", ["stitchjam", "stitchjam.cli"])
def test_importing_it_brings_in_nothing_heavy(module):
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert HEAVY & set(json.loads(done.stdout)) == set()


def code_lines(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without docstring, comments and blanks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    inside = set(range(function.lineno, (function.end_lineno or function.lineno) + 1))
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        inside -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(1 for number in inside if (line := lines[number - 1].strip()) and not line.startswith("#"))


def test_functions_have_at_most_60_code_lines():
    functions = [
        (path, node)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [f"{shown(path, node)} {node.name}" for path, node in functions if code_lines(path, node) > 60] == []


def test_files_have_at_most_300_lines():
    assert [shown(path) for path in MODULES if len(path.read_text(encoding="utf-8").splitlines()) > 300] == []


def test_every_module_opens_with_a_docstring():
    assert [shown(path) for path in MODULES if not ast.get_docstring(tree_of(path))] == []


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]


def test_only_the_cli_prints():
    found = [
        shown(path, call)
        for path in MODULES
        if ring_of(path) not in FRONT_DOORS
        for call in calls(path)
        if ast.unparse(call.func) == "print"
    ]
    assert found == []


def test_no_program_configures_dspy():
    configuring = {"dspy.configure", "dspy.settings.configure", "settings.configure"}
    found = [shown(path, call) for path in MODULES for call in calls(path) if ast.unparse(call.func) in configuring]
    assert found == [], "use dspy.context(...): configuring belongs to the application"


def test_no_predictor_is_given_an_lm():
    # It beats teacher and task models and leaks into the saved state; bindings go through dspy.context.
    assigned = [
        shown(path, node)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr == "lm" and isinstance(node.ctx, ast.Store)
    ]
    called = [
        shown(path, call)
        for path in MODULES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "set_lm"
    ]
    assert assigned + called == []
