"""Notes on policies whose samples often have no answer for the scorer, or were cut off."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from dphrl.report.methods import label
from dphrl.scoring.verdict_tables import unanswered_or_cut_off


def unanswered(
    datasets: Sequence[str], policies: Mapping[str, str], rollouts: Sequence[str], verdicts: Sequence[str]
) -> Iterator[str]:
    """A sentence for each policy and dataset with at least a tenth of such samples.

    Args:
        policies: by method, the folder of the policy in the run.
        rollouts, verdicts: all shards of all of them.
    """
    for dataset in datasets:
        for method, policy in policies.items():
            texts, judged = (_shards(paths, policy, dataset) for paths in (rollouts, verdicts))
            if note := unanswered_or_cut_off(texts, judged, None):
                yield f"{label(method)} on {dataset}: {note}."


def _shards(paths: Sequence[str], policy: str, dataset: str) -> pl.LazyFrame:
    return pl.scan_parquet([path for path in paths if Path(path).match(f"{policy}/{dataset}.*/*")])
