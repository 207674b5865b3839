"""The cost of each stage of a finished run, as a Markdown table: python dev/benchmarks/stages.py results/demo"""

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
rows = pl.concat(
    read_table(path, "timings").with_columns(file=pl.lit(path.relative_to(run).as_posix())) for path in files
)
# Each plan of sampling is a separate stage here, as each may have another engine.
plan = pl.col("file").str.extract(r"\.(presample|refine|evaluate)/")
rows = rows.with_columns(
    stage=pl.when(pl.col("stage") == "sample").then(pl.format("sample, {}", plan)).otherwise("stage")
)


def seconds(*parts: str) -> pl.Expr:
    """Seconds of these parts."""
    return pl.col("seconds").filter(pl.col("part").is_in(parts)).sum()


each = rows.group_by("stage", "file").agg(
    seconds=seconds("total", "imports"),
    imports=seconds("imports"),
    start=seconds("start"),
    generate=seconds("generate"),
    mib=pl.col("max_rss_mib").max(),
)
jobs = each.group_by("stage").agg(
    pl.len().alias("jobs"),
    pl.col("seconds", "imports", "start", "generate").sum(),
    longest=pl.col("seconds").max(),
    mib=pl.col("mib").max(),
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
print("| stage | jobs | seconds in all | imports | start of engine | not generation | longest job | MiB | tokens/s |")
print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
costs = jobs.join(named, on="stage", how="left").sort("seconds", descending=True)
for one in costs.iter_rows(named=True):
    other = f"{1 - one['generate'] / one['seconds']:.0%}" if one["generate"] else ""
    cells = [one["stage"], one["jobs"], *(f"{one[name]:.0f}" for name in ("seconds", "imports", "start")), other]
    print("|", " | ".join(map(str, [*cells, f"{one['longest']:.0f}", f"{one['mib']:.0f}", one["rates"] or ""])), "|")
