"""The job of the reference stage: responses as tensors, with their log-probs under the base policy.

The log-probs come from the forward pass of training. Where training divides the weights between ranks, ranks divide
them here too.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final

import numpy as np
import polars as pl
import torch
from torch import Tensor

from dphrl.config.blocks.base import Dtype
from dphrl.config.blocks.training import Rehearsed
from dphrl.data.partition_counts import stored_rows
from dphrl.policy.batch import MicroBatch, Row
from dphrl.policy.collectives import divide_frozen, rank, start_process_group, sum_on_first, world_size
from dphrl.policy.logprobs import Attention, LogProbs, by_row, device_of_job, load_model
from dphrl.policy.ranks import ONE_NODE, Nodes, RankJob, run_on_ranks
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import replacing
from dphrl.store.parquet import by_prompts, write_table
from dphrl.store.tensors import Entry, file_order, write_tensors

Tensors = dict[str, np.ndarray]
Compute = Callable[[LogProbs, Sequence[Row], Sequence[MicroBatch], int], list[tuple[Tensor, ...]]]

# The names of the dtypes in safetensors.
_DTYPES: Final = {"float32": "F32", "int32": "I32"}
_CHUNK: Final = 1 << 20
_SAMPLE: Final = ["prompt_id", "sample_index"]


class ReferenceJob(RankJob):
    """Inputs, outputs and settings of the stage.

    Attributes:
        policy: folder of the base policy.
        dtype, topk_logprobs, rehearse, rows_per_question: the stage's slice of the configuration.
        partition, prompts, rollouts: files of these tables, already checked; the rollouts of the refinement.
        presamples, verdicts: rollouts and verdicts of the pre-samples, where they are stored too.
        output: the tensors.
        index: the table of their rows; for `work` alone, `store_responses` sets it.
    """

    after_failure: ClassVar[str] = "Nothing was kept: run snakemake again, and it starts from the first response."

    policy: str
    dtype: Dtype
    topk_logprobs: int
    rehearse: Rehearsed
    rows_per_question: int
    partition: str
    prompts: str
    rollouts: list[str]
    output: str
    presamples: Sequence[str] = ()
    verdicts: Sequence[str] = ()
    index: str = ""

    def tensorised(self, policy: LogProbs, compute: Compute) -> Iterator[tuple[Tensors, pl.DataFrame]]:
        """Tensors and index of all rows, as `tensorise` gives them."""
        files = [self.partition], [self.prompts], self.rollouts, self.presamples, self.verdicts
        tables = [pl.scan_parquet([*paths], glob=False) for paths in files if paths]
        # The table with the most rows of a question decides the size of a part.
        lead = pl.scan_parquet([*self.presamples] or [self.partition], glob=False).select("prompt_id")
        chosen = partial(reference_rows, rehearse=self.rehearse, most=self.rows_per_question)
        rows = (chosen(*of_prompts) for _, *of_prompts in by_prompts(lead, *tables))
        return tensorise(rows, policy, self.hardware.token_budget, self.topk_logprobs, compute)

    def work(self) -> None:
        """Compute the log-probs of all rows together with the other ranks; rank 0 writes tensors and index."""
        start_process_group()
        policy = LogProbs(load_model(Path(self.policy), self.dtype), self.hardware.attention)
        divide_frozen(policy, self.dtype)
        parts = self.tensorised(policy, compute_with_ranks)
        if rank() == 0:
            write_table(save_tensors(parts, Path(self.output)), "reference_index", Path(self.index), {})
        else:
            for _ in parts:
                pass


def store_responses(job: ReferenceJob, nodes: Nodes = ONE_NODE) -> Iterator[pl.DataFrame]:
    """The index of the stored responses in parts; after the last part their tensors are in place.

    Raises:
        RankError: a rank failed or was killed; nothing was put in place.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    output = Path(job.output)
    if job.hardware.reference_ranks == 1:
        policy = load_reference(Path(job.policy), job.dtype, job.hardware.attention)
        yield from save_tensors(job.tensorised(policy, compute_here), output)
        return
    with TemporaryDirectory(dir=output.parent, prefix=".ranks.", suffix=".tmp") as folder:
        tensors, index = Path(folder, output.name), Path(folder, "index.parquet")
        of_ranks = job.model_copy(update={"output": str(tensors), "index": str(index)})
        run_on_ranks(of_ranks, job.hardware.reference_ranks, output.parent, nodes)
        tensors.replace(output)
        yield pl.read_parquet(index, glob=False)


