"""Turns a memory on disk and programs into one object: what an agent or a service holds in its hands."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from stitchjam.data.disk.add import Added
from stitchjam.data.disk.forget import Forgotten
from stitchjam.data.disk.store import DiskStore
from stitchjam.data.disk.verify import Verified
from stitchjam.data.errors import BudgetStop, StitchjamError, UsageError
from stitchjam.data.progress import Tick, quiet
from stitchjam.data.readers.chat import message_rows
from stitchjam.data.readers.rows import Row
from stitchjam.data.records import Answer, Context, Filter, History, Session, Turn
from stitchjam.data.store import Hit, Store
from stitchjam.programs.answer import MemoryAgent
from stitchjam.programs.artifact import load
from stitchjam.programs.deriving import Start
from stitchjam.programs.jam.filing import Filed, memorize
from stitchjam.programs.jam.memorizer import Memorizer
from stitchjam.programs.recall import recall
from stitchjam.programs.step import Program
from stitchjam.programs.stitch.ingest import Labelled, label_memory
from stitchjam.programs.stitch.recall import IntentRecall
from stitchjam.programs.stitch.stitcher import Stitcher
from stitchjam.programs.systems import asker

__all__ = ["Memory"]

_NOW = 4  # last turns of a session that are shown with the next step of its agent
_ROW = ("speaker", "text", "time", "external_id")


class Memory:
    """A memory in a folder, and the programs that work on it.

    Everything that is added can be searched at once, without a model; `research` and `ask` use the ambient dspy LM or
    bindings. Methods may be called from several threads. Replies of models to `research` and `ask` are not cached by
    dspy, so that `forget` leaves no trace of a text.

    Args:
        disk: the memory.
        agent: what researches and answers; default: `MemoryAgent()`.
        labeler: what gives each turn its contextual intent as it comes, such as `FusedStitcher()`; default: nothing.
        memorizer: what files sessions in a tree of folders when `memorize` is called; default: `Memorizer()`.
    """

    def __init__(
        self,
        disk: DiskStore,
        agent: Program | None = None,
        labeler: Stitcher | None = None,
        memorizer: Memorizer | None = None,
    ):
        self.disk = disk
        if agent is not None and not isinstance(agent, Program):
            raise UsageError(f"agent is a program, such as MemoryAgent(), or the folder of one, not {agent!r}")
        if labeler is not None and not isinstance(labeler, Stitcher):
            raise UsageError(f"labeler labels turns, such as FusedStitcher(), or is the folder of one, not {labeler!r}")
        if memorizer is not None and not isinstance(memorizer, Memorizer):
            raise UsageError(f"memorizer files sessions: Memorizer(), or the folder of one, not {memorizer!r}")
        self.agent, self.labeler = asker(agent or MemoryAgent()), labeler
        self.memorizer = memorizer or Memorizer()

    @classmethod
    def open(
        cls,
        path: str | Path,
        agent: Program | str | Path | None = None,
        encoder: str | None = None,
        create: bool = True,
        labeler: Stitcher | str | Path | None = None,
        memorizer: Memorizer | str | Path | None = None,
    ) -> "Memory":
        """Open the memory in a folder, or make it.

        Args:
            path: the folder.
            agent: a program, or the folder of a compiled one.
            labeler, memorizer: likewise; see the class.
            encoder: "static" (default), "bge-m3", "flag:MODEL" or "none"; see `data.index.encoders.open_encoder`.
            create: make it when it is not there.

        Raises:
            UsageError, DataError: from `DiskStore`.
            ArtifactError: the compiled program is damaged or does not fit.
        """
        programs = (load(one) if isinstance(one, str | Path) else one for one in (agent, labeler, memorizer))
        return cls(DiskStore(path, encoder, create), *programs)  # type: ignore[arg-type]

    @property
    def store(self) -> Store:
        """What is remembered now, for programs; it does not change when more is added."""
        return self.disk.store

    def add(
        self,
        what: str | Path | History | Session | Turn | Mapping[str, Any],
        session: str = "",
        source: str = "",
        format: str | None = None,
    ) -> Added:
        """Add a file, a history, a session, or one turn at the end of a session. It is on disk when this returns.

        With a labeler, a turn is labelled as well, once there are 50 to make a vocabulary of; whatever keeps it from
        that (the model, a budget, another process) is told in `pending`, and the turn is labelled later. What comes as
        a whole is labelled by `label`.

        Args:
            what: the path of a file of any known format; a record; a turn as a mapping with speaker and text, and
                time and external_id where known; or an OpenAI-style message with role and content or tool calls.
            session: id of the session that a turn belongs to; a `Turn` brings its own, and files and histories theirs.
            source: what it is forgotten by; default: the history's id or the session's; a file by its path.
            format: of a file, to skip the detection.

        Raises:
            DataError: it is not readable, or contradicts what is stored. Nothing of it was added.
            UsageError: a file that cannot be opened, or a turn without session, speaker or text.
        """
        if isinstance(what, str | Path):
            if session or source:
                raise UsageError(
                    "a file has its own sessions and is forgotten by its path; leave out session and source"
                )
            return self.disk.add_file(what, format)
        if isinstance(what, Session):
            what = History(id=source or what.id, sessions=(what,))
        if isinstance(what, History):
            return self.disk.add_history(what, source)
        if isinstance(what, Turn):
            session = session or what.session_id
        added = self.disk.add_turn(session, _row(what), source)
        return self._labelled(added) if self.labeler else added

    def label(self, limit: int | None = None, finish: bool = True, tick: Tick = quiet, start: Start = "on") -> Labelled:
        """Label what has no note yet; see `label_memory`.

        Raises:
            UsageError: the memory was opened without a labeler, or another process labels it.
        """
        if self.labeler is None:
            raise UsageError("this memory has no labeler; open it with Memory.open(path, labeler=FusedStitcher())")
        return label_memory(self.disk, self.labeler, limit, finish, tick, start)

    def memorize(self, limit: int | None = None, tick: Tick = quiet, start: Start = "on") -> Filed:
        """File sessions that have no memo yet in the tree of folders, and write what is stale of its READMEs.

        Args:
            limit: at most so many sessions.
            tick: is told how many sessions and folders are through.
            start: see `programs.jam.filing.memorize`.

        Raises:
            UsageError: no model is configured, or another process files this memory.
            BackendError, BudgetStop: from the steps. What was written is kept.
        """
        return memorize(self.disk, self.memorizer, limit, tick, start)

    def _labelled(self, added: Added) -> Added:
        try:
            failed = self.label(finish=False).failed
        except (StitchjamError, BudgetStop) as error:  # the turn is stored all the same; to raise would have it twice
            return replace(added, pending=str(error))
        return replace(added, pending="; ".join(dict.fromkeys(failed.values()))) if failed else added

    def search(self, query: str, k: int = 10, neighbours: int = 0, **where: Any) -> tuple[Hit, ...]:
        """The best turns for a query, without a model; `where` are the fields of `Filter`, such as speakers=["Mira"].

        Raises:
            UsageError: a filter is unknown, or names something that is not there.
        """
        _require(query=(query, str), k=(k, int), neighbours=(neighbours, int))
        return self.store.search(query, k, Filter.of(**where), neighbours)

    def recall(self, step: str, k: int = 10, now: str = "", **where: Any) -> Context:
        """What an agent in the middle of a trajectory should remember for its current step: turns in time order.

        Without a model, by similarity; with `now` and an agent that recalls by intent, such as `StitchAgent()`, by what
        the step is about: its last turns are shown with it, and `k` and the budget are those of the agent.

        Args:
            step: what the agent is about to do, in words.
            k: turns at most.
            now: id of the session that the agent is in.
            where: as for `search`; for recall by similarity.

        Raises:
            UsageError: there is no such session, or no agent that recalls by intent.
        """
        _require(step=(step, str), k=(k, int), now=(now, str))
        if not now:
            return recall(step, self.store, k, Filter.of(**where))
        finder, store = getattr(self.agent, "recall", None), self.store
        if not isinstance(finder, IntentRecall) or where:
            raise UsageError(
                "now is for recall by intent, which takes no filters; open the memory with agent=StitchAgent()"
            )
        with dspy.context(private=True):
            return finder(question=step, store=store, now=store.session(now).turns[-_NOW:]).context

    def research(self, question: str) -> Context:
        """Claims with spans that bear on a question, by the agent's researcher; by one search when it has none."""
        _require(question=(question, str))
        finder = getattr(self.agent, "researcher", None) or getattr(self.agent, "recall", None)
        if finder is None:
            return recall(question, self.store, getattr(self.agent, "k", 10))
        with dspy.context(private=True):
            return finder(question=question, store=self.store).context

    def ask(self, question: str) -> Answer:
        """An answer with the claims it rests on; `abstained` when the memory does not say.

        Raises:
            UsageError: no model is configured.
            ModelError: from the steps.
        """
        _require(question=(question, str))
        with dspy.context(private=True):
            return self.agent(question=question, store=self.store).answer

    def forget(self, source: str) -> Forgotten:
        """Forget a source by id or name, with all that was derived from it.

        Raises:
            UsageError: there is no such source; the message names the nearest.
        """
        _require(source=(source, str))
        return self.disk.forget(source)

    def verify(self, rebuild: bool = False) -> Verified:
        """Read back every byte that was ingested and compare; with `rebuild`, make the index anew first."""
        return self.disk.verify(rebuild)

    def stats(self) -> dict[str, Any]:
        """See `DiskStore.stats`."""
        return self.disk.stats()

    def close(self) -> None:
        """Close all connections."""
        self.disk.close()

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({str(self.disk.path)!r})"

    def __copy__(self) -> "Memory":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Memory":
        return self

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Memory.open, (self.disk.path, self.agent, None, True, self.labeler, self.memorizer)


def _row(what: Any) -> Mapping[str, str]:
    """Speaker, text, time and external id of a turn, of a mapping with these, or of an OpenAI-style message."""
    if isinstance(what, Turn):
        return what.model_dump(include=set(_ROW))
    if not isinstance(what, Mapping):
        raise UsageError(f"a memory takes a path, a history, a session or a turn, not {type(what).__name__}")
    if "role" in what:
        what = message_rows([Row("the message", dict(what))])[0]
    unknown = set(what) - set(_ROW)
    if unknown:
        raise UsageError(f"a turn has no field {sorted(unknown)[0]!r}; its fields are {', '.join(_ROW)}")
    return what


def _require(**values: tuple[Any, type]) -> None:
    for name, (value, kind) in values.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            wanted = "text" if kind is str else "a whole number"
            raise UsageError(f"{name} is {wanted}, not {value!r}")
