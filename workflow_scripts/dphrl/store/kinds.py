"""Every kind of artifact of a run: its path, its schema, and the script that makes it."""

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
        stage: the scripts that make it, without `.py`; of every stage for timings.
    """

    path: str
    schema: str
    stage: tuple[str, ...]


# The tables over all policies.
TABLES: Final = (
    "claims",
    "collapse",
    "comparisons",
    "comparisons_levels",
    "crossing",
    "diversity",
    "diversity_split",
    "headline",
    "headline_levels",
    "hotter",
    "keep_explore",
    "passk",
    "rarefied",
    "style_counts",
    "styles",
    "transitions",
)
_DRAW, _TRAINED = "draws/{draw}", "{method}-s{seed}/step{step}"
_SAMPLES, _DRAWN = "{policy}/{dataset}.evaluate/{shard}.parquet", "{dataset}.{plan}/{shard}.parquet"
_SEGMENT, _COLLECTED = ("train_segment",), ("collect_training",)

# Where a path fits several patterns, the first kind counts.
KINDS: Final = {
    "world": Kind("toy.json", "manifest", ("build_world",)),
    "hub": Kind("hub/{of}.json", "listing", ("fetch",)),
    "base": Kind("policies/base.json", "manifest", ("train_base", "import_model")),
    "checkpoint": Kind("policies/{model}.json", "manifest", ("import_model",)),
    "supervised": Kind("train/base/supervised.parquet", "supervised", ("train_base",)),
    "databases": Kind("databases/{dataset}.parquet", "databases", ("hash_databases",)),
    "rejected": Kind("prompts/{dataset}.rejected.parquet", "rejected", ("prepare_prompts",)),
    "prompts": Kind("prompts/{dataset}.parquet", "prompts", ("prepare_prompts",)),
    "overlap": Kind("gold/overlap.parquet", "overlap", ("find_overlap",)),
    "gold": Kind("gold/{dataset}.parquet", "gold", ("audit_gold",)),
    "rollouts": Kind(f"rollouts/{_SAMPLES}", "rollouts", ("sample",)),
    "drawn_rollouts": Kind(f"{_DRAW}/rollouts/{_DRAWN}", "rollouts", ("sample",)),
    "verdicts": Kind(f"verdicts/{_SAMPLES}", "verdicts", ("score",)),
    "drawn_verdicts": Kind(f"{_DRAW}/verdicts/{_DRAWN}", "verdicts", ("score",)),
    "candidates": Kind(f"{_DRAW}/partition/candidates.parquet", "partition", ("find_candidates",)),
    "partition": Kind(f"{_DRAW}/partition/final.parquet", "partition", ("refine",)),
    "tensors": Kind(f"{_DRAW}/reference/responses.safetensors", "tensors", ("tensorise",)),
    "index": Kind(f"{_DRAW}/reference/index.parquet", "reference_index", ("tensorise",)),
    "policy": Kind(f"policies/{_TRAINED}.json", "manifest", _SEGMENT),
    "state": Kind(f"states/{_TRAINED}.json", "manifest", _SEGMENT),
    "metrics": Kind(f"train/{_TRAINED}/metrics.parquet", "metrics", _SEGMENT),
    "probes": Kind(f"train/{_TRAINED}/probes.parquet", "probes", _SEGMENT),
    "evaluation": Kind("evaluation/{policy}/{dataset}.parquet", "evaluation", ("evaluate_policy",)),
    "training": Kind("tables/training.parquet", "training", _COLLECTED),
    "training_use": Kind("tables/training_use.parquet", "training_use", _COLLECTED),
    "training_probes": Kind("tables/training_probes.parquet", "training_probes", _COLLECTED),
    "datasets": Kind("tables/datasets.parquet", "datasets", ("count_rows",)),
    "ablation": Kind("tables/ablation.parquet", "ablation", ("lay_out",)),
    "paper": Kind("tables/paper/{name}.parquet", "paper", ("lay_out",)),
    **{name: Kind(f"tables/{name}.parquet", name, ("make_tables",)) for name in TABLES},
    "training_cost": Kind("timings/training_cost.parquet", "training_cost", _COLLECTED),
    "timings": Kind("timings/{of}.parquet", "timings", ()),
}
# Fields that hold more than a name: some policies and jobs have names with slashes.
_FIELDS = {"policy": r"\w+(?:-s\d+/step\d+)?(?:/t[\d.]+)?", "model": r"\w+(?:-s\d+/step0)?", "of": r"[\w./-]+"}
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
