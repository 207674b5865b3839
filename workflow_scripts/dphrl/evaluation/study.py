"""All policies of a run on all datasets: the input of every table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluation import EvaluateConfig
from dphrl.evaluation.claims import Claim
from dphrl.evaluation.estimator import NO_CLASS, pass_at_k
from dphrl.evaluation.interval import Floats, ratio
from dphrl.evaluation.names import BASE

MOST_LEVELS = 24
"""A dataset with more levels than these has scores rather than levels; it gets no tables by level."""


class PolicyKey(NamedTuple):
    """A method ("base" or a trained one) with a training seed, after some steps (0 for base), on a dataset."""

    method: str
    seed: int
    step: int
    dataset: str


@dataclass(frozen=True)
class Policy:
    """One policy on one dataset, rows sorted by prompt_id."""

    key: PolicyKey
    rows: pl.DataFrame

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(prompts,), samples of each prompt; all equal in a run of the workflow."""
        return self.rows["n"].cast(pl.Int64).to_numpy()

    @cached_property
    def right(self) -> NDArray[np.int64]:
        """(prompts,), right samples of each prompt."""
        return self.rows["c"].cast(pl.Int64).to_numpy()

    @property
    def n(self) -> int:
        """Samples per prompt; the fewest, where prompts differ."""
        return int(self.sizes.min())

    @cached_property
    def clusters(self) -> NDArray[np.object_] | None:
        """(prompts,), the database that each prompt asks; None if any prompt asks no database."""
        if "cluster" not in self.rows.columns or self.rows["cluster"].null_count():
            return None
        return self.rows["cluster"].to_numpy()

    def ratio(
        self, numerator: Floats, denominator: Floats | None = None, proportion: bool = True
    ) -> tuple[Floats, Floats, Floats]:
        """`interval.ratio` over the prompts, or the databases that they ask."""
        return ratio(numerator, denominator, self.clusters, proportion)

    @cached_property
    def solve_rates(self) -> Floats:
        """(prompts,), the share of right samples."""
        return np.asarray(self.right / self.sizes)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(2, prompts), the samples of each prompt and the right ones."""
        return np.stack([self.sizes, self.right])

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
        """n and c of the few pairs that occur, and (prompts,) the place of each prompt among them."""
        base = int(self.sizes.max()) + 1
        pairs, place = np.unique(self.sizes * base + self.right, return_inverse=True)
        return pairs // base, pairs % base, place

    def column(self, name: str) -> Floats:
        """(prompts, 1)."""
        return self.rows[name].cast(pl.Float64).to_numpy().reshape(-1, 1)

    @cached_property
    def samples(self) -> NDArray[np.bool_]:
        """(prompts, largest n), whether a sample is right; False beyond the samples of a prompt."""
        return self._padded(self.rows["correct"].explode().to_numpy(), False)

    def codes(self, name: str) -> NDArray[np.int32]:
        """(prompts, largest n) of a column of classes or of styles, `NO_CLASS` where there is none."""
        if not self.rows[name].list.len().max():
            return np.full((self.rows.height, self.sizes.max()), NO_CLASS, dtype=np.int32)
        classes = self.rows[name].explode()
        if classes.dtype == pl.String:
            names = pl.Enum(classes.drop_nulls().unique().sort())
            classes = classes.cast(names).to_physical().cast(pl.Int32)
        return self._padded(classes.fill_null(NO_CLASS).to_numpy(), NO_CLASS)

    def up_to_n(self, k: Sequence[int]) -> list[int]:
        """The members of `k` up to n, ascending. Raises `ValueError` where all are larger than n."""
        possible = sorted(tries for tries in k if tries <= self.n)
        if not possible:
            method, _, step, dataset = self.key
            raise ValueError(
                f"{method} step {step} on {dataset!r}: {self.n} samples per prompt and pass@k for k = {list(k)};"
                " check evaluate.k and sampling.evaluate"
            )
        return possible

    def pass_at(self, k: Sequence[int]) -> Floats:
        """(prompts, len(k)), pass@k of each k. Raises `ValueError` for a k larger than n."""
        n, c, place = self.pairs
        return np.asarray(pass_at_k(n[:, None], c[:, None], np.array([list(k)])))[place]

    def proportions(self, k: Sequence[int]) -> dict[str, Floats]:
        """greedy (where there is one), mean@n and pass@k for the two largest k up to n, (prompts, 1) each."""
        largest = self.up_to_n(k)[-2:]
        greedy = {} if self.rows["greedy_correct"].null_count() else {"greedy": self.column("greedy_correct")}
        passed = self.pass_at(largest)
        solved = {f"pass@{tries}": passed[:, [place]] for place, tries in enumerate(largest)}
        return {**greedy, f"mean@{self.n}": self.column("c") / self.sizes[:, None], **solved}

    def _padded(self, flat: NDArray[Any], missing: Any) -> NDArray[Any]:
        """(prompts, largest n) of the values of all samples, prompt by prompt."""
        there = np.arange(self.sizes.max()) < self.sizes[:, None]
        if there.all():
            return flat.reshape(there.shape)
        padded = np.full(there.shape, missing, dtype=flat.dtype)
        padded[there] = flat
        return padded


@dataclass(frozen=True)
class Study:
    """The policies of a run with the settings of its tables, made once by `from_evaluations`.

    Attributes:
        policies: dataset by dataset, base first, then by method, seed and step.
        config: its `k`, `against` and `claims`.
        seed: of the questions that are drawn again for the frontier, and of the halves of hotter draws.
        claims: on the run; their pairs of methods are compared.
    """

    policies: Sequence[Policy]
    config: EvaluateConfig
    seed: int
    claims: Sequence[Claim] = ()

    @classmethod
    def from_evaluations(
        cls, evaluations: pl.DataFrame, config: EvaluateConfig, seed: int, claims: Sequence[Claim] = ()
    ) -> Self:
        """The study of these evaluations.

        Args:
            evaluations: the tables "evaluation" of all policies below each other, in any order of rows, with the
                columns method str, seed i32, step i32 and dataset str (`PolicyKey`). Without the columns of classes,
                the cluster or the level, tables have no rows of these.

        Raises `ValueError` where policies were evaluated on different prompts.
        """
        by_policy = evaluations.partition_by(PolicyKey._fields, as_dict=True, include_key=False)
        policies = cls._sorted({PolicyKey(*key): rows for key, rows in by_policy.items()})
        return cls(policies, config, seed, claims)

    @staticmethod
    def _sorted(evaluations: Mapping[PolicyKey, pl.DataFrame]) -> list[Policy]:
        policies: list[Policy] = []
        for key in sorted(evaluations, key=lambda key: (key.dataset, key.method != BASE, key)):
            rows = evaluations[key].sort("prompt_id")
            if not policies or policies[-1].key.dataset != key.dataset:
                prompts = rows["prompt_id"]
            elif not rows["prompt_id"].equals(prompts):
                raise ValueError(
                    f"{key.method} seed {key.seed} step {key.step} on {key.dataset!r} covers other prompts than the"
                    " first policy; evaluate it again"
                )
            policies.append(Policy(key, rows))
        return policies

    def by_dataset(self) -> dict[str, list[Policy]]:
        """The policies of each dataset, base first."""
        by_dataset: dict[str, list[Policy]] = {}
        for policy in self.policies:
            by_dataset.setdefault(policy.key.dataset, []).append(policy)
        return by_dataset

    @cached_property
    def levels(self) -> list[tuple[str, Self]]:
        """The study of the prompts of each level of a dataset alone, by level and dataset.

        Prompts without a level are left out, and so are datasets with more than `MOST_LEVELS` levels.
        """
        by_level: dict[tuple[str, str], dict[PolicyKey, pl.DataFrame]] = {}
        for policy in self.policies:
            if "level" in policy.rows.columns:
                marked = policy.rows.drop_nulls("level")
                for (level,), rows in marked.partition_by("level", as_dict=True).items():
                    by_level.setdefault((level, policy.key.dataset), {})[policy.key] = rows
        number = Counter(dataset for _, dataset in by_level)
        return [
            (level, replace(self, policies=self._sorted(by_level[level, dataset])))
            for level, dataset in sorted(by_level)
            if number[dataset] <= MOST_LEVELS
        ]

    def last_steps(self) -> Self:
        """The policies at the last step of each training."""
        last: dict[tuple[str, int], int] = {}
        for method, seed, step, _ in (policy.key for policy in self.policies):
            last[method, seed] = max(step, last.get((method, seed), 0))
        return replace(self, policies=[policy for policy in self.policies if policy.key.step == last[policy.key[:2]]])

    def datasets_with(self, column: str) -> set[str]:
        """Datasets where the column of some policy holds a list that is not empty."""
        having = (policy for policy in self.policies if column in policy.rows.columns)
        return {policy.key.dataset for policy in having if policy.rows[column].list.len().max()}
