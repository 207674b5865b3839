"""The pages of samples: what they hold, and what a browser makes of them."""

import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphrl.config.blocks.evaluation import SamplesConfig
from dphrl.report.sample_pages import sample_page

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'"
LIMITS = SamplesConfig()


def write(folder, policies, texts=None, greedy=False, reason=None):
    """A dataset in which `policies` say by policy and question which samples are right; the files of `sample_page`."""
    folder.mkdir(exist_ok=True)
    keys = list(next(iter(policies.values())))
    content = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "How many?"}]
    truth = json.dumps({"gold_sql": "SELECT 1"})
    pl.DataFrame({"prompt_id": keys, "messages": json.dumps(content)}).write_parquet(folder / "prompts")
    pl.DataFrame({"prompt_id": keys, "ground_truth": truth, "kept": True}).write_parquet(folder / "gold")
    shards = {"rollouts": {}, "verdicts": {}}
    for policy, right in policies.items():
        rows = [
            (
                key,
                index,
                (texts or {}).get((key, index), f"{key} {marks[index] if index >= 0 else 'greedy'}"),
                index >= 0 and marks[index],
            )
            for key, marks in right.items()
            for index in range(-greedy, len(marks))
        ]
        frame = pl.DataFrame(rows, schema=["prompt_id", "sample_index", "text", "correct"], orient="row")
        verdict = pl.when("correct").then(pl.lit("correct")).otherwise(pl.lit("wrong"))
        judged = frame.select("prompt_id", "sample_index", "correct", verdict=verdict, detail=pl.lit(reason, pl.String))
        for kind, table in (("rollouts", frame.drop("correct")), ("verdicts", judged)):
            path = folder / f"{list(policies).index(policy)}-{kind}"
            table.write_parquet(path)
            shards[kind][policy] = [str(path)]
    return str(folder / "prompts"), str(folder / "gold"), shards["rollouts"], shards["verdicts"]


def held(files, limits=LIMITS):
    """The data of a page."""
    page = sample_page("run", "d", *files, limits)
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


POLICIES = {
    "Base": {"a": [True, False], "b": [True, True], "c": [False, False], "d": [False, False]},
    "GRPO": {"a": [False, False], "b": [True, True], "c": [True, False], "d": [False, False]},
}


def test_a_page_has_all_questions_and_equal_responses_once(tmp_path):
    data = held(write(tmp_path, POLICIES, greedy=True, reason="no such column"))
    assert data["policies"] == ["Base", "GRPO"]
    first, second = data["questions"][:2]
    assert (first["id"], first["gold"], first["messages"][1]) == ("a", "SELECT 1", ["user", "How many?"])
    base, grpo = first["answers"]
    assert (base["right"], base["samples"], grpo["right"]) == (1, 2, 0)
    assert [(one["greedy"], one["times"], one["verdict"]) for one in base["responses"]] == [
        (True, 1, "wrong"),
        (False, 1, "correct"),
        (False, 1, "wrong"),
    ]
    assert [one["times"] for one in second["answers"][0]["responses"]] == [1, 2]
    assert base["responses"][0]["reason"] == "no such column"


def test_as_many_samples_as_fit_are_shown_and_the_others_are_counted(tmp_path):
    texts = {("a", index): f"{index}" + "x" * 999_999 for index in range(4)}
    files = write(tmp_path, {"Base": {"a": [True] * 4}}, texts)
    limits = SamplesConfig(megabytes=2, characters=1_000_000)
    assert len(held(files, limits)["questions"][0]["answers"][0]["responses"]) == 2
    assert "2 more would not fit" in sample_page("run", "d", *files, limits)
    # One sample is always there.
    assert len(held(files, SamplesConfig(megabytes=0))["questions"][0]["answers"][0]["responses"]) == 1


def test_questions_with_an_excluded_gold_are_left_out(tmp_path):
    files = write(tmp_path, POLICIES)
    gold = pl.read_parquet(files[1])
    gold.with_columns(kept=pl.col("prompt_id") != "a").write_parquet(files[1])
    assert [question["id"] for question in held(files)["questions"]] == ["b", "c", "d"]


@settings(max_examples=25)
@given(st.text(max_size=400))
def test_a_text_is_bounded_and_holds_no_invisible_controls(tmp_path_factory, text):
    files = write(tmp_path_factory.mktemp("samples"), {"Base": {"a": [True]}}, {("a", 0): text})
    shown = held(files, SamplesConfig(characters=100))["questions"][0]["answers"][0]["responses"][0]["text"]
    assert len(shown) <= 100 + len("\n[300 characters left out]\n")
    assert not {character for character in shown if ord(character) < 0x20} - {"\t", "\n"}
    if len(text) <= 100 and text.isprintable():
        assert shown == text


def test_a_browser_filters_questions_by_words_and_by_what_a_policy_lost(browser, open_page, serious, tmp_path):
    page = sample_page("run", "d", *write(tmp_path / "data", POLICIES), LIMITS)
    open_page(page, 1280, 900, 0)
    assert browser.get_log("browser") == []
    summary = "return document.querySelector('.filter output').value"
    assert browser.execute_script(summary) == "4 of 4 questions"
    browser.find_element("id", "policy").send_keys("G")
    for change in ("lost", "gained", "kept", "unsolved"):
        browser.find_element("id", "change").send_keys(change)
        assert browser.execute_script(summary) == "1 of 4 questions"
    browser.find_element("id", "change").send_keys("lost")
    browser.find_element("css selector", "summary").click()
    # A click sends its event later.
    waiting = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 60)
    waiting.until(lambda driver: driver.find_elements("css selector", ".policy h3"))
    assert [one.text for one in browser.find_elements("css selector", ".policy h3")] == ["Base", "GRPO"]
    browser.find_element("id", "search").send_keys("nowhere")
    assert browser.execute_script(summary) == "0 of 4 questions"
    assert serious() == []


def test_hostile_samples_run_nothing_in_a_browser(browser, open_page, tmp_path):
    files = write(tmp_path / "data", {"Base": {EVIL: [True]}, EVIL: {EVIL: [False]}}, {(EVIL, 0): EVIL}, reason=EVIL)
    open_page(sample_page(EVIL, EVIL, *files, LIMITS), 390, 844, 0)
    browser.execute_script("document.querySelector('details').open = true")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.images.length") == 0
    assert browser.find_element("css selector", ".response pre").text == EVIL
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
