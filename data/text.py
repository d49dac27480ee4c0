"""Turns text from a memory into text that is safe and measurable in a prompt."""

import re
import string
import threading
import unicodedata

__all__ = ["escape", "is_question", "name_key", "normalise", "one_line", "printable", "stem", "words"]

# A memory may hold transcripts of LM calls. Field markers of dspy adapters would open or close fields in our prompt,
# and chat-template tokens are parsed as such by llama.cpp even inside a message.
_MARKERS = (
    (re.compile(r"\[\[\s*##"), "[ [ # #"),
    (re.compile(r"##\s*\]\]"), "# # ] ]"),
    (re.compile(r"<\|"), "< |"),
    (re.compile(r"\|>"), "| >"),
    (re.compile(r"<(/?s|/?start_of_turn|/?end_of_turn|/?INST|/?SYS|bos|eos)>"), r"< \1 >"),
    (re.compile(r"\[(/?INST)\]"), r"[ \1 ]"),
)
_SPACE = re.compile(r"\s+")
_PUNCTUATION = str.maketrans({mark: " " for mark in string.punctuation})
_ARTICLES = {"a", "an", "the"}


def is_question(text: str) -> bool:
    """Whether a text ends in a question mark, of any script that has one."""
    return text.rstrip(" \n\"')]”’").endswith(("?", "？", "؟", "\N{GREEK QUESTION MARK}"))


def escape(text: str) -> str:
    """Take the power from field markers and chat-template tokens; escaping twice changes nothing more."""
    for pattern, harmless in _MARKERS:
        text = pattern.sub(harmless, text)
    return text


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < ord(" ") else "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text without terminal commands and changes of direction; line breaks and tabs stay."""
    return _CONTROLS.sub(_picture, text)


def one_line(text: str) -> str:
    """Fold white space, so that quoted text cannot start a line of its own in a prompt."""
    return _SPACE.sub(" ", text).strip()


def words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles: the tokens of answer F1 (SQuAD, LongBench)."""
    return [word for word in text.lower().translate(_PUNCTUATION).split() if word not in _ARTICLES]


def normalise(text: str) -> str:
    """The words of a text, joined: the form in which answers are compared."""
    return " ".join(words(text))


def name_key(name: str) -> str:
    """The form in which names are compared: case, punctuation and articles do not count, unless there is no more."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(" " if unicodedata.category(one).startswith("P") else one for one in name)
    return normalise(name) or name.strip().casefold()


def stem(tokens: list[str]) -> list[str]:
    """Snowball stems of lower-case words."""
    return _local.stemmer.stemWords(tokens)


class _Local(threading.local):
    """A stemmer for each thread: PyStemmer does not promise to be thread-safe."""

    def __init__(self) -> None:
        from Stemmer import Stemmer

        self.stemmer = Stemmer("english")


_local = _Local()
