"""The audit of the run, and the sha256 of every file; a fault stops the run."""

from pathlib import Path

from script import snakemake, stage

from dphrl.machine.progress import counted
from dphrl.report.audit import AuditError, audit_run, summary
from dphrl.store.files import visible_files
from dphrl.store.manifest import write_sums

with stage() as job:
    output, root = snakemake.output, Path(snakemake.output.sums).parent
    places = dict.fromkeys(map(Path, snakemake.input))
    files = [file for place in places for file in (visible_files(place) if place.is_dir() else [place])]
    run = audit_run(root, files)
    if run.faults:
        raise AuditError(summary(run))
    job.note = f"all {counted(len(files), 'file')} are as they were written"
    job.last = lambda: write_sums(root, [*files, Path(output.timings)], run.hashes)
