"""Turns a Markdown or plain text document into a history: a session for each heading, a turn for each paragraph.

A heading is a line with # in front, or a line of its own underlined with === or ---; lines in code fences are none.
Paragraphs, lists, tables and fenced code are blocks up to the next blank line or heading.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stitchjam.data.ids import build_session
from stitchjam.data.readers.dates import first_time
from stitchjam.data.readers.source import Origin, Source, new_session_id
from stitchjam.data.records import History
from stitchjam.data.text import one_line

__all__ = ["read_document"]

_HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(={3,}|-{3,})[ \t]*")
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_NO_TITLE = tuple("-*+>|`~=")  # a list, quote, table, code fence or line above a title
_RULE = "---"
_LONGEST_SPEAKER = 80


@dataclass
class _Section:
    title: str
    blocks: list[str] = field(default_factory=list)


def read_document(path: Origin) -> History:
    """Read a document.

    The speaker is the first heading, or else the name of the file. Sessions are named STEM/heading in document order,
    what stands before the first heading STEM. Turns are the blocks as they are written, headings among them; line ends
    become "\\n". The time is the `date:` of the front matter.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is empty or no text; the message names file and line.
    """
    source = Source.of(path)
    lines = source.text_lines()
    length = _front_matter(lines)
    front, sections = "\n".join(lines[:length]), _sections(_blocks(lines[length:]))
    if front:
        sections[0].blocks.insert(0, front)
    speaker = next((section.title for section in sections if section.title), source.stem)[:_LONGEST_SPEAKER]
    date, taken = re.search(r"^date:(.*)", front, re.MULTILINE), dict[str, int]()
    sessions = [
        build_session(
            new_session_id(source.stem, section.title, taken),
            first_time(date[1]) if date else "",
            [{"speaker": speaker, "text": block} for block in section.blocks],
        )
        for section in sections
        if section.blocks
    ]
    return History(id=source.stem, sessions=tuple(sessions))


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines at the top are YAML between two rules."""
    if lines[0].rstrip() != _RULE:
        return 0
    return next((at for at, line in enumerate(lines[1:], 2) if line.rstrip() == _RULE), 0)


def _blocks(lines: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    fence = ""
    for line in lines:
        inside, fence = fence, _fence_behind(line, fence)
        if inside or fence:
            blocks[-1].append(line)
        elif not line.strip():
            blocks.append([])
        elif _HEADING.match(line):
            blocks += [[line], []]
        elif _is_underlined([*blocks[-1][:2], line]):
            blocks[-1].append(line)
            blocks.append([])
        else:
            blocks[-1].append(line)
    return [block for block in blocks if block]


def _fence_behind(line: str, fence: str) -> str:
    """The marks of the code fence that is open behind a line, "" for none."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match[1]
    return "" if match[1].startswith(fence) and line.strip() == match[1] else fence


def _is_underlined(block: Sequence[str]) -> bool:
    return (
        len(block) == 2
        and _UNDERLINE.fullmatch(block[1]) is not None
        and not block[0].lstrip().startswith(_NO_TITLE)
        and not block[0].startswith((" " * 4, "\t"))
    )


def _sections(blocks: Sequence[Sequence[str]]) -> list[_Section]:
    sections = [_Section("")]
    for block in blocks:
        if _HEADING.match(block[0]) or _is_underlined(block):
            sections.append(_Section(_title(block[0])))
        sections[-1].blocks.append("\n".join(block).rstrip("\n"))
    return sections


def _title(line: str) -> str:
    words = one_line(line.strip().removeprefix("#").lstrip("#") if _HEADING.match(line) else line)
    return words.rstrip("#").rstrip() if words.endswith(" #") or words.rstrip("#").endswith(" ") else words
