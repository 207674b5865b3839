"""Memory and minutes that rules ask a scheduler for: exact values, and bounds on what was measured."""

import json
import math
import re
from pathlib import Path

import polars as pl
import pytest
from published import LLAMA_8B

from dphrl.config.load import load_config, read_config
from dphrl.plan.limits import Limits
from dphrl.plan.work import prompts_of

ROOT = Path(__file__).resolve().parents[3]
PARAMETERS = 8_030_261_248
OF_DEMO = 2 * 512 * 128 + 4 * (4 * 128 * 128 + 3 * 128 * 352 + 2 * 128) + 128
EIGHT = {"ranks": 8, "zero_stage": 3, "gradient_checkpointing": True}
GRPO = {"grpo": {"rollout_on": "all"}}


@pytest.fixture
def folder(tmp_path):
    """Where a run is planned, with the config.json of its model of 8 billion parameters."""
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama/config.json").write_text(json.dumps(LLAMA_8B))
    return tmp_path


def config_of(methods=GRPO, source="d.json", **blocks):
    data = {"run": "bird", "policy": {"base": "llama"}, "train_dataset": "d", "evaluate": {"datasets": ["d"]}}
    return load_config(data | {"datasets": {"d": {"task": "sql", "source": source}}, "methods": methods, **blocks})


def up_to_minutes(seconds):
    """With an hour for the start of a job."""
    return 60 + math.ceil(seconds / 60)


def test_the_memory_of_an_8b_model_by_hand(folder):
    limits = Limits(config_of(hardware=EIGHT), folder)
    process, weights, workers = 8e9, 2 * PARAMETERS, 2 * 0.5e9
    # 16,384 responses of 4,096 tokens are a part of a sampling job.
    assert limits.memory_mb("sample") == round((process + weights + 16_384 * 4096 * 200) / 1e6 + 0.5)
    assert limits.memory_mb("tensorise") == round(8 * (process + weights) / 1e6 + 0.5)
    assert limits.memory_mb("train_segment") == round(8 * (process + weights + workers) / 1e6 + 0.5)


@pytest.mark.parametrize(
    ("rule", "blocks", "more"),
    [
        # Ranks divide gradients, master weights and moments of 16 bytes a parameter; a node of two has half of them.
        ("train_segment", {"hardware": EIGHT | {"offload_optimizer": True}}, 16 * PARAMETERS),
        ("train_segment", {"hardware": EIGHT | {"offload_optimizer": True, "ranks": 16}}, 8 * PARAMETERS),
        # Each process reads a reference model too.
        ("train_segment", {"methods": GRPO | {"rkl": {"divergence": "reverse_kl"}}}, 8 * 2 * PARAMETERS),
        # Without a GPU weights and cache of an engine are in host memory.
        ("sample", {"hardware": EIGHT | {"gpu_gib": None, "sampling_kv_cache_gib": 10}}, 2 * PARAMETERS + 10 * 2**30),
    ],
)
def test_the_memory_that_a_key_adds(rule, blocks, more, folder):
    before, after = (
        Limits(config_of(**{"hardware": EIGHT} | changes), folder).memory_mb(rule) for changes in ({}, blocks)
    )
    assert after - before == pytest.approx(more / 1e6, abs=1)


def test_the_minutes_of_an_8b_model_by_hand(folder):
    (folder / "d.json").write_text(json.dumps([{}] * 9000))
    methods = GRPO | {"dapo": {"rollout_on": "all", "dynamic_sampling_rounds": 3}, "js": {"divergence": "js"}}
    config = config_of(methods, hardware=EIGHT, sampling={"presample": {"shards": 7}})
    limits = Limits(config, folder)
    # Tokens/s of a slow GPU: drawn; in a forward pass; in a backward pass too, with checkpointing.
    drawing, forward, training = (speed / PARAMETERS for speed in (1e13, 4e13 / 2, 4e13 / 8))
    prompts, longest, asked = 1286, 4096, 3000
    presample = prompts * 8 * longest / drawing + prompts * asked / forward
    assert limits.minutes("sample", plan="presample", dataset="d") == up_to_minutes(presample)
    evaluate = 9000 * 17 * longest / drawing + 9000 * asked / forward
    assert limits.minutes("sample", plan="evaluate", dataset="d", policy="base") == up_to_minutes(evaluate)
    assert limits.minutes("tensorise", stored="reference") == up_to_minutes(9000 * (longest + asked) / forward / 8)
    more = {"js": {"divergence": "js", "rehearse": "boundary", "rows_per_question": 2}}
    of_more = Limits(config_of(more, hardware=EIGHT), folder).minutes("tensorise", stored="reference-boundary2")
    assert of_more == up_to_minutes(2 * 9000 * (longest + asked) / forward / 8)
    probes = 2 * 64 * 4 * longest / drawing / 8
    for method, rounds, stored in (("grpo", 1, 0), ("dapo", 4, 0), ("js", 1, 256)):
        tokens = (2048 + stored) * longest + (128 + stored) * asked
        step = 60 + (rounds * 2048 * longest / drawing + tokens / training) / 8
        assert limits.minutes("train_segment", method=method) == up_to_minutes(26 * step + probes)


