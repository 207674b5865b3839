"""The page: its text, and what a real browser without a network makes of it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import polars as pl
import pytest
from made_comparisons import compared

from dphrl.config.blocks.evaluation import ClaimsConfig
from dphrl.evaluation.claims import claims
from dphrl.report import figures
from dphrl.report.counts import Prepared, count_rows
from dphrl.report.findings import Answer
from dphrl.report.page import render_page
from dphrl.report.page_tables import cost_table
from dphrl.report.shown_samples import Response, Sample
from dphrl.store.catalogue import SCHEMAS

NAMES = ["passk", "keep_explore", "styles", "training"]
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'></pre>"
SIZES = {"training questions": "1,400", "D_exp": "271 to 280", "D_pef": "118", "dropped": "11"}
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

CLAIMED = claims(
    compared({"dataset": "cross", "metric": "pass@8", "method": "dph_f", "against": "grpo"}),
    SCHEMAS["comparisons_levels"].frame(),
    {"cross": "cross_domain"},
    ClaimsConfig(),
)


def sample(number, dataset, c, text="SELECT count(*) FROM singer"):
    right = Response(-1, text, "correct", "")
    wrong = Response(0, f"{text} WHERE", "parse_error", "incomplete input")
    answers = {"Base": [right, wrong], "GRPO": [right, right], "DPH-F": [right, replace(wrong, verdict="wrong")]}
    messages = (("system", "Answer in SQL."), ("user", f"How many singers {'x' * 300}?"))
    return Sample(dataset, f"{number:032x}", messages, "SELECT 1", c, 16, answers)


SAMPLES = [sample(1, "in_domain", 16), sample(2, "in_domain", 4), sample(3, "cross", 0, EVIL)]


def contents(run_tables, costs, **changes):
    made = dict(
        title="Toy",
        answers=[Answer("Was coverage lost?", "Fell GRPO -6.0 [-8.0, -4.0].")],
        headline=run_tables["headline"],
        data=DATA,
        costs=costs,
        facts={"Run": "demo", "Base policy": "made for this run"},
        sizes=SIZES,
        notes=[NOTE],
        tables={
            "Drawn hotter": [("Sharpened?", "At other temperatures.", pl.DataFrame({"Method": ["GRPO"]}))],
            "Tables": [
                ("Table 1", "The layout of the paper.", pl.DataFrame({"Method": ["Base"], "seconds": [123456.78]}))
            ],
        },
        figures={name: figures.draw(name, run_tables[figures.figure(name).table]).to_dict() for name in NAMES},
        claims=CLAIMED,
        samples=SAMPLES,
    )
    return {**made, **changes}


def render(run_tables, costs, **changes):
    return render_page(**contents(run_tables, costs, **changes))


@pytest.fixture(scope="module")
def page(tables, costs):
    return render(tables, costs)


def test_the_page_is_one_file_and_the_same_each_time(page, tables, costs):
    assert page == render(tables, costs)
    links = Elements(page).links
    assert [value for tag, _, value in links if tag != "a"] == ["data:,"]
    assert all(value[0] == "#" for tag, _, value in links if tag == "a")
    assert page.count("window.vegaEmbed") == 1


def test_headings_are_in_order(page):
    levels = [int(name[1]) for name in Elements(page).names if re.fullmatch(r"h\d", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_the_policy_of_the_page_allows_its_own_scripts_only(page):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.+?)"', page)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"'sha256-[\w+/]{43}='", policy)) == 1 + page.count('<script type="module">')


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


def test_data_cannot_become_markup(tables, costs):
    spoilt = {
        name: table.with_columns(pl.col("dataset").replace({"cross": EVIL})) if "dataset" in table.columns else table
        for name, table in tables.items()
    }
    evil = render(
        spoilt,
        costs.with_columns(part=pl.lit(EVIL)),
        title=EVIL,
        headline=spoilt["headline"].with_columns(pl.col("method").replace({"dph_f": EVIL})),
        data=DATA.with_columns(dataset=pl.lit(EVIL)),
        facts={EVIL: EVIL},
        sizes={EVIL: EVIL},
        notes=[EVIL],
        tables={EVIL: [(EVIL, EVIL, pl.DataFrame({EVIL: [EVIL], "b": [None]}))]},
        claims=CLAIMED.with_columns(dataset=pl.lit(EVIL), sentence=pl.lit(EVIL)),
        samples=[
            Sample(EVIL, EVIL, ((EVIL, EVIL),), EVIL, 1, 2, {EVIL: [Response(0, EVIL, EVIL, EVIL)]}),
            *SAMPLES[1:],
        ],
    )
    clean, dirty = Elements(render(tables, costs)), Elements(evil)
    assert dirty.names.count("script") == clean.names.count("script")
    assert "img" not in dirty.names
    assert not [name for name in dirty.attributes if name.startswith("on")]
    assert "".join(dirty.words).count(EVIL) >= 20


def test_a_headline_without_rows_is_refused(tables, costs):
    with pytest.raises(ValueError, match="headline table has no rows"):
        render(tables, costs, headline=tables["headline"].clear())


def test_every_row_of_a_dataset_is_accounted_for():
    (row,) = DATA.rows(named=True)
    assert row["rows"] == row["prompts"] + row["duplicate"] + row["conflict"] + row["overlong"] + row["malformed"] == 6
    assert (row["kept"], row["empty"], row["order_ambiguous"]) == (2, 1, 1)
    assert (row["overlap_exact"], row["overlap_normalised"]) == (0, 1)


def test_what_a_run_does_not_have_is_left_out(tables, costs):
    bare = render(
        tables,
        costs.clear(),
        facts={},
        sizes={},
        notes=(),
        tables={},
        figures={},
        samples=(),
        claims=CLAIMED.clear(),
    )
    assert "No timings were recorded" in bare
    assert "no claim was measured" in bare
    assert "<script" not in bare
    assert "script-src 'none'" in bare


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_a_browser_draws_every_figure_offline_and_axe_finds_nothing_serious(
    browser, open_page, serious, page, width, height
):
    open_page(page, width, height, len(NAMES))
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
    counts = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map(c => ["
        "c.dataset.figure, c.querySelectorAll('svg.marks').length, c.querySelectorAll('svg .mark-symbol path,"
        " svg .mark-rect path, svg .mark-line path').length,"
        "c.clientWidth - c.querySelector('svg.marks').getBoundingClientRect().width])"
    )
    assert [name for name, *_ in counts] == NAMES
    for name, drawings, marks, spare in counts:
        assert drawings == 1, name
        assert marks > 10, name
        assert spare >= 0, f"{name} is wider than its card"
    # Nothing but the boxes that scroll by themselves is wider than the screen.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert serious() == []


def test_the_page_is_for_keyboards_and_screen_readers(browser, open_page, page):
    open_page(page, 1280, 900, len(NAMES))
    first = "document.querySelector('a, button, summary, [tabindex=\"0\"]')"
    assert browser.execute_script(f"const e = {first}; e.focus(); return e.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.execute_script("return document.querySelectorAll('table th:not([scope])').length") == 0
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.chart [role=graphics-document]')].map(e => e.ariaLabel)"
    )
    assert labels == [figures.figure(name).caption for name in NAMES]
    targets = "return [...document.querySelectorAll('nav a, .skip')].every(a => document.querySelector(a.hash))"
    assert browser.execute_script(targets)
    assert browser.execute_script("return document.querySelectorAll('[id]').length") == browser.execute_script(
        "return new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size"
    )


def shown(browser):
    """Prompts and responses that the page shows."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length"
    return browser.execute_script(script, ".sample"), browser.execute_script(script, ".response")


