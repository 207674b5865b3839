"""Every kind of artifact of a run: its path, schema, stage and config slice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from typing import Any

from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.layout.names import BASE, Wildcards

# The tables over all policies.
TABLES = (
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
_FIGURES = ("eta", "gap", "keep_explore", "passk", "paths", "steps", "style_counts", "styles", "training")
# Regular expressions of fields in paths; other fields are names of the config.
_NUMBER = "(?:0|[1-9][0-9]*)"
_NAME = "[A-Za-z0-9_]+"
# A policy that is drawn hotter ends with its temperature (`Layout.hotter`).
_POLICY = rf"{_NAME}(?:-s{_NUMBER}/step{_NUMBER})?(?:/t[0-9]+\.[0-9]+)?"
_FIELDS = {
    "policy": _POLICY,
    **dict.fromkeys(("shard", "seed", "step"), _NUMBER),
    "model": f"{_NAME}(?:-s{_NUMBER}/step0)?",
    "of": "[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*",
    "draw": "[A-Za-z0-9_-]+",
    "plan": "presample|refine",
    "table": "|".join(TABLES),
    "figure": "|".join(_FIGURES),
}


@dataclass(frozen=True)
class Kind:
    """One kind of artifact.

    Attributes:
        path: the path in the run folder, with fields in braces.
        schema: the schema of a table; "manifest" for the manifest of a folder, "safetensors" for tensors.
        stage: the script that makes it, without `.py`, as a regular expression; None: it has no footer.
        slice: makes the config slice of the footer from the config and from the fields that are its parameters;
            None: there is no slice to compare.
        reads: names of the inputs in every footer of the kind. The paths are in the footers.
        seed: source of the seed in the footer: "{seed}" in the path, "slice" for the block `toy`, "config"; None: a
            stage without a seed.
        fixed: fields with one value for all artifacts of the kind, which the path therefore omits.
    """

    name: str
    path: str
    schema: str
    stage: str | None = None
    slice: Callable[..., dict[str, Any]] | None = None
    reads: AbstractSet[str] = frozenset()
    seed: str | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)


_DRAW = "draws/{draw}"
_SAMPLES, _DRAWN = "{policy}/{dataset}.evaluate/{shard}.parquet", "{dataset}.{plan}/{shard}.parquet"
_TRAINED = "{method}-s{seed}/step{step}"
_EVALUATED, _OF_BASE = {"plan": "evaluate"}, {"policy": BASE.method}
_prepared = partial(Kind, stage="prepare_prompts", slice=slices.prompts, reads={"source"})
_sampled = partial(Kind, schema="rollouts", stage="sample", slice=slices.sample, reads={"prompts"}, seed="config")
_scored = partial(Kind, schema="verdicts", stage="score", slice=slices.scoring, reads={"rollouts", "gold"})
_segment = partial(
    Kind,
    stage="train_segment",
    slice=slices.train,
    reads={"partition", "prompts", "gold", "policy"},
    seed="{seed}",
)
_laid_out = partial(Kind, stage="lay_out", slice=slices.paper, reads={"headline", "passk", "keep_explore"})
_collected = partial(Kind, stage="collect_training", slice=slices.training)

_KINDS = (
    Kind("world", "toy.json", "manifest", "build_world", slices.world, seed="slice"),
    Kind("hub", "hub/{of}.json", "listing"),
    Kind("base", "policies/base.json", "manifest", "train_base|import_model", slices.base, seed="slice"),
    Kind("checkpoint", "policies/{model}.json", "manifest", "import_model", slices.nothing),
    Kind("supervised", "train/base/supervised.parquet", "supervised", "train_base", slices.base, seed="slice"),
    Kind("databases", "databases/{dataset}.parquet", "databases", "hash_databases", slices.nothing),
    _prepared("rejected", "prompts/{dataset}.rejected.parquet", "rejected"),
    _prepared("prompts", "prompts/{dataset}.parquet", "prompts"),
    Kind("overlap", "gold/overlap.parquet", "overlap", "find_overlap", slices.nothing, {"prompts"}),
    Kind("gold", "gold/{dataset}.parquet", "gold", "audit_gold", slices.gold, {"prompts", "rejected", "source"}),
    _sampled("rollouts", f"rollouts/{_SAMPLES}", fixed=_EVALUATED),
    _sampled("drawn_rollouts", f"{_DRAW}/rollouts/{_DRAWN}", fixed=_OF_BASE),
    _scored("verdicts", f"verdicts/{_SAMPLES}", fixed=_EVALUATED),
    _scored("drawn_verdicts", f"{_DRAW}/verdicts/{_DRAWN}", fixed=_OF_BASE),
    Kind(
        "candidates",
        f"{_DRAW}/partition/candidates.parquet",
        "partition",
        "find_candidates",
        slices.candidates,
        {"gold"},
    ),
    Kind(
        "partition",
        f"{_DRAW}/partition/final.parquet",
        "partition",
        "refine",
        slices.partition,
        {"partition", "verdicts"},
    ),
    Kind("tensors", f"{_DRAW}/reference/responses.safetensors", "safetensors"),
    Kind(
        "index",
        f"{_DRAW}/reference/index.parquet",
        "reference_index",
        "tensorise",
        slices.reference,
        {"partition", "prompts", "policy", "rollouts"},
    ),
    _segment("policy", f"policies/{_TRAINED}.json", "manifest"),
    _segment("state", f"states/{_TRAINED}.json", "manifest"),
    _segment("metrics", f"train/{_TRAINED}/metrics.parquet", "metrics"),
    _segment("probes", f"train/{_TRAINED}/probes.parquet", "probes"),
    Kind(
        "evaluation",
        "evaluation/{policy}/{dataset}.parquet",
        "evaluation",
        "evaluate_policy",
        slices.evaluate,
        {"rollouts", "verdicts", "gold", "prompts"},
    ),
    _collected("training", "tables/training.parquet", "training"),
    _collected("training_use", "tables/training_use.parquet", "training_use"),
    _collected("training_probes", "tables/training_probes.parquet", "training_probes"),
    Kind("datasets", "tables/datasets.parquet", "datasets", "count_rows", slices.nothing),
    _laid_out("ablation", "tables/ablation.parquet", "ablation"),
    _laid_out("paper", "tables/paper/{name}.parquet", "paper"),
    Kind("table", "tables/{table}.parquet", "{table}", "make_tables", slices.tables, seed="config"),
    Kind("audit", "audit/audit.parquet", "audit", "audit"),
    _collected("training_cost", "timings/training_cost.parquet", "training_cost"),
    Kind("timings", "timings/{of}.parquet", "timings"),
)
# Where a path fits several patterns, the first kind counts.
KINDS = {kind.name: kind for kind in _KINDS}
# Files without a footer.
_TEXTS = (
    *("tables/headline.csv", "tables/headline.md", "tables/claims.md", "tables/datasets.md"),
    *(f"tables/paper/{{name}}.{ending}" for ending in ("csv", "md", "tex")),
    *(f"figures/{{figure}}.{ending}" for ending in ("json", "svg")),
    *("report/index.html", "audit/index.html", "SHA256SUMS", f"cards/{_TRAINED}.md"),
)


def match(pattern: str, text: str) -> dict[str, str] | None:
    """The fields of `text` if it matches a pattern with fields in braces, otherwise None."""
    parts = re.split(r"\{(\w+)\}", pattern)
    regex = "".join(
        f"(?P<{part}>{_FIELDS.get(part, _NAME)})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
    fields = re.fullmatch(regex, text)
    return fields.groupdict() if fields else None


def fill(pattern: str, fields: Mapping[str, object]) -> str:
    """A pattern with these fields filled in; others stay in braces."""
    return re.sub(r"\{(\w+)\}", lambda name: str(fields.get(name[1], name[0])), pattern)


def kind_of(path: str) -> tuple[Kind, dict[str, str]] | None:
    """The kind of the artifact at a path of the run folder, and the fields of the path; None for other files."""
    for kind in KINDS.values():
        fields = match(kind.path, path)
        if fields is not None:
            return kind, {**kind.fixed, **fields}
    return None


def schema_of(path: str) -> str | None:
    """The schema that belongs at a path of the run folder ("manifest", "safetensors"), or None."""
    artifact = kind_of(path)
    return artifact[0].schema.format(**artifact[1]) if artifact else None


def is_known(path: str) -> bool:
    """Whether this workflow writes a file at a path of the run folder."""
    return kind_of(path) is not None or any(match(pattern, path) is not None for pattern in _TEXTS)


def slice_keys(path: str) -> list[set[str]]:
    """The possible keys of the config slice of the artifact at a path, whatever the config; [] for one without."""
    artifact = kind_of(path)
    if artifact is None or artifact[0].slice is None:
        return []
    return [set(sliced(artifact[0].slice, config, artifact[1] | names)) for config, names in _examples()]


@cache
def _examples() -> list[tuple[Config, dict[str, str]]]:
    """Configs with a base made from scratch, a given one and one after a supervised start, and names in them."""
    toy = {"task": "sql", "source": "toy"}
    datasets = {"datasets": {"train": toy, "cross": toy}, "train_dataset": "train", "evaluate": {"datasets": ["cross"]}}
    made = {"run": "any", "toy": {}, **datasets, "methods": {"any": {"rollout_on": "all"}}}
    recorded = {**made, "policy": {"base": "any"}, "replay": {"recorded": {"cross": "any"}}}
    names = {"dataset": "cross", "method": "any"}
    started = {**made, "policy": {"base": "any", "supervised": {"source": "any"}}}
    of_base = names | {"policy": "base"}
    return [
        (load_config(made), of_base),
        (load_config(recorded), names | {"policy": "recorded"}),
        (load_config(started), of_base),
    ]


def sliced(part: Callable[..., dict[str, Any]], config: Config, fields: Wildcards) -> dict[str, Any]:
    """A slice of the config, from the fields that are its parameters."""
    return part(config, *(fields[name] for name in list(signature(part).parameters)[1:]))
