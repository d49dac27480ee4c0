"""Turn a GGUF file into an OpenAI-compatible endpoint on the loopback interface, inside this process.

llama.cpp's server runs in threads of this process (package `xllamacpp`) and ends with it. There is one server for each
(file, context length), shared by all threads and started by the first that asks.
"""

import atexit
import ctypes
import os
import threading
from pathlib import Path
from typing import Any

from stitchjam.data.errors import DataError, MissingExtra

__all__ = ["LocalServer", "serve"]

# Earlier prompts kept in RAM, in MiB, so that steps that take turns find their prefix again. The default, 8192, is more
# than many machines have.
PROMPT_CACHE_MIB = 1024

_servers: dict[tuple[Path, int], "LocalServer"] = {}
_lock = threading.Lock()
_hooked = False


class LocalServer:
    """A running server; `api_base` is its OpenAI-style address. It ends with the process, not before.

    Args:
        path: a GGUF file.
        n_ctx: context length in tokens, prompt and output together; the server refuses longer requests with a 400.

    Raises:
        MissingExtra: xllamacpp is not installed.
        DataError: llama.cpp cannot load the file.
    """

    def __init__(self, path: Path, n_ctx: int):
        xllamacpp = _import_xllamacpp()
        try:
            self._server = xllamacpp.Server(_params(xllamacpp, path, n_ctx))
        except RuntimeError as error:
            raise DataError(
                f"llama.cpp cannot load {path} ({error}); pull or copy the file again, lower n_ctx={n_ctx} if memory "
                "is short, or use another model"
            ) from error
        self.api_base = f"{self._server.listening_address}/v1"
        _never_destroy(self._server)


def serve(path: str | Path, n_ctx: int = 4096) -> str:
    """Address of the server for a model file, such as "http://127.0.0.1:PORT/v1"; starts it when there is none yet.

    Safe from any thread. A forked child gets its own server.

    Args:
        path: a GGUF file.
        n_ctx: context length in tokens.

    Raises:
        MissingExtra: xllamacpp is not installed.
        DataError: llama.cpp cannot load the file.
    """
    key = (Path(path).resolve(), n_ctx)
    with _lock:
        if key not in _servers:
            _hook_process_end()
            _servers[key] = LocalServer(*key)
        return _servers[key].api_base


def _import_xllamacpp() -> Any:
    # Read once, when the OpenMP library loads. Threads that spin at barriers stall as soon as another process wants a
    # core; see _threads for figures.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import xllamacpp
    except ImportError as error:
        instead = (
            " (no wheel for your platform? Run Ollama or llama-server and set "
            'model = "ollama_chat/NAME", or api_base, in stitchjam.toml)'
        )
        raise MissingExtra("xllamacpp", "local", "local:... models", instead=instead) from error
    return xllamacpp


def _params(xllamacpp: Any, path: Path, n_ctx: int) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {path.stem}  # else replies name the file, and recorded ones would tell where it lies
    params.n_ctx = n_ctx
    # One slot: slots divide n_ctx between them and bring no throughput on a CPU.
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system picks a free one
    params.verbosity = 0
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MIB
    # Neither is needed here, and the slots page would show prompts to every local process.
    params.ui = params.endpoint_slots = False
    params.cors_origins = "http://127.0.0.1"  # by default any web page may read the answers
    params.cpuparams.n_threads, params.cpuparams_batch.n_threads = _threads()
    return params


def _threads() -> tuple[int, int]:
    """Threads for decoding and for reading the prompt: half of the cores, and all of them."""
    # Prefill / decode, tokens a second (518 in, 64 out, 135M model, two cores): idle, one run; with one neighbour that
    # never rests, all runs (other work went on beside some of them, hence the ranges).
    #   1 thread                92 / 41;  52-74 / 19-38
    #   2 threads, spinning    198 / 66;  67-90 / 12-17
    #   2 threads, passive     182 / 25;  51-92 / 14-29
    #   1 and 2, passive     not run;     48-52 / 16-27
    # So: passive, all cores where work between barriers is long (prefill), half of them where it is short (decoding):
    # slower than spinning when idle, and no collapse. `poll` made no clear difference: the wheel links OpenMP.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2), cores


def _never_destroy(server: Any) -> None:
    # The destructor waits for the request under way (minutes), for ever when the server has only just started, and in a
    # forked child for threads that are not there. One reference too many keeps it from running.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))


def _hook_process_end() -> None:
    global _hooked
    if not _hooked:
        atexit.register(_skip_native_cleanup)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget_parent)
        _hooked = True


def _skip_native_cleanup() -> None:
    """Let the process end right after Python is done, with its exit code, while native threads still run."""
    # llama.cpp's static destructors crash when a request is under way and hang in a forked child. Handlers run last in,
    # first out, so this one, made when Python ends, comes before them. Only glibc has on_exit; without it the process
    # ends in the usual way.
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if hasattr(libc, "on_exit"):
        libc.fflush(None)
        libc.on_exit(libc._exit, None)


def _forget_parent() -> None:
    global _lock
    # Another thread of the parent may have held the lock at the fork; in the child nobody would release it.
    _lock = threading.Lock()
    _servers.clear()