def reference_rows(
    partition: pl.DataFrame,
    prompts: pl.DataFrame,
    refined: pl.DataFrame,
    presamples: pl.DataFrame | None = None,
    verdicts: pl.DataFrame | None = None,
    *,
    rehearse: Rehearsed = "pef",
    most: int = 1,
) -> pl.DataFrame:
    """The stored responses of the rehearsed questions, in key order of the prompts: `stored_rows` of each.

    The refinement sample of a question of D_pef is its first. Right pre-samples follow: each different response once,
    then the repeated ones, both in sample order.

    Args:
        partition: the final partition; its D_pef rows name their refinement sample.
        prompts: the training prompts.
        refined: rollouts of the refine plan.
        presamples, verdicts: rollouts of the pre-samples and their verdicts, if they can be stored.
        rehearse, most: the keys `rehearse` and `rows_per_question`.

    Returns:
        prompt_id, sample_index (of the plan of the sample), prompt_token_ids, token_ids, sampler_logprobs.

    Raises:
        ValueError: a question lacks its prompt or a right sample.
    """
    number = stored_rows(rehearse, most)
    asked = partition.filter(number > 0).select("prompt_id", "reference_sample", rows=number)
    first = asked.drop_nulls("reference_sample").select("prompt_id", sample_index="reference_sample")
    right = [first.join(refined, on=_SAMPLE, how="left")]
    if presamples is not None and verdicts is not None:
        further = presamples.join(verdicts.filter("correct"), on=_SAMPLE, how="semi")
        right.append(further.join(asked, on="prompt_id", how="semi").sort("sample_index"))
    rows = (
        pl.concat(part.drop("seed", "text", "finish_reason") for part in right)
        .with_columns(repeated=~pl.struct("prompt_id", "token_ids").is_first_distinct())
        .sort("prompt_id", "repeated", maintain_order=True)
        .group_by("prompt_id", maintain_order=True)
        .head(most)
        .join(prompts.select("prompt_id", "prompt_token_ids"), on="prompt_id", how="left", maintain_order="left")
        .drop_nulls(["prompt_token_ids", "token_ids"])
    )
    counts = rows.group_by("prompt_id").agg(rows=pl.len().cast(pl.Int32))
    lost = asked.join(counts, on=["prompt_id", "rows"], how="anti").sort("prompt_id")
    if lost.height:
        raise ValueError(f"{lost.height} questions lack a prompt or a right sample, first {lost['prompt_id'][0]}")
    return rows.select(*_SAMPLE, "prompt_token_ids", "token_ids", "sampler_logprobs")


def load_reference(folder: Path, dtype: str, attention: Attention) -> LogProbs:
    """The policy whose log-probs are stored, where training computes its own.

    By the same kernels in the same precision, log-probs of equal weights agree, so divergences begin at zero.
    """
    return LogProbs(load_model(folder, dtype).to(device_of_job()), attention)


def compute_here(
    module: LogProbs, rows: Sequence[Row], cut: Sequence[MicroBatch], top_k: int
) -> list[tuple[Tensor, ...]]:
    """The values to store of the rows in these micro-batches, separately for each row, on the CPU.

    With `top_k` the result of `LogProbs.topk`, else the log-probs alone.
    """
    stored = partial(module.topk, k=top_k) if top_k else lambda batch: module(batch)[:1]
    return by_row(stored, rows, cut, module.device)