def test_the_samples_are_filtered_by_keyboard(browser, open_page, page):
    keys = pytest.importorskip("selenium.webdriver").Keys
    open_page(page, 1280, 900, len(NAMES))
    assert shown(browser) == (3, 18)

    def press(*pressed):
        for key in pressed:
            browser.switch_to.active_element.send_keys(key)

    browser.find_element("id", "filter-dataset").send_keys("c")
    assert shown(browser) == (1, 6)
    assert browser.find_element("css selector", ".filter output").text == "1 of 3 prompts"
    press(keys.TAB)
    assert browser.switch_to.active_element.get_attribute("name") == "policy"
    press("D")
    assert shown(browser) == (1, 2)
    press(keys.TAB, "p")
    assert shown(browser) == (0, 0)
    press(keys.SHIFT + keys.TAB, "a")
    assert shown(browser) == (1, 1)
    press(keys.TAB, keys.TAB)
    assert browser.switch_to.active_element.text == "Show all"
    press(keys.ENTER)
    assert shown(browser) == (3, 18)
    outlined = "return getComputedStyle(document.activeElement).outlineStyle"
    assert browser.execute_script(outlined) == "solid"


def test_hostile_samples_run_nothing_in_a_browser(browser, open_page, tables, costs):
    evil = Sample(EVIL, EVIL, ((EVIL, EVIL),), EVIL, 1, 2, {EVIL: [Response(0, EVIL, EVIL, EVIL)]})
    open_page(render(tables, costs, samples=[evil]), 1280, 900, len(NAMES))
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.images.length") == 0
    assert browser.find_element("css selector", ".response pre").text == EVIL
    browser.find_element("id", "filter-policy").send_keys("<")
    assert shown(browser) == (1, 1)


def test_published_points_on_one_dataset_are_drawn_without_a_warning(browser, open_page, tables, costs):
    given = [(method, "cross", "pass@16", value) for method, value in (("base", 0.9), ("dph_f", 0.7), ("dph_js", 0.8))]
    points = pl.DataFrame(given, schema=["method", "dataset", "metric", "value"], orient="row")
    drawn = {
        name: figures.draw(name, tables[figures.figure(name).table], published=points).to_dict()
        for name in ("eta", "gap", "passk")
    }
    open_page(render(tables, costs, figures=drawn), 390, 844, len(drawn))
    assert browser.get_log("browser") == []
    legends = "return [...document.querySelectorAll('.chart')].map(c => c.textContent.includes(arguments[0]))"
    assert browser.execute_script(legends, "published (arXiv 2509.07430)") == [True] * 3


def test_the_seconds_of_all_stages_count_no_part_twice() -> None:
    rows = [("score", "imports", 2.0), ("score", "total", 5.0), ("score", "workers", 4.5), ("figure", "total", 1.0)]
    frame = pl.DataFrame(rows, schema=["stage", "part", "seconds"], orient="row").with_columns(
        tokens=pl.lit(None, pl.Int64), max_rss_mib=1.0
    )
    assert cost_table(frame)["seconds"] == 8.0
