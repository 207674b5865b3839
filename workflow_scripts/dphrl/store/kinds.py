"""Every kind of artifact of a run: its path and its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind of artifact.

    Attributes:
        path: the path in the folder of the run, with fields in braces.
        schema: the schema of a table; "manifest" of a folder, "listing" of the hub, "tensors".
    """

    path: str
    schema: str


# The tables over all policies.
TABLES: Final = (
    "claims",
    "collapse",
    "comparisons",
    "frontier",
    "headline",
    "hotter",
    "keep_explore",
    "passk",
    "rarefied",
    "styles",
)
_DRAW, _TRAINED = "draws/{draw}", "{method}-s{seed}/step{step}"
_SAMPLES, _DRAWN = "{policy}/{dataset}.evaluate/{shard}.parquet", "{dataset}.{plan}/{shard}.parquet"

# Where a path fits several patterns, the first kind counts.
KINDS: Final = {
    "world": Kind("toy.json", "manifest"),
    "hub": Kind("hub/{of}.json", "listing"),
    "base": Kind("policies/base.json", "manifest"),
    "checkpoint": Kind("policies/{model}.json", "manifest"),
    "supervised": Kind("train/base/supervised.parquet", "supervised"),
    "databases": Kind("databases/{dataset}.parquet", "databases"),
    "rejected": Kind("prompts/{dataset}.rejected.parquet", "rejected"),
    "prompts": Kind("prompts/{dataset}.parquet", "prompts"),
    "overlap": Kind("gold/overlap.parquet", "overlap"),
    "gold": Kind("gold/{dataset}.parquet", "gold"),
    "rollouts": Kind(f"rollouts/{_SAMPLES}", "rollouts"),
    "drawn_rollouts": Kind(f"{_DRAW}/rollouts/{_DRAWN}", "rollouts"),
    "verdicts": Kind(f"verdicts/{_SAMPLES}", "verdicts"),
    "drawn_verdicts": Kind(f"{_DRAW}/verdicts/{_DRAWN}", "verdicts"),
    "candidates": Kind(f"{_DRAW}/partition/candidates.parquet", "partition"),
    "partition": Kind(f"{_DRAW}/partition/final.parquet", "partition"),
    "tensors": Kind(f"{_DRAW}/{{stored}}/responses.safetensors", "tensors"),
    "index": Kind(f"{_DRAW}/{{stored}}/index.parquet", "reference_index"),
    "policy": Kind(f"policies/{_TRAINED}.json", "manifest"),
    "state": Kind(f"states/{_TRAINED}.json", "manifest"),
    "metrics": Kind(f"train/{_TRAINED}/metrics.parquet", "metrics"),
    "probes": Kind(f"train/{_TRAINED}/probes.parquet", "probes"),
    "evaluation": Kind("evaluation/{policy}/{dataset}.parquet", "evaluation"),
    "training": Kind("tables/training.parquet", "training"),
    "datasets": Kind("tables/datasets.parquet", "datasets"),
    **{name: Kind(f"tables/{name}.parquet", name) for name in TABLES},
    "timings": Kind("timings/{of}.parquet", "timings"),
}
# Fields that hold more than a name: some policies and jobs have names with slashes.
_FIELDS = {
    "policy": r"\w+(?:-m\d+)?(?:-s\d+/step\d+)?(?:/t[\d.]+)?",
    "model": r"\w+(?:-m\d+)?(?:-s\d+/step0)?",
    "of": r"[\w./-]+",
    "stored": r"reference(?:-\w+)?",
}
_NAME = r"[\w-]+"


def fill(pattern: str, fields: Mapping[str, object]) -> str:
    """A pattern with these fields filled in; others stay in braces."""
    return re.sub(r"\{(\w+)\}", lambda name: str(fields.get(name[1], name[0])), pattern)


def kind_of(path: str) -> Kind | None:
    """The kind of the artifact at a path of a run; None for other files."""
    return next((kind for kind in KINDS.values() if _matcher(kind.path).fullmatch(path)), None)


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", lambda name: _FIELDS.get(name[1], _NAME), re.escape(pattern)))


def manifest_above(path: str) -> str | None:
    """The manifest whose folder a file is in; None for a file outside of such folders."""
    places = path.split("/")
    manifests = (f"{'/'.join(places[:depth])}.json" for depth in range(len(places) - 1, 0, -1))
    return next((name for name in manifests if (kind := kind_of(name)) and kind.schema == "manifest"), None)
