"""Kinds of artifacts: the schema and the config slice of a path."""

import re
from pathlib import Path

import pytest
from small_run import config_slice

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.layout.kinds import KINDS, is_known, kind_of, match, schema_of, slice_keys
from dphrl.report.figures import figures

ROOT = Path(__file__).resolve().parents[3]
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
            "methods": {"grpo": {"rollout_on": "all"}},
            "evaluate": {"datasets": ["cross"]},
        }
    )


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("databases/train.parquet", "databases"),
        ("prompts/train.parquet", "prompts"),
        ("prompts/train.rejected.parquet", "rejected"),
        ("gold/train.parquet", "gold"),
        ("gold/overlap.parquet", "overlap"),
        ("draws/main/rollouts/train.presample/0.parquet", "rollouts"),
        ("rollouts/grpo-s1/step40/cross.evaluate/12.parquet", "rollouts"),
        ("draws/main/verdicts/train.refine/0.parquet", "verdicts"),
        ("draws/main/partition/candidates.parquet", "partition"),
        ("draws/main/partition/final.parquet", "partition"),
        ("draws/main/reference/index.parquet", "reference_index"),
        ("draws/main/reference/responses.safetensors", "safetensors"),
        ("policies/base.json", "manifest"),
        ("policies/dph_f-s2/step8.json", "manifest"),
        ("states/dph_f-s2/step8.json", "manifest"),
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
        ("timings/draws/main/rollouts/train.presample/0.parquet", "timings"),
        ("toy.json", "manifest"),
        ("tables/headline.md", None),
        ("elsewhere/prompts/train.parquet", None),
    ],
)
def test_the_schema_that_belongs_at_a_path(path: str, schema: str | None) -> None:
    assert schema_of(path) == schema


def test_every_kind_has_a_path_of_its_kind_and_a_known_schema() -> None:
    for kind in KINDS.values():
        assert kind.schema in {*SCHEMAS, "manifest", "safetensors", "listing", "{table}"}
        found = kind_of(kind.path.format_map(_Example()))
        assert found is not None
        assert found[0] is kind


class _Example(dict[str, str]):
    """Any field of a path."""

    def __missing__(self, name: str) -> str:
        known = {"shard": "0", "seed": "1", "step": "2", "policy": "grpo-s1/step2", "plan": "refine", "draw": "main"}
        return known.get(name, "headline")


def written() -> dict[str, set[str]]:
    """The scripts that write each path in the rules, without `.py`; a rule has its own or that of the rule it uses."""
    heads = r"^ *(?:use rule \w+ as \w+ with|(?:rule|checkpoint) \w+):$"
    paths: dict[str, set[str]] = {}
    for file in (ROOT / "rules").glob("*.smk"):
        script = ""
        for block in re.split(heads, file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            own = re.search(r"workflow_scripts/(\w+)\.py", block)
            script = own[1] if own else script
            output = re.search(r"^ +output:$(.*?)^ +(?:log|localrule):$", block, re.DOTALL | re.MULTILINE)
            for root, path in re.findall(r'"<(results|timings)>/([^"]+)"', output[1] if output else ""):
                paths.setdefault(path if root == "results" else f"timings/{path}", set()).add(script)
    return paths


def test_the_path_of_a_kind_is_an_output_of_the_rule_with_its_script() -> None:
    found = written()
    found["policies/base.json"] |= found["policies/{model}.json"]  # `{model}` is also `base`
    expected = {kind.path: set(kind.stage.split("|")) for kind in KINDS.values() if kind.stage}
    assert {path: found.get(path) for path in expected} == expected


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("tables/headline.parquet", True),
        ("tables/foreign.parquet", False),
        ("tables/headline.md", True),
        ("tables/passk.md", False),
        ("tables/paper/sql.tex", True),
        ("figures/passk.svg", True),
        ("figures/foreign.svg", False),
        ("report/index.html", True),
        ("report/more.html", False),
        ("accepted.json", False),
        ("SHA256SUMS", True),
        ("cards/grpo-s1/step2.md", True),
        ("rollouts/base/train.presample/0.parquet", False),
        ("draws/a b/partition/final.parquet", False),
        ("policies/base/model.safetensors", False),
        ("policies/grpo-s01/step2.json", False),
        ("draws/main/rollouts/train.presample/00.parquet", False),
        ("draws/main/rollouts/train.another/0.parquet", False),
        ("timings/figures/passk.parquet", True),
        ("timings/../passk.parquet", False),
        ("prompts/\u0660.parquet", False),
    ],
)
def test_what_this_workflow_writes_is_known(path: str, known: bool) -> None:
    assert is_known(path) == known


def test_every_figure_is_known() -> None:
    assert all(is_known(f"figures/{name}.{ending}") for name in figures() for ending in ("json", "svg"))


def test_the_keys_of_a_slice_are_those_of_any_config(config: Config) -> None:
    paths = [kind.path.format_map(_Planned()) for kind in KINDS.values() if kind.slice]
    assert len(paths) > 15
    assert all(set(config_slice(config, path)) in slice_keys(path) for path in paths)
    assert slice_keys("policies/base.json")[1] == set()
    assert slice_keys("rollouts/gpt/cross.evaluate/0.parquet")[1] == {"engine", "plan"}
    assert slice_keys("figures/passk.json") == []


class _Planned(_Example):
    """Fields of a path that the config plans."""

    def __missing__(self, name: str) -> str:
        return {"dataset": "cross", "method": "grpo"}.get(name) or super().__missing__(name)


def test_fields_are_read_from_a_path() -> None:
    assert match("draws/{draw}/rollouts/{dataset}.{plan}/{shard}.parquet", "draws/0-a/rollouts/b.refine/3.parquet") == {
        "draw": "0-a",
        "dataset": "b",
        "plan": "refine",
        "shard": "3",
    }
    assert match("gold/{dataset}.parquet", "gold/a/b.parquet") is None


def test_the_slice_of_a_path_is_that_of_its_stage(config: Config) -> None:
    assert config_slice(config, "prompts/cross.parquet") == slices.prompts(config, "cross")
    assert config_slice(config, "draws/main/rollouts/train.presample/1.parquet") == slices.sample(
        config, "base", "train", "presample"
    )
    assert config_slice(config, "verdicts/base/cross.evaluate/0.parquet") == slices.scoring(config, "cross")
    assert config_slice(config, "train/grpo-s3/step4/metrics.parquet") == slices.train(config, "grpo")
    assert config_slice(config, "gold/overlap.parquet") == {}
