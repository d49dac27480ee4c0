"""Turns a session into a memo, and what lies in a folder into its name and its README (JAM section 1).

A memo is written in sight of a few related ones, never of the tree, so that the thousandth costs what the first did.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dspy

from stitchjam.data.errors import ModelOutputError, UsageError
from stitchjam.data.passages import Passage, pages
from stitchjam.data.records import Session, Span
from stitchjam.data.said_dates import meant_date
from stitchjam.data.text import normalise, one_line
from stitchjam.data.tree.grow import Folder, Sizes, Tree
from stitchjam.data.tree.paths import most, name_of
from stitchjam.data.tree.readme import child_lines, content_hash, entities_of, memo_line
from stitchjam.data.tree.records import Dated, Fact, Memo
from stitchjam.programs.contract import digest, identity
from stitchjam.programs.render import NOTHING, clip, quoted_line, within
from stitchjam.programs.step import Program, as_step
from stitchjam.signatures import step_name
from stitchjam.signatures.memorizer import GroupMemos, MemoReply, WriteMemo, WriteReadme

__all__ = ["Memorizer"]

_STEPS = {step_name(signature): signature for signature in (WriteMemo, GroupMemos, WriteReadme)}
_RELATED, _MEMBER = 130, 200  # characters of a line that shows a memo, and of one that shows what lies in a folder
_MEMBERS = 600  # tokens of all that is shown of a folder
_BESIDE = 12
_PARTS = 8  # memos of parts that are made one at a time
_ENTITIES, _FACTS, _DATES = 8, 6, 4


@dataclass(frozen=True)
class _Part:
    """A stretch of a session, as lines with labels, and what stands behind each label."""

    lines: dict[str, str]
    of: dict[str, Any]


class Memorizer(Program):
    """Files sessions: a memo for each, a name and a README for each folder.

    Args:
        sizes: limits of the tree.
        related: memos that are shown with a session.
        window: tokens of a session that are read at once; a longer one is read in parts, and its memo is made of
            theirs.
        steps: replacements by step name (write_memo, group_memos, write_readme): a module, a module class or a
            signature with the same fields.
    """

    write_memo: dspy.Module
    group_memos: dspy.Module
    write_readme: dspy.Module

    def __init__(self, sizes: Sizes | None = None, related: int = 3, window: int = 1200, **steps: Any):
        super().__init__()
        if unknown := sorted(set(steps) - set(_STEPS)):
            raise UsageError(f"Memorizer has no step {unknown[0]!r}; its steps are {', '.join(_STEPS)}")
        for name, size, least in (("related", related, 0), ("window", window, 50)):
            if not isinstance(size, int) or isinstance(size, bool) or size < least:
                raise UsageError(f"{name} is a whole number from {least} on, not {size!r}")
        if not isinstance(sizes or Sizes(), Sizes):
            raise UsageError(f"sizes are a Sizes(...), not {sizes!r}")
        self.sizes, self.related, self.window = sizes or Sizes(), related, window
        for name, signature in _STEPS.items():
            setattr(self, name, as_step(steps.get(name), signature))

    def hparams(self) -> dict[str, Any]:
        """See `Program.hparams`."""
        return {"sizes": asdict(self.sizes), "related": self.related, "window": self.window}

    @classmethod
    def build(cls, hparams: dict[str, Any]) -> "Memorizer":
        """See `Program.build`."""
        sizes: dict[str, Any] = {"sizes": Sizes(**hparams["sizes"])}
        return cls(**(hparams | sizes))

    @property
    def fingerprint(self) -> str:
        """What memos of this program are kept under: prompts, demos and limits decide it."""
        return digest(identity(self))[:16]

    def forward(self, session: Session, related: Sequence[Memo] = ()) -> dspy.Prediction:
        """Write the memo of a session.

        Args:
            session: the session.
            related: memos of sessions that were added before it, best first.

        Returns:
            A prediction with `memo`, which counts the parts of a long session of which nothing could be used. Facts and
            dates whose words do not stand in the session are left out, and the spans of the others are copied from it.

        Raises:
            ModelOutputError, BackendError: from the step; the first of them when more than half of the parts fail.
        """
        shown = tuple(related)[: self.related]
        lines = "\n".join(clip(memo_line(memo), _RELATED) for memo in shown) or NOTHING
        head = f"session of {clip(session.time[:16], 16) or clip(session.id, 40)}"
        whole = pages(session, self.window)
        memos, failed = self._parts(whole, lines, head, session)
        while len(memos) > 1:
            groups = [memos[at : at + _PARTS] for at in range(0, len(memos), _PARTS)]
            memos = [self._joined(group, lines, head, session) for group in groups]
        memo = memos[0] if memos else Memo(session_id=session.id, title="empty", gist="")
        seen = tuple(one.session_id for one in shown)
        return dspy.Prediction(memo=memo.model_copy(update={"seen": seen, "time": session.time, "skipped": failed}))

    def name(self, tree: Tree, folder: Folder) -> tuple[str, str]:
        """A name for a folder, and a sentence about what is filed in it.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        beside = folder.parent.folders if folder.parent else []
        named = [name_of(tree, one) for one in beside if one is not folder][:_BESIDE]
        reply = self.group_memos(
            members=_members(tree, folder), beside=clip(", ".join(named), _MEMBER) or NOTHING
        ).reply
        return reply.name, reply.about

    def summary(self, tree: Tree, folder: Folder) -> str:
        """Two sentences on what can be found below a folder.

        Raises:
            ModelOutputError, BackendError: from the step.
        """
        return self.write_readme(
            name=clip(name_of(tree, folder), 60),
            members=_members(tree, folder),
            names=clip(", ".join(entities_of(tree, folder)), _MEMBER) or NOTHING,
        ).reply.summary

    def _parts(
        self, whole: Sequence[Sequence[Passage]], lines: str, head: str, session: Session
    ) -> tuple[list[Memo], int]:
        """A memo for each part, and how many have none: among hundreds of replies there is a bad one."""
        memos: list[Memo] = []
        errors: list[ModelOutputError] = []
        for at, page in enumerate(whole, 1):
            try:
                memos.append(self._memo(_read(page), lines, self._head(head, at, len(whole)), session))
            except ModelOutputError as error:
                errors.append(error)
        if len(errors) > len(memos):
            raise errors[0]
        return memos, len(errors)

    def _head(self, head: str, part: int, parts: int) -> str:
        return head if parts == 1 else f"{head}, part {part} of {parts}"

    def _memo(self, part: _Part, related: str, head: str, session: Session) -> Memo:
        reply = self.write_memo(related=related, source="\n".join([head, *part.lines.values()])).reply
        return Memo(
            session_id=session.id,
            title=one_line(reply.title),
            gist=one_line(reply.gist),
            entities=tuple(most(_said(reply.entities, session))),
            dates=tuple(_dates(reply, part, session)),
            facts=tuple(Fact(text=one.fact, span=part.of[one.line].span) for one in _facts(reply, part)),
        )

    def _joined(self, memos: Sequence[Memo], related: str, head: str, session: Session) -> Memo:
        """One memo of those of parts. Its facts are theirs: of the parts that it names first, then of the others."""
        lines = {f"t{at}": f"t{at} | {clip(f'{memo.title}: {memo.gist}', _MEMBER)}" for at, memo in enumerate(memos, 1)}
        source = "\n".join([f"{head}, its parts", *lines.values()])
        reply = self.write_memo(related=related, source=source).reply
        first = [int(one.line[1:]) - 1 for one in reply.facts if one.line in lines]
        order = [memos[at] for at in dict.fromkeys([*first, *range(len(memos))])]
        return Memo(
            session_id=session.id,
            title=one_line(reply.title),
            gist=one_line(reply.gist),
            entities=tuple(most(name for memo in memos for name in memo.entities)[:_ENTITIES]),
            dates=tuple(_by_turns([memo.dates for memo in order]))[:_DATES],
            facts=tuple(_by_turns([memo.facts for memo in order]))[:_FACTS],
        )


