"""Renders pages from templates: self-contained files in which all text from data is escaped."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dphrl.report.text_tables import of_words

TEMPLATES: Final = Path(__file__).parent / "templates"
_ASSETS = Path(__file__).parent / "assets"


def render(template: str, **values: Any) -> str:
    """A page from a template of this package. Equal values give equal text.

    Templates have three helpers: `asset("page.css")` is the text of an asset file, `of_words(rows)` says which columns
    of a table hold words, and `... | csp_hash` is the source expression by which a content security policy allows an
    inline script or style sheet.
    """
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """The environment of all templates; a value that a template misses is an error."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `tojson` escapes its text for script elements.
    templates.policies["json.dumps_kwargs"] = {"sort_keys": True, "ensure_ascii": False, "allow_nan": False}
    templates.globals["asset"] = _asset
    templates.globals["of_words"] = of_words
    templates.filters["csp_hash"] = _csp_hash
    return templates


def _asset(name: str) -> Markup:
    """An asset file, not escaped: the assets are part of this package."""
    return Markup((_ASSETS / name).read_text(encoding="utf-8"))


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
