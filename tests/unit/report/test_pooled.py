"""Several runs in one report: what is pooled, what is refused, and the page."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import ttest_1samp

from dphrl.artifacts.tables import read_table, write_table
from dphrl.cli import main
from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.per_prompt import evaluate
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import headline
from dphrl.layout.names import PolicyName
from dphrl.report.pooled import RunsError, differences_by_run, pooled, pooled_claims, read_runs

K = [1, 2, 4]
CHANCE = {"base": 0.4, "grpo": 0.5, "dph_f": 0.7}
SETTINGS = {
    "k": K,
    "bootstrap": {"replicates": 200, "confidence": 0.95},
    "against": ["base", "grpo"],
    "claims": {"min_seeds": 3},
    "roles": {"in": "in_domain", "out": "cross_domain"},
}


def policy(method, number, world, dataset, prompts=30, n=4):
    generator = np.random.default_rng([*method.encode(), number, world, len(dataset)])
    rollouts, verdicts = [], []
    for prompt in range(prompts):
        for index in range(-1, n):
            right = bool(generator.random() < CHANCE[method])
            key = {"prompt_id": f"w{world}p{prompt:03}", "sample_index": index}
            rollouts.append({**key, "text": f"SELECT {generator.integers(3)}"})
            marks = {"verdict": "correct" if right else "wrong", "correct": right}
            classes = {"answer_class": f"a{right}", "program_class": "q", "reads_table": True}
            verdicts.append({**key, **marks, **classes})
    frames = pl.DataFrame(rollouts), pl.DataFrame(verdicts)
    counted = evaluate(*frames, ())
    return counted.with_columns(cluster=pl.lit(None, pl.String), level=pl.lit(None, pl.String))


def write_run(folder, seeds, world, datasets=("in", "out"), step=10, settings=None):
    """A finished run: evaluations and the headline table, as the workflow leaves them."""
    footer = {"config": {"evaluate": {**SETTINGS, **(settings or {})}}, "seed": 1}
    frames = []
    trained = [(method, seed, step) for method in ("grpo", "dph_f") for seed in seeds]
    for method, seed, at in [("base", 0, 0), *trained]:
        name = str(PolicyName(method, seed, at))
        for dataset in datasets:
            frame = policy(method, seed, world, dataset)
            write_table(frame, "evaluation", folder / "evaluation" / name / f"{dataset}.parquet", footer)
            marks = {"method": pl.lit(method), "dataset": pl.lit(dataset)}
            numbers = {"seed": pl.lit(seed, pl.Int32), "step": pl.lit(at, pl.Int32)}
            frames.append(frame.with_columns(**marks, **numbers))
    everything = pl.concat(frames)
    table = headline(Study.from_evaluations(everything, EvaluateConfig(**footer["config"]["evaluate"]), 1))
    write_table(table, "headline", folder / "tables" / "headline.parquet", footer)
    return everything


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "first", (1, 2), world=1)
    write_run(root / "second", (1, 2), world=2)
    return [root / "first", root / "second"]


PAIR = {"dataset": "in", "metric": "pass@4", "method": "dph_f", "against": "base"}
NUMBERS = ("difference", "low", "high", "error", "freedom", "p")


def numbers(table, **pair):
    return table.filter(**{**PAIR, **pair}).select(NUMBERS).row(0)


def test_the_difference_of_a_run_is_its_own_comparison(folders):
    found = differences_by_run(read_runs(folders)).filter(**PAIR)
    assert found["run"].to_list() == ["first", "second"]

    def solved(name):
        return (pl.read_parquet(folders[1] / "evaluation" / name / "in.parquet")["c"] > 0).mean()

    trained = (solved("dph_f-s1/step10") + solved("dph_f-s2/step10")) / 2
    assert found["difference"][1] == pytest.approx(trained - solved("base"))


def test_lists_of_checkpoints_are_pooled_as_trainings_and_single_ones_are_not(tmp_path, folders):
    write_run(tmp_path / "first", (1, 2), world=1, step=0)
    checkpoints, trained = read_runs([tmp_path / "first"])[0], read_runs(folders[:1])[0]
    assert (checkpoints.steps, len(checkpoints.digests), checkpoints.base) == ([0], len(trained.digests), trained.base)
    assert_frame_equal(pooled([checkpoints]), pooled([trained]))
    write_run(tmp_path / "single", (0,), world=1, step=0)
    single = read_runs([tmp_path / "single"])[0]
    assert (single.steps, single.digests, single.base) == ([], {}, trained.base)
    assert pooled([single]).filter(method="dph_f").is_empty()


def test_two_bases_weigh_alike_and_their_errors_add(folders):
    by_run = differences_by_run(read_runs(folders))
    one, two = (numbers(by_run, run=run) for run in ("first", "second"))
    row = pooled(read_runs(folders)).filter(**PAIR).row(0, named=True)
    assert row["difference"] == pytest.approx((one[0] + two[0]) / 2)
    assert row["error"] == pytest.approx((one[3] ** 2 + two[3] ** 2) ** 0.5 / 2)
    assert (row["seeds"], row["questions"]) == (4, 60)
    assert row["p_holm"] >= row["p"]


def test_three_bases_are_a_random_effect(folders, tmp_path):
    write_run(tmp_path / "third", (1, 2), world=3)
    runs = read_runs([*folders, tmp_path / "third"])
    test = ttest_1samp(differences_by_run(runs).filter(**PAIR)["difference"].to_list(), 0.0)
    row = pooled(runs).filter(**PAIR).row(0, named=True)
    assert row["p"] == pytest.approx(test.pvalue)
    assert (row["low"], row["high"]) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert row["freedom"] == 2


def test_three_bases_that_agree_have_no_interval(tmp_path, monkeypatch):
    for method in CHANCE:
        monkeypatch.setitem(CHANCE, method, 1.0)
    for world in (1, 2, 3):
        write_run(tmp_path / f"world{world}", (1, 2), world)
    row = pooled(read_runs([tmp_path / f"world{world}" for world in (1, 2, 3)])).filter(**PAIR).row(0, named=True)
    assert row["difference"] == 0.0
    assert [row[name] for name in ("error", "low", "high", "p")] == [None] * 4


def test_runs_of_one_base_are_one_study(folders, tmp_path):
    """Four trainings in two runs, with the same numbers, as if they were in one run."""
    write_run(tmp_path / "more", (3, 4), world=1)
    together = write_run(tmp_path / "all", (1, 2, 3, 4), world=1)
    config = EvaluateConfig(**{**SETTINGS, "bootstrap": {"replicates": 100}})
    found = pooled(read_runs([folders[0], tmp_path / "more"]))
    assert_frame_equal(found, comparisons(Study.from_evaluations(together, config, 1)))


def test_claims_are_decided_by_all_trainings_together(folders):
    runs = read_runs(folders)
    found = pooled_claims(pooled(runs), runs[0])
    row = found.filter(claim="dph_f_higher_pass@8_base_in_domain").row(0, named=True)
    assert (row["dataset"], row["metric"], row["seeds"]) == ("in", "pass@4", 4)
    assert row["verdict"] == ("supported" if row["p_corrected"] <= 0.05 else "undecided")


def test_a_run_of_an_earlier_version_is_named(tmp_path):
    write_run(tmp_path / "old", (1,), world=1)
    table = read_table(tmp_path / "old/tables/headline.parquet", "headline")
    settings = {name: value for name, value in SETTINGS.items() if name != "roles"}
    write_table(table, "headline", tmp_path / "old/tables/headline.parquet", {"config": settings, "seed": 1})
    with pytest.raises(RunsError, match="old: made by an earlier version; run snakemake again"):
        read_runs([tmp_path / "old"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"datasets": ("in",)}, r"odd: datasets is \['in'\], in first it is \['in', 'out'\]"),
        ({"settings": {"k": [1, 2]}}, r"odd: k is \[1, 2\], in first it is \[1, 2, 4\]"),
        ({"step": 20}, r"odd: steps is \[20\], in first it is \[10\]"),
        ({"world": 1}, "odd: .* is the same file as in first"),
    ],
)
def test_runs_that_do_not_fit_are_refused(folders, tmp_path, changes, message):
    write_run(tmp_path / "odd", (1,), **{"world": 3, **changes})
    with pytest.raises(RunsError, match=message):
        read_runs([folders[0], tmp_path / "odd"])


def test_an_unfinished_run_and_a_second_of_one_name_are_refused(folders, tmp_path):
    with pytest.raises(RunsError, match=r"no tables/headline\.parquet, so it is no finished run"):
        read_runs([tmp_path])
    with pytest.raises(RunsError, match="a second run of the name 'first'"):
        read_runs([folders[0], folders[0]])
    write_run(tmp_path / "torn", (1,), world=4)
    (tmp_path / "torn/evaluation/base/in.parquet").unlink()
    with pytest.raises(RunsError, match=r"torn: no evaluation/base/in\.parquet"):
        read_runs([tmp_path / "torn"])


def test_the_command_writes_a_page_and_tables(folders, tmp_path, capsys):
    out = tmp_path / "together"
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    assert str(out / "index.html") in capsys.readouterr().out
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "2 runs with 8 trainings" in page
    assert "<script" not in page
    assert read_table(out / "comparisons.parquet", "comparisons")["seeds"].max() == 4
    assert read_table(out / "claims.parquet", "claims").height
    assert pl.read_csv(out / "differences.csv")["run"].unique().sort().to_list() == ["first", "second"]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}


def test_runs_without_a_training_are_refused(tmp_path, capsys):
    write_run(tmp_path / "bare", (), world=5)
    assert main(["report", str(tmp_path / "bare"), "--out", str(tmp_path / "out")]) == 2
    assert "no run has a training" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    out = tmp_path_factory.mktemp("together")
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    return (out / "index.html").read_text(encoding="utf-8")


def test_axe_finds_nothing_serious(browser, open_page, serious, page):
    open_page(page, 390, 844, 0)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)") == []
    # Nothing but the boxes that scroll by themselves is wider than the screen.
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    assert serious() == []


def test_the_page_is_read_by_keyboard(browser, open_page, page):
    """Every table and every fold is met, in the order of the page; folds open, and wide tables scroll."""
    keys = pytest.importorskip("selenium.webdriver").Keys
    open_page(page, 390, 844, 0)

    def press(key):
        browser.switch_to.active_element.send_keys(key)
        return browser.switch_to.active_element

    assert press(keys.TAB).get_attribute("class") == "skip"
    assert press(keys.ENTER).get_attribute("id") == "main"
    scrolled = 0
    for element in browser.find_elements("css selector", "main [tabindex='0'], main summary, main a"):
        assert press(keys.TAB) == element
        assert browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", element) != "none"
        if element.tag_name == "summary":
            for is_open in (False, True):
                press(keys.ENTER)
                assert browser.execute_script("return arguments[0].parentElement.open", element) == is_open
        elif browser.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", element):
            press(keys.ARROW_RIGHT)
            moved = "return new Promise(done => setTimeout(() => done(arguments[0].scrollLeft), 300))"
            assert browser.execute_script(moved, element) > 0
            scrolled += 1
    assert scrolled
