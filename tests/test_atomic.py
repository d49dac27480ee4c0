"""A file is written completely or not at all, and what was there before stays until then."""

import os
from pathlib import Path

import pytest

from stitchjam.data.atomic import whole_file


def test_a_file_and_its_folder_are_made(tmp_path):
    path = tmp_path / "new" / "folder" / "rows.jsonl"
    with whole_file(path) as file:
        file.write("ä\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\n".encode() and os.listdir(path.parent) == ["rows.jsonl"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_writer_that_stops_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "rows.jsonl"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(error), whole_file(path) as file:
        file.write("half a li")
        raise error
    assert path.read_text("utf-8") == "mine" and os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write("new")
    assert link.is_symlink() and target.read_text("utf-8") == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(path) as file:
        file.write("new")
    assert os.read(reader, 10) == b"new" and path.is_fifo()
    os.close(reader)


def test_permissions_stay_as_they_are(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.touch(mode=0o600)
    with whole_file(path) as file:
        file.write("new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text("mine", encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs tests as root may write everywhere
    with pytest.raises(PermissionError), whole_file(path):
        pass
    assert path.read_text("utf-8") == "mine"


def test_a_link_to_itself_is_an_error_of_the_system(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    try:
        with whole_file(loop) as file:
            file.write("new")
    except OSError:
        assert loop.is_symlink()
    else:
        assert loop.read_text("utf-8") == "new"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OSError), whole_file(Path(tmp_path)) as file:
        file.write("new")
