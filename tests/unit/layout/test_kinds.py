"""Kinds of artifacts: the schema and the config slice of a path, and the inputs of an artifact."""

import json
from typing import Any

import pytest

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.layout.kinds import KINDS, inputs_of, kind_of, match, schema_of, slice_at

TOY = {"task": "sql", "source": "toy"}


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(
        {
            "run": "run",
            "toy": {},
            "datasets": {"train": TOY, "cross": TOY},
            "train_dataset": "train",
            "sampling": {"presample": {"shards": 2}},
            "methods": {"grpo": {"online": "all"}},
            "evaluate": {"datasets": ["cross"]},
        }
    )


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("prompts/train.parquet", "prompts"),
        ("prompts/train.rejected.parquet", "rejected"),
        ("gold/train.parquet", "gold"),
        ("gold/overlap.parquet", "overlap"),
        ("rollouts/base/train.presample/0.parquet", "rollouts"),
        ("rollouts/grpo-s1/step40/cross.evaluate/12.parquet", "rollouts"),
        ("verdicts/base/train.refine/0.parquet", "verdicts"),
        ("partition/candidates.parquet", "partition"),
        ("partition/final.parquet", "partition"),
        ("reference/index.parquet", "reference_index"),
        ("reference/responses.safetensors", "safetensors"),
        ("policies/base/manifest.json", "manifest"),
        ("policies/dph_f-s2/step8/manifest.json", "manifest"),
        ("train/dph_f-s2/step8/state.json", "manifest"),
        ("train/dph_f-s2/step8/metrics.parquet", "metrics"),
        ("evaluation/base/cross.parquet", "evaluation"),
        ("evaluation/grpo-s1/step40/cross.parquet", "evaluation"),
        ("tables/headline.parquet", "headline"),
        ("tables/training.parquet", "training"),
        ("tables/datasets.parquet", "datasets"),
        ("tables/ablation.parquet", "ablation"),
        ("tables/paper/sql.parquet", "paper"),
        ("audit/audit.parquet", "audit"),
        ("timings/training_cost.parquet", "training_cost"),
        ("timings/rollouts/base/train.presample/0.parquet", "timings"),
        ("toy/manifest.json", "manifest"),
        ("tables/headline.md", None),
        ("elsewhere/prompts/train.parquet", None),
    ],
)
def test_the_schema_that_belongs_at_a_path(path: str, schema: str | None) -> None:
    assert schema_of(path) == schema


def test_every_kind_has_a_path_of_its_kind_and_a_known_schema() -> None:
    for kind in KINDS.values():
        assert kind.schema in {*SCHEMAS, "manifest", "safetensors", "{table}"}
        found = kind_of(kind.path.format_map(_Example()))
        assert found is not None
        assert found[0] is kind


class _Example(dict[str, str]):
    """Any field of a path."""

    def __missing__(self, name: str) -> str:
        return {"shard": "0", "seed": "1", "step": "2", "policy": "grpo-s1/step2"}.get(name, "headline")


def test_fields_are_read_from_a_path() -> None:
    assert match("rollouts/{policy}/{dataset}.{plan}/{shard}.parquet", "rollouts/a-s1/step2/b.refine/3.parquet") == {
        "policy": "a-s1/step2",
        "dataset": "b",
        "plan": "refine",
        "shard": "3",
    }
    assert match("gold/{dataset}.parquet", "gold/a/b.parquet") is None


def test_the_slice_of_a_path_is_that_of_its_stage(config: Config) -> None:
    assert slice_at(config, "prompts/cross.parquet") == slices.prompts(config, "cross")
    assert slice_at(config, "rollouts/base/train.presample/1.parquet") == slices.sample(
        config, "base", "train", "presample"
    )
    assert slice_at(config, "verdicts/base/cross.evaluate/0.parquet") == slices.scoring(config, "cross")
    assert slice_at(config, "train/grpo-s3/step4/metrics.parquet") == slices.train(config, "grpo")
    assert json.loads(str(slice_at(config, "gold/overlap.parquet"))) == {}


@pytest.mark.parametrize(
    "path",
    [
        "prompts/other.parquet",
        "rollouts/base/train.presample/2.parquet",
        "rollouts/dapo-s1/step2/cross.evaluate/0.parquet",
        "train/dapo-s1/step2/state.json",
        "audit/audit.parquet",
        "figures/passk.json",
    ],
)
def test_an_artifact_that_the_config_does_not_plan_has_no_slice(config: Config, path: str) -> None:
    assert slice_at(config, path) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "gold/cross.parquet",
            {"prompts": [("prompts/cross.parquet",)], "rejected": [("prompts/cross.rejected.parquet",)]},
        ),
        ("gold/overlap.parquet", {"prompts": [("prompts/train.parquet",)], "cross": [("prompts/cross.parquet",)]}),
        (
            "rollouts/gpt/cross.evaluate/0.parquet",
            {"prompts": [("prompts/cross.parquet",)], "policy": [("policies/base/manifest.json",)]},
        ),
        (
            "rollouts/grpo-s1/step4/cross.evaluate/0.parquet",
            {"policy": [("policies/grpo-s1/step4/manifest.json",)]},
        ),
        (
            "partition/candidates.parquet",
            {
                "gold": [("gold/train.parquet",)],
                "verdicts": [("verdicts/base/train.presample/0.parquet", "verdicts/base/train.presample/1.parquet")],
            },
        ),
        ("train/grpo-s1/step4/state.json", {"policy": [("policies/grpo-s1/step2/manifest.json",)]}),
        (
            "tables/headline.parquet",
            {
                "grpo/1/4/cross": [("evaluation/grpo-s1/step4/cross.parquet",)],
                "base/0/0/cross": [("evaluation/base/cross.parquet",)],
            },
        ),
        (
            "tables/training.parquet",
            {"grpo/1/0": [("train/grpo-s1/step2/metrics.parquet",), ("train/grpo-s1/step4/metrics.parquet",)]},
        ),
        (
            "tables/datasets.parquet",
            {"rejected/cross": [("prompts/cross.rejected.parquet",)], "overlap": [("gold/overlap.parquet",)]},
        ),
        ("tables/paper/sql.parquet", {"passk": [("tables/passk.parquet",)]}),
        ("tables/headline.md", {}),
    ],
)
def test_where_the_inputs_of_an_artifact_are(path: str, expected: dict[str, Any]) -> None:
    files = [
        "verdicts/base/train.presample/0.parquet",
        "verdicts/base/train.presample/1.parquet",
        "train/grpo-s1/step2/metrics.parquet",
        "train/grpo-s1/step4/metrics.parquet",
        "train/grpo-s2/step4/metrics.parquet",
    ]
    names = [*expected, "no/place"]
    assert inputs_of(path, names, files, "train", "grpo-s1/step2") == expected


def test_a_segment_of_unknown_start_may_begin_at_any_earlier_end_of_its_training() -> None:
    files = [f"policies/{name}/manifest.json" for name in ("base", "grpo-s1/step2", "grpo-s1/step8", "grpo-s2/step2")]
    found = inputs_of("train/grpo-s1/step4/metrics.parquet", ["policy"], files, None, None)
    assert found == {"policy": [("policies/base/manifest.json",), ("policies/grpo-s1/step2/manifest.json",)]}