def compute_with_ranks(
    module: LogProbs, rows: Sequence[Row], cut: Sequence[MicroBatch], top_k: int
) -> list[tuple[Tensor, ...]]:
    """As `compute_here`, of which each rank does a share: all ranks must call, and rank 0 gets the whole."""
    # The longest micro-batches come first, so the micro-batches of one pass are about as long.
    share = cut[rank() :: world_size()]
    # Ranks exchange weights in every pass, so all make as many. A rank without further micro-batches repeats the last.
    idle = -(-len(cut) // world_size()) - len(share)
    computed = compute_here(module, rows, [*share, *[*cut[-1:]] * idle], top_k)
    lengths = [len(row.response) for row in rows]
    tokens = sum(lengths)
    topk = [torch.zeros(tokens, top_k, dtype=torch.int64), torch.zeros(tokens, top_k)] if top_k else []
    whole = [torch.zeros(tokens), *topk]
    of_rows = [*zip(*(tensor.split(lengths) for tensor in whole), strict=True)]
    for micro_batch in share:
        for number in micro_batch.rows:
            for ours, values in zip(of_rows[number], computed[number], strict=True):
                ours.copy_(values)
    for tensor in whole:
        sum_on_first(tensor)
    return of_rows


def tensorise(
    parts: Iterable[pl.DataFrame], module: LogProbs, token_budget: int, top_k: int = 0, compute: Compute = compute_here
) -> Iterator[tuple[Tensors, pl.DataFrame]]:
    """Tensors and index of the reference responses, part by part.

    Args:
        parts: rows as `reference_rows` gives them, in key order.
        module: the reference policy in the precision of training.
        token_budget: most tokens per forward pass, padding included where rows are padded.
        top_k: how many of the reference's likeliest tokens to store per response position; 0 for none.
        compute: computes the log-probs, here or on ranks.

    Yields:
        Of each part: flat tensors `token_ids` (int32; prompt then response, row after row) and `logprobs` (float32; of
        every response token under the untruncated softmax at temperature 1), with `top_k` also `topk_ids` (int32) and
        `topk_logprobs` (float32), both (response tokens, top_k), the largest first; and its rows of the index, with
        positions in the tensors of all parts (largest gap to the sampler's log-probs null where it recorded none).

    Raises:
        ValueError: `top_k` exceeds the vocabulary.
    """
    row = start = response_start = 0
    for part in parts:
        pairs = [Row(p, r) for p, r in part.select("prompt_token_ids", "token_ids").iter_rows()]
        computed = compute(module, pairs, module.plan(pairs, token_budget, "off"), top_k)
        tokens = [token for pair in pairs for token in (*pair.prompt, *pair.response)]
        tensors = {
            "token_ids": np.array(tokens, dtype=np.int32),
            "logprobs": _joined([of_row[0] for of_row in computed], np.empty(0, np.float32)),
        }
        if top_k:
            tensors["topk_ids"] = _joined([of_row[1] for of_row in computed], np.empty((0, top_k), np.int32))
            tensors["topk_logprobs"] = _joined([of_row[2] for of_row in computed], np.empty((0, top_k), np.float32))
        prompt_lengths = np.array([len(pair.prompt) for pair in pairs], dtype=np.int64)
        lengths = np.array([len(pair.response) for pair in pairs], dtype=np.int64)
        index = SCHEMAS["reference_index"].frame(
            {
                "row": np.arange(row, row + len(pairs)),
                "prompt_id": part["prompt_id"],
                "sample_index": part["sample_index"],
                "start": start + (prompt_lengths + lengths).cumsum() - prompt_lengths - lengths,
                "prompt_length": prompt_lengths,
                "response_length": lengths,
                "response_start": response_start + lengths.cumsum() - lengths,
                "max_sampler_gap": [
                    float(np.abs(of_row[0].numpy() - np.asarray(sampler, dtype=np.float32)).max()) if sampler else None
                    for of_row, sampler in zip(computed, part["sampler_logprobs"].to_list(), strict=True)
                ],
            }
        )
        yield tensors, index
        row, start, response_start = row + len(pairs), start + len(tokens), response_start + int(lengths.sum())


def save_tensors(parts: Iterable[tuple[Tensors, pl.DataFrame]], path: Path) -> Iterator[pl.DataFrame]:
    """Yield the index of each part; after the last their tensors are in `path`, end to end.

    A safetensors file begins with the sizes, so each tensor waits in a separate file until they are known.
    """
    with replacing(path) as temporary:
        folder = temporary.with_name(f".{temporary.name}.tmp")
        folder.mkdir()
        try:
            entries: dict[str, Entry] = {}
            for tensors, index in parts:
                for name, tensor in tensors.items():
                    with (folder / name).open("ab") as file:
                        tensor.tofile(file)
                    rows = entries[name].shape[0] if name in entries else 0
                    entries[name] = Entry(_DTYPES[tensor.dtype.name], (rows + len(tensor), *tensor.shape[1:]))
                yield index
            write_tensors(temporary, entries, _chunks(folder / name for name in file_order(entries)))
        finally:
            shutil.rmtree(folder)


def _chunks(paths: Iterable[Path]) -> Iterator[bytes]:
    """The bytes of files, one after the other."""
    for path in paths:
        with path.open("rb") as file:
            yield from iter(partial(file.read, _CHUNK), b"")


def _joined(parts: Sequence[Tensor], empty: np.ndarray) -> np.ndarray:
    """The tensors of all rows, end to end, in the dtype of `empty`."""
    return np.concatenate([empty, *(part.numpy() for part in parts)]).astype(empty.dtype)
