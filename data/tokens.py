"""Turns text into a number of tokens, and cuts it to one, with a tokenizer that is on disk: no network, no model."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stitchjam.data.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

__all__ = ["count_tokens", "tokenizer", "tokenizer_file", "truncate"]


def count_tokens(text: str) -> int:
    """Number of tokens of a text, without special tokens, by the Llama-2 vocabulary in the wordllama wheel.

    A model's own vocabulary gives another count; budgets counted with this one are the same for every model.
    """
    return len(_encode(text).ids)


def truncate(text: str, max_tokens: int) -> str:
    """The longest beginning of a text, cut between tokens, that has at most `max_tokens` tokens."""
    encoding = _encode(text)
    kept = max(max_tokens, 0)
    while len(encoding.ids) > max_tokens and kept:
        # The cut may fall inside a character of several byte tokens, and a beginning may be split in another way
        # than the same characters were inside the whole text: count again, and give up one more token if needed.
        cut = text[: encoding.offsets[kept][0]]
        if count_tokens(cut) <= max_tokens:
            return cut
        kept -= 1
    return text if len(encoding.ids) <= max_tokens else ""


def _encode(text: str) -> "Encoding":
    # Replies of models can hold halves of surrogate pairs, which the tokenizer refuses; "?" keeps the offsets.
    return tokenizer().encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)


@lru_cache(maxsize=1)
def tokenizer() -> "Tokenizer":
    """The tokenizer of the wordllama wheel, loaded once; it neither cuts nor pads."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer_file()))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


def tokenizer_file() -> Path:
    """Where its file lies; raises UsageError when the wheel is not what it was."""
    # The package is only located: importing it would load its models' code, and its own loader looks in a wrong folder.
    spec = find_spec("wordllama")
    folders = (spec and spec.submodule_search_locations) or ()
    files = sorted(file for folder in folders for file in Path(folder, "tokenizers").glob("*.json"))
    if not files:
        raise UsageError("counting tokens needs the tokenizer of 'wordllama'; run: pip install --upgrade wordllama")
    return files[0]