def test_the_demo_by_hand_and_above_what_it_measured():
    """Seconds and MB are the most of its jobs, on two CPU cores."""
    limits = Limits(read_config(ROOT / "config/config.yaml"), ROOT)
    # Weights twice, the cache, and the drawn tokens.
    sample = 8e9 + 2 * 4 * OF_DEMO + 2**30 + 16_384 * 48 * 200
    assert limits.memory_mb("sample") == round(sample / 1e6 + 0.5)
    measured = {"sample": (68, 2381), "tensorise": (2, 590), "train_segment": (57, 888)}
    minutes = {
        "sample": [limits.minutes("sample", plan=plan, dataset="train") for plan in ("presample", "refine")],
        "tensorise": [limits.minutes("tensorise", stored="reference")],
        "train_segment": [limits.minutes("train_segment", method=name) for name in ("grpo", "dph_f", "dph_js")],
    }
    for rule, (seconds, megabytes) in measured.items():
        assert min(minutes[rule]) * 60 > seconds
        assert limits.memory_mb(rule) > 1.5 * megabytes


def test_the_base_model_of_the_demo():
    config = read_config(ROOT / "config/config.yaml")
    limits = Limits(config.model_copy(update={"policy": config.policy.model_copy(update={"base": None})}), ROOT)
    tokens, layer = 2048, 4 * 352 + 12.7 * 128 + 2 * 128
    head = 2 * 512 * 128 * 4 + 5 * 2**24 * 4 * 5
    expected = 8e9 + 16 * OF_DEMO + 4 * tokens * 4 * layer + head
    assert limits.memory_mb("train_base") == round(expected / 1e6 + 0.5)
    # 400 steps of 64 rows of 62 tokens, at a fifth of the speed of a core.
    assert limits.minutes("train_base") == up_to_minutes(6 * OF_DEMO * 400 * 64 * 62 / 6e9)


def test_a_file_that_cannot_be_read_gives_the_least_minutes(folder):
    limits = Limits(config_of(hardware=EIGHT), folder)
    assert limits.minutes("sample", plan="presample", dataset="d") > 60  # without a file 1,000 prompts are assumed
    (folder / "d.json").write_text("no JSON")
    assert limits.minutes("sample", plan="presample", dataset="d") == 60
    table = folder / "results/bird/prompts/d.parquet"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"no table")
    assert limits.minutes("train_segment", method="grpo") == 60
    (folder / "llama/config.json").write_text("no JSON")
    assert Limits(config_of(hardware=EIGHT), folder).memory_mb("sample") == 8000


def test_prompts_are_counted_again_once_their_table_is_there(folder):
    (folder / "d.json").write_text(json.dumps([{}] * 5000))
    limits = Limits(config_of(hardware=EIGHT), folder)
    before = limits.minutes("sample", plan="presample", dataset="d")
    table = folder / "results/bird/prompts/d.parquet"
    table.parent.mkdir(parents=True)
    pl.DataFrame({"prompt_token_ids": [[1] * 3000] * 500}).write_parquet(table)
    after = limits.minutes("sample", plan="presample", dataset="d")
    assert after == Limits(config_of(hardware=EIGHT), folder).minutes("sample", plan="presample", dataset="d")
    assert before - 60 == pytest.approx(10 * (after - 60), rel=0.15)


def test_the_rows_of_a_parquet_file_are_counted_without_reading_them(tmp_path):
    config = config_of(source="d.parquet")
    pl.DataFrame({"question": ["a", "b", "c"]}).write_parquet(tmp_path / "d.parquet")
    assert prompts_of(config, "d", tmp_path) == (3, 3000)
    (tmp_path / "damaged.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match="expected a parquet table"):
        prompts_of(config_of(source="damaged.parquet"), "d", tmp_path)


def test_the_page_has_the_limits_of_llama_sql(folder):
    """With as many questions as the releases of BIRD and Spider."""
    config = read_config(ROOT / "config/experiments/llama-sql.yaml")
    for name, rows in {"bird/train/train": 9428, "bird/dev/dev": 1534, "spider/dev": 1034}.items():
        file = folder / f"data/{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([{}] * rows))
    (folder / "models").mkdir()
    (folder / "llama").rename(folder / "models/Llama-3.1-8B-Instruct")
    limits = Limits(config, folder)
    jobs = {
        "`sample_draw`, one of 8 shards of the pre-samples": ("sample", {"plan": "presample", "dataset": "bird_train"}),
        "`sample`, a policy on BIRD": ("sample", {"plan": "evaluate", "dataset": "bird"}),
        "`tensorise`": ("tensorise", {"stored": "reference"}),
        "`train_segment`, 37 steps of GRPO": ("train_segment", {"method": "grpo"}),
        "`train_segment`, 37 steps of DAPO with 3 rounds of sampling": ("train_segment", {"method": "dapo"}),
    }
    expected = [
        f"| {job} | {limits.memory_mb(rule):,} | {limits.minutes(rule, **wildcards):,} |"
        for job, (rule, wildcards) in jobs.items()
    ]
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    rules = "sample|sample_draw|tensorise|train_segment"
    found = re.findall(rf"^\| `(?:{rules})`.*\| [\d,]+ \| [\d,]+ \|$", page, re.MULTILINE)
    assert found == expected, "the table should be:\n" + "\n".join(expected)
