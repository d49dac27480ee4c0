"""Turns a template and what it shows into one HTML file that opens without network and runs only its own script."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stitchjam.data.atomic import whole_file
from stitchjam.data.errors import UsageError
from stitchjam.data.text import printable
from stitchjam.optimizers.pages.drawing import COLOURS, WIDTH, marker

__all__ = ["Cutter", "inline", "write_sheet"]

_TEMPLATES = Path(__file__).with_name("templates")


class Cutter:
    """Cuts texts to so many bytes of HTML, and counts how many it cut."""

    def __init__(self, limit: int):
        self.limit, self.cut = limit, 0

    def __call__(self, text: str) -> str:
        text = printable(text).strip()
        kept = self.kept(text)
        return text if kept == len(text) else text[:kept] + "…"

    def kept(self, text: str) -> int:
        """How many of its characters are kept; what places in a text refer to must not move."""
        kept, size = len(text), _size(text)
        self.cut += size > self.limit
        while size > self.limit:
            kept = int(kept * self.limit / size)
            size = _size(text[:kept])
        return kept


def _size(text: str) -> int:
    return len(escape(text).encode("utf-8", "replace"))


def write_sheet(
    path: Path, template: str, content: Mapping[str, Any], filters: Mapping[str, Callable[..., Any]]
) -> None:
    """Write a page; every text in `content` is escaped, and the same content gives the same bytes.

    Args:
        path: an .html file; one that is there is replaced.
        template: its file in templates/.
        content: what it shows, with what `inline` gave.
        filters: of the template, beside "thousands" and "place".

    Raises:
        UsageError: the file cannot be written.
    """
    page = _environment(filters).get_template(template).render(content)
    try:
        with whole_file(path) as file:
            file.write(page.encode("utf-8", "replace").decode())  # a model may write half a surrogate pair
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); choose another file") from None


def _environment(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
        finalize=lambda value: printable(value) if type(value) is str else value,  # a subclass is HTML already
    )
    made.globals |= {"marker": marker, "colours": len(COLOURS), "drawing_width": WIDTH}
    made.filters |= {"thousands": lambda value: f"{value:,.0f}", "place": _place, **filters}
    return made


def _place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def inline(*styles: str, script: str) -> dict[str, str]:
    """Style and script from files in templates/, and the policy that lets a browser use these two and nothing else."""
    style = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in styles)
    style += "".join(f".c{number} {{ --c: {colour}; }}\n" for number, colour in enumerate(COLOURS))
    code = (_TEMPLATES / script).read_text(encoding="utf-8")
    allowed = f"style-src {_hash(style)}; script-src {_hash(code)}"
    return {
        "style": style,
        "script": code,
        "policy": f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
    }


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
