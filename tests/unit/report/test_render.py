"""Templates: text is escaped, missing values are errors, and file names are unique."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import dphrl.report.render as module
from dphrl.report.render import environment, render

FOLDER = Path(module.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").iterdir())


def test_values_are_escaped_in_text_attributes_and_json():
    text = (
        environment()
        .from_string('<p title="{{ x }}">{{ x }}</p><script>{{ x | tojson }}</script>')
        .render(x="</script>\"'<!--")
    )
    assert text.count("</script>") == 1
    assert "<!--" not in text
    assert text.count("&lt;/script&gt;&#34;&#39;") == 2


def test_a_missing_value_is_an_error():
    with pytest.raises(UndefinedError, match="'folders' is undefined"):
        render("audit.html.j2", files=0)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_turns_escaping_off(path):
    assert not re.search(r"\|\s*safe|autoescape|Markup", path.read_text(encoding="utf-8"))


def test_file_names_are_unique():
    """The digest of a stage finds templates and assets by file name."""
    files = [path.name for path in FOLDER.parent.rglob("*") if path.suffix in (".j2", ".css", ".js")]
    assert len(files) == len(set(files)) > len(TEMPLATES)
