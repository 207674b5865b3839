"""The command `dphrl report`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from dphrl.artifacts.files import write_text
from dphrl.artifacts.tables import content_digest, write_table
from dphrl.pages.visible import visible
from dphrl.report.claims import claims_markdown
from dphrl.report.pooled import (
    FinishedRun,
    RunsError,
    differences_by_run,
    pooled,
    pooled_claims,
    read_runs,
    render_pooled,
)


def run(runs: Sequence[Path], out: Path) -> int:
    """Write the page and tables of finished runs into a folder.

    Returns:
        The exit status: 2 if a folder holds no finished run or the runs cannot be pooled.
    """
    try:
        _write(read_runs(runs), out)
    except (OSError, ValueError) as error:
        print(visible(f"dphrl.report: {error}"), file=sys.stderr)
        return 2
    print(f"The report: {(out / 'index.html').resolve()}")
    return 0


def _write(runs: Sequence[FinishedRun], out: Path) -> None:
    differences = differences_by_run(runs)
    if differences.is_empty():
        raise RunsError("no run has a training, so there is nothing to pool")
    compared = pooled(runs)
    claims = pooled_claims(compared, runs[0])
    inputs = {
        run.name: {
            "paths": [f"{run.name}/tables/headline.parquet"],
            "digest": content_digest(run.headline, "headline"),
        }
        for run in runs
    }
    footer = {"stage": "together", "config": runs[0].settings, "inputs": inputs}
    write_table(compared, "comparisons", out / "comparisons.parquet", footer)
    write_table(claims, "claims", out / "claims.parquet", footer)
    headlines = pl.concat(run.headline.select(pl.lit(run.name).alias("run"), pl.all()) for run in runs)
    write_text(out / "headline.csv", headlines.write_csv())
    write_text(out / "differences.csv", differences.drop("trainings", strict=False).write_csv())
    write_text(out / "claims.md", claims_markdown(claims))
    write_text(out / "index.html", render_pooled(runs, differences, compared, claims))
