"""What holds for every test: no network, no state of the user's, no state left by the test before.

PYTHONHASHSEED cannot be set here, since Python reads it when it starts: the Makefile exports PYTHONHASHSEED=0, and a
test that depends on it starts a process of its own.
"""

import atexit
import copy
import ipaddress
import os
import shutil
import socket
import sys
import tempfile
from typing import Any

import pytest

_STATE = tempfile.mkdtemp(prefix="stitchjam-tests-")
atexit.register(shutil.rmtree, _STATE, ignore_errors=True)

# All three are read when dspy, litellm or huggingface_hub is imported, and conftest comes before every test module.
os.environ["DSPY_CACHEDIR"] = os.path.join(_STATE, "dspy")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


class NetworkRefused(RuntimeError):
    """A test tried to leave this machine."""


def _is_loopback(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session")
def _refused_hosts():
    """Guard the sockets of this process; yields the list of hosts that were refused."""
    refused: list[str] = []
    guarded = pytest.MonkeyPatch()

    def check(host: object) -> None:
        if not _is_loopback(host):
            refused.append(str(host))
            raise NetworkRefused(
                f"a test tried to reach {host!r}; tests may use loopback only: script the model or start a local server"
            )

    def guard(name: str) -> None:
        original = getattr(socket.socket, name)

        def connect(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return original(self, address)

        guarded.setattr(socket.socket, name, connect)

    original_lookup = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if host is not None:
            check(host)
        return original_lookup(host, *args, **kwargs)

    guard("connect")
    guard("connect_ex")
    guarded.setattr(socket, "getaddrinfo", getaddrinfo)
    yield refused
    guarded.undo()


@pytest.fixture(autouse=True)
def _no_network(_refused_hosts):
    """Fail the test that tried to leave this machine, also when a library swallowed the refusal."""
    del _refused_hosts[:]
    yield
    if _refused_hosts:
        pytest.fail(
            f"the test tried to reach {sorted(set(_refused_hosts))}; tests may use loopback only", pytrace=False
        )


@pytest.fixture(autouse=True)
def _fresh_dspy():
    """Give each test default settings and an empty cache in memory; a test without dspy does not pay for its import."""
    _reset_dspy()
    yield
    _reset_dspy()


def _reset_dspy() -> None:
    if "dspy" not in sys.modules:
        return
    import dspy

    # `dspy.configure` can add settings but not remove them, and only the first thread that calls it may call it again.
    settings: Any = sys.modules["dspy.dsp.utils.settings"]  # the attribute of that name is an object, not the module
    settings.main_thread_config.clear()
    settings.main_thread_config.update(copy.deepcopy(settings.DEFAULT_CONFIG))
    settings.config_owner_thread_id = None
    settings.config_owner_async_task = None
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line as the shell does: exit code, standard output, standard error."""

    from stitchjam import cli

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["stitchjam", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return int(stopped.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture(scope="module")
def victims():
    """A process whose children run jobs on a memory and can be killed."""
    from victims import Victims

    made = Victims()
    yield made
    made.close()


@pytest.fixture(scope="session")
def worlds(tmp_path_factory):
    """Generated worlds with all styles, types of questions and numbers of hops among them; made once, never changed."""
    from made_worlds import make_some

    return make_some(tmp_path_factory.mktemp("worlds"))
