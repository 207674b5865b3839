"""The policies on each dataset, with the resamples of its prompts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dphrl.config.blocks.evaluate import BootstrapConfig
from dphrl.evaluation.bootstrap import Floats, PromptBootstrap
from dphrl.evaluation.classes import NO_CLASS
from dphrl.evaluation.estimator import pass_at_k

Estimator = Callable[[ArrayLike, ArrayLike, ArrayLike], NDArray[np.float64] | float]
BASE = "base"
POLICY = ["method", "seed", "step"]
POLICY_SCHEMA = {"method": pl.String, "seed": pl.Int32, "step": pl.Int32, "dataset": pl.String}
INTERVAL_SCHEMA = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64}


@dataclass(frozen=True)
class Policy:
    """One policy on one dataset, rows sorted by prompt_id."""

    key: tuple[str, int, int, str]
    rows: pl.DataFrame
    bootstrap: PromptBootstrap

    @property
    def n(self) -> int:
        """Samples per prompt."""
        return int(self.rows["n"][0])

    def column(self, name: str) -> Floats:
        """(prompts, 1)."""
        return self.rows[name].cast(pl.Float64).to_numpy().reshape(-1, 1)

    @cached_property
    def samples(self) -> NDArray[np.bool_]:
        """(prompts, n), whether a sample is right."""
        return self.rows["correct"].explode().to_numpy().reshape(self.rows.height, -1)

    def codes(self, name: str) -> NDArray[np.int32]:
        """(prompts, n) of a list column of `classes`, `NO_CLASS` where a sample has none."""
        if not self.rows[name].list.len().max():
            return np.full((self.rows.height, self.n), NO_CLASS, dtype=np.int32)
        return self.rows[name].explode().fill_null(NO_CLASS).to_numpy().reshape(self.rows.height, -1)

    def up_to_n(self, k: Sequence[int]) -> list[int]:
        """Those of `k`, ascending, that n samples can estimate. Raises `ValueError` where there is none."""
        found = sorted(one for one in k if one <= self.n)
        if not found:
            method, _, step, dataset = self.key
            raise ValueError(
                f"{method} step {step} on {dataset!r}: {self.n} samples per prompt and pass@k for k = {list(k)};"
                " check evaluate.k and sampling.evaluate"
            )
        return found

    def pass_at(self, k: Sequence[int], estimator: Estimator = pass_at_k) -> Floats:
        """(prompts, len(k)), the estimator of each k. Raises `ValueError` for a k larger than n."""
        counts, place = np.unique(self.rows["c"].to_numpy(), return_inverse=True)
        return np.asarray(estimator(self.n, counts[:, None], np.array([list(k)])))[place]


def policies(
    evaluations: pl.DataFrame, columns: Sequence[str], bootstrap: BootstrapConfig, seed: int
) -> Iterator[Policy]:
    """All policies, dataset by dataset, base first, with n and those columns.

    Raises:
        ValueError: policies were evaluated on different prompts.
    """
    marks = [name for name in ("cluster",) if name in evaluations.columns]
    needed = evaluations.select("dataset", *POLICY, "prompt_id", "n", *marks, *columns)
    ordered = needed.sort("dataset", pl.col("method") != BASE, *POLICY, "prompt_id")
    for _, rows in ordered.group_by("dataset", maintain_order=True):
        dataset = str(rows["dataset"][0])
        expected: pl.Series | None = None
        for (method, policy_seed, step), group in rows.group_by(POLICY, maintain_order=True):
            prompts = group["prompt_id"]
            if expected is None:
                expected = prompts
                draws = PromptBootstrap(len(prompts), dataset, bootstrap, seed, _clusters(group))
            if not prompts.equals(expected):
                differing = sorted(set(prompts) ^ set(expected)) or prompts
                raise ValueError(
                    f"{method} seed {policy_seed} step {step} on {dataset!r} covers other prompts than the first"
                    f" policy, for instance {differing[0]!r} ({len(prompts)} rows, expected {len(expected)});"
                    " evaluate it again"
                )
            yield Policy((str(method), int(policy_seed), int(step), dataset), group, draws)


def datasets_with(evaluations: pl.DataFrame, column: str) -> set[str]:
    """Datasets where a list column, or a column of counts, of some policy is not empty."""
    if column not in evaluations.columns:
        return set()
    value = pl.col(column)
    size = value.list.len() if isinstance(evaluations.schema[column], pl.List) else value
    return set(evaluations.filter(size > 0)["dataset"])


def table(rows: Sequence[tuple[object, ...]], schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """A frame from its rows."""
    return pl.DataFrame(rows, schema=schema, orient="row")


def _clusters(rows: pl.DataFrame) -> NDArray[np.object_] | None:
    if "cluster" not in rows.columns or rows["cluster"].null_count():
        return None
    return rows["cluster"].to_numpy()
