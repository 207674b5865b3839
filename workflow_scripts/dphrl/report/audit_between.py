"""Checks between the files of a run: the inputs in footers, and what no single job can see in the tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import polars as pl

from dphrl.data.partition_counts import stored_rows
from dphrl.report.audit_files import Run
from dphrl.store.kinds import KINDS, kind_of, manifest_above
from dphrl.store.manifest import manifest_digest
from dphrl.store.parquet import shards_digest

# A job may remove these (`Layout.superseded`). Of a finished run, SHA256SUMS says which must be there.
_REMOVABLE = (KINDS["policy"], KINDS["state"])
_PROMPT, _GREEDY, _SHOWN = ["prompt_id"], -1, 3
_SAMPLE = [*_PROMPT, "sample_index"]


def check_inputs(run: Run) -> None:
    """Compare the digest of each input in a footer with the files of the run at its paths."""
    for path, footer in _tables(run).items():
        for name, source in footer.get("inputs", {}).items():
            paths, then = source["paths"], source["digest"]
            if is_outside(name, paths):
                continue
            absent = [file for file in paths if file not in run.present and file not in run.faults]
            absent = [manifest_above(file) or file for file in absent]
            absent = [file for file in absent if file not in run.faults and kind_of(file) not in _REMOVABLE]
            now = digest_of(run, paths)
            if absent:
                run.fault(path, f"made from {name!r}, but {absent[0]} is not there", "run snakemake again", *absent)
            elif now not in (None, then):
                run.damaged(path, f"made from other {name!r} ({then[:12]}) than {span(paths)} now ({str(now)[:12]})")


def is_outside(name: str, paths: Sequence[str]) -> bool:
    """Whether an input is from outside of the run: a base name. Files of a run are in folders, but for the world's."""
    return name != "world" and all("/" not in path for path in paths)


def digest_of(run: Run, paths: Sequence[str]) -> str | None:
    """The present digest of an input, as a stage records it; None if a file is missing or damaged."""
    footers = [footer for path in paths if (footer := run.footer(path))]
    if any(path not in run.present or path in run.faults for path in paths):
        return None
    if not footers:  # a text, or tensors
        return run.hash(paths[0])
    return manifest_digest(footers[0]) if paths[0].endswith(".json") else shards_digest([f["digest"] for f in footers])


