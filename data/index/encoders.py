"""Turns texts into vectors whose dot product says how alike they are, with a model that is chosen by its name."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stitchjam.data import tokens
from stitchjam.data.errors import MissingExtra, UsageError

__all__ = ["Encoder", "FlagEncoder", "StaticEncoder", "open_encoder"]

Vectors = NDArray[np.float32]

_PIECE = 8_192  # characters; the tokenizer needs a few hundred bytes for each of those it gets at once
_TEXTS_AT_ONCE, _PIECES_AT_ONCE = 4_096, 256
_TOKENS_AT_ONCE = 1_024  # their vectors fit a processor's cache, which is three times as fast as not

_MODEL_TOKENS = 512  # FlagEmbedding's own default; a turn is far shorter
_MODEL_CHARACTERS = 65_536  # more than those tokens can hold, and few enough for any tokenizer
_MODEL_BATCH = 32  # FlagEmbedding encodes the first batch twice, so a large one costs more than it saves
_MODEL_TEXTS = 1_024  # for one call; a query of another thread gets its turn after each
_MODEL_FILES = {".bin", ".json", ".model", ".pt", ".safetensors", ".txt"}
_SAMPLES, _SAMPLE = 64, 1 << 16  # bytes

_SHORT = {"bge-m3": "m3:BAAI/bge-m3"}
_OPTIONS = ("device", "pooling", "query")
_CHOICES = "static, bge-m3, flag:MODEL, m3:MODEL, none"

_loading = Lock()


class Encoder(Protocol):
    """A model that turns texts into vectors; safe to share between threads.

    Attributes:
        name: what vectors are cached under; the same name stands for the same vectors.
        dim: length of a vector.
    """

    name: str
    dim: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, shape [texts, dim], rows of length 1; a row of zeros for a blank text."""
        ...

    def encode_query(self, text: str) -> Vectors:
        """Vector of a query, shape [dim]: of length 1, or zeros for a blank text."""
        ...


def open_encoder(name: str) -> Encoder | None:
    """The encoder of that name, loaded once a process; None for "none", which means search by words alone.

    Args:
        name: one of
            "static": the vectors of the wordllama wheel (the default everywhere);
            "bge-m3": short for "m3:BAAI/bge-m3";
            "flag:MODEL": FlagEmbedding's FlagModel, with the name of a model on the Hugging Face hub or its folder;
            "m3:MODEL": FlagEmbedding's BGEM3FlagModel, of which the dense vectors are used;
            "none".
            Options of the two kinds follow like "flag:MODEL?pooling=mean&device=cpu": see `FlagEncoder`.

    Raises:
        UsageError: there is no such encoder or option, or the model cannot be loaded.
        MissingExtra: the encoder needs the `dense` extra.
    """
    if name == "none":
        return None
    with _loading:
        if name == "static":
            return _static_encoder()
        base, _, options = name.partition("?")
        kind, _, model = _SHORT.get(base, base).partition(":")
        if kind in ("flag", "m3") and model:
            return _flag_encoder(kind, model, options)
    raise UsageError(f"there is no encoder {name!r}; choose one of: {_CHOICES}")


