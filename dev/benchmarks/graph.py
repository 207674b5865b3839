"""Time that Snakemake takes to plan an experiment with many shards: python dev/benchmarks/graph.py --shards 1000

For each number of shards of the pre-sampling, a dry run in an empty folder. Prints a Markdown table.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ["--dry-run", "--quiet", "rules", "--workflow-profile", "none"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--shards", type=int, nargs="+", default=[1, 100, 1000], help="shards of the pre-sampling")
parser.add_argument("--config", type=Path, default=ROOT / "tests/workflow/tiny.yaml")
arguments = parser.parse_args()

print("| shards | jobs | seconds | CPU seconds | MiB |")
print("| ---: | ---: | ---: | ---: | ---: |")
for shards in arguments.shards:
    config = yaml.safe_load(arguments.config.read_text())
    config.setdefault("sampling", {}).setdefault("presample", {})["shards"] = shards
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(config))
        files = ["--snakefile", str(ROOT / "Snakefile"), "--directory", folder, "--configfile", str(path)]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", *OPTIONS, *files],
            env={**os.environ, "PYTHONPATH": str(ROOT / "workflow_scripts")},
            capture_output=True,
            text=True,
        )
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    jobs = re.search(r"^total\s+(\d+)", done.stdout + done.stderr, re.MULTILINE)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"| {shards} | {jobs[1] if jobs else '?'} | {seconds:.1f} | {cpu:.1f} | {after.ru_maxrss / 1024:.0f} |")
