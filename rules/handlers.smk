# What is done before the first job and after the last one.
import time

import snakemake
from snakemake.logging import logger

from dphrl.config.notices import notices
from dphrl.store.files import from_the_future
from dphrl.store.manifest import remove_folders

STARTED = time.monotonic()


onstart:
    if ahead := from_the_future(file for job in workflow.dag.needrun_jobs() for file in job.input):
        raise SystemExit(ahead)
    files = ", ".join(map(str, workflow.configfiles))
    logger.info(f"run {CONFIG.run}: {files} -> {LAYOUT.root}")
    logger.info("\n".join(notices(CONFIG)))
    # Each finished job starts one more timer of this limit: after 200 jobs the scheduler takes a tenth of a core. No
    # option turns it off (https://github.com/snakemake/snakemake/pull/3744). Private, so for version 9 only.
    if snakemake.__version__.startswith("9."):
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    remove_folders(LAYOUT.superseded_at_the_end())
    # A target may leave the page or the audit of an earlier run as they are.
    current = {str(file) for job in workflow.dag.jobs for file in job.output}
    logger.info(contents.ending(LAYOUT, current, time.monotonic() - STARTED))
