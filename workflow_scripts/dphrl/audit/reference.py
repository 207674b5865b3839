"""Checks with the base policy: texts by its tokenizer, and the stored responses with their log-probs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import safe_open

from dphrl.artifacts.manifest import folder_of
from dphrl.artifacts.tables import by_prompts, slices
from dphrl.audit.across import KEY, Decode, lost, same_keys
from dphrl.audit.artifacts import Artifact, Run, check_rows, delete_and_rerun
from dphrl.layout.kinds import KINDS, fill
from dphrl.model.batch import Row
from dphrl.model.logprobs import LogProbs, load_model, response_logprobs
from dphrl.tasks.tokens import load_tokenizer

_BASE = KINDS["base"].path
_RECOMPUTED_ROWS = 16
# Of a processor, for all of these rows: minutes on one core. A model of 8 billion weights needs more for a single row.
_OPERATIONS = 3e13
# bfloat16 has 8 bits of precision: another machine or batch shape changes a log-prob far more than in float32.
_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.25}
_MASS_ROUNDING = 1e-3
# Values of a tensor in memory at once.
_CHUNK = 1 << 20
_RESPONSE = pl.col("response_length").cast(pl.Int64)
_BOTH = pl.col("prompt_length").cast(pl.Int64) + _RESPONSE


def decoder(run: Run) -> Decode | None:
    """Decode token ids with the base policy's tokenizer, as an engine does: no special tokens, spaces unchanged.

    None without a sound base policy or without its tokenizer.
    """
    base = run.get(_BASE)
    if base is None or not base.sound:
        return None
    tokenizer = base.attempt(load_tokenizer, folder_of(base.file))
    if tokenizer is None:
        return None
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return lambda token_ids: tokenizer.batch_decode([list(ids) for ids in token_ids], **options)


def check_reference(run: Run, draw: str) -> None:
    """The stored responses are the correct refinement samples of D_pef, with log-probs of the base policy."""
    of_index, of_tensors = (fill(KINDS[name].path, {"draw": draw}) for name in ("index", "tensors"))
    artifact, index = run.get(of_index), run.scan(of_index)
    if artifact is None or index is None:
        return
    artifact.attempt(_check_index, run, draw, artifact, index)
    tensors = run.get(of_tensors)
    artifact.check(tensors is not None, f"{of_index} has no {of_tensors}")
    if tensors is not None and tensors.sound and tensors.attempt(_check_lengths, tensors, of_index, index):
        tensors.attempt(_check_values, tensors)
        tensors.attempt(_check_tokens, run, draw, tensors, index)
        tensors.attempt(_check_recomputed, run, tensors, artifact, index)


def _remedy(artifact: Artifact) -> str:
    """Delete the table and the tensors, whichever the artifact is."""
    folder = artifact.path.rpartition("/")[0]
    return delete_and_rerun(f"{folder}/index.parquet", f"{folder}/responses.safetensors")


def _check_index(run: Run, draw: str, artifact: Artifact, index: pl.LazyFrame) -> None:
    """The index names the reference samples of D_pef, each judged correct."""
    keys = index.select(KEY)
    partition = run.scan(fill(KINDS["partition"].path, {"draw": draw}))
    if partition is not None:
        pef = partition.filter(pl.col("subset") == "pef").select("prompt_id", sample_index="reference_sample")
        lacking, extra = "D_pef prompts that it lacks", "rows that are no reference sample of D_pef"
        checks = same_keys(f"{artifact.path}: {lacking}", f"{artifact.path}: {extra}")
        check_rows(artifact, by_prompts(pef, keys), checks, _remedy(artifact))
    verdicts = run.scan_refinement("verdicts", draw)
    if verdicts is not None:
        correct = verdicts.filter("correct").select(KEY)
        problem = f"{artifact.path}: rows without a correct verdict of the refine plan"
        check_rows(
            artifact, by_prompts(correct, keys), {problem: lambda right, stored: lost(stored, right)}, _remedy(artifact)
        )


def _check_lengths(artifact: Artifact, of_index: str, index: pl.LazyFrame) -> bool:
    """Each row starts where the row before ends, and the tensors end with the last row."""
    columns = ("row", "start", "response_start")
    moved = (pl.col("start") != pl.col("at")) | (pl.col("response_start") != pl.col("response_at"))
    problem = f"{of_index}: rows that do not start where the one before ends"
    checks = {problem: lambda rows: rows.filter(moved).select(columns)}
    follows = check_rows(artifact, _with_expected_starts(index), checks, _remedy(artifact))
    sums = index.select(token_ids=_BOTH.sum(), logprobs=_RESPONSE.sum()).collect(engine="streaming")
    expected = sums.row(0, named=True)
    found = {name: shape[0] for name, shape in _shapes(artifact.file).items() if name in expected}
    fits = artifact.check(
        found == expected,
        f"{artifact.path}: holds {found} values, {of_index} expects {dict(sorted(expected.items()))}",
        _remedy(artifact),
    )
    return follows and fits


def _with_expected_starts(index: pl.LazyFrame) -> Iterator[tuple[pl.DataFrame]]:
    """The rows of the index, with the offsets `at` and `response_at` at which they should start."""
    at = response_at = 0
    for rows in slices(index):
        ends = rows.with_columns(at=at + _BOTH.cum_sum(), response_at=response_at + _RESPONSE.cum_sum())
        yield (ends.with_columns(pl.col("at") - _BOTH, pl.col("response_at") - _RESPONSE),)
        if rows.height:
            at, response_at = ends.select("at", "response_at").row(-1)


def _shapes(file: Path) -> dict[str, list[int]]:
    with safe_open(file, framework="numpy") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in sorted(tensors.keys())}


def _values(file: Path, name: str, start: int, end: int) -> np.ndarray:
    """Part of a tensor. The file is opened for each part: values stay in memory for as long as it is open."""
    if start == end:
        return np.empty(0)  # safetensors refuses an empty part at the end
    with safe_open(file, framework="numpy") as tensors:
        values: np.ndarray = tensors.get_slice(name)[start:end]
        return values


def _check_values(artifact: Artifact) -> None:
    """Log-probs are numbers <= 0, and the top-K log-probs of each position are in falling order."""
    path, file, shapes, remedy = artifact.path, artifact.file, _shapes(artifact.file), _remedy(artifact)
    bad, first = _wrong(file, "logprobs", lambda values: ~(np.isfinite(values) & (values <= 0)))
    artifact.check(not bad, f"{path}: {bad} log-probs are not finite and <= 0, first at {first}", remedy)
    if "topk_logprobs" in shapes:
        places, tokens = shapes["topk_logprobs"][0], shapes["logprobs"][0]
        bad, first = _wrong(file, "topk_logprobs", _no_distribution)
        artifact.check(
            places == tokens and not bad,
            f"{path}: top-K log-probs of {places} places, expected {tokens}, falling and of a mass up to 1; wrong"
            f" at {bad} places, first {first}",
            remedy,
        )


def _wrong(file: Path, name: str, wrong: Callable[[np.ndarray], np.ndarray]) -> tuple[int, list[int]]:
    """How many places of a tensor are wrong, and the first three."""
    length, *width = _shapes(file)[name]
    step, count = max(1, _CHUNK // max(1, math.prod(width))), 0
    first: list[int] = []
    for start in range(0, length, step):
        places = start + np.flatnonzero(wrong(_values(file, name, start, min(start + step, length))))
        count, first = count + places.size, [*first, *places[:3].tolist()][:3]
    return count, first


def _no_distribution(topk: np.ndarray) -> np.ndarray:
    """Which rows of log-probs are not in falling order, or have a total probability above 1."""
    with np.errstate(invalid="ignore"):
        falling = (np.diff(topk, axis=1) <= 0).all(axis=1) & (topk[:, 0] <= 0) & np.isfinite(topk).all(axis=1)
        bad: np.ndarray = ~falling | (np.exp(topk).sum(axis=1) > 1 + _MASS_ROUNDING)
    return bad


def _check_tokens(run: Run, draw: str, artifact: Artifact, index: pl.LazyFrame) -> None:
    """The stored tokens are those of the prompt and of the refinement sample."""
    prompts = run.scan(fill(KINDS["prompts"].path, {"dataset": run.train_dataset}))
    rollouts = run.scan_refinement("rollouts", draw)
    if prompts is None or rollouts is None:
        return

    def differing(asked: pl.DataFrame, stored: pl.DataFrame, drawn: pl.DataFrame) -> pl.DataFrame:
        rows = stored.sort("row").with_columns(stored=_stored(artifact.file, stored.sort("row")))
        rows = rows.join(asked, on="prompt_id", how="left").join(drawn, on=KEY, how="left")
        odd = rows.filter(pl.concat_list("prompt_token_ids", "token_ids").ne_missing(pl.col("stored")))
        return odd.sort("row").select("row", *KEY)

    problem = f"{artifact.path}: rows whose tokens are not those of the prompt and its refined sample"
    tables = prompts.select("prompt_id", "prompt_token_ids"), index, rollouts.select(*KEY, "token_ids")
    check_rows(artifact, by_prompts(*tables), {problem: differing}, _remedy(artifact))


def _stored(file: Path, rows: pl.DataFrame) -> pl.Series:
    """The stored tokens of rows of the index. Rows of neighbouring prompts are neighbours, so one read gets all."""
    spans = rows.select("start", end=pl.col("start") + _BOTH).rows()
    low, high = min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)
    tokens = _values(file, "token_ids", low, high)
    return pl.Series([tokens[start - low : end - low] for start, end in spans], dtype=pl.List(pl.Int32))


def _check_recomputed(run: Run, artifact: Artifact, table: Artifact, index: pl.LazyFrame) -> None:
    """The base policy gives the stored log-probs, on rows spread over the index."""
    base, config = run.get(_BASE), table.footer.get("config", {})
    dtype = config.get("dtype")
    if not table.check(
        isinstance(dtype, str) and dtype in _TOLERANCE,
        f"{table.path}: its footer names dtype {dtype!r}, expected {' or '.join(_TOLERANCE)}",
        delete_and_rerun(table.path),
    ):
        return
    if base is None or not base.sound or not table.rows:
        return
    count, file, tolerance = min(_RECOMPUTED_ROWS, table.rows), artifact.file, _TOLERANCE[str(dtype)]
    sample = pl.concat(pl.collect_all([index.slice(i * table.rows // count, 1) for i in range(count)]))
    model = load_model(folder_of(base.file), str(dtype))
    sample = sample[affordable(sample.select(_BOTH).to_series().to_list(), model.num_parameters())]
    rows, stored = [], []
    for entry in sample.iter_rows(named=True):
        start, length, response = (entry[name] for name in ("start", "prompt_length", "response_length"))
        ids, first = _values(file, "token_ids", start, start + length + response).tolist(), entry["response_start"]
        rows.append(Row(ids[:length], ids[length:]))
        stored.append(_values(file, "logprobs", first, first + response))
    computed = response_logprobs(LogProbs(model), rows, token_budget=1)
    gaps = pl.Series([float(np.abs(new.numpy() - old).max()) for new, old in zip(computed, stored, strict=True)])
    odd = sample.select("row", "prompt_id").with_columns(gap=gaps.round(6)).filter(~(gaps <= tolerance))
    problem = (
        f"{artifact.path}: of {sample.height} rows, those whose log-probs {_BASE} does not give ({dtype}, {tolerance})"
    )
    check_rows(artifact, [(odd,)], {problem: lambda rows: rows}, _remedy(artifact))


def affordable(lengths: Sequence[int], weights: int) -> list[int]:
    """The rows to recompute, spread over those given: as many as a processor can in minutes, and at least one.

    Args:
        lengths: tokens of each row.
        weights: of the model; a token costs two operations for each.
    """
    return list(range(0, len(lengths), max(1, math.ceil(2 * weights * sum(lengths) / _OPERATIONS))))
