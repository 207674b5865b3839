"""The page of a diagnosis in a browser: what it shows, and that it needs nothing else."""

import numpy as np
import pytest
from made_samples import drawn_file

from dphrl.diagnose.comparison import diagnose
from dphrl.diagnose.comparison_page import page


@pytest.fixture(scope="module")
def html() -> str:
    rates = np.linspace(0.05, 0.95, 60)
    files = [drawn_file("base", rates, 8, 1), drawn_file("tuned", np.where(rates > 0.4, 0.9, 0.0), 8, 2, ways=1)]
    return page(diagnose(files)).decode()


def test_the_page_is_drawn_without_a_network_or_a_serious_finding(browser, open_page, serious, html):
    open_page(html, 390, 844, 1)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
    # Only boxes that scroll by themselves are wider than the screen.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert "COLLAPSED" in browser.find_element("css selector", "main").text
    assert serious() == []
