"""Tokens, operations and disk of runs: by hand, and within 30 % of what was measured; what the command prints."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from published import LLAMA_8B

from dphrl.cli import main
from dphrl.config.load import load_config, read_config
from dphrl.plan.describe import shape_of
from dphrl.plan.memory import ModelShape
from dphrl.plan.work import Sizes, sizes_of, stages, step_tokens

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "tests" / "data" / "measured_runs"
# From the timings and the folder of a run with that configuration.
# Bytes before the end of the run, which removes superseded states and policies. Timings count responses alone.
RUNS = {
    "demo": {"sampled": 1_049_775, "rolled out": 888_283, "trained": 933_441, "bytes": 138e6},
    "demo-full": {"sampled": 10_648_759, "rolled out": 5_864_168, "trained": 6_028_078, "bytes": 862e6},
    "world-1": {"sampled": 1_375_250, "rolled out": 848_081, "trained": 893_593, "bytes": 138e6},
}
BLOCKS = (
    "policy: {base: llama}, datasets: {d: {task: sql, source: d.json, comparison: bird}}, train_dataset: d, "
    "evaluate: {datasets: [d]}"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a command runs, with the config.json of a model of 8 billion parameters."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama/config.json").write_text(json.dumps(LLAMA_8B))
    return tmp_path


def planned(config, folder):
    shape = shape_of(config, ROOT)
    assert shape is not None
    return {stage.name: stage for stage in stages(config, shape, sizes_of(config, folder))}


@pytest.mark.parametrize("name", RUNS)
def test_a_plan_is_within_30_per_cent_of_the_run(tmp_path, name):
    config = read_config(MEASURED / f"{name}.yaml")
    work = planned(config, tmp_path)
    trainings = [stage for name, stage in work.items() if name.startswith("training")]
    steps = {method: len(config.seeds(method)) * config.steps(method) for method in config.methods}
    sizes = sizes_of(config, tmp_path)
    without = Sizes(sizes.prompts, dict.fromkeys(sizes.prompt_tokens, 0.0), sizes.response_tokens, {})
    found = {
        "sampled": sum(work[plan].drawn for plan in ("presample", "refine", "evaluate")),
        "rolled out": sum(stage.drawn for stage in trainings),
        "trained": sum(steps[method] * step_tokens(config, method, without)[1] for method in steps),
        "bytes": sum(stage.size for stage in work.values()),
    }
    assert found == pytest.approx(RUNS[name], rel=0.3)


def test_the_operations_of_an_8b_model_by_hand(tmp_path):
    """A step: 128 questions of 3,000 tokens, 16 responses each of 400, 256 stored ones with their prompts."""
    config = read_config(ROOT / "config/experiments/llama-sql.yaml")
    shape, sizes = ModelShape.from_config(LLAMA_8B), sizes_of(config, tmp_path)
    work = {stage.name: stage for stage in stages(config, shape, sizes)}
    # DAPO draws on average half of its three further rounds.
    drawn, passed = 2.5 * 2048 * 400, 2048 * 400 + 128 * 3000 + 256 * 3400
    assert step_tokens(config, "dph_f", sizes) == (drawn, passed)
    steps, probes = 3 * 222, 3 * (1 + 222 // config.train.probe.every) * config.train.probe.samples * 2 * 64 * 400
    expected = 8_030_261_248 * (2 * (steps * drawn + probes) + 8 * steps * passed)
    assert work["training dph_f"].operations == pytest.approx(expected)
    # Three draws of 1,000 questions: each prompt once, and eight responses.
    assert work["presample"].operations == 2 * 8_030_261_248 * 3 * 1000 * (3000 + 8 * 400)
    assert work["reference"].gpus == 8


@pytest.mark.parametrize(
    ("method", "block", "change", "passed"),
    [
        # Per step 16 questions of 30 tokens, 256 rollouts of 20; 32 stored responses, each with its prompt.
        ("grpo", "hardware", {"prompt_sharing": "auto"}, 256 * 20 + 16 * 30),
        ("grpo", "hardware", {"prompt_sharing": "off"}, 256 * 20 + 256 * 30),
        ("dph_f", "train", {"ppo_epochs": 1}, 256 * 20 + 16 * 30 + 32 * 50),
        ("dph_f", "train", {"ppo_epochs": 3}, 3 * (256 * 20 + 16 * 30 + 32 * 50)),
    ],
)
def test_the_tokens_of_a_step_by_hand(method, block, change, passed):
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    loaded = load_config(config | {block: config.get(block, {}) | change})
    sizes = Sizes({}, {"train": 30.0}, {"train": 20.0}, {})
    assert step_tokens(loaded, method, sizes)[1] == passed


def test_a_plan_counts_the_rows_of_each_set_of_stored_responses(tmp_path):
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    config["methods"]["more"] = {"divergence": "js", "rehearse": "boundary", "rows_per_question": 3}
    loaded = load_config(config)
    assert sizes_of(loaded, tmp_path).stored == {"reference": 0.4 * 400, "reference-boundary3": 0.5 * 400 * 3}
    work = planned(loaded, tmp_path)["reference"]
    assert (work.jobs, work.passed) == (2, (160 + 600) * (41 + 20))
    # 8, 7, 2 and 0 of 8 right; D_pef has one more response of a question.
    rows = [("a", 8, "pef"), ("b", 7, "pef"), ("c", 2, "exp"), ("d", 0, "exp"), ("e", 7, "dropped")]
    partition = pl.DataFrame(rows, ["prompt_id", "c", "subset"], orient="row").with_columns(n=8)
    file = tmp_path / "results" / loaded.run / "draws/main/partition/final.parquet"
    file.parent.mkdir(parents=True)
    partition.write_parquet(file)
    assert sizes_of(loaded, tmp_path).stored == {"reference": 2, "reference-boundary3": 3 + 2}


def test_an_assumed_response_is_at_most_half_of_its_limit_and_a_drawn_one_is_measured(tmp_path):
    config = yaml.safe_load(f"{{run: r, {BLOCKS}}}")
    for limit, expected in ((96, 48), (4096, 400)):
        loaded = load_config(config | {"sampling": {"presample": {"max_tokens": limit}}})
        assert sizes_of(loaded, tmp_path).response_tokens["d"] == expected
    file = tmp_path / "results/r/draws/main/rollouts/d.presample/0.parquet"
    file.parent.mkdir(parents=True)
    pl.DataFrame({"token_ids": [[1] * 30, [1] * 50]}).write_parquet(file)
    config["datasets"]["e"] = config["datasets"]["d"] | {"source": "e.json"}
    sizes = sizes_of(load_config(config), tmp_path)
    # Answers to other questions of the task are taken to be as long.
    assert (sizes.response_tokens, sizes.measured) == ({"d": 40, "e": 40}, {"d"})


def test_the_command_says_what_does_not_fit(folder, capsys):
    config = folder / "bird.yaml"
    config.write_text(f"{{run: bird, {BLOCKS}}}\n")
    assert main(["plan", str(config), "--gpu-gib", "80", "--slots", "8"]) == 1
    out = capsys.readouterr().out
    assert "a model of 8,030,261,248 parameters" in out
    assert "1,000 questions are assumed in each: d.json\n" in out
    assert "Mean tokens of a prompt and of a response: d 3,000 and 400 (assumed)\n" in out
    assert "This does not fit." in out
    assert "rkl: divergence on rollouts of weight 0.01 (policy loss: 1), strength 0.01" in out
    large = "hardware: {ranks: 8, zero_stage: 3, gradient_checkpointing: true}"
    config.write_text(f"{{run: bird, {BLOCKS}, {large}}}\n")
    assert main(["plan", str(config)]) == 0
    assert "Everything fits on GPUs of 80 GiB." in capsys.readouterr().out
    for option in ("--slots", "--gpu-gib", "--tflops"):
        assert main(["plan", str(config), option, "0"]) == 2
        assert "--slots of at least 8" in capsys.readouterr().err


def test_a_run_of_recorded_answers_needs_no_model(folder, capsys):
    recorded = "replay: {base: {d: answers.jsonl}}, methods: {}"
    (folder / "my.yaml").write_text(f"{{run: my, {BLOCKS}, {recorded}}}\n")
    assert main(["plan", "my.yaml", "--gpu-gib", "80"]) == 0
    assert capsys.readouterr().out.startswith("A run of recorded answers: it needs no model")


def test_hours_follow_from_the_stated_speed_or_the_given_one_and_from_the_starts_of_jobs(folder, capsys):
    (folder / "my.yaml").write_text(f"{{run: my, {BLOCKS}, methods: {{}}}}\n")
    for options, speed in (((), 2e14), (("--tflops", "1"), 1e12)):
        assert main(["plan", "my.yaml", *options]) == 0
        out = capsys.readouterr().out
        jobs, operations, hours = re.findall(r"^all +- +(\d+) .*? (\S+e\+\d+) +(\S+)", out, re.MULTILINE)[0]
        assert float(hours) == pytest.approx((float(operations) / speed + 10 * int(jobs)) / 3600, rel=0.05)
    assert f"; {float(hours) / 2:,.0f} h on 2 GPUs" in out


def test_the_demo_is_planned_at_the_minutes_that_it_takes_and_without_memory_of_gpus(capsys, monkeypatch):
    """5 min 16 s, on two idle cores (docs/benchmarks.md)."""
    monkeypatch.chdir(ROOT)
    assert main(["plan", "config/config.yaml"]) == 0
    out = capsys.readouterr().out
    (minutes,) = re.findall(r"^Hours: .* at 0\.03 TFLOP/s of a core .*; (\d+) min on 2 cores", out, re.MULTILINE)
    assert 4 <= int(minutes) <= 6
    assert "Memory" not in out


def test_a_plan_needs_the_config_json_of_the_model_and_not_its_weights(folder, capsys):
    (folder / "my.yaml").write_text(f"{{run: my, {BLOCKS}}}\n")
    (folder / "llama/config.json").unlink()
    assert main(["plan", "my.yaml"]) == 2
    assert "llama, in which there is no config.json" in capsys.readouterr().err
    assert main(["plan", "none.yaml"]) == 2
    assert "none.yaml" in capsys.readouterr().err
