"""What making worlds costs: seconds, and the most memory that telling the sessions takes, by number of sessions.

Memory is counted in a process of its own for each size; it should not grow with the number of sessions.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.folder import read_worlds
from stitchjam.data.worlds.generate import generate_world

SESSIONS = (50, 500, 5000)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(sessions: int) -> None:
    told = 0.0

    def tick(what: str, done: int, total: int) -> None:
        nonlocal told
        told = peak() if what == "sessions" else told

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        about = generate_world(Path(folder), "w", Dials(sessions=sessions), tick)
        made = time.perf_counter() - start
        [world] = read_worlds(Path(folder))
        size = sum(path.stat().st_size for path in world.folder.iterdir()) / 2**20
    figures = f"{about.counts['turns']:>10,}{about.counts['questions']:>10}{made:>10.1f}{size:>10.1f}"
    print(f"{sessions:>10,}{figures}{told:>14.0f}{peak():>14.0f}")


if len(sys.argv) > 1:
    report(int(sys.argv[1]))
else:
    columns = ("sessions", "turns", "questions", "seconds", "MiB", "MiB telling", "MiB checking")
    print("".join(f"{name:>{14 if 'ing' in name else 10}}" for name in columns), flush=True)
    for count in SESSIONS:
        subprocess.run([sys.executable, __file__, str(count)], check=True)
