"""Turns the environment into the list of values that must never be written to a file."""

import json
import os
import re

__all__ = ["find_secret", "hide_secrets"]

_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8


def _secrets() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _NAME.search(name) and len(value) >= _SHORTEST}


def find_secret(text: str) -> str | None:
    """Name of an environment variable whose secret value stands in a text, as it is or escaped for JSON, or None."""
    for name, value in _secrets().items():
        if value in text or json.dumps(value, ensure_ascii=False)[1:-1] in text:
            return name
    return None


def hide_secrets(text: str) -> str:
    """The text with each secret value replaced by the name of its variable: a server may repeat the key it refuses."""
    for name, value in _secrets().items():
        text = text.replace(value, f"${name}")
    return text