def span(paths: Sequence[str]) -> str:
    """The files of a table in a few words."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"


def check_samples(run: Run) -> None:
    """The shards together hold the samples of their plan, and the verdicts are those of the samples."""
    for folder, shards in groupby(_tables(run, "rollouts"), lambda path: path.rpartition("/")[0]):
        paths = list(shards)
        if any(path.startswith(f"{folder}/") for path in run.faults):
            continue
        footer = run.footers[paths[0]]
        plan, inputs = footer["config"]["plan"], footer["inputs"]
        asked = _scan(run, inputs["partition" if "partition" in inputs else "prompts"]["paths"])
        if asked is None:
            continue
        prompts = asked.filter(subset="pef") if "partition" in inputs else asked
        indices = pl.Series([*([_GREEDY] if plan.get("greedy") else []), *range(plan["n"])], dtype=pl.Int32)
        planned = prompts.select(_PROMPT).join(pl.LazyFrame({"sample_index": indices}), how="cross")
        drawn = pl.scan_parquet([run.root / path for path in paths], glob=False).select(_SAMPLE)
        _check(run, folder, f"samples of its plan ({len(indices)} per prompt) that it lacks", _lost(planned, drawn))
        _check(run, folder, "samples that its plan does not ask for", _lost(drawn, planned))
        _check(run, folder, "samples in more than one shard", drawn.filter(pl.struct(_SAMPLE).is_duplicated()))
    for path, footer in _tables(run, "verdicts").items():
        source = footer["inputs"]["rollouts"]["paths"]
        judged, sampled = _scan(run, [path]), _scan(run, source)
        if judged is not None and sampled is not None:
            _check(run, path, f"samples of {span(source)} without a verdict", _lost(sampled, judged))
            _check(run, path, f"verdicts on samples that {span(source)} does not have", _lost(judged, sampled))


def check_partitions(run: Run) -> None:
    """A partition has each prompt of the training set once; D_pef has candidates, each with a reference sample."""
    pef = pl.col("subset") == "pef"
    for path, footer in _tables(run, "partition").items():
        inputs = footer["inputs"]
        final = "partition" in inputs
        # The candidates name the prompts by their gold answers.
        gold = {} if final else run.footers.get(inputs["gold"]["paths"][0], {}).get("inputs", {})
        source = (inputs["partition"] if final else gold.get("prompts", {})).get("paths", [])
        divided, before = _scan(run, [path]), _scan(run, source)
        if divided is None or before is None:
            continue
        _check(run, path, f"prompts of {source[0]} that it lacks", _lost(before, divided, _PROMPT))
        _check(run, path, f"prompts that {source[0]} does not have", _lost(divided, before, _PROMPT))
        if final:
            odd = divided.filter(pef != pl.col("reference_sample").is_not_null())
            _check(run, path, "D_pef prompts without a reference sample, or others with one", odd.select(_PROMPT))
            chosen = _lost(divided.filter(pef), before.filter(pef), _PROMPT)
            _check(run, path, "D_pef prompts that were no candidate", chosen)


def check_stored(run: Run) -> None:
    """Each rehearsed question has its number of stored responses, and each of them was judged right."""
    for path, footer in _tables(run, "reference_index").items():
        inputs, config = footer["inputs"], footer["config"]
        source = inputs["partition"]["paths"]
        stored, divided = _scan(run, [path]), _scan(run, source)
        if stored is None or divided is None:
            continue
        number = stored_rows(config["rehearse"], config["rows_per_question"])
        asked = divided.filter(number > 0).select(*_PROMPT, "reference_sample", rows=number)
        held, counts = stored.group_by(_PROMPT).agg(rows=pl.len().cast(pl.Int32)), [*_PROMPT, "rows"]
        _check(run, path, "questions whose number of rows it lacks", _lost(asked, held, counts))
        _check(run, path, "questions with a number of rows that is not theirs", _lost(held, asked, counts))
        # The first row of a question of D_pef is its refinement sample, all others are pre-samples.
        is_refined = pl.col("prompt_id").is_first_distinct() & pl.col("reference_sample").is_not_null()
        rows = stored.join(asked, on=_PROMPT, maintain_order="left").select(*_SAMPLE, refined=is_refined)
        verdicts = {True: run.footers[source[0]]["inputs"]["verdicts"], False: inputs.get("verdicts", {"paths": []})}
        for refined, judged in verdicts.items():
            if (of_plan := _scan(run, judged["paths"])) is not None:
                wrong = _lost(rows.filter(refined=refined), of_plan.filter("correct"))
                _check(run, path, "rows that were not judged right", wrong)


def _tables(run: Run, schema: str | None = None) -> dict[str, dict[str, Any]]:
    """The footers of the tables (and manifests) that the audit is about, by path."""
    sound = {path: run.footers[path] for path in sorted(run.footers) if run.is_about(path)}
    return {path: footer for path, footer in sound.items() if schema in (None, footer.get("schema"))}


def _scan(run: Run, paths: Sequence[str]) -> pl.LazyFrame | None:
    """The rows of a table; None if one of its files is missing or damaged."""
    sound = paths and all(path in run.footers for path in paths)
    return pl.scan_parquet([run.root / path for path in paths], glob=False) if sound else None


def _lost(rows: pl.LazyFrame, others: pl.LazyFrame, key: Sequence[str] = tuple(_SAMPLE)) -> pl.LazyFrame:
    """The keys of rows that the others lack."""
    return rows.select(key).join(others.select(key), on=key, how="anti")


def _check(run: Run, path: str, problem: str, wrong: pl.LazyFrame) -> None:
    """A fault if there are wrong rows: how many, and the first of them."""
    rows = wrong.collect(engine="streaming")
    if rows.height:
        first = rows.sort(rows.columns).head(_SHOWN).iter_rows(named=True)
        shown = "; ".join(", ".join(f"{name} {value}" for name, value in row.items()) for row in first)
        run.damaged(path, f"{problem}: {rows.height} ({shown})")
