"""The audit of the run: its page and the sha256 of every file; a fault stops the run."""

from pathlib import Path

from script import snakemake, stage

from dphrl.machine.progress import counted
from dphrl.report.audit import audit_run, render_page, require_sound
from dphrl.store.files import visible_files, write_text
from dphrl.store.manifest import write_sums

with stage() as job:
    output, root = snakemake.output, Path(snakemake.output.sums).parent
    places = dict.fromkeys(map(Path, snakemake.input))
    files = [file for place in places for file in (visible_files(place) if place.is_dir() else [place])]
    run = audit_run(root, files)
    require_sound(run)
    write_text(Path(output.page), render_page(run))
    job.note = f"all {counted(len(files), 'file')} are as they were written"
    job.last = lambda: write_sums(root, [*files, Path(output.page), Path(output.timings)], run.hashes)
