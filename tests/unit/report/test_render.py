"""Templates: text is escaped, and missing values are errors."""

import re

import pytest
from jinja2 import UndefinedError

from dphrl.report.render import TEMPLATES, environment, render


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
    with pytest.raises(UndefinedError, match="is undefined"):
        render("report.html.j2")


@pytest.mark.parametrize("path", sorted(TEMPLATES.iterdir()), ids=lambda path: path.name)
def test_no_template_turns_escaping_off(path):
    assert not re.search(r"\|\s*safe|autoescape|Markup", path.read_text(encoding="utf-8"))