def content_of(tree: Tree, folder: Folder) -> str:
    """The hash of what the summary of a folder is written of."""
    return content_hash([name_of(tree, folder), _members(tree, folder)])


def _members(tree: Tree, folder: Folder) -> str:
    lines = (clip(line, _MEMBER) for line in child_lines(tree, folder))
    return "\n".join(within(lines, _MEMBERS)) or NOTHING


def _read(page: Sequence[Passage]) -> _Part:
    of = {f"t{number}": passage for number, passage in enumerate(page, 1)}
    return _Part({label: quoted_line(label, one.turn.speaker, one.text) for label, one in of.items()}, of)


def _facts(reply: MemoReply, part: _Part) -> Iterator[Any]:
    """The facts that name a line, one for each line at most."""
    taken = set[str]()
    for one in reply.facts:
        if one.line in part.of and one.line not in taken and one.fact:
            taken.add(one.line)
            yield one


def _said(names: Sequence[str], session: Session) -> Iterator[str]:
    """Those names whose words stand in the session, or are those of who speaks."""
    there = normalise(" ".join(f"{turn.speaker} {turn.text}" for turn in session.turns))
    padded = f" {there} "
    yield from (name for name in map(one_line, names) if name and f" {normalise(name)} " in padded)


def _dates(reply: MemoReply, part: _Part, session: Session) -> Iterator[Dated]:
    """The dates whose phrase stands in the part that was read, as days or months."""
    for one in reply.dates:
        span = _find(one.phrase, part)
        if span is None:
            continue
        turn = next(passage.turn for passage in part.of.values() if passage.turn.id == span.turn_id)
        if date := meant_date(" ".join(one.phrase.split()), one.date, turn.time or session.time):
            yield Dated(phrase=one.phrase, date=date, span=span)


def _find(phrase: str, part: _Part) -> Span | None:
    """Where words stand in the part that was read; case does not count, nor where a line ends."""
    words = r"\s+".join(map(re.escape, phrase.split()))
    if not words:
        return None
    pattern = re.compile(rf"(?<![A-Za-z0-9]){words}(?![A-Za-z0-9])", re.IGNORECASE)
    for passage in part.of.values():
        if found := pattern.search(passage.text):
            return Span.of(passage.turn, passage.start + found.start(), passage.start + found.end())
    return None


def _by_turns(lists: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """The first of each list, then the second of each, and so on."""
    for at in range(max(map(len, lists), default=0)):
        yield from (one[at] for one in lists if at < len(one))
