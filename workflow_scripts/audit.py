"""The audit of the run: its table and its page; a failed check stops the run."""

from pathlib import Path

from door import snakemake, stage
from dphrl.artifacts import write_text
from dphrl.audit import audit_run, render_page, require_passed

with stage("torch", "transformers") as job:
    table = audit_run(Path(snakemake.output.table).parents[1])
    job.write(table, "audit", snakemake.output.table)
    write_text(Path(snakemake.output.page), render_page(table))
    require_passed(table)
