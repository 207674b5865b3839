"""The threshold of every door. A door translates `snakemake.*` into library calls; what all doors share is here:
the number of threads, the stage's log, the check of its code, its timings, and the scorer of its task.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from snakemake.iocontainers import Snakemake

import __main__

if TYPE_CHECKING:
    from dphrl.scoring.scorer import Scorer

# Snakemake defines the object in the script that it runs.
snakemake: Snakemake = __main__.snakemake

# Libraries read this when they are imported; two OpenMP threads beside other work are far slower than one.
os.environ["OMP_NUM_THREADS"] = str(snakemake.threads)

from dphrl.artifacts.progress import send_to  # noqa: E402
from dphrl.artifacts.stage import Stage  # noqa: E402

# The terminal is for progress; all else, the engines' C++ included, goes to the log.
_terminal = os.fdopen(os.dup(2), "w", buffering=1)
send_to(_terminal)
_log = os.open(snakemake.log[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
for _descriptor in (1, 2):
    os.dup2(_log, _descriptor)


@contextmanager
def stage(*libraries: str) -> Iterator[Stage]:
    """The stage of this job; at the end its timings are written and the terminal says how long it took.

    Args:
        libraries: distributions whose versions can change the result.
    """
    params, started = snakemake.params, time.perf_counter()
    job = Stage(snakemake.rule, params.sources, params.schemas, params.code, params.config, libraries, params.seed)
    yield job
    seconds = time.perf_counter() - started
    job.add_timing("total", seconds)
    job.write_timings(snakemake.output.timings)
    print(f"{label()}: done in {seconds:.1f} s{f': {job.note}' if job.note else ''}", file=_terminal, flush=True)
    # All is on disk, and an engine would take four more seconds to be taken apart.
    sys.stdout.flush()
    os._exit(0)


def label() -> str:
    """What the terminal calls this job: its rule and wildcards."""
    return " ".join([snakemake.rule, *(str(value) for value in snakemake.wildcards)])


def task_scorer(config: dict[str, Any]) -> "Scorer":
    """The scorer of the task that the stage's slice of the config names, with the workers and files of this job."""
    from dphrl.scoring.factory import make_scorer

    files = {"databases": snakemake.params.databases, "source": snakemake.input.get("scorer")}
    return make_scorer(config["task"], config["scorer"], workers=snakemake.threads, **files)
