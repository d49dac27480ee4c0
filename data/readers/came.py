"""Turns a CAME-Bench folder into histories with questions, one for each trajectory; the release is decoded first.

The release is encoded so that it does not end up in training data: it is decoded on the user's machine, when the user
has read its notice, into a folder that the user names. Labels of turns (partition, action, action_object) are gold and
stay in the files (`data/readers/stitch.py`).
"""

import base64
import binascii
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import cycle
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from stitchjam.data.errors import DataError, UsageError
from stitchjam.data.readers.rows import Loaded, Row, read_rows
from stitchjam.data.readers.stitch import read_stitch

__all__ = ["COMPLETE", "came_digest", "came_files", "decode_came", "read_came", "read_notices"]

_META, _CODEC = "benchmark_meta.json", "encoded_benchmark_codec"
# Of the 14 decoded trajectories as others published it; see `came_digest`.
COMPLETE = "a965affaf69664332d40d0d1f93c0149e8485e26303f48a05a5d3517c1d81036"


def read_came(path: Path) -> Iterator[Loaded]:
    """Read a decoded release, one of its trajectories, or a folder of the examples on the authors' site.

    A trajectory is a pair turns.jsonl and questions.jsonl, or NAME_turns.jsonl and NAME_questions.jsonl. The history is
    named by the folder. Gold evidence that names no turn is listed in `problems`.

    Raises:
        UsageError: there is no trajectory, or the release has to be decoded first.
        DataError: a file is missing or not of this form; the message names file, line and field.
    """
    pairs = came_files(path)
    if not pairs and _metadata(path):
        raise UsageError(
            f"{path} is the encoded release; read its notice and decode it: stitchjam bench decode {path} --out FOLDER"
        )
    if not pairs:
        raise UsageError(f"{path}: no trajectory here; expected traj-N/turns.jsonl with traj-N/questions.jsonl")
    for turns, questions in pairs:
        if not questions.is_file():
            raise DataError(f"{questions}: missing beside {turns.name}; copy the trajectory again")
        yield _named(read_stitch(turns, questions), turns.parent.name)


def came_files(path: Path) -> list[tuple[Path, Path]]:
    """Files of turns, in the order of the trajectories' numbers, with where their questions should be."""
    turns = [*path.glob("*turns.jsonl"), *path.glob("*/*turns.jsonl")] if path.is_dir() else []
    turns.sort(key=lambda file: (len(file.parent.name), str(file)))
    return [(file, file.with_name(file.name.replace("turns", "questions"))) for file in turns]


def _named(loaded: Loaded, name: str) -> Loaded:
    return Loaded(loaded.history.model_copy(update={"id": name}), loaded.questions, loaded.problems)


def came_digest(path: Path) -> str:
    """SHA-256 over name, turns and questions of each trajectory in the order of numbers, each ended by a NUL byte."""
    digest = sha256()
    for turns, questions in came_files(path):
        for part in (turns.parent.name.encode(), turns.read_bytes(), questions.read_bytes()):
            digest.update(part + b"\0")
    return digest.hexdigest()


class _Encoded(NamedTuple):
    """A file of the release: where it belongs, its blob, the notice that is its key, and what it must be."""

    relpath: str
    blob: Path
    canary: str
    size: int
    sha256: str


def read_notices(path: Path) -> tuple[str, ...]:
    """What the release says to whoever decodes it; each text once.

    Raises:
        UsageError: there is no encoded release.
        DataError: its description is damaged.
    """
    return tuple(dict.fromkeys(one.canary for one in _encoded(path)))


def decode_came(path: Path, out: Path) -> int:
    """Decode a release into a folder that is not there yet; all of it or nothing.

    Returns:
        How many files.

    Raises:
        UsageError: there is no encoded release, or `out` is there.
        DataError: a file is missing, damaged, or would be written outside `out`.
    """
    files = _encoded(path)
    if out.exists():
        raise UsageError(f"{out} is there already; choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as work:
        new = Path(work) / "decoded"
        for one in files:
            target = new / _inside(one.relpath)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_decoded(one))
        new.rename(out)
    return len(files)


def _metadata(path: Path) -> Path | None:
    """The description of the release: at the root, or a folder down."""
    places = [path / "metadata.json", path / _CODEC / "metadata.json", *sorted(path.glob("*/metadata.json"))]
    return next((place for place in places if place.is_file() and (place.parent / "blobs").is_dir()), None)


def _encoded(path: Path) -> Sequence[_Encoded]:
    file = _metadata(path)
    if file is None:
        raise UsageError(f"{path}: no encoded release here; expected {_CODEC}/metadata.json and its folder blobs")
    [whole, *_] = read_rows(file)
    found = [_entry(row, file.parent) for row in whole.entries("files")]
    if not found or len({one.relpath for one in found}) < len(found):
        raise DataError(f"{file}: it names no files, or one of them twice; download the release again")
    return found


def _entry(row: Row, folder: Path) -> _Encoded:
    size = row.part("nbytes").value
    if not isinstance(size, int):
        raise row.part("nbytes").fail("a number of bytes")
    blob = folder / _inside(row.name("blob"))
    return _Encoded(row.name("relpath"), blob, row.name("canary"), size, row.name("sha256"))


def _inside(relpath: str) -> PurePosixPath:
    """A path that leads nowhere else than below the folder it is joined to."""
    parts = PurePosixPath(relpath).parts
    if not parts or relpath.startswith("/") or {"..", "."} & set(parts) or any(mark in relpath for mark in "\\:\0"):
        raise DataError(f"the release names the path {relpath!r}, which leads out of its folder; do not use it")
    return PurePosixPath(*parts)


def _decoded(one: _Encoded) -> bytes:
    try:
        coded = base64.b64decode(one.blob.read_bytes(), validate=False)
    except (OSError, binascii.Error) as error:
        raise DataError(f"{one.blob}: cannot be decoded ({error}); download the release again") from None
    key = sha256(one.canary.encode()).digest()
    plain = bytes(byte ^ with_ for byte, with_ in zip(coded, cycle(key), strict=False))
    if len(plain) != one.size or sha256(plain).hexdigest() != one.sha256:
        raise DataError(f"{one.blob}: {one.relpath} is damaged or cut; download the release again")
    return plain
