"""The page: its text, and what a real browser without a network makes of it."""

import re
import shutil
import time
from html.parser import HTMLParser

import polars as pl
import pytest

from dphrl.report import figures
from dphrl.report.data import Prepared, count_rows
from dphrl.report.page import render_page

NAMES = ["passk", "styles", "keep_explore", "training"]
SIZES = {"training questions": 400, "D_exp": 271, "D_pef": 118, "dropped": 11}
DATA = count_rows(
    {
        "questions": Prepared(
            pl.DataFrame({"prompt_id": ["a", "b", "c"]}),
            pl.DataFrame({"reason": ["duplicate", "duplicate", "malformed"]}),
            pl.DataFrame({"kept": [True, True, False], "reason": [None, "order-ambiguous", "empty"]}),
        )
    },
    pl.DataFrame({"dataset": ["test", "questions"], "kind": ["exact", "normalised"]}),
)
NOTE = "This toy shows the mechanism; it is no independent evidence."
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def render(tables, costs, title="Toy", sizes=SIZES, notes=(NOTE,), headline=None):
    specs = {name: figures.draw(name, tables[figures.table(name)]).to_dict() for name in NAMES}
    captions = {name: figures.caption(name) for name in NAMES}
    headline = tables["headline"] if headline is None else headline
    return render_page(title, headline, specs, captions, sizes, DATA, costs, notes)


@pytest.fixture(scope="module")
def page(tables, costs):
    return render(tables, costs)


def test_the_page_is_one_file_and_the_same_each_time(page, tables, costs):
    assert page == render(tables, costs)
    sources = [value for tag, name, value in Elements(page).links if tag != "a" or name != "href"]
    assert sources == ["data:,"]
    assert page.count("window.vegaEmbed") == 1
    for words in ("The base model beside GRPO, D_exp only, DPH-F and DPH-JS, with one training seed", NOTE, "D_pef"):
        assert words in page


def test_summary_comes_before_figures_and_costs(page):
    places = [
        page.index(mark)
        for mark in ('id="main"', NOTE, 'id="summary"', "<caption>cross", 'id="figure-1"', 'id="costs"')
    ]
    assert places == sorted(places)


def test_costs_are_added_up_over_files(page):
    row = re.search(r'<th scope="row">train</th>.*?</tr>', page)
    assert row is not None
    text = re.sub(r"<[^>]+>", " ", row[0]).split()
    # Two rollout parts: 41 + 43 seconds, 181 000 tokens in them.
    assert text == ["train", "rollout", "2", "84.0", "2,155", "2,950"]


class Elements(HTMLParser):
    """Names of the elements, what they link to and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.names, self.links, self.words, self.silent = [], [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.links += [(tag, name, value) for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent = False

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)


def test_data_cannot_become_markup(tables, costs):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    spoilt = {
        name: table.with_columns(pl.col("dataset").replace({"cross": evil})) if "dataset" in table.columns else table
        for name, table in tables.items()
    }
    headline = spoilt["headline"].with_columns(pl.col("method").replace({"dph_f": evil}))
    bad_costs = costs.with_columns(part=pl.lit(evil))
    clean, dirty = (
        Elements(render(tables, costs)),
        Elements(render(spoilt, bad_costs, evil, {evil: 1}, [evil], headline)),
    )
    assert dirty.names.count("script") == clean.names.count("script")
    assert "img" not in dirty.names
    assert "".join(dirty.words).count(evil) >= 5


def test_incomplete_input_is_refused(tables, costs):
    with pytest.raises(ValueError, match="headline table has no rows"):
        render(tables, costs, headline=tables["headline"].clear())
    with pytest.raises(ValueError, match="no caption for the figures passk"):
        render_page("t", tables["headline"], {"passk": {}}, {}, {}, DATA, costs, [])


def test_every_row_of_a_dataset_is_accounted_for(page):
    (row,) = DATA.rows(named=True)
    assert row["rows"] == row["prompts"] + row["duplicate"] + row["overlong"] + row["malformed"] == 6
    assert (row["kept"], row["empty"], row["order_ambiguous"], row["overlap_exact"]) == (2, 1, 1, 0)
    assert row["overlap_normalised"] == 1
    assert "What became of the data" in page


def test_no_timings_and_no_sizes_are_fine(tables, costs):
    assert "No timings were recorded" in render(tables, costs.clear(), sizes={}, notes=())


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium or chromedriver is not installed (Debian: chromium, chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    session.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    session.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield session
    session.quit()


def open_page(browser, path, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    end = time.monotonic() + 60
    done = "return document.querySelectorAll('.chart[data-drawn]').length"
    while browser.execute_script(done) < len(NAMES):
        assert time.monotonic() < end, browser.get_log("browser")
        time.sleep(0.05)


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_a_browser_draws_every_figure_offline(browser, page, tmp_path, width, height):
    path = tmp_path / "index.html"
    path.write_text(page, encoding="utf-8")
    open_page(browser, path, width, height)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
    counts = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => ["
        "c.dataset.figure, c.querySelectorAll('svg.marks').length, c.querySelectorAll('svg .mark-symbol path,"
        " svg .mark-rect path, svg .mark-line path').length,"
        "c.clientWidth - c.querySelector('svg.marks').getBoundingClientRect().width])"
    )
    assert [name for name, *_ in counts] == NAMES
    for name, drawings, marks, room in counts:
        assert drawings == 1, name
        assert marks > 10, name
        assert room >= 0, f"{name} is wider than its card"
    # Nothing but the boxes that scroll by themselves is wider than the screen.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_page_is_for_keyboards_and_screen_readers(browser, page, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(page, encoding="utf-8")
    open_page(browser, path, 1280, 900)
    first = "document.querySelector('a, button, summary, [tabindex=\"0\"]')"
    assert browser.execute_script(f"const e = {first}; e.focus(); return e.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.execute_script("return document.querySelectorAll('table th:not([scope])').length") == 0
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.chart [role=graphics-document]')].map(e => e.ariaLabel)"
    )
    assert labels == [figures.caption(name) for name in NAMES]
    targets = "return [...document.querySelectorAll('nav a, .skip')].every(a => document.querySelector(a.hash))"
    assert browser.execute_script(targets)
    assert browser.execute_script("return document.querySelectorAll('[id]').length") == browser.execute_script(
        "return new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size"
    )


def test_a_legend_entry_brings_out_one_policy_and_a_resize_draws_anew(browser, page, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(page, encoding="utf-8")
    open_page(browser, path, 1280, 900)
    faded = "return document.querySelectorAll('[data-figure=passk] .mark-line path[opacity=\"0.12\"]').length"
    assert browser.execute_script(faded) == 0
    entry = browser.find_element("css selector", "[data-figure=passk] .mark-symbol.role-legend-symbol path")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", entry)
    webdriver = pytest.importorskip("selenium.webdriver")
    webdriver.ActionChains(browser).click(entry).perform()
    # Four of five policies fade in each of three panels.
    assert browser.execute_script(faded) == 12
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    width = "return document.querySelector('[data-figure=training] svg.marks').getBoundingClientRect().width"
    end = time.monotonic() + 30
    while browser.execute_script(width) > 390:
        assert time.monotonic() < end, "the figure was not drawn again for the narrow screen"
        time.sleep(0.05)
    assert browser.get_log("browser") == []
