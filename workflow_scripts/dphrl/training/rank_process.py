"""The program of one rank of a segment."""

from typing import Any

from dphrl.ranks.process import run_rank
from dphrl.training.job import SegmentJob, run_job


def work(job: str) -> dict[str, Any]:
    """Run the segment on this rank."""
    trained = run_job(SegmentJob.from_json(job))
    return {**trained._asdict(), "metrics": trained.metrics.rows(), "probes": trained.probes.rows()}


if __name__ == "__main__":
    run_rank(work)
