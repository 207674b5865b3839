"""Do the digests that an artifact notes of its inputs still fit what stands in their places?"""

from __future__ import annotations

import re

import polars as pl

from dphrl.audit.artifacts import SHARD, Artifact, Run, again

# One input is any of several alternatives, each a table, the shards of one, a manifest or a file.
Sources = dict[str, list[tuple[str, ...]]]

_BASE = "policies/base/manifest.json"
_PROMPTS = {"prompts": "parquet", "rejected": "rejected.parquet"}
_TRAINED = re.compile(r"(train|policies)/(?P<training>.+-s\d+)/step(?P<step>\d+)/[^/]+")


def check_lineage(run: Run, artifact: Artifact) -> None:
    """Compare each input digest in the footer with the artifacts it names; inputs of unknown places are left out."""
    recorded = artifact.footer.get("inputs", {})
    places = sources(run, artifact.path, list(recorded))
    for name, alternatives in places.items():
        if name not in recorded:
            continue
        there = [paths for paths in alternatives if paths and all(run.get(path) for path in paths)]
        where = " or ".join(_place(paths) for paths in alternatives if paths) or "what it was made from"
        if not artifact.check(
            bool(there), f"{artifact.path} was made from {name!r}, but {where} is not there. Run snakemake again."
        ):
            continue
        digests = [run.digest(paths) for paths in there]
        # What is damaged says so itself; nothing follows from it.
        if recorded[name] not in digests and None in digests:
            continue
        artifact.check(
            recorded[name] in digests,
            f"{artifact.path} was made from other {name!r} ({recorded[name][:12]}) than {where} now holds"
            f" ({', '.join(str(digest)[:12] for digest in digests)}). {again(artifact.path)}",
        )


def _place(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"


def sources(run: Run, path: str, names: list[str]) -> Sources:
    """The places that an artifact's inputs come from, by the names that its stage gives them."""
    kind, _, rest = path.partition("/")
    stem = rest.rsplit("/", 1)[-1].split(".")[0]
    train = run.train_datasets()
    training: Sources = {}
    if len(train) == 1:
        training = {name: [(f"{name}/{train[0]}.parquet",)] for name in ("prompts", "gold")}
    if kind == "prompts":
        return {"policy": [(_BASE,)]}
    if kind == "gold" and stem == "overlap":
        others: Sources = {name: [(f"prompts/{name}.parquet",)] for name in names}
        return {**others, **{name: training[name] for name in ("prompts",) if name in training}}
    if kind == "gold":
        return {name: [(f"prompts/{stem}.{ending}",)] for name, ending in _PROMPTS.items()}
    shard = SHARD.fullmatch(path)
    if shard:
        gold, prompts = (f"{name}/{shard['dataset']}.parquet" for name in ("gold", "prompts"))
        if kind == "verdicts":
            return {"rollouts": [(path.replace("verdicts/", "rollouts/", 1),)], "gold": [(gold,)]}
        # Answers that were recorded under another name are told in tokens by the base policy's tokenizer.
        policy = f"policies/{shard['policy']}/manifest.json" if "/" in shard["policy"] else _BASE
        return {"prompts": [(prompts,)], "policy": [(policy,)], "partition": [("partition/candidates.parquet",)]}
    if kind == "partition":
        plan = "presample" if stem == "candidates" else "refine"
        before: Sources = {name: [("partition/candidates.parquet",)] for name in ("candidates", "partition")}
        verdicts = [run.shards("verdicts", "base", dataset, plan) for dataset in train]
        return {**training, **before, "verdicts": verdicts}
    if kind == "reference":
        refined = [run.shards("rollouts", "base", dataset, "refine") for dataset in train]
        return {**training, "partition": [("partition/final.parquet",)], "rollouts": refined, "policy": [(_BASE,)]}
    trained = _TRAINED.fullmatch(path)
    if trained:
        return {**training, **_before(run, trained["training"], int(trained["step"]))}
    if kind == "evaluation":
        policy, dataset = rest.rsplit("/", 1)[0], stem
        parts = {name: [run.shards(name, policy, dataset, "evaluate")] for name in ("rollouts", "verdicts")}
        return {**parts, "gold": [(f"gold/{dataset}.parquet",)]}
    if kind == "tables" and stem == "training":
        return {name: _metrics(run, name) for name in names}
    if kind == "tables" and stem == "datasets":
        return {name: [(_counted(name),)] for name in names}
    if kind == "tables":
        # Tables of tables name those that they arrange.
        tables: Sources = {name: [(f"tables/{name}.parquet",)] for name in names if run.get(f"tables/{name}.parquet")}
        return {**tables, **{name: [(_evaluation(name),)] for name in names if name.count("/") == 3}}
    if kind == "policies":
        return {"toy": [("toy/manifest.json",)]}
    return {}


def _before(run: Run, training: str, step: int) -> Sources:
    """A segment starts where the one before it ended, the first one from the base policy."""

    metrics = run.scan(f"train/{training}/step{step}/metrics.parquet")
    # The metrics tell the segment's first step; where they cannot, any earlier end is possible.
    start = None if metrics is None else metrics.select(pl.col("step").min() - 1).collect().item()

    def earlier(folder: str, file: str) -> list[tuple[str, ...]]:
        found = [re.fullmatch(rf"{folder}/{re.escape(training)}/step(\d+)/{file}", path) for path in run.artifacts]
        ends = {int(match[1]): match[0] for match in found if match and int(match[1]) < step}
        return [(path,) for end, path in ends.items() if start in (None, end)]

    return {
        "partition": [("partition/final.parquet",)],
        "reference": [("reference/responses.safetensors",)],
        "base": [(_BASE,)],
        "policy": [*([(_BASE,)] if not start else []), *earlier("policies", r"manifest\.json")],
        "state": earlier("train", r"state\.json"),
    }


def _metrics(run: Run, name: str) -> list[tuple[str, ...]]:
    """An input of the table of trainings is named method/seed/number of the segment."""
    method, seed, _ = name.split("/")
    prefix = f"train/{method}-s{seed}/"
    return [(path,) for path in run.artifacts if path.startswith(prefix) and path.endswith("/metrics.parquet")]


def _counted(name: str) -> str:
    """An input of the table of datasets is named kind/dataset, or is the overlap."""
    kind, _, dataset = name.partition("/")
    if kind == "rejected":
        return f"prompts/{dataset}.rejected.parquet"
    return f"{kind}/{dataset}.parquet" if dataset else "gold/overlap.parquet"


def _evaluation(name: str) -> str:
    """An input of the tables is named method/seed/step/dataset; what was not trained has step 0."""
    method, seed, step, dataset = name.split("/")
    return f"evaluation/{method if step == '0' else f'{method}-s{seed}/step{step}'}/{dataset}.parquet"
