"""Every kind of artifact of a run: its path, schema, config slice and inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature

from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.layout.names import BASE, PolicyName, Wildcards

# Regular expressions of fields in paths; other fields match one part of a path.
_POLICY = r"[^/]+(?:/step\d+)?"
_FIELDS = {"policy": _POLICY, "start": _POLICY, "shard": r"\d+", "seed": r"\d+", "step": r"\d+", "of": ".+"}


@dataclass(frozen=True)
class Kind:
    """One kind of artifact.

    Attributes:
        path: the path in the run folder, with fields in braces.
        schema: the schema of a table; "manifest" for the manifest of a folder, "safetensors" for tensors.
        slice: makes the config slice of the footer from the config and from the fields that are its parameters;
            None: there is no slice to compare.
        inputs: for the audit, paths by the names that footers give to inputs; both may have fields. `{train}` is the
            training set. Once known fields are filled in, a path with `{shard}` means all shards together, a path with
            any other field any one file that fits.
    """

    name: str
    path: str
    schema: str
    slice: Callable[..., str] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)


_WORLD, _BASE_MANIFEST = "toy/manifest.json", "policies/base/manifest.json"
_PROMPTS, _REJECTED = "prompts/{dataset}.parquet", "prompts/{dataset}.rejected.parquet"
_GOLD, _OVERLAP = "gold/{dataset}.parquet", "gold/overlap.parquet"
_TRAIN_PROMPTS, _TRAIN_GOLD = "prompts/{train}.parquet", "gold/{train}.parquet"
_SHARD = "{policy}/{dataset}.{plan}/{shard}.parquet"
_ROLLOUTS, _VERDICTS = f"rollouts/{_SHARD}", f"verdicts/{_SHARD}"
_CANDIDATES, _FINAL = "partition/candidates.parquet", "partition/final.parquet"
_TENSORS, _INDEX = "reference/responses.safetensors", "reference/index.parquet"
_TRAINED = "{method}-s{seed}/step{step}"
_METRICS = f"train/{_TRAINED}/metrics.parquet"
_EVALUATION = "evaluation/{policy}/{dataset}.parquet"
_SEGMENT_INPUTS = {
    "partition": _FINAL,
    "prompts": _TRAIN_PROMPTS,
    "gold": _TRAIN_GOLD,
    "reference": _TENSORS,
    "base": _BASE_MANIFEST,
    "policy": "policies/{start}/manifest.json",
    "state": "train/{start}/state.json",
}
_PAPER_INPUTS = {table: f"tables/{table}.parquet" for table in ("headline", "passk", "keep_explore")}

_KINDS = (
    Kind("world", _WORLD, "manifest", slices.world),
    Kind("base", _BASE_MANIFEST, "manifest", slices.base, {"toy": _WORLD}),
    Kind("rejected", _REJECTED, "rejected", slices.prompts, {"policy": _BASE_MANIFEST}),
    Kind("prompts", _PROMPTS, "prompts", slices.prompts, {"policy": _BASE_MANIFEST}),
    Kind("overlap", _OVERLAP, "overlap", slices.nothing, {"prompts": _TRAIN_PROMPTS, "{dataset}": _PROMPTS}),
    Kind("gold", _GOLD, "gold", slices.gold, {"prompts": _PROMPTS, "rejected": _REJECTED}),
    Kind(
        "rollouts",
        _ROLLOUTS,
        "rollouts",
        slices.sample,
        {"prompts": _PROMPTS, "policy": "policies/{model}/manifest.json", "partition": _CANDIDATES},
    ),
    Kind("verdicts", _VERDICTS, "verdicts", slices.scoring, {"rollouts": _ROLLOUTS, "gold": _GOLD}),
    Kind(
        "candidates",
        _CANDIDATES,
        "partition",
        slices.candidates,
        {"gold": _TRAIN_GOLD, "verdicts": "verdicts/base/{train}.presample/{shard}.parquet"},
    ),
    Kind(
        "partition",
        _FINAL,
        "partition",
        slices.partition,
        {"partition": _CANDIDATES, "verdicts": "verdicts/base/{train}.refine/{shard}.parquet"},
    ),
    Kind("tensors", _TENSORS, "safetensors"),
    Kind(
        "index",
        _INDEX,
        "reference_index",
        slices.reference,
        {"partition": _FINAL, "prompts": _TRAIN_PROMPTS, "policy": _BASE_MANIFEST}
        | {"rollouts": "rollouts/base/{train}.refine/{shard}.parquet"},
    ),
    Kind("policy", f"policies/{_TRAINED}/manifest.json", "manifest", slices.train, _SEGMENT_INPUTS),
    Kind("state", f"train/{_TRAINED}/state.json", "manifest", slices.train, _SEGMENT_INPUTS),
    Kind("metrics", _METRICS, "metrics", slices.train, _SEGMENT_INPUTS),
    Kind(
        "evaluation",
        _EVALUATION,
        "evaluation",
        slices.evaluate,
        {name: f"{name}/{{policy}}/{{dataset}}.evaluate/{{shard}}.parquet" for name in ("rollouts", "verdicts")}
        | {"gold": _GOLD, "prompts": _PROMPTS},
    ),
    Kind("training", "tables/training.parquet", "training", slices.nothing, {"{method}/{seed}/{number}": _METRICS}),
    Kind(
        "datasets",
        "tables/datasets.parquet",
        "datasets",
        slices.nothing,
        {"prompts/{dataset}": _PROMPTS, "rejected/{dataset}": _REJECTED, "gold/{dataset}": _GOLD, "overlap": _OVERLAP},
    ),
    Kind("ablation", "tables/ablation.parquet", "ablation", slices.paper, _PAPER_INPUTS),
    Kind("paper", "tables/paper/{name}.parquet", "paper", slices.paper, _PAPER_INPUTS),
    Kind(
        "table", "tables/{table}.parquet", "{table}", slices.tables, {"{method}/{seed}/{step}/{dataset}": _EVALUATION}
    ),
    Kind("audit", "audit/audit.parquet", "audit"),
    Kind("training_cost", "timings/training_cost.parquet", "training_cost"),
    Kind("timings", "timings/{of}.parquet", "timings"),
)
# Where a path fits several patterns, the first kind counts.
KINDS = {kind.name: kind for kind in _KINDS}


def match(pattern: str, text: str) -> dict[str, str] | None:
    """The fields of `text` if it matches a pattern with fields in braces, otherwise None."""
    parts = re.split(r"\{(\w+)\}", pattern)
    regex = "".join(
        f"(?P<{part}>{_FIELDS.get(part, '[^/]+')})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
    found = re.fullmatch(regex, text)
    return found.groupdict() if found else None


def fill(pattern: str, fields: Mapping[str, object]) -> str:
    """A pattern with these fields filled in; others stay in braces."""
    return re.sub(r"\{(\w+)\}", lambda name: str(fields.get(name[1], name[0])), pattern)


def kind_of(path: str) -> tuple[Kind, dict[str, str]] | None:
    """The kind of the artifact at a path of the run folder, and the fields of the path; None for other files."""
    for kind in KINDS.values():
        fields = match(kind.path, path)
        if fields is not None:
            return kind, fields
    return None


def schema_of(path: str) -> str | None:
    """The schema that belongs at a path of the run folder ("manifest", "safetensors"), or None."""
    found = kind_of(path)
    return found[0].schema.format(**found[1]) if found else None


def slice_at(config: Config, path: str) -> str | None:
    """The config slice of the artifact at a path; None without one, or if this config does not plan the artifact."""
    found = kind_of(path)
    if found is None or found[0].slice is None or not _plans(config, found[1]):
        return None
    return sliced(found[0].slice, config, found[1])


def sliced(part: Callable[..., str], config: Config, fields: Wildcards) -> str:
    """A slice of the config, from the fields that are its parameters."""
    return part(config, *(fields[name] for name in list(signature(part).parameters)[1:]))


def _plans(config: Config, fields: Mapping[str, str]) -> bool:
    method = fields.get("method", PolicyName.parse(fields.get("policy", "base")).method)
    shards = getattr(config.sampling, fields["plan"]).shards if "plan" in fields else 0
    return (
        method in (BASE.method, *config.replay, *config.methods)
        and fields.get("dataset", config.train_dataset) in config.datasets
        and int(fields.get("shard", -1)) < max(shards, 1)
    )


def inputs_of(
    path: str, names: Iterable[str], files: Collection[str], train: str | None, start: str | None
) -> dict[str, list[tuple[str, ...]]]:
    """The paths of an artifact's inputs, by their names in its footer; inputs from outside of the run are left out.

    Args:
        path: the path of the artifact in the run folder.
        names: the names of the inputs.
        files: the artifacts of the run.
        train: the training set, if it is known.
        start: the policy that a segment of a training starts from, if it is known.

    Returns:
        For each input its alternatives; an alternative of several paths is a table in shards.
    """
    found = kind_of(path)
    if found is None:
        return {}
    kind, own = found
    known = {name: value for name, value in (("train", train), ("start", start)) if value is not None}
    places = {}
    for name in names:
        for pattern, source in kind.inputs.items():
            fields = match(pattern, name)
            if fields is not None:
                places[name] = _alternatives(source, {**known, **own, **fields}, files)
                break
    return places


def _alternatives(source: str, fields: dict[str, str], files: Collection[str]) -> list[tuple[str, ...]]:
    """The paths that match `source` after the known fields are filled in."""
    if "step" in fields:
        fields["policy"] = str(PolicyName(fields["method"], int(fields["seed"]), int(fields["step"])))
    # Recorded answers have no model: they are tokenised with the tokenizer of the base policy.
    fields["model"] = fields["policy"] if "/" in fields.get("policy", "") else BASE.method
    source = fill(source, fields)
    if "{" not in source:
        return [(source,)]
    fitting = {path: found for path in files if (found := match(source, path)) is not None}
    if "{train}" in source:
        return []
    if "{shard}" in source:
        return [tuple(fitting)]
    if "{start}" in source:
        end = PolicyName.parse(fields["policy"])
        fitting = {path: found for path, found in fitting.items() if _precedes(PolicyName.parse(found["start"]), end)}
    return [(path,) for path in fitting]


def _precedes(start: PolicyName, end: PolicyName) -> bool:
    """Whether a segment that ends with `end` can start from `start`."""
    return start == BASE or (start.training == end.training and start.step < end.step)
