"""Jobs, tokens and disk of runs that were made on two CPU cores, planned before anything ran, within 30 %; hours."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch
import yaml
from published import LLAMA_8B

from dphrl.cli import main
from dphrl.config.load import load_config, read_config
from dphrl.plan.describe import at_start, faster_dtype, product_speed, shape_of, slow_products
from dphrl.plan.memory import ModelShape
from dphrl.plan.work import Rates, Sizes, prompt_share, sizes_of, stages, step_seconds

ROOT = Path(__file__).resolve().parents[3]
MEASURED = ROOT / "tests" / "data" / "measured_runs"
# From the timings and the folder of a run with that configuration. `dev/benchmarks/stages.py` prints such figures.
DEMO = {"jobs": 83, "sampled": 1_049_775, "rolled out": 888_283, "trained": 933_441, "bytes": 138e6}

DEMO_FULL = {"jobs": 580, "sampled": 10_648_759, "rolled out": 5_864_168, "trained": 6_028_078}
DEMO_FULL |= {"bytes": 862e6}
# Bytes before the end of the run, which removes superseded states and policies.
WORLD_1 = {"jobs": 83, "sampled": 1_375_250, "rolled out": 848_081, "trained": 893_593, "bytes": 138e6}
RUNS = {"demo": DEMO, "demo-full": DEMO_FULL, "world-1": WORLD_1}


def planned(name: str, folder: Path) -> dict[str, float]:
    config = read_config(MEASURED / f"{name}.yaml")
    shape = shape_of(config, ROOT)
    assert shape is not None
    found = sizes_of(config, folder)
    work = stages(config, shape, found, Rates.of_products(1e10, config, shape))
    (training,) = (stage for stage in work if stage.name == "training")
    return {
        "jobs": sum(stage.jobs for stage in work),
        "sampled": sum(stage.tokens for stage in work) - training.tokens,
        "rolled out": training.tokens,
        "trained": training.trained,
        "bytes": sum(stage.size for stage in work),
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_plan_is_within_30_per_cent_of_the_run(tmp_path, name):
    assert planned(name, tmp_path) == pytest.approx(RUNS[name], rel=0.3)


def test_without_prompt_sharing_each_rollout_has_its_prompt(tmp_path):
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    found, shares = Sizes({}, {"train": 30.0}, {"train": 20.0}, 0, frozenset()), []
    for sharing in ("auto", "off"):
        loaded = load_config(config | {"hardware": config.get("hardware", {}) | {"prompt_sharing": sharing}})
        shares.append(prompt_share(loaded.model_copy(update={"methods": {"grpo": loaded.methods["grpo"]}}), found))
    # Per step 16 questions of 30 tokens, 256 rollouts of 20.
    assert shares == [16 * 30 / (256 * 20), 30 / 20]


def test_an_assumed_response_is_at_most_half_of_its_limit(tmp_path):
    dataset = {"task": "sql", "source": "d.json", "comparison": "bird"}
    blocks = {"run": "r", "policy": {"base": "m"}, "datasets": {"d": dataset}, "train_dataset": "d"}
    config = {**blocks, "evaluate": {"datasets": ["d"]}}
    lengths = {}
    for limit in (96, 4096):
        loaded = load_config(config | {"sampling": {"presample": {"max_tokens": limit}}})
        lengths[limit] = sizes_of(loaded, tmp_path).response_tokens["d"]
    assert lengths == {96: 48, 4096: 400}


def test_the_command_says_what_does_not_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama/config.json").write_text(json.dumps(LLAMA_8B))
    config = tmp_path / "bird.yaml"
    dataset = "{task: sql, source: dev.json, comparison: bird}"
    blocks = f"policy: {{base: llama}}, datasets: {{d: {dataset}}}, train_dataset: d, evaluate: {{datasets: [d]}}"
    config.write_text(f"{{run: bird, {blocks}}}\n")
    assert main(["plan", str(config), "--gpu-gib", "80", "--slots", "8"]) == 1
    out = capsys.readouterr().out
    assert "a model of 8.03 billion parameters" in out
    assert "Not there, so 1,000 questions are assumed in each: dev.json\n" in out
    assert "This does not fit." in out
    assert "rkl: divergence on rollouts weighs 0.01 of the policy loss (eta 0.01); strength 0.01" in out
    assert "hardware.zero_stage: 3, hardware.gradient_checkpointing: true" in out
    for slots in ("-1", "0"):
        assert main(["plan", str(config), "--slots", slots]) == 2
        assert "--slots and --gpu-gib: expected more than 0" in capsys.readouterr().err
    recorded = "replay: {base: {d: answers.jsonl}}, methods: {}"
    config.write_text(f"{{run: bird, {blocks}, {recorded}}}\n")
    assert main(["plan", str(config), "--gpu-gib", "80"]) == 0
    out = capsys.readouterr().out
    assert "Memory per GPU" not in out
    assert "0.0 x 10^0 in all" in out
    assert "training seed" not in out


def test_a_plan_needs_the_config_json_of_the_model_and_not_its_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()  # else the path would be a name of the hub
    (tmp_path / "bird.yaml").write_text(
        "{run: bird, policy: {base: models/none}, datasets: {d: {task: math, source: d.jsonl}}, train_dataset: d,"
        " evaluate: {datasets: [d]}}\n"
    )
    assert main(["plan", "bird.yaml"]) == 2
    said = capsys.readouterr().err
    assert "models/none, in which there is no config.json" in said
    assert "without the weights" in said


def test_units_fit_the_size_of_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(MEASURED / "demo.yaml")]) == 0
    out = capsys.readouterr().out
    assert " million parameters" in out
    assert "Not there" not in out
    assert re.search(r"Disk: \d+ MB in all", out)
    assert re.search(r"minutes: at the speed of a matrix product, \d+ GFLOP/s of one core measured now\)", out)
    assert re.search(r"Time: at least \d+ \w+ on 2 cores", out)


def test_the_start_of_the_demo_says_nothing_of_gpus():
    (line,) = at_start(read_config(ROOT / "config/config.yaml"), ROOT)
    assert line.startswith("disk: at most 120 MB for the policies and optimizer states of 4 trainings")


@pytest.mark.parametrize(("gpu_gib", "said"), [("80", "this machine has no GPU with torch"), ("null", "of one core")])
def test_the_machine_is_that_of_the_configuration(tmp_path, capsys, monkeypatch, gpu_gib, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    base = ROOT / "config/world-1"
    (tmp_path / "my.yaml").write_text(
        f"{{run: my, policy: {{base: {base}}}, datasets: {{d: {{task: math, source: d.jsonl}}}}, train_dataset: d,"
        f" evaluate: {{datasets: [d]}}, hardware: {{gpu_gib: {gpu_gib}}}}}\n"
    )
    assert main(["plan", "my.yaml"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert ("Everything fits on GPUs of 86 GB (80 GiB)." in out) == (gpu_gib == "80")
    assert ("Time: at least" in out) == (gpu_gib == "null")


def test_the_operations_of_a_step_by_hand():
    """128 prompts of 3,000 tokens, 16 responses each of 400, and 256 stored responses with their prompts."""
    shape = ModelShape.from_config(LLAMA_8B)
    config = read_config(ROOT / "config/experiments/llama-sql.yaml")
    sizes = Sizes({}, {"bird_train": 3000.0}, {"bird_train": 400.0}, 0, frozenset())
    seconds = step_seconds(config, "dph_f", sizes, Rates.of_products(1.0, config, shape))
    # Drawn: 2.5 x 128 x 16 x 400 tokens (half of three refills), 2 operations for each parameter.
    # Trained: 128 x 16 x 400 tokens of rollouts, 128 x 3,000 and 256 x 3,400 others, 8 operations for each parameter.
    assert seconds * 8 == pytest.approx((2 * 2_048_000 + 8 * 2_073_600) * 8_030_261_248)


def write_timings(path: Path, rows: list[tuple[str, str, float, int | None]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = {"stage": pl.String, "part": pl.String, "seconds": pl.Float64, "tokens": pl.Int64}
    pl.DataFrame(rows, schema, orient="row").write_parquet(path)


def test_a_run_measures_its_own_speeds(tmp_path):
    """Speeds are tokens of all jobs over their seconds, for the prompts of a training too; other rates stay."""
    config = read_config(MEASURED / "demo.yaml")
    shape = shape_of(config, ROOT)
    assert shape is not None
    rows = [("train_segment", "generate", 4.0, 800), ("train_segment", "train", 2.0, 600)]
    for seed in (1, 2):
        write_timings(tmp_path / f"timings/train/{seed}.parquet", rows)
    products = Rates.of_products(1e10, config, shape)
    found = products.measured(tmp_path, prompt_share=0.5, ranks=1)
    assert (found.rollout, found.train) == (200.0, 450.0)
    # The tokens are those of all ranks, the rates those of each.
    of_two = products.measured(tmp_path, prompt_share=0.5, ranks=2)
    assert (of_two.rollout, of_two.train) == (100.0, 225.0)
    assert replace(found, rollout=products.rollout, train=products.train) == products


@pytest.mark.parametrize(("tokens", "seconds"), [(300, 12.0), (None, None)])
def test_a_base_whose_training_was_interrupted_has_the_seconds_of_all_its_steps(tmp_path, tokens, seconds):
    """The last process trained 300 of 400 tokens in 9 s; timings of an older version have no tokens."""
    config = read_config(MEASURED / "demo.yaml")
    shape = shape_of(config, ROOT)
    assert shape is not None
    write_timings(tmp_path / "timings/train_base.parquet", [("train_base", "train", 9.0, tokens)])
    (tmp_path / "train/base").mkdir(parents=True)
    pl.DataFrame({"tokens": [100, 300]}).write_parquet(tmp_path / "train/base/supervised.parquet")
    products = Rates.of_products(1e10, config, shape)
    assert products.measured(tmp_path, prompt_share=0.5, ranks=1).base == (seconds or products.base)


def test_a_product_of_this_machine_is_measured_and_leaves_the_threads():
    threads = torch.get_num_threads()
    assert 1e9 < product_speed("float32", "cpu") < 1e12
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("half", "faster"), [(1e9, "float32"), (9e10, "float32"), (2e11, "bfloat16"), (math.nan, "float32")]
)
def test_bfloat16_must_be_clearly_faster_and_a_run_with_emulated_products_is_told(half, faster, monkeypatch):
    speeds = {"float32": 7e10, "bfloat16": half}
    monkeypatch.setattr("dphrl.plan.describe.product_speed", lambda dtype, device, width=None: speeds[dtype])
    assert faster_dtype() == faster
    settings = {
        "run": "small",
        "policy": {"base": "model", "supervised": {"source": "rows.jsonl"}},
        "hardware": {"gpu_gib": None},
    }
    settings |= yaml.safe_load(
        "{datasets: {a: {task: math, source: a.jsonl}}, train_dataset: a, evaluate: {datasets: [a]}}"
    )
    emulated = [
        "engine.dtype, train.dtype, policy.supervised.dtype: this processor emulates bfloat16, at 1 GFLOP/s of a core; "
        "float32 has 70, so set float32"
    ]
    assert [*slow_products(load_config(settings))] == (emulated if half < 7e10 else [])
    in_float32 = {"engine": {"dtype": "float32"}, "train": {"dtype": "float32"}, "policy": {"base": "model"}}
    assert not [*slow_products(load_config(settings | in_float32))]
    assert not [*slow_products(load_config(settings | {"hardware": {"gpu_gib": 80}}))]


def test_the_command_names_a_missing_config(tmp_path, capsys):
    assert main(["plan", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(("stage", "gpus", "share"), [(2, 1, 1), (3, 8, 1 / 8)])
def test_the_reference_is_as_much_faster_as_it_has_ranks(tmp_path, stage, gpus, share):
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    found = {}
    for ranks in (1, 8):
        config["hardware"] = {**config.get("hardware", {}), "ranks": ranks, "zero_stage": stage}
        loaded = load_config(config)
        shape = shape_of(loaded, ROOT)
        assert shape is not None
        rates = Rates.of_products(1e10, loaded, shape)
        (found[ranks],) = (
            one for one in stages(loaded, shape, sizes_of(loaded, tmp_path), rates) if one.name == "reference"
        )
    assert (found[1].gpus, found[8].gpus) == (1, gpus)
    assert found[8].seconds == found[8].longest == pytest.approx(share * found[1].seconds)


def test_the_operations_of_a_seed_are_those_that_one_more_adds(tmp_path, capsys, monkeypatch):
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    operations = []
    for seeds in ([1], [1, 2]):
        config["train"]["seeds"] = seeds
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        monkeypatch.chdir(tmp_path)
        assert main(["plan", "config.yaml"]) == 0
        said = re.findall(r"(\S+) x 10\^(\d+)", capsys.readouterr().out)
        operations.append([float(f"{digits}e{exponent}") for digits, exponent in said])
    assert operations[0][1] == operations[1][1]
    assert operations[1][0] - operations[0][0] == pytest.approx(operations[0][1], rel=0.1)


def test_a_pass_over_the_rollouts_computes_the_stored_responses_too():
    """As `Segment` does: each of the `ppo_epochs` has the stored responses of the step in its updates."""
    config = yaml.safe_load((MEASURED / "demo.yaml").read_text())
    found, seconds = Sizes({}, {"train": 30.0}, {"train": 20.0}, 0, frozenset()), []
    for epochs in (1, 3):
        loaded = load_config(config | {"train": config["train"] | {"ppo_epochs": epochs}})
        shape = shape_of(loaded, ROOT)
        assert shape is not None
        rates = replace(Rates.of_products(1e10, loaded, shape), rollout=float("inf"))
        seconds.append(step_seconds(loaded, "dph_f", found, rates))
    assert seconds[1] == pytest.approx(3 * seconds[0])


def test_a_run_that_trains_nothing_is_planned(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = ROOT / "config/world-1"
    (tmp_path / "my.yaml").write_text(
        f"{{run: my, policy: {{base: {base}}}, datasets: {{d: {{task: math, source: d.jsonl}}}}, train_dataset: d,"
        " evaluate: {datasets: [d]}, methods: {}}\n"
    )
    assert main(["plan", "my.yaml"]) == 0
    assert "Everything fits" in capsys.readouterr().out
