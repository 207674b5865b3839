"""What is stated at the start of a run and on its page."""

from typing import Any

import pytest
from configurations import RECORDED, demo, put

from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.config.notices import notices

PUBLISHED = "stored responses of weight 0.025 (policy loss: 1), strength"


@pytest.mark.parametrize(
    ("method", "norm", "lines"),
    [
        # The published strengths of docs/method.md at 32 stored responses to 256 rollouts.
        ({"divergence": "reverse_kl"}, "joint", ["rollouts of weight 0.01 (policy loss: 1), strength 0.01"]),
        ({"divergence": "js"}, "joint", [f"{PUBLISHED} 0.0125"]),
        (
            {"divergence": "js_definition"},
            "joint",
            [f"{PUBLISHED} 0.00625", "rollouts of weight 0.025 (policy loss: 1), strength 0.00625"],
        ),
        (
            {"divergence": "js"},
            "tokens",
            ["stored responses of weight 0.2 T_pef / T_exp (policy loss: 1), strength 0.1 T_pef / T_exp"],
        ),
        ({}, "joint", []),
    ],
)
def test_weight_and_strength_of_each_divergence(method: dict[str, Any], norm: str, lines: list[str]) -> None:
    config = load_config(put(put(demo(), "methods", {"m": method}), "train.rehearsal_norm", norm))
    assert list(notices(config)) == [f"m: divergence on {line}" for line in lines]


@pytest.mark.parametrize(
    ("datasets", "seen"),
    [
        ({"train": "a.jsonl", "test": "b.jsonl"}, None),
        ({"train": "a.jsonl"}, "(train)"),
        ({"train": "a.jsonl", "test": "b.jsonl", "again": "a.jsonl"}, "(again)"),
    ],
)
def test_evaluation_on_the_training_questions_is_stated(datasets: dict[str, str], seen: str | None) -> None:
    evaluated = [name for name in datasets if name != "train"] or ["train"]
    blocks = {
        "run": "r",
        "policy": {"base": "b"},
        "datasets": {name: {"task": "math", "source": source} for name, source in datasets.items()},
        "train_dataset": "train",
        "evaluate": {"datasets": evaluated},
    }
    config = load_config(blocks)
    lines = [line for line in notices(config) if line.startswith("evaluate.datasets has the training")]
    assert len(lines) == (seen is not None)
    assert seen is None or seen in lines[0]
    assert slices.report(config)["report"]["notes"] == lines


@pytest.mark.parametrize(
    ("path", "value", "stated"),
    [
        ("train.draws", "per_seed", False),
        ("train.draws", "shared", True),
        ("replay", {"base": {"train": "answers.jsonl"}}, True),
    ],
)
def test_seeds_that_share_their_presamples_are_stated(path: str, value: object, stated: bool) -> None:
    def shared(config: Config) -> list[str]:
        return [line for line in notices(config) if "these pre-samples only" in line]

    config = load_config(put(put(demo(), "train.seeds", [1, 2]), path, value))
    assert len(shared(config)) == stated
    assert set(shared(config)) <= set(slices.report(config)["report"]["notes"])
    assert shared(load_config(put(demo(), path, value))) == []


def test_bfloat16_on_cores_of_a_cpu_is_named():
    def lines(dtype, gpu_gib):
        hardware, precision = {"hardware": {"gpu_gib": gpu_gib}}, {"dtype": dtype}
        config = load_config({**RECORDED, "policy": {"base": "m"}, "engine": precision, "train": precision, **hardware})
        return [line for line in notices(config) if line.startswith("engine.dtype, train.dtype: set float32 ")]

    assert len(lines("bfloat16", None)) == 1
    assert lines("float32", None) == lines("bfloat16", 80) == []
