"""The command line: reads arguments, calls the rings below, prints what they return.

Imports of the rings stand inside the commands, so that `--help` is instant.
"""

import os
import sys
import traceback
from typing import Annotated

import typer

# Importing litellm would otherwise fetch a price list, with retries, and warn when there is no network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("TQDM_DISABLE", "1")

from stitchjam.cli import (  # noqa: E402, F401  (importing them adds their commands)
    agreement,
    ask,
    bench,
    compile,
    eval,
    gym,
    inspect,
    label,
    measure,
    memorize,
    memory,
    report,
    segment,
    show,
)
from stitchjam.cli.shared import app, say  # noqa: E402
from stitchjam.data.errors import BudgetStop, StitchjamError  # noqa: E402
from stitchjam.data.secrets import hide_secrets  # noqa: E402

__all__ = ["main"]


@app.callback()
def root(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Agent memory as DSPy programs that are compiled for your model."""


def main() -> None:
    """Run the command line; every expected error is one line and an exit code."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # it is None where a shell closed it
    for stream in (sys.stdout, sys.stderr):  # an answer is paid for, whatever the terminal can show
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app()
    except (StitchjamError, BudgetStop, OSError) as error:  # an OSError is a file or folder that cannot be used
        if debug:
            say(hide_secrets(traceback.format_exc()))  # a server may repeat the key it refuses
        say(f"error: {hide_secrets(str(error))}")
        sys.exit(getattr(error, "exit_code", 1))
