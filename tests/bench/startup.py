"""Seconds of wall time that a user waits before anything happens (design: 0.1 s for the import, 0.5 s for --help)."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

RUNS = 7
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import stitchjam": [sys.executable, "-c", "import stitchjam"],
    "stitchjam --help": [str(Path(sys.executable).with_name("stitchjam")), "--help"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


for name, command in COMMANDS.items():
    print(f"{name:20}{median(seconds(command) for _ in range(RUNS)):7.3f} s")
