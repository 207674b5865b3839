"""Kinds of artifacts: which kind a path is of, and the outputs of the rules."""

import re
from pathlib import Path

import pytest

from dphrl.store.catalogue import SCHEMAS
from dphrl.store.kinds import KINDS, TABLES, fill, kind_of, manifest_above

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("prompts/train.rejected.parquet", "rejected"),
        ("gold/overlap.parquet", "overlap"),
        ("rollouts/grpo-s1/step40/t1.3/cross.evaluate/0.parquet", "rollouts"),
        ("policies/base.json", "base"),
        ("policies/trl-s2/step0.json", "checkpoint"),
        ("policies/dph_f-s2/step8.json", "policy"),
        ("draws/main/reference-right8/responses.safetensors", "tensors"),
        ("timings/draws/main/rollouts/train.presample/0.parquet", "timings"),
        ("hub/model.trl-s1.json", "hub"),
    ],
)
def test_the_kind_of_a_path(path: str, name: str) -> None:
    assert kind_of(path) is KINDS[name]


@pytest.mark.parametrize(
    "path",
    [
        *("tables/foreign.parquet", "tables/headline.csv", "elsewhere/prompts/train.parquet", "policies/grpo-s1.json"),
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
    fields["stored"] = "reference-boundary2"
    names = dict.fromkeys(("of", "name", "dataset", "method", "model"), "any")
    for kind in KINDS.values():
        assert kind.schema in {*SCHEMAS, "manifest", "tensors", "listing"}
        assert kind_of(fill(kind.path, fields | names)) is kind


def test_the_path_of_a_kind_is_an_output_of_a_rule() -> None:
    outputs = set()
    for file in (ROOT / "rules").glob("*.smk"):
        for block in re.findall(r"^ +output:$(.*?)^ +(?:log|localrule):$", file.read_text(), re.DOTALL | re.MULTILINE):
            outputs |= {*re.findall(r'"<results>/([^"]+)"', block)}
            outputs |= {f"timings/{path}" for path in re.findall(r'"<timings>/([^"]+)"', block)}
    outputs |= {fill("tables/{table}.parquet", {"table": name}) for name in TABLES}
    # The rules name these by other wildcards.
    outputs |= {KINDS["hub"].path, KINDS["timings"].path}
    assert [kind.path for kind in KINDS.values() if kind.path not in outputs] == []
