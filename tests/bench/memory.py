"""Search, add, open, bytes and memory of a memory on disk, beside plain bm25s and SQLite FTS5 on the same turns.

Arguments: numbers of turns (default: 10000 100000). Times are medians of wall time (search: p50 / p95), so an idle
machine is needed; modules, the encoder and the page cache are warm. Each system runs in processes of its own, one that
ingests and one that reads, whose peak memory is told. What they do is not all the same: bm25s returns row numbers of
a fixed corpus and is indexed anew to add a turn; FTS5 and stitchjam return the turns, are durable and share a file.
Only stitchjam looks at the meaning and at the turns around each.
"""

import json
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
from bisect import bisect
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

SIZES = (10_000, 100_000)
SESSION, SPEAKERS, WORDS, QUERIES, K = 20, 50, 30_000, 40, 10
AT_ONCE = 500  # sessions of one ingested history
PEAKS = {"ingest peak": "peak RSS, ingest", "peak": "peak RSS, search", "start": "RSS of the modules"}
START, DAYS = datetime(2024, 1, 1, tzinfo=timezone.utc), 730
SYLLABLES = "an bel cha du fo gre hem ka lo mi nu os por ran sil ster ston tri ve wick".split()


def make_corpus(folder: Path, turns: int) -> dict[str, Any]:
    """Sessions of two speakers over two years; words are Zipf-distributed, the most frequent ones are stop words."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    rng = random.Random(0)
    stop = sorted(STOPWORDS_EN_PLUS)
    made = {"".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(WORDS)}
    vocabulary = [*stop, *rng.sample(sorted(made), len(made))]
    shares = list(accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    size, queries = 0, []
    with (folder / "sessions.jsonl").open("w") as file:
        for number in range(turns // SESSION):
            began = START + timedelta(days=DAYS) * number / (turns // SESSION)
            names = [f"Person{(number + step) % SPEAKERS}" for step in (0, rng.randrange(1, SPEAKERS))]
            rows = []
            for at in range(SESSION):
                length = max(3, round(rng.gauss(20, 7)))
                text = " ".join(vocabulary[bisect(shares, rng.random() * shares[-1])] for _ in range(length))
                time = (began + timedelta(minutes=at)).isoformat()
                rows.append({"speaker": names[at % 2], "text": text, "time": time})
                size += len(text.encode())
            file.write(json.dumps(rows) + "\n")
            if number % max(turns // SESSION // QUERIES, 1) == 0:
                said = sorted({word for row in rows[:3] for word in row["text"].split()} - set(stop))
                queries.append(" ".join(rng.sample(said, min(len(said), rng.randint(3, 8)))))
    plan = {"turns": turns, "text": size, "queries": queries}
    (folder / "plan.json").write_text(json.dumps(plan))
    return plan


def filters() -> dict[str, dict[str, Any]]:
    """What is searched, by name; empty for everything."""
    period = [
        {name: (START + timedelta(days=day)).isoformat() for name, day in (("after", 365), ("before", 365 + DAYS * x))}
        for x in (0.1, 0.01)
    ]
    speakers = {"speakers": [f"Person{at}" for at in range(SPEAKERS // 10)]}
    return {"no filter": {}, "10 % speakers": speakers, "10 % dates": period[0], "1 % dates": period[1]}


def sessions(folder: Path) -> Iterator[list[dict[str, str]]]:
    with (folder / "sessions.jsonl").open() as file:
        yield from map(json.loads, file)


class Stitchjam:
    adds = 30

    def __init__(self, folder: Path):
        from stitchjam.data.disk.store import DiskStore
        from stitchjam.data.index.encoders import open_encoder
        from stitchjam.data.index.terms import terms

        self.folder, self.path, self.disk = folder, folder / "stitchjam", DiskStore
        terms("warm")
        encoder = open_encoder("static")
        assert encoder is not None
        encoder.encode_query("warm")

    def ingest(self) -> None:
        from stitchjam.data.ids import build_session
        from stitchjam.data.records import History

        made = (build_session(f"s{at}", "", rows) for at, rows in enumerate(sessions(self.folder)))
        self.open()
        for number, some in enumerate(iter(lambda: tuple(islice(made, AT_ONCE)), ())):
            self.memory.add_history(History(id=f"h{number}", sessions=some))
        self.memory.close()

    def open(self) -> None:
        self.memory = self.disk(self.path)

    def search(self, query: str, where: dict[str, Any]) -> int:
        from stitchjam.data.records import Filter

        return len(self.memory.store.search(query, K, Filter(**where)))

    def add(self, number: int) -> None:
        self.memory.add_turn(f"s{number}", {"speaker": "Person1", "text": f"One more turn, number {number}."})


class Bm25s:
    adds = 1

    def __init__(self, folder: Path):
        from stitchjam.data.index.terms import bm25s, terms

        self.folder, self.path, self.bm25s, self.terms = folder, folder / "bm25s", bm25s(), terms
        self.tokens: list[list[str]] = []
        self.terms("warm")

    def ingest(self) -> None:
        for rows in sessions(self.folder):
            self.tokens += (self.terms(f"{row['speaker']} {row['text']}") for row in rows)
        self.model = self.bm25s.BM25(k1=0.9, b=0.4, backend="numpy")
        self.model.index(self.tokens, show_progress=False)
        self.model.save(self.path)

    def open(self) -> None:
        self.model = self.bm25s.BM25.load(self.path, mmap=True)
        self.masks: dict[str, Any] = {}

    def search(self, query: str, where: dict[str, Any]) -> int:
        mask = self.mask(where) if where else None
        found = self.model.retrieve([self.terms(query)], k=K, weight_mask=mask, show_progress=False)
        return int((found.scores > 0).sum())

    def mask(self, where: dict[str, Any]) -> Any:
        """Made by the first query, which no median shows; a program would have to keep these columns itself."""
        import numpy as np

        if str(where) not in self.masks:
            rows = (row for rows in sessions(self.folder) for row in rows)
            self.masks[str(where)] = np.array([holds(row, where) for row in rows], dtype=np.float32)
        return self.masks[str(where)]

    def add(self, number: int) -> None:
        self.tokens.append(["one", "more"])
        self.model = self.bm25s.BM25(k1=0.9, b=0.4, backend="numpy")
        self.model.index(self.tokens, show_progress=False)


def holds(row: dict[str, str], where: dict[str, Any]) -> bool:
    if "speakers" in where:
        return row["speaker"] in where["speakers"]
    return where["after"] <= row["time"] < where["before"]


class Fts5:
    adds = 30

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / "fts5"
        self.path.mkdir(exist_ok=True)

    def open(self) -> None:
        self.db = sqlite3.connect(self.path / "turns.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")

    def ingest(self) -> None:
        self.open()
        self.db.execute("CREATE TABLE turn (id INTEGER PRIMARY KEY, speaker, text, time)")
        self.db.execute("CREATE INDEX by_speaker ON turn (speaker)")
        self.db.execute("CREATE INDEX by_time ON turn (time)")
        self.db.execute("CREATE VIRTUAL TABLE word USING fts5 (speaker, text, content=turn, content_rowid=id, "
                        "tokenize=porter)")  # fmt: skip
        self.write([row for rows in sessions(self.folder) for row in rows])

    def write(self, rows: list[dict[str, str]]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        for row in rows:
            values = (row["speaker"], row["text"], row["time"])
            made = self.db.execute("INSERT INTO turn (speaker, text, time) VALUES (?, ?, ?)", values)
            self.db.execute("INSERT INTO word (rowid, speaker, text) VALUES (?, ?, ?)", (made.lastrowid, *values[:2]))
        self.db.execute("COMMIT")

    def search(self, query: str, where: dict[str, Any]) -> int:
        values, clause = [" OR ".join(query.split())], ""
        if "speakers" in where:
            clause = f"AND turn.speaker IN ({', '.join('?' * len(where['speakers']))})"
            values += where["speakers"]
        elif where:
            clause = "AND time >= ? AND time < ?"
            values += [where["after"], where["before"]]
        chosen = f"SELECT turn.* FROM word JOIN turn ON id = word.rowid WHERE word MATCH ? {clause}"
        return len(self.db.execute(f"{chosen} ORDER BY bm25(word) LIMIT {K}", values).fetchall())

    def add(self, number: int) -> None:
        self.write([{"speaker": "Person1", "text": f"One more turn, number {number}.", "time": START.isoformat()}])


SYSTEMS = {"stitchjam": Stitchjam, "bm25s": Bm25s, "fts5": Fts5}


def milliseconds(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1000


def timed(run: Callable[[Any], object]) -> Callable[[Any], float]:
    return lambda argument: milliseconds(lambda: run(argument))


def peak() -> float:
    """MiB that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))


