"""The cost of each stage of a finished run, as a Markdown table: python benchmarks/stages.py results/demo"""

import argparse
from pathlib import Path

import polars as pl

from dphrl.artifacts.tables import read_footer, read_table

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("run", type=Path, help="folder of the run, e.g. results/demo")
run = parser.parse_args().run

files = [path for path in sorted((run / "timings").rglob("*.parquet")) if read_footer(path)["schema"] == "timings"]
if not files:
    raise SystemExit(f"{run}: no timings in it; give the folder of a run, such as results/demo")
rows = pl.concat(read_table(path, "timings") for path in files)
jobs = (
    rows.filter(pl.col("part") == "total")
    .group_by("stage")
    .agg(
        jobs=pl.len(), seconds=pl.col("seconds").sum(), longest=pl.col("seconds").max(), mib=pl.col("max_rss_mib").max()
    )
)
rates = (
    rows.filter(pl.col("tokens").is_not_null())
    .group_by("stage", "part")
    .agg(rate=pl.col("tokens").sum() / pl.col("seconds").sum())
)
named = (
    rates.sort("stage", "part")
    .group_by("stage", maintain_order=True)
    .agg(rates=pl.format("{} {}", "part", pl.col("rate").round(0).cast(pl.Int64)).str.join(", "))
)
print("| stage | jobs | seconds in all | longest job | most memory, MiB | tokens/s |")
print("| --- | ---: | ---: | ---: | ---: | --- |")
costs = jobs.join(named, on="stage", how="left").sort("seconds", descending=True)
for stage, count, seconds, longest, mib, rate in costs.iter_rows():
    print(f"| {stage} | {count} | {seconds:.0f} | {longest:.0f} | {mib:.0f} | {rate or ''} |")
