"""Evidence recall of BM25 search without a model: on the sample, and on LoCoMo conversations when they are here."""

import sys
import tempfile
from pathlib import Path
from statistics import fmean

from stitchjam.data.sample import Data, load_data

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from locomo_to_sessions import convert  # noqa: E402

LOCOMO = ROOT.parent / "shared" / "data" / "locomo" / "locomo_dev6.json"


def turn_recall(data: Data, k: int) -> float:
    """Macro recall of gold turns among the best k."""
    scored = [q for q in data.questions if q.evidence]
    return fmean(
        len({hit.turn.id for hit in data.store.search(q.text, k)} & set(q.evidence)) / len(q.evidence) for q in scored
    )


def session_recall(data: Data, k: int) -> float:
    """Macro recall of gold sessions among the best k."""
    scored = [q for q in data.questions if q.evidence]
    values = []
    for q in scored:
        gold = {data.store.turn(turn_id).session_id for turn_id in q.evidence}
        values.append(len({hit.session.id for hit in data.store.search_sessions(q.text, k)} & gold) / len(gold))
    return fmean(values)


def show(name: str, data: Data) -> None:
    turns = "  ".join(f"{turn_recall(data, k):.3f}" for k in (5, 10, 20))
    sessions = "  ".join(f"{session_recall(data, k):.3f}" for k in (1, 3, 5))
    print(f"{name:10} n {len(data.questions):4}  turns R@5/10/20 {turns}   sessions R@1/3/5 {sessions}")


show("sample", load_data())
if LOCOMO.exists():
    for number in range(6):
        with tempfile.TemporaryDirectory() as folder:
            sessions, questions, _ = convert(LOCOMO, Path(folder), number)
            show(sessions.name.split(".")[0], load_data(sessions, questions))
else:
    print("LoCoMo: skipped, ../shared/data/locomo is not here")
