"""Memory of a run over time: python dev/benchmarks/job_memory.py run.parquet make demo-llm

Runs a command, and every ten seconds adds up the memory of its processes, by job. The table (seconds, job, mib) is
written at the end; printed is the peak of each kind of job. --draw FIGURE draws given tables instead, a line for each.

A process counts with its proportional set size (PSS): pages that several processes share count once in all.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import altair as alt
import polars as pl
import psutil

# Of the file that Snakemake writes for each job.
_SCRIPT = re.compile(r"\.snakemake/scripts/tmp\w+\.(\w+)\.py")
_RANK = "dphrl.ranks.process"


def job_of(command: str) -> str:
    """The rule of a process, by its command line."""
    if script := _SCRIPT.search(command):
        return script[1]
    return "rank of a training" if _RANK in command else "other"


def record(command: list[str], interval: float) -> pl.DataFrame:
    """Run the command; the memory of all its processes by time and job."""
    started, rows = time.monotonic(), list[tuple[float, str, float]]()
    process = subprocess.Popen(command)
    root = psutil.Process(process.pid)
    while process.poll() is None:
        by_job: dict[str, float] = defaultdict(float)
        for child in [root, *root.children(recursive=True)]:
            try:
                by_job[job_of(" ".join(child.cmdline()))] += child.memory_full_info().pss / 2**20
            except psutil.Error:  # it has ended
                continue
        rows += [(time.monotonic() - started, job, mib) for job, mib in by_job.items()]
        time.sleep(interval)
    if process.returncode:
        sys.exit(process.returncode)
    return pl.DataFrame(rows, schema={"seconds": pl.Float64, "job": pl.String, "mib": pl.Float64}, orient="row")


def peaks(table: pl.DataFrame) -> None:
    """Print the largest sums of memory."""
    together = table.group_by("seconds").agg(pl.col("mib").sum(), job=pl.lit("all jobs together"))
    by_job = pl.concat([table, together.select(table.columns)]).group_by("job").agg(pl.col("mib").max())
    print("| job | GiB at the peak |\n| --- | ---: |")
    for job, mib in by_job.sort("mib", "job", descending=[True, False]).iter_rows():
        print(f"| {job} | {mib / 1024:.1f} |")


def draw(tables: list[Path], figure: Path) -> None:
    """Draw the sum of all jobs over time, a line for each table."""
    sums = [
        pl.read_parquet(path)
        .group_by("seconds")
        .agg(gib=pl.col("mib").sum() / 1024)
        .with_columns(run=pl.lit(path.stem))
        for path in tables
    ]
    lines = alt.Chart(pl.concat(sums).with_columns(minutes=pl.col("seconds") / 60).sort("run", "seconds")).mark_line()
    axes = {"x": alt.X("minutes:Q", title="minutes"), "y": alt.Y("gib:Q", title="memory of all jobs, GiB")}
    lines.encode(**axes, color=alt.Color("run:N", title=None)).properties(width=600, height=220).save(figure)


def main() -> None:
    """Record a command, or draw what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=Path, metavar="FIGURE", help="an SVG file; the other arguments are tables")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between measurements (default 10)")
    parser.add_argument("table", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command with its arguments")
    arguments = parser.parse_args()
    if arguments.draw:
        draw([arguments.table, *map(Path, arguments.command)], arguments.draw)
        return
    table = record(arguments.command, arguments.interval)
    table.write_parquet(arguments.table)
    peaks(table)


if __name__ == "__main__":
    main()
