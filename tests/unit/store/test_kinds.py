"""Kinds of artifacts: which kind a path is of, and the scripts that the rules have for it."""

import re
from pathlib import Path

import pytest

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.kinds import KINDS, fill, kind_of, manifest_above

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("prompts/train.rejected.parquet", "rejected"),
        ("gold/overlap.parquet", "overlap"),
        ("rollouts/grpo-s1/step40/cross.evaluate/12.parquet", "rollouts"),
        ("rollouts/grpo-s1/step40/t1.3/cross.evaluate/0.parquet", "rollouts"),
        ("draws/main/verdicts/train.refine/0.parquet", "drawn_verdicts"),
        ("policies/base.json", "base"),
        ("policies/trl-s2/step0.json", "checkpoint"),
        ("policies/dph_f-s2/step8.json", "policy"),
        ("evaluation/base/cross.parquet", "evaluation"),
        ("tables/headline.parquet", "headline"),
        ("tables/paper/sql.parquet", "paper"),
        ("timings/training_cost.parquet", "training_cost"),
        ("timings/draws/main/rollouts/train.presample/0.parquet", "timings"),
        ("hub/model.trl-s1.json", "hub"),
    ],
)
def test_the_kind_of_a_path(path: str, name: str) -> None:
    assert kind_of(path) is KINDS[name]


@pytest.mark.parametrize(
    "path",
    [
        *("tables/foreign.parquet", "tables/headline.md", "elsewhere/prompts/train.parquet", "policies/grpo-s1.json"),
        *("policies/base/tokenizer.json", "rollouts/base/train.presample/0.parquet", "prompts/\udcff.parquet"),
        *("draws/a b/partition/final.parquet", "policies/base/more.json", "SHA256SUMS"),
    ],
)
def test_a_path_of_no_kind(path: str) -> None:
    assert kind_of(path) is None


def test_a_file_in_the_folder_of_a_manifest_belongs_to_it() -> None:
    assert manifest_above("policies/base/model.safetensors") == "policies/base.json"
    assert manifest_above("policies/grpo-s1/step2/below/rng.json") == "policies/grpo-s1/step2.json"
    assert manifest_above("toy/databases/a/a.sqlite") == "toy.json"
    assert manifest_above("policies/grpo-s1/step2.json") is None
    assert manifest_above("prompts/train.parquet") is None


def test_every_kind_has_a_path_of_its_kind_and_a_known_schema() -> None:
    fields = {"shard": "0", "seed": "1", "step": "2", "policy": "grpo-s1/step2", "plan": "refine", "draw": "main"}
    names = dict.fromkeys(("of", "name", "dataset", "method", "model"), "any")
    for kind in KINDS.values():
        assert kind.schema in {*SCHEMAS, "manifest", "tensors", "listing"}
        assert kind_of(fill(kind.path, fields | names)) is kind


def written() -> dict[str, set[str]]:
    """The scripts that write each path in the rules, without `.py`; a rule has its own or that of the rule it uses."""
    heads = r"^ *(?:use rule \w+ as \w+ with|(?:rule|checkpoint) \w+):$"
    paths: dict[str, set[str]] = {}
    for file in (ROOT / "rules").glob("*.smk"):
        script = ""
        for block in re.split(heads, file.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            own = re.search(r"workflow_scripts/stages/(\w+)\.py", block)
            script = own[1] if own else script
            output = re.search(r"^ +output:$(.*?)^ +(?:log|localrule):$", block, re.DOTALL | re.MULTILINE)
            for root, path in re.findall(r'"<(results|timings)>/([^"]+)"', output[1] if output else ""):
                place = path.replace("{hub}", "{of}") if root == "results" else f"timings/{path}"
                paths.setdefault(place, set()).add(script)
    for kind in KINDS.values():
        if kind.stage == ("make_tables",):
            paths[kind.path] = paths["tables/{table}.parquet"]
    paths["policies/base.json"] |= paths["policies/{model}.json"]  # `{model}` is also `base`
    return paths


def test_the_path_of_a_kind_is_an_output_of_the_rule_with_its_script() -> None:
    found = written()
    expected = {kind.path: {*kind.stage} for kind in KINDS.values() if kind.stage}
    assert {path: found.get(path) for path in expected} == expected
