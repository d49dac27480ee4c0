"""The notebooks run from top to bottom with recorded replies and without a model.

After a prompt has changed, record again: STITCHJAM_RECORD=1 .venv/bin/python -m pytest tests/test_notebooks.py
"""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
RECORD = bool(os.environ.get("STITCHJAM_RECORD"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_with_recorded_replies(path, tmp_path, monkeypatch):
    if not RECORD:
        monkeypatch.setenv("STITCHJAM_MODELS", str(tmp_path))  # a call that was not recorded finds no model
    before = {file: file.read_bytes() for file in FOLDER.rglob("*.jsonl")}
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    if RECORD:
        for cell in notebook.cells:  # warnings would tell where things lie on this machine
            if "outputs" in cell:
                cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        nbformat.write(notebook, path)
    else:
        assert {file: file.read_bytes() for file in FOLDER.rglob("*.jsonl")} == before
