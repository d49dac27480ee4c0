"""Evidence recall of search without a model: on the sample; on LoCoMo, with weights chosen on other conversations."""

import sys
from pathlib import Path

from rich.console import Console

from stitchjam.data.cases import load_cases
from stitchjam.optimizers.progress import counts_shown
from stitchjam.optimizers.retrieval import evaluate_search, search_tables

LOCOMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo" / "locomo_dev6.json"


def show(history: Path | None, choose: bool) -> None:
    """Print the figures of one file."""
    with counts_shown(sys.stderr) as tick:
        report = evaluate_search(load_cases(history), choose, tick)
    for line in search_tables(report):
        Console(width=120).print(line)


show(None, choose=False)
if LOCOMO.exists():
    show(LOCOMO, choose=True)
else:
    print("LoCoMo: skipped, ../shared/data/locomo is not here")