def write(system: Any, queries: list[str]) -> dict[str, Any]:
    """Ingest; then add some turns, alone and with a search after each, which has to see them."""
    found = {"ingest": milliseconds(system.ingest), "ingest peak": peak()}
    system.open()
    system.search(queries[0], {})
    alone = [milliseconds(lambda at=at: system.add(at)) for at in range(system.adds)]

    def add_and_search(at: int) -> None:
        system.add(at)
        system.search(queries[at], {})

    return found | {"add": median(alone), "add, search": median(map(timed(add_and_search), range(system.adds)))}


def read(system: Any, queries: list[str]) -> dict[str, Any]:
    """Search with each filter; then open several times, alone and with a first search."""
    found: dict[str, Any] = {"start": peak()}
    system.open()
    for name, where in filters().items():
        search = timed(partial(system.search, where=where))
        search(queries[0])
        times = [search(query) for query in queries]
        found[name] = (median(times), quantiles(times, n=20)[-1])
    found["peak"] = peak()
    opened = [(milliseconds(system.open), milliseconds(partial(system.search, query, {}))) for query in queries[:7]]
    return found | {"open": median(one for one, _ in opened), "open, search": median(map(sum, opened))}


def child(phase: str, folder: Path, argument: str) -> dict[str, Any]:
    """What runs in a process of its own."""
    if phase == "corpus":
        return make_corpus(folder, int(argument))
    queries = json.loads((folder / "plan.json").read_text())["queries"]
    return {"write": write, "read": read}[phase](SYSTEMS[argument](folder), queries)