class StaticEncoder:
    """The mean of one vector for each token, from the wordllama wheel: no network, no torch, thousands a second.

    Word order does not count. The same text always has the same vector, to the bit, whatever it is encoded with.

    Args:
        weights: the safetensors file with one vector for each token of the vocabulary in `data/tokens.py`.
    """

    def __init__(self, weights: Path):
        from safetensors.numpy import load_file

        self._vectors = load_file(weights)["embedding.weight"].astype(np.float32)
        self.dim: int = self._vectors.shape[1]
        self.name = f"static:{weights.stem}@{_fingerprint(weights)}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, shape [texts, dim], rows of length 1; a row of zeros for a blank text."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            vectors[at : at + _TEXTS_AT_ONCE] = self._encode(texts[at : at + _TEXTS_AT_ONCE])
        return vectors

    def encode_query(self, text: str) -> Vectors:
        """Vector of a query, shape [dim]: that of a passage with the same text."""
        return self.encode([text])[0]

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float64]:
        # The weights have 16 bits, so sums in 64 bits are exact and do not depend on how texts are cut and batched.
        sums = np.zeros((len(texts), self.dim))
        pieces = ((owner, piece) for owner, text in enumerate(texts) for piece in _pieces(text))
        while batch := list(islice(pieces, _PIECES_AT_ONCE)):
            self._add(sums, *zip(*batch, strict=True))
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.divide(sums, lengths, out=sums, where=lengths > 0)

    def _add(self, sums: NDArray[np.float64], owners: tuple[int, ...], pieces: tuple[str, ...]) -> None:
        encodings = tokens.tokenizer().encode_batch_fast(list(pieces), add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        owner_of = np.repeat(owners, [len(row) for row in rows])
        for at in range(0, len(ids), _TOKENS_AT_ONCE):
            part = slice(at, at + _TOKENS_AT_ONCE)
            found, starts = np.unique(owner_of[part], return_index=True)
            sums[found] += np.add.reduceat(self._vectors[ids[part]], starts, axis=0, dtype=np.float64)


class FlagEncoder:
    """A model that FlagEmbedding runs (the `dense` extra); it sees the first 512 tokens of a text.

    Calls from several threads wait for each other. Vectors have 32 bits on every device, and may differ in the last of
    them with the texts they are encoded with.

    Args:
        model: name on the Hugging Face hub, from where it is fetched once, or a folder.
        kind: "flag" for FlagModel, "m3" for BGEM3FlagModel.
        pooling: "cls" or "mean": how the model was trained to make one vector of many.
        query: what the model wants in front of a query, such as "Represent this sentence for searching: ".
        device: such as "cpu" or "cuda:0"; without it the first one that FlagEmbedding finds.

    Raises:
        UsageError: an argument is wrong, or the model cannot be loaded.
        MissingExtra: FlagEmbedding is not installed.
    """

    def __init__(self, model: str, kind: str = "flag", pooling: str = "cls", query: str = "", device: str = ""):
        if pooling not in ("cls", "mean"):
            raise UsageError(f"pooling {pooling!r} of encoder {model!r} is not known; choose cls or mean")
        path = Path(model).expanduser()
        if not path.is_dir() and (path.is_absolute() or model.startswith(".")):
            raise UsageError(f"there is no folder {model!r}; give one that holds a model, or a name on the hub")
        package = _flag_embedding(model)
        self._model = _load_model(
            package.BGEM3FlagModel if kind == "m3" else package.FlagModel,
            str(path) if path.is_dir() else model,
            {"pooling_method": pooling, "query_instruction_for_retrieval": query or None},
            device,
        )
        self._max_tokens = min(_MODEL_TOKENS, self._model.tokenizer.model_max_length)
        self._one_at_a_time = Lock()  # tokenizers of transformers keep settings of the call in themselves
        self.dim: int = self._model.model.config.hidden_size
        shown = f"{path.name}@{_fingerprint(*_model_files(path))}" if path.is_dir() else model
        self.name = f"{kind}:{shown}?pooling={pooling}" + (f"&query={query}" if query else "")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, shape [texts, dim], rows of length 1; a row of zeros for a blank text."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        filled = [(row, text) for row, text in enumerate(map(_clean, texts)) if text]
        for at in range(0, len(filled), _MODEL_TEXTS):
            rows, part = zip(*filled[at : at + _MODEL_TEXTS], strict=True)
            vectors[list(rows)] = self._run(self._model.encode_corpus, part)
        return vectors

    def encode_query(self, text: str) -> Vectors:
        """Vector of a query, shape [dim]: of length 1, or zeros for a blank text."""
        text = _clean(text)
        return self._run(self._model.encode_queries, [text])[0] if text else np.zeros(self.dim, dtype=np.float32)

    def _run(self, encode: Any, texts: Sequence[str]) -> Vectors:
        with self._one_at_a_time:
            result = encode([text[:_MODEL_CHARACTERS] for text in texts], max_length=self._max_tokens)
        return np.asarray(result["dense_vecs"] if isinstance(result, dict) else result, dtype=np.float32)


@lru_cache(maxsize=1)
def _static_encoder() -> StaticEncoder:
    folder = tokens.tokenizer_file().parent.parent / "weights"
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UsageError("the static encoder needs the weights of 'wordllama'; run: pip install --upgrade wordllama")
    return StaticEncoder(files[0])


@lru_cache(maxsize=4)
def _flag_encoder(kind: str, model: str, options: str) -> FlagEncoder:
    given = {key: value for key, _, value in (option.partition("=") for option in options.split("&")) if key}
    if unknown := sorted(given.keys() - set(_OPTIONS)):
        raise UsageError(f"encoder {model!r} has no option {unknown[0]!r}; choose from: {', '.join(_OPTIONS)}")
    return FlagEncoder(model, kind, **given)


def _flag_embedding(model: str) -> Any:
    try:
        return import_module("FlagEmbedding")
    except ImportError as error:
        if error.name == "FlagEmbedding":
            before = " (without a GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
            raise MissingExtra("FlagEmbedding", "dense", f"encoder {model!r}", before) from None
        raise UsageError(
            f"FlagEmbedding is installed but cannot be imported ({error}); "
            "a version of transformers that is too new does this; run: pip install 'transformers<5.24'"
        ) from error


def _load_model(model_class: Any, model: str, settings: dict[str, Any], device: str) -> Any:
    from safetensors import SafetensorError

    # FlagEmbedding has no setting for its bars, and would draw them in the middle of what a caller shows.
    module = sys.modules[model_class.__module__]
    vars(module).update(tqdm=lambda items, **_: items, trange=lambda *bounds, **_: range(*bounds))
    try:
        # One device only: with several, FlagEmbedding starts a process for each.
        device = device or model_class.get_target_devices(None)[0]
        with _no_bars(hidden=Path(model).is_dir()):
            loaded = model_class(model, use_fp16=False, devices=device, batch_size=_MODEL_BATCH, **settings)
        loaded.model.to(device)
    except (AssertionError, EOFError, KeyError, OSError, RuntimeError, SafetensorError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(" .:")
        raise UsageError(
            f"cannot load the model {model!r} on device {device!r} ({reason}); check both, or give the folder of a "
            "model that you have (flag:FOLDER, m3:FOLDER), or choose the encoder 'static', which needs no download"
        ) from error
    return loaded


@contextmanager
def _no_bars(hidden: bool) -> Iterator[None]:
    """Without the progress bars of transformers; they stay for a model that may be fetched, which takes minutes."""
    logging = import_module("transformers.utils.logging")
    hidden = hidden and logging.is_progress_bar_enabled()
    if hidden:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if hidden:
            logging.enable_progress_bar()


def _model_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in _MODEL_FILES and file.is_file())


def _pieces(text: str) -> Iterator[str]:
    """A text in parts of at most `_PIECE` characters, cut at spaces where there are any; nothing for a blank one."""
    text, at = _clean(text), 0
    while len(text) - at > _PIECE:
        space = text.rfind(" ", at + 1, at + _PIECE)
        cut = space if space > 0 else at + _PIECE
        yield text[at:cut]
        at = cut + (space > 0)  # the tokenizer puts a space in front of what it gets
    if at < len(text):
        yield text[at:]


def _clean(text: str) -> str:
    # Replies of models can hold halves of surrogate pairs, which tokenizers refuse.
    return text.strip().encode("utf-8", "replace").decode()


def _fingerprint(*files: Path) -> str:
    """Eight hex digits that change with the names, the sizes and 64 samples of each file: gigabytes take no time."""
    digest = hashlib.blake2b(digest_size=4)
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as stream:
            # Spread out, since fine-tuning may leave the first layers as they were.
            for at in range(0, size, max(size // _SAMPLES, _SAMPLE)):
                stream.seek(at)
                digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()
