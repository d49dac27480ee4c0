"""Turns a transcript, text with lines of the form "Speaker: what was said", into a history.

What begins a turn     Mira: hello                     also with the wide colon of Chinese and Japanese
                       2026-03-02 18:30 Mira: hello    a date and clock is the time of the turn
                       [00:12:05] Mira: hello          any other clock is kept in front of the text
What begins a session  # Title   === Title ===   ---   2026-03-02
                       where a turn follows; between other lines they belong to the turn they stand in
All other lines belong to the turn before them, blank lines between them too.

A speaker is a word, or up to five of which the last has no small initial, so that "And this is the point: no" is none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.dates import first_time, iso_time
from stitchjam.data.readers.source import Origin, Source, new_session_id
from stitchjam.data.records import History

__all__ = ["looks_like_transcript", "read_transcript"]

_DATE = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d?\d:\d\d"
_STAMP = rf"""(?:(?P<stamp>
    \[ (?=[^\]]*{_CLOCK}|{_DATE}) [^\]]{{1,40}} \]
    | \( (?=[^)]*{_CLOCK}|{_DATE}) [^)]{{1,40}} \)
    | {_DATE} [\d:.TZ+-]* (?:[ ]{_CLOCK}[\d:.]*)?
) [ \t]+ (?:[-–—|][ \t]+)?)?"""
_SPOKEN = re.compile(
    rf"""[\u200e\u200f]? {_STAMP} (?P<speaker>[^\W\d_][^:：]{{0,39}}) (?::(?=\s|$)|：) [ \t\u3000]? (?P<text>.*)""",
    re.VERBOSE,
)
_MOST_WORDS = 5

_BREAK = re.compile(rf"\#{{1,6}}[ \t]+\S.*|([-=*_])\1\1(?:\1*|.*\1\1\1)|[\[(]?{_DATE}[\d:.TZ +-]*[\])]?")
_LONGEST_BREAK = 200

# How many lines of a file are looked at, and which share of them must be spoken.
_SAMPLE, _SHARE, _LEAST = 200, 0.6, 2


@dataclass
class _Turn:
    speaker: str
    time: str
    lines: list[str]


@dataclass
class _Part:
    title: str = ""
    turns: list[_Turn] = field(default_factory=list)


def read_transcript(path: Origin) -> History:
    """Read a transcript.

    Text before the first speaker is a turn whose speaker is the name of the file. Sessions are named STEM/title, the
    time of a session is the date in its title or else that of its first turn. A text is kept as it was written, but
    for blank lines around it and line ends, which become "\\n".

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is no text or nobody speaks in it; the message names file and line.
    """
    source = Source.of(path)
    lines = source.text_lines()
    spoken = [_spoken(line) for line in lines]
    if not any(spoken):
        raise DataError(
            f"{source.name}, line 1: expected lines of the form 'Speaker: text', found none; "
            "read it with --format document"
        )
    taken: dict[str, int] = {}
    parts = [part for part in _parts(lines, spoken, source.stem) if part.turns]
    sessions = [
        build_session(new_session_id(source.stem, part.title, taken), first_time(part.title), map(_row, part.turns))
        for part in parts
    ]
    return History(id=source.stem, sessions=in_time_order(sessions))


def looks_like_transcript(source: Source) -> bool:
    """Whether most of its first lines begin a turn; raises what `Source.lines` raises."""
    sample = list(islice((line for _, line in source.lines() if line.strip()), _SAMPLE))
    found = sum(_spoken(line.rstrip("\r\n")) is not None for line in sample)
    return found >= max(_LEAST, _SHARE * len(sample))


def _spoken(line: str) -> _Turn | None:
    match = _SPOKEN.fullmatch(line)
    if match is None or not _is_speaker(match["speaker"].split()):
        return None
    stamp, text = match["stamp"] or "", match["text"]
    time = iso_time(stamp.strip("[]()"))
    return _Turn(match["speaker"].strip(), time, [text if time or not stamp else f"{stamp} {text}"])


def _is_speaker(words: Sequence[str]) -> bool:
    return len(words) == 1 or (len(words) <= _MOST_WORDS and not words[-1][0].islower())


def _parts(lines: Sequence[str], spoken: Sequence[_Turn | None], stem: str) -> list[_Part]:
    parts, breaks = [_Part()], _breaks(lines, spoken)
    for at, (line, turn) in enumerate(zip(lines, spoken, strict=True)):
        if at in breaks:
            if parts[-1].turns:
                parts.append(_Part())
            parts[-1].title = f"{parts[-1].title} {line.strip(' #=-*_[]()')}".strip()
        elif turn is not None:
            parts[-1].turns.append(turn)
        elif parts[-1].turns:
            parts[-1].turns[-1].lines.append(line)
        elif line.strip():
            parts[-1].turns.append(_Turn(stem, "", [line]))
    return parts


def _breaks(lines: Sequence[str], spoken: Sequence[_Turn | None]) -> set[int]:
    """Positions of the lines that start a session: nothing but more of them and blank lines up to the next turn."""
    found, before_turn = set(), True
    for at, line in reversed(list(enumerate(lines))):
        if spoken[at] is not None:
            before_turn = True
        elif line.strip():
            before_turn = before_turn and len(line) <= _LONGEST_BREAK and _BREAK.fullmatch(line.strip()) is not None
            if before_turn:
                found.add(at)
    return found


def _row(turn: _Turn) -> dict[str, str]:
    return {"speaker": turn.speaker, "text": "\n".join(_trimmed(turn.lines)), "time": turn.time}


def _trimmed(lines: Sequence[str]) -> Sequence[str]:
    filled = [at for at, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else ()