def run(phase: str, folder: Path, argument: object) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", phase, str(folder), str(argument)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure(turns: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = run("corpus", folder, turns)
        figures = {}
        for system in SYSTEMS:
            found = run("write", folder, system)
            size = sum(file.stat().st_size for file in (folder / system).rglob("*") if file.is_file())
            figures[system] = found | run("read", folder, system) | {"bytes": size / turns}
    print(f"\n{turns} turns, {plan['text'] / turns:.0f} bytes of text a turn; milliseconds, MiB")
    print(f"{'':22}" + "".join(f"{system:>18}" for system in SYSTEMS))
    for name in filters():
        show(f"search, {name}", [f"{one[name][0]:.1f} / {one[name][1]:.1f}" for one in figures.values()])
    for name in ("open", "open, search", "add", "add, search"):
        show(name, [f"{one[name]:.1f}" for one in figures.values()])
    show("ingest 1k turns", [f"{one['ingest'] / turns * 1000:.0f}" for one in figures.values()])
    show("bytes a turn", [f"{one['bytes']:.0f}" for one in figures.values()])
    for name in ("ingest peak", "peak", "start"):
        show(PEAKS[name], [f"{one[name]:.0f}" for one in figures.values()])


def show(name: str, values: list[str]) -> None:
    print(f"{name:22}" + "".join(f"{value:>18}" for value in values))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]), sys.argv[4])))
    else:
        for turns in map(int, sys.argv[1:] or SIZES):
            measure(turns)
