"""The audit of the run: its table, its page and the sha256 of every file; a failed check stops the run."""

from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.artifacts.manifest import write_sums
from dphrl.audit.artifacts import Run
from dphrl.audit.run import audit, render_page, require_passed
from dphrl.config.load import load_config
from dphrl.layout.run import Layout
from dphrl.machine.progress import counted

with stage("figures", libraries=["tokenizers"]) as job:
    output = snakemake.output
    # These are removed when the run has ended.
    superseded = Layout(load_config(snakemake.config)).superseded_at_the_end()
    run = Run(Path(output.sums).parent, superseded)
    table = audit(run)
    job.write(table, "audit", output.table)
    write_text(Path(output.page), render_page(table))
    write_sums(run.root, superseded, run.hashed())
    require_passed(table)
    job.note = f"all {counted(int(table['passed'].sum()), 'check')} passed"
