"""One tree of errors, split by who can act; every message ends with what to do.

StitchjamError
├── UsageError          the caller: a wrong argument, option or config file
│   └── MissingExtra    an optional part is not installed; the message holds the install line
├── DataError           the data: a file or record that is not what it should be
│   └── ArtifactError   a compiled program that is damaged, unsafe or does not fit this version
├── ModelError          the model or its endpoint
│   ├── BackendError    it could not be reached or refused the request
│   └── ModelOutputError  it answered, and the answer cannot be used
└── PublishRefused      a compiled program that did not pass the gate

BudgetStop stands outside `Exception`: an optimizer that swallows exceptions must not swallow it.
"""

from typing import Any

__all__ = [
    "ArtifactError",
    "BackendError",
    "BudgetStop",
    "DataError",
    "MissingExtra",
    "ModelError",
    "ModelOutputError",
    "PublishRefused",
    "StitchjamError",
    "UsageError",
]


class StitchjamError(Exception):
    """Base of all errors that stitchjam raises on purpose."""

    exit_code = 1


class UsageError(StitchjamError):
    """The caller asked for something that cannot be; the message says what can."""

    exit_code = 2


class MissingExtra(UsageError):
    """A part that is installed on request is missing."""

    def __init__(self, package: str, extra: str, purpose: str, instead: str = ""):
        super().__init__(f"{purpose} needs {package!r}; run: pip install 'stitchjam[{extra}]'{instead}")


class DataError(StitchjamError):
    """A file or record is not what it should be; the message names file, line and expectation."""

    exit_code = 3


class ArtifactError(DataError):
    """A compiled program is damaged, unsafe, or made for another contract.

    Args:
        message: what is wrong with it.
        differences: every difference found, one line each; all are listed, not only the first.
    """

    def __init__(self, message: str, differences: tuple[str, ...] = ()):
        self.differences = differences
        super().__init__("\n  - ".join([message, *differences]))


class ModelError(StitchjamError):
    """The model or its endpoint is at fault."""

    exit_code = 4


class BackendError(ModelError):
    """The endpoint could not be reached or refused the request."""


class ModelOutputError(ModelError):
    """The model answered, but not in a form the step can use.

    Attributes:
        step: name of the step, for example "plan_next".
        reply: the raw reply.
    """

    def __init__(self, step: str, reason: str, reply: str = ""):
        self.step, self.reason, self.reply = step, reason, reply
        shown = f"; it began {reply[:80]!r}" if reply else ""
        super().__init__(
            f"step {step!r}: {reason}{shown}. Try a model that honours JSON schemas "
            f"(see: stitchjam models check) or bind this step to another model"
        )


class PublishRefused(StitchjamError):
    """The compiled program did not pass the publish gate.

    Attributes:
        reasons: every check that failed, one line each.
    """

    exit_code = 5

    def __init__(self, reasons: tuple[str, ...]):
        self.reasons = reasons
        super().__init__("not published: " + "; ".join(reasons))


class BudgetStop(BaseException):
    """A limit on calls, tokens, seconds or cost is reached, or the backend is out during a metered run.

    It derives from BaseException because dspy's optimizers turn exceptions into scores of zero and then return a
    program as if all had gone well (specs: MIPROv2 did so after 32 refused calls).
    """

    exit_code = 6

    def __init__(self, what: str, detail: str, **figures: Any):
        self.what, self.detail, self.figures = what, detail, figures
        super().__init__(f"stopped ({what}): {detail}")
