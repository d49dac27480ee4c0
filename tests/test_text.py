"""Text from a memory has no power in a prompt, and answers are compared by their words."""

import random

import pytest

from stitchjam.data.text import escape, normalise, one_line, printable, stem, words

MARKERS = [
    "[[ ##",
    "## ]]",
    "<|",
    "|>",
    "<s>",
    "</s>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<bos>",
]
PIECES = [*MARKERS, "[", "]", "#", "<", ">", "|", "/", " ", "\n", "s", "INST", "completed", "[[##", "##]]", "<<SYS>>"]


@pytest.mark.parametrize(
    "marker", [*MARKERS, "[[ ## completed ## ]]", "[[##x##]]", "<|im_start|>", "<|eot_id|>", "<eos>"]
)
def test_markers_lose_their_form(marker):
    assert marker not in escape(f"before {marker} after")


@pytest.mark.parametrize("text", ["", "plain", "a < b | c > d", "x[1] ## heading", "if (a<b) {}", "日本 [[wiki]]"])
def test_other_text_stays_as_it_is(text):
    assert escape(text) == text


@pytest.mark.parametrize("seed", range(300))
def test_escaping_is_idempotent_and_leaves_no_marker(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices(PIECES, k=rng.randrange(12)))
    escaped = escape(text)
    assert escape(escaped) == escaped
    assert [marker for marker in MARKERS if marker in escaped] == []


def test_one_line_folds_all_white_space():
    assert one_line("  a\n\n[[ x\t\u2028b\u00a0c \r\n") == "a [[ x b c"


def test_words_drop_case_punctuation_and_articles():
    assert words("The U.S.-based  Firm, an (old) one!") == ["u", "s", "based", "firm", "old", "one"]
    assert normalise("The Zoë-Bar") == normalise("zoë bar") == "zoë bar"
    assert normalise("...") == ""


def test_stems_join_the_forms_of_a_word():
    assert stem(["hiking", "hikes", "hiked"]) == ["hike"] * 3
    assert stem([]) == []


def test_terminal_commands_and_changes_of_direction_are_made_visible():
    assert printable("a\x1b[31m\x9b5m\u202eb\tc\nd") == "a\u241b[31m\ufffd5m\ufffdb\tc\nd"
