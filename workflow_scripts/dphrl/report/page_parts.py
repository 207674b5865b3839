"""What the pages are made of: the document with its security policy, sections, and cards for tables."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape

from dphrl.report.page_look import CSS


def document(
    title: str, lead: str, parts: Mapping[str, str], footer: str, scripts: Sequence[str], before: str = ""
) -> str:
    """A page that asks nothing of a network and runs no script but its own, whatever its text holds.

    The browser is told so: by digest, only `scripts` and the style sheet are allowed.

    Args:
        title, lead: plain text.
        parts: the sections, from heading to markup; the page links to each.
        footer, before: markup, after the sections and before them.
        scripts: modules, run in this order. None may hold "</script" or "<!--".
    """
    numbered = list(enumerate(parts.items(), start=1))
    links = "".join(f'<li><a href="#part-{number}">{escape(name)}</a></li>' for number, (name, _) in numbered)
    sections = "".join(
        f'<section aria-labelledby="part-{number}">\n<h2 id="part-{number}">{escape(name)}</h2>\n{inner}</section>\n'
        for number, (name, inner) in numbered
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
<nav aria-label="On this page"><ul>{links}</ul></nav>
</header>
<main id="main" tabindex="-1">
{before}{sections}</main>
<footer>{footer}</footer>
{"".join(f'<script type="module">{script}</script>' for script in scripts)}
</body>
</html>
"""


def paragraph(words: str) -> str:
    """Plain text as a paragraph."""
    return f"<p>{escape(words)}</p>\n"


def card(name: str, table: str) -> str:
    """A table element that scrolls in its own box on a narrow screen, reachable by keyboard."""
    box = f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">'
    return f'<div class="card">{box}{table}</div></div>\n'


def _policy(scripts: Sequence[str]) -> str:
    """Content security policy: nothing is fetched but images that the page holds itself (a figure saved as PNG)."""
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(CSS)}; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
