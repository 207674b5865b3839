"""The page: its text, and what a real browser without a network makes of it."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import polars as pl
import pytest
from made_comparisons import compared

from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import judged
from dphrl.report import figures
from dphrl.report.claims import claims_of_run
from dphrl.report.counts import training_use
from dphrl.report.page import render_page
from dphrl.store.catalogue import SCHEMAS

NAMES = ["passk", "keep_explore", "styles", "training"]
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'></pre>"
DATA = SCHEMAS["datasets"].frame([dict.fromkeys(SCHEMAS["datasets"].columns, 3) | {"dataset": "questions"}])
COMPARED = compared({"dataset": "cross", "metric": "pass@8", "method": "dph_f", "against": "grpo"})
CLAIMED = judged(claims_of_run((), ()), COMPARED, {"cross": "cross_domain"}, ClaimsConfig())
WORDS = {"grpo": "COLLAPSED", "exp_only": "CANNOT TELL", "dph_f": "NARROWED", "dph_js": "NOT COLLAPSED"}
SENTENCE = "COLLAPSED: coverage fell. " + "pass@8 of a policy is 65.4 %, of the base 87.0 %. " * 8


def contents(run_tables, **changes):
    collapse = [("cross", method, word, 8, -0.06, -0.08, -0.04, SENTENCE) for method, word in WORDS.items()]
    rarefied = [(method, 1, 40, "cross", "styles", 4, 40, 1.5, 1.0, 2.0) for method in ("base", *WORDS)]
    hotter = [("cross", "grpo", 1.3, 8, 0.7, -0.1, -0.2, 0.0, True, True, 0.01, -0.02, 0.04)]
    tables = {
        **run_tables,
        "claims": CLAIMED,
        "collapse": SCHEMAS["collapse"].frame(collapse),
        "datasets": DATA,
        "hotter": SCHEMAS["hotter"].frame(hotter),
        "rarefied": SCHEMAS["rarefied"].frame(rarefied),
    }
    timings = pl.DataFrame(
        [("total", 41.0, None, 2900.0), ("generate", 40.0, 90_000, 2900.0)],
        schema=["part", "seconds", "tokens", "max_rss_mib"],
        orient="row",
    )
    trained = run_tables["training"].select("method", "seed").unique().rows()
    made = dict(
        run="demo",
        title=None,
        tables=tables,
        dataset="cross",
        order=("cross", "in_domain", "maths"),
        figures={name: figures.draw(name, run_tables[figures.figure(name).table]).to_dict() for name in NAMES},
        published=[{"source": "Table 1", "columns": ["cross greedy"], "rows": {"base": [12.3]}}],
        use=training_use(run_tables["training"], trained, [timings] * len(trained)),
        timings={"presamples": timings, "trainings": timings},
        facts={"Base policy": "made for this run"},
        notes=["This toy shows the mechanism; it is no independent evidence."],
        sampled=("cross",),
    )
    return {**made, **changes}


def render(run_tables, **changes):
    return render_page(**contents(run_tables, **changes))


@pytest.fixture(scope="module")
def page(tables):
    return render(tables)


class Elements(HTMLParser):
    """Names of the elements, what they link to and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.names, self.links, self.words, self.attributes, self.silent = [], [], [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [(tag, name, value) for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.silent = False

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)


def test_the_page_is_one_file_and_the_same_each_time(page, tables):
    assert page == render(tables)
    links = Elements(page).links
    assert [value for tag, _, value in links if tag != "a"] == ["data:,"]
    assert [value for tag, _, value in links if tag == "a" and value[0] != "#"] == ["samples/cross.html"]
    assert page.count("window.vegaEmbed") == 1


def test_headings_are_in_order(page):
    levels = [int(name[1]) for name in Elements(page).names if re.fullmatch(r"h\d", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels[1:]))


def test_the_policy_of_the_page_allows_its_own_scripts_only(page):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.+?)"', page)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"'sha256-[\w+/]{43}='", policy)) == 1 + page.count('<script type="module">')


def test_data_cannot_become_markup(tables):
    spoilt = contents(tables)
    spoilt["tables"] = {
        name: table.with_columns(pl.col("dataset").replace({"cross": EVIL})) if "dataset" in table.columns else table
        for name, table in spoilt["tables"].items()
    }
    for name in ("headline", "passk"):
        spoilt["tables"][name] = spoilt["tables"][name].with_columns(pl.col("method").replace({"dph_f": EVIL}))
    spoilt["tables"]["claims"] = CLAIMED.with_columns(dataset=pl.lit(EVIL), sentence=pl.lit(EVIL))
    evil = render_page(
        **spoilt
        | dict(
            title=EVIL,
            dataset=EVIL,
            order=(EVIL,),
            timings={EVIL: spoilt["timings"]["trainings"]},
            facts={EVIL: EVIL},
            notes=[EVIL],
            published=[{"source": EVIL, "columns": [f"{EVIL} greedy"], "rows": {EVIL: [12.3]}}],
            sampled=[EVIL],
        )
    )
    clean, dirty = Elements(render(tables)), Elements(evil)
    assert dirty.names.count("script") == clean.names.count("script")
    assert "img" not in dirty.names
    assert not [name for name in dirty.attributes if name.startswith("on")]
    assert "".join(dirty.words).count(EVIL) >= 20


