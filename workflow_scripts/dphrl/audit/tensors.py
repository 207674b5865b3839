"""Checks with the base policy: the tokenizer's texts, and the stored responses with their log-probs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from safetensors.numpy import load_file
from transformers import AutoTokenizer

from dphrl.audit.across import Decode
from dphrl.audit.walk import Artifact, Run, again
from dphrl.model import LogProbs, Row, load_model, response_logprobs

_INDEX, _TENSORS = "reference/index.parquet", "reference/responses.safetensors"
_BASE = "policies/base/manifest.json"
_RECOMPUTED_ROWS = 16
# bfloat16 has 8 bits, so another machine or batch shape moves a log-prob by far more than float32 does.
_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.25}
_MASS_ROUNDING = 1e-3


def decoder(run: Run) -> Decode | None:
    """Token ids to texts by the base policy's tokenizer, as an engine does it: no special tokens, spaces as they are.

    None without a sound base policy or without its tokenizer.
    """
    base = run.get(_BASE)
    if base is None or not base.sound:
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(base.file.parent, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        base.check(False, f"{_BASE}: no tokenizer in its folder that can be loaded ({error}). {again(_BASE)}")
        return None

    def decode(token_ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = tokenizer.batch_decode(
            [list(ids) for ids in token_ids], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return texts

    return decode


def check_reference(run: Run) -> None:
    """The stored responses are the correct refined samples of D_pef, and their log-probs those of the base policy."""
    artifact, index = run.get(_INDEX), run.frame(_INDEX)
    if artifact is None or index is None:
        return
    _check_rows(run, artifact, index)
    tensors = run.get(_TENSORS)
    if not artifact.check(tensors is not None, f"{_INDEX} has no {_TENSORS}. {again(_INDEX)}"):
        return
    if tensors is None or not tensors.sound:
        return
    arrays = load_file(tensors.file)
    if _check_lengths(tensors, index, arrays):
        _check_values(run, tensors, index, arrays)
        _check_recomputed(run, tensors, artifact, index, arrays)


def _check_rows(run: Run, artifact: Artifact, index: pl.DataFrame) -> None:
    """The index names the reference samples of D_pef, each judged correct."""
    key = ["prompt_id", "sample_index"]
    partition, remedy = run.frame("partition/final.parquet"), again(_INDEX, _TENSORS)
    if partition is not None:
        pef = partition.filter(pl.col("subset") == "pef")
        stored = pef.select("prompt_id", pl.col("reference_sample").alias("sample_index"))
        artifact.check_none(stored.join(index, on=key, how="anti"), f"{_INDEX}: D_pef prompts that it lacks", remedy)
        extra = index.select(key).join(stored, on=key, how="anti")
        artifact.check_none(extra, f"{_INDEX}: rows that are no reference sample of D_pef", remedy)
    datasets = run.train_datasets()
    verdicts = run.frame(run.shards("verdicts", "base", datasets[0], "refine")) if len(datasets) == 1 else None
    if verdicts is not None:
        unproven = index.select(key).join(verdicts.filter("correct"), on=key, how="anti")
        artifact.check_none(unproven, f"{_INDEX}: rows without a correct verdict of the refine plan", remedy)


def _check_lengths(artifact: Artifact, index: pl.DataFrame, arrays: dict[str, np.ndarray]) -> bool:
    """Each row starts where the one before ends, and the tensors end with the last."""
    remedy = again(_INDEX, _TENSORS)
    both = pl.col("prompt_length").cast(pl.Int64) + pl.col("response_length").cast(pl.Int64)
    response = pl.col("response_length").cast(pl.Int64)
    counted = index.with_columns(at=both.cum_sum() - both, response_at=response.cum_sum() - response)
    odd = counted.filter((pl.col("start") != pl.col("at")) | (pl.col("response_start") != pl.col("response_at")))
    follows = artifact.check_none(
        odd.select("row", "start", "response_start"),
        f"{_INDEX}: rows that do not start where the one before ends",
        remedy,
    )
    expected = index.select(token_ids=both.sum(), logprobs=response.sum()).row(0, named=True)
    found = {name: len(array) for name, array in sorted(arrays.items()) if name in expected}
    fits = artifact.check(
        found == expected,
        f"{_TENSORS}: holds {found} values, {_INDEX} expects {dict(sorted(expected.items()))}. {remedy}",
    )
    return follows and fits


def _check_values(run: Run, artifact: Artifact, index: pl.DataFrame, arrays: dict[str, np.ndarray]) -> None:
    """Log-probs are numbers <= 0; the tokens are those of the prompt and of the refined sample."""
    remedy = again(_INDEX, _TENSORS)
    logprobs = arrays["logprobs"]
    bad = np.flatnonzero(~(np.isfinite(logprobs) & (logprobs <= 0)))
    artifact.check(
        not bad.size,
        f"{_TENSORS}: {bad.size} log-probs are not finite and <= 0, first at {bad[:3].tolist()}. {remedy}",
    )
    if "topk_logprobs" in arrays:
        _check_topk(artifact, arrays["topk_logprobs"], len(logprobs), remedy)
    datasets = run.train_datasets()
    if len(datasets) != 1:
        return
    prompts = run.frame(f"prompts/{datasets[0]}.parquet")
    rollouts = run.frame(run.shards("rollouts", "base", datasets[0], "refine"))
    if prompts is None or rollouts is None:
        return
    tokens = [arrays["token_ids"][start:end].tolist() for start, end in _spans(index)]
    stored = index.select("row", "prompt_id", "sample_index").with_columns(
        stored=pl.Series(tokens, dtype=pl.List(pl.Int32))
    )
    odd = (
        stored.join(prompts.select("prompt_id", "prompt_token_ids"), on="prompt_id", how="left")
        .join(rollouts.select("prompt_id", "sample_index", "token_ids"), on=["prompt_id", "sample_index"], how="left")
        .filter(pl.concat_list("prompt_token_ids", "token_ids").ne_missing(pl.col("stored")))
        .sort("row")
    )
    what = f"{_TENSORS}: rows whose tokens are not those of the prompt and its refined sample"
    artifact.check_none(odd.select("row", "prompt_id", "sample_index"), what, remedy)


def _check_topk(artifact: Artifact, topk: np.ndarray, tokens: int, remedy: str) -> None:
    """The likeliest tokens of each place: log-probs that fall, of a mass that is no more than all."""
    with np.errstate(invalid="ignore"):
        falling = (np.diff(topk, axis=1) <= 0).all(axis=1) & (topk[:, 0] <= 0) & np.isfinite(topk).all(axis=1)
        bad = np.flatnonzero(~falling | (np.exp(topk).sum(axis=1) > 1 + _MASS_ROUNDING))
    artifact.check(
        len(topk) == tokens and not bad.size,
        f"{_TENSORS}: top-K log-probs of {len(topk)} places, expected {tokens}, falling and of a mass up to 1; wrong at"
        f" {bad.size} places, first {bad[:3].tolist()}. {remedy}",
    )


def _check_recomputed(
    run: Run, artifact: Artifact, table: Artifact, index: pl.DataFrame, arrays: dict[str, np.ndarray]
) -> None:
    """The stored log-probs are those that the base policy gives now, on rows spread over the index."""
    base, config = run.get(_BASE), table.footer.get("config", {})
    dtype = config.get("dtype")
    if not artifact.check(
        dtype in _TOLERANCE,
        f"{_INDEX}: its footer names dtype {dtype!r}, expected {' or '.join(_TOLERANCE)}. {again(_INDEX)}",
    ):
        return
    if base is None or not base.sound or not index.height:
        return
    count = min(_RECOMPUTED_ROWS, index.height)
    sample = index.with_row_index("at").filter(pl.col("at").is_in([i * index.height // count for i in range(count)]))
    rows, stored = [], []
    for entry, (start, end) in zip(sample.iter_rows(named=True), _spans(sample), strict=True):
        ids, length = arrays["token_ids"][start:end].tolist(), entry["prompt_length"]
        rows.append(Row(ids[:length], ids[length:]))
        first = entry["response_start"]
        stored.append(arrays["logprobs"][first : first + entry["response_length"]])
    module = LogProbs(load_model(base.file.parent, str(dtype)))
    computed = response_logprobs(module, rows, int(config.get("token_budget", 1)))
    gaps = [float(np.abs(new.numpy() - old).max()) for new, old in zip(computed, stored, strict=True)]
    odd = sample.select("row", "prompt_id").with_columns(gap=pl.Series(gaps).round(6))
    odd = odd.filter(~(pl.Series(gaps) <= _TOLERANCE[str(dtype)]))
    what = (
        f"{_TENSORS}: of {count} rows, those whose log-probs {_BASE} does not give ({dtype}, {_TOLERANCE[str(dtype)]})"
    )
    artifact.check_none(odd, what, again(_INDEX, _TENSORS))


def _spans(index: pl.DataFrame) -> list[tuple[int, int]]:
    lengths = pl.col("prompt_length").cast(pl.Int64) + pl.col("response_length").cast(pl.Int64)
    return index.select("start", end=pl.col("start") + lengths).rows()
