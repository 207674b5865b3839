"""The audit of the run: its table and its page; a failed check stops the run."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import write_text
from dphrl.artifacts.manifest import remove_folders
from dphrl.artifacts.progress import counted
from dphrl.audit.page import render_page
from dphrl.audit.run import audit_run, require_passed
from dphrl.config.load import load_config
from dphrl.layout.run import Layout

with stage("torch", "transformers") as job:
    config = load_config(snakemake.config)
    # The table lists what stays.
    remove_folders(Layout(config).removable())
    stages = json.loads(snakemake.params.config)["stages"]
    table = audit_run(Path(snakemake.output.table).parents[1], config, stages)
    job.write(table, "audit", snakemake.output.table)
    write_text(Path(snakemake.output.page), render_page(table))
    require_passed(table)
    job.note = f"all {counted(int(table['passed'].sum()), 'check')} passed"