def test_what_a_run_does_not_have_is_left_out(tables):
    made = contents(tables, figures={}, published=(), use=None, timings={}, facts={}, notes=(), sampled=())
    for name in ("claims", "collapse", "hotter", "rarefied", "comparisons"):
        made["tables"][name] = made["tables"][name].clear()
    bare = render_page(**made)
    headings = re.findall(r"<h2>(.*?)</h2>", bare)
    assert headings == ["What is solved", "Audit"]
    assert "vegaEmbed" not in bare
    assert "what is solved" in re.findall(r"<h1>(.*?)</h1>", bare)[0]


OVERFLOWING = """
return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.clientWidth
  && !e.closest('.skip, caption, svg, .chart details') && e.scrollWidth > e.clientWidth + 1)
  .map(e => `${e.tagName}.${e.className}: ${e.scrollWidth} > ${e.clientWidth}: ${e.textContent.trim().slice(0, 60)}`)
"""
RIGHT_WORDS = """
return [...document.querySelectorAll('td')].filter(e => getComputedStyle(e).textAlign === 'right'
  && /\\p{L}/u.test(e.textContent)).map(e => e.textContent)
"""


def wait(browser, script, value):
    """Until a script returns a value."""
    waiting = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 60)
    waiting.until(lambda driver: driver.execute_script(script) == value)


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_a_browser_draws_all_of_the_page_offline_without_a_clipped_text_or_a_serious_finding(
    browser, open_page, serious, page, width
):
    open_page(page, width, 900, 1)
    assert browser.execute_script("return document.querySelector('.chart').getBoundingClientRect().top") < 500
    browser.execute_script("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    wait(browser, "return document.querySelectorAll('.chart[data-drawn]').length", len(NAMES))
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
    counts = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => ["
        "c.dataset.figure, c.querySelectorAll('svg.marks').length, c.querySelectorAll('svg .mark-symbol path,"
        " svg .mark-rect path, svg .mark-line path').length])"
    )
    assert [name for name, *_ in counts] == NAMES
    assert all(drawings == 1 and marks > 10 for _, drawings, marks in counts)
    assert browser.execute_script(OVERFLOWING) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(RIGHT_WORDS) == []
    spare = "c => c.clientWidth - c.querySelector('svg.marks').clientWidth"
    assert min(browser.execute_script(f"return [...document.querySelectorAll('.chart')].map({spare})")) >= 0
    assert serious() == []


def test_a_click_on_a_policy_hides_it_in_the_figures(browser, open_page, page):
    open_page(page, 1280, 1200, 1)
    lines = "return document.querySelectorAll('[data-figure=passk] .mark-line path').length"
    before = browser.execute_script(lines)
    button = browser.find_element("css selector", "button.hide[data-policy=GRPO]")
    button.click()
    wait(browser, lines, before - before // 5)
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    wait(browser, lines, before)
    labels = "[...document.querySelectorAll('.chart .role-legend-label text')].find(e => e.textContent === 'GRPO')"
    browser.execute_script(f"{labels}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))")
    wait(browser, lines, before - before // 5)
    assert browser.get_log("browser") == []


def test_a_link_opens_its_section(browser, open_page, page):
    open_page(page, 1280, 900, 1)
    browser.find_element("link text", "Training").click()
    wait(browser, "return document.querySelectorAll('details.fold[open] > summary').length", 1)
    wait(browser, "return document.querySelectorAll('[data-figure=training][data-drawn]').length", 1)


def test_the_page_is_for_keyboards_and_screen_readers(browser, open_page, page):
    open_page(page, 1280, 900, 1)
    first = "document.querySelector('a, button, summary, [tabindex=\"0\"]')"
    assert browser.execute_script(f"const e = {first}; e.focus(); return e.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.execute_script("return document.querySelectorAll('table th:not([scope])').length") == 0
    label = "return document.querySelector('.chart [role=graphics-document]').ariaLabel"
    assert browser.execute_script(label).endswith("Drawn from tables/passk.parquet.")
    targets = "return [...document.querySelectorAll('nav a, .skip')].every(a => document.querySelector(a.hash))"
    assert browser.execute_script(targets)
    assert browser.execute_script("return document.querySelectorAll('[id]').length") == browser.execute_script(
        "return new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size"
    )
