"""Checks of texts by the base policy's tokenizer, and of the stored responses with their log-probs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from safetensors import safe_open
from tokenizers import Tokenizer

from dphrl.artifacts.manifest import folder_of
from dphrl.artifacts.tables import by_prompts, slices
from dphrl.audit.across import KEY, Decode, lost, same_keys
from dphrl.audit.artifacts import Artifact, Run, check_rows, delete_and_rerun
from dphrl.layout.kinds import KINDS, fill

_BASE = KINDS["base"].path
_TOKENIZER = "tokenizer.json"
_MASS_ROUNDING = 1e-3
# Values of a tensor in memory at once.
_CHUNK = 1 << 20
_RESPONSE = pl.col("response_length").cast(pl.Int64)
_BOTH = pl.col("prompt_length").cast(pl.Int64) + _RESPONSE


def decoder(run: Run) -> Decode | None:
    """Decode token ids with the base policy's tokenizer, as an engine does: no special tokens, spaces unchanged.

    None without a sound base policy or without its tokenizer.json.
    """
    base = run.get(_BASE)
    if base is None or not base.sound or lacks_tokenizer(run):
        return None
    return base.attempt(_decoder, folder_of(base.file))


def lacks_tokenizer(run: Run) -> bool:
    """Whether a sound base policy lacks tokenizer.json."""
    base = run.get(_BASE)
    return base is not None and base.sound and not (folder_of(base.file) / _TOKENIZER).is_file()


def _decoder(folder: Path) -> Decode:
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    settings = folder / "tokenizer_config.json"
    more = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    # transformers makes these special too, whatever tokenizer.json says of them.
    named = [more.get(f"{name}_token") for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
    texts = [token.get("content") if isinstance(token, dict) else token for token in named]
    special = {tokenizer.token_to_id(text) for text in texts if isinstance(text, str)}
    special |= {int(number) for number, token in more.get("added_tokens_decoder", {}).items() if token["special"]}

    # Llama 2's tokenizer drops a space at the start of a text, and a response follows its prompt.
    before: list[int] = tokenizer.encode("a", add_special_tokens=False).ids
    start = tokenizer.decode(before)

    def decode(sequences: Sequence[Sequence[int]]) -> list[str]:
        ordinary = [[*before, *(token_id for token_id in ids if token_id not in special)] for ids in sequences]
        decoded: list[str] = tokenizer.decode_batch(ordinary)
        return [text.removeprefix(start) for text in decoded]

    return decode


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


def _remedy(artifact: Artifact) -> str:
    """Delete the table and the tensors, whichever the artifact is."""
    folder = artifact.path.rpartition("/")[0]
    return delete_and_rerun(f"{folder}/index.parquet", f"{folder}/responses.safetensors")


def _check_index(run: Run, draw: str, artifact: Artifact, index: pl.LazyFrame) -> None:
    """The index names the reference samples of D_pef, each judged correct, and the type of their log-probs."""
    dtype = artifact.footer.get("config", {}).get("dtype")
    supported = dtype in ("float32", "bfloat16")
    artifact.check(supported, f"{artifact.path}: its footer names dtype {dtype!r}, expected float32 or bfloat16")
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
    sizes = {name: shape[0] for name, shape in _shapes(artifact.file).items() if name in expected}
    fits = artifact.check(
        sizes == expected,
        f"{artifact.path}: holds {sizes} values, {of_index} expects {dict(sorted(expected.items()))}",
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
    """The stored tokens equal the tokens of the prompt and of the refinement sample."""
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
