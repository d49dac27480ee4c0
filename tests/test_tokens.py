"""Tokens are counted offline, and cutting keeps the promise it makes."""

import random
import subprocess
import sys

import pytest

from stitchjam.data import tokens
from stitchjam.data.errors import UsageError
from stitchjam.data.tokens import count_tokens, truncate

PIECES = ["hello", " ", "world", "日本", "👩‍🚀", "\n\n", "Zoë", "x" * 9, "\ud800", "\x00", "1234", "  ", "𝕏"]


def test_counts_are_those_of_the_vocabulary():
    assert count_tokens("") == 0
    assert count_tokens("Hello") == 1  # no <s> in front
    assert count_tokens("hello world " * 1_000) == pytest.approx(2_000, abs=3)


def test_a_text_that_fits_is_not_touched():
    assert truncate("Hello there", 99) == "Hello there"
    assert truncate("", 0) == truncate("Hello", 0) == truncate("Hello", -1) == ""


def test_a_cut_is_a_beginning_of_words():
    assert truncate("one two three four", 2) == "one two"


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_has_at_most_the_tokens_allowed_and_is_a_beginning(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices(PIECES, k=rng.randrange(30)))
    for allowed in range(count_tokens(text) + 1):
        cut = truncate(text, allowed)
        assert text.startswith(cut) and count_tokens(cut) <= allowed
    assert truncate(text, count_tokens(text)) == text


def test_the_tokenizer_is_loaded_without_the_package_that_holds_it():
    code = "import sys, stitchjam.data.tokens as t; t.count_tokens('x'); assert 'wordllama' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_without_the_file_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(tokens, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        tokens.tokenizer_file()
