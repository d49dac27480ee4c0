"""Vectors are unit rows that say which texts are alike, the same for the same text; a wrong name says what to do."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from stitchjam.data import tokens
from stitchjam.data.errors import MissingExtra, UsageError
from stitchjam.data.index import encoders
from stitchjam.data.index.encoders import Encoder, open_encoder

TEXTS = [
    "I adopted a puppy last week.",
    "We got a new dog on Monday.",
    "The stock market fell sharply.",
    "Zoë a mangé une crème brûlée 👩‍🚀",
    "我昨天在公园里遇见了小明",
    "a\x00b",
    "x" * 300,
    "13",
]


@pytest.fixture(scope="module")
def static() -> Encoder:
    encoder = open_encoder("static")
    assert encoder is not None
    return encoder


def test_vectors_are_rows_of_length_one(static):
    vectors = static.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), static.dim) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert static.encode_query(TEXTS[0]).shape == (static.dim,)


def test_no_texts_are_no_rows(static):
    assert static.encode([]).shape == (0, static.dim)


def test_a_blank_text_is_a_row_of_zeros_and_leaves_its_neighbours_alone(static):
    vectors = static.encode(["", TEXTS[0], " \n\t", TEXTS[1], ""])
    assert not vectors[[0, 2, 4]].any() and not static.encode_query("").any()
    assert np.array_equal(vectors[[1, 3]], static.encode(TEXTS[:2]))


def test_space_around_a_text_does_not_count(static):
    assert np.array_equal(static.encode_query("\n hello there  "), static.encode_query("hello there"))


def test_a_text_has_one_vector_whatever_it_is_encoded_with(static):
    texts = [f"{text} {number}" for number in range(600) for text in TEXTS]
    together = static.encode(texts)
    for size in (1, 7, 300):
        parts = [static.encode(texts[at : at + size]) for at in range(0, len(texts), size)]
        assert np.array_equal(np.concatenate(parts), together)
    assert np.array_equal(static.encode(texts[::-1])[::-1], together)
    assert np.array_equal(static.encode_query(texts[5]), together[5])


def test_a_vector_is_the_mean_of_the_vectors_of_the_tokens(static):
    weights = load_file(weights_file())["embedding.weight"].astype(np.float64)
    for text in TEXTS:
        mean = weights[tokens.tokenizer().encode(text, add_special_tokens=False).ids].mean(axis=0)
        assert static.encode_query(text) == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


@pytest.mark.parametrize(
    "query, near, far",
    [
        ("Does she have a pet?", "I adopted a puppy last week.", "The stock market fell sharply."),
        ("What did he cook for dinner?", "I made a pasta recipe with tomatoes.", "My train was late again."),
        ("公园", "我昨天在公园里遇见了小明", "股票市场今天大跌"),
    ],
)
def test_what_means_the_same_is_nearer(static, query, near, far):
    scores = static.encode([near, far]) @ static.encode_query(query)
    assert scores[0] > scores[1] + 0.05


def test_halves_of_surrogate_pairs_do_not_matter(static):
    assert np.array_equal(static.encode(["a\ud800b", "\udfff"]), static.encode(["a?b", "?"]))


def test_a_long_text_counts_from_beginning_to_end(static):
    dogs, cats = "dog " * 30_000, "cat " * 30_000
    both = static.encode_query("dog") + static.encode_query("cat")
    assert static.encode_query(dogs + cats) @ both / np.linalg.norm(both) > 0.99
    assert static.encode_query(dogs) @ static.encode_query("dog") > 0.99


@pytest.mark.parametrize("unspaced", ["x", "日本"])
def test_a_long_text_without_spaces_is_encoded(static, unspaced):
    assert np.linalg.norm(static.encode_query(unspaced * 20_000)) == pytest.approx(1, abs=1e-6)


def test_threads_get_the_vectors_of_one_thread_from_one_encoder(static):
    texts = TEXTS * 40
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: (open_encoder("static"), static.encode(texts)), range(16)))
    expected = static.encode(texts)
    assert all(encoder is static and np.array_equal(vectors, expected) for encoder, vectors in found)


def test_the_name_of_the_encoder_holds_that_of_its_weights_and_changes_with_them(static, tmp_path):
    original = weights_file()
    assert static.name.startswith(f"static:{original.stem}@")
    copy = tmp_path / original.name
    copy.write_bytes(original.read_bytes())
    assert encoders.StaticEncoder(copy).name == static.name
    data = bytearray(original.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    assert encoders.StaticEncoder(copy).name != static.name


def test_none_means_search_by_words():
    assert open_encoder("none") is None


@pytest.mark.parametrize("name", ["", "statik", "static:", "flag", "flag:", "m3:?pooling=mean", "openai:x"])
def test_an_unknown_name_is_answered_with_the_choices(name):
    with pytest.raises(UsageError, match="choose one of: static, bge-m3, flag:MODEL, m3:MODEL, none"):
        open_encoder(name)


@pytest.mark.parametrize(
    "name, message",
    [
        ("flag:x/y?poling=mean", "no option 'poling'; choose from: device, pooling, query"),
        ("bge-m3?pooling=max", "pooling 'max' .* choose cls or mean"),
        ("flag:/no/such/folder", "there is no folder '/no/such/folder'"),
        ("m3:./no_such_folder?device=cpu", "there is no folder './no_such_folder'"),
    ],
)
def test_a_wrong_option_is_named(name, message):
    with pytest.raises(UsageError, match=message):
        open_encoder(name)


@pytest.mark.parametrize("name", ["bge-m3", "flag:BAAI/bge-small-en-v1.5", "m3:BAAI/bge-m3?device=cpu"])
def test_without_flag_embedding_the_error_says_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    with pytest.raises(MissingExtra, match=r"encoder 'BAAI/.*pip install 'stitchjam\[dense\]'.*pip install torch"):
        open_encoder(name)


def test_a_transformers_that_is_too_new_is_named(monkeypatch, tmp_path):
    package = tmp_path / "FlagEmbedding"
    package.mkdir()
    package.joinpath("__init__.py").write_text("import transformers_part_that_is_gone\n")
    monkeypatch.delitem(sys.modules, "FlagEmbedding", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="pip install 'transformers<5.24'") as caught:
        open_encoder("bge-m3")
    assert not isinstance(caught.value, MissingExtra)


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, stitchjam.data.index.encoders as e\n"
        "assert not {'FlagEmbedding', 'safetensors', 'tokenizers', 'torch', 'wordllama'} & set(sys.modules)\n"
        "e.open_encoder('static').encode(['x'])\n"
        "assert not {'FlagEmbedding', 'torch', 'wordllama'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_without_the_weights_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(tokens, "tokenizer_file", lambda: tmp_path / "tokenizers" / "x.json")
    with pytest.raises(UsageError, match="pip install --upgrade wordllama"):
        encoders._static_encoder.__wrapped__()


def weights_file() -> Path:
    return next(tokens.tokenizer_file().parent.parent.glob("weights/*.safetensors"))
