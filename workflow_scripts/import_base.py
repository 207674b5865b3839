"""The user's base model as the policy `base`: links to its files, and their manifest."""

from pathlib import Path

from door import snakemake, stage
from dphrl.artifacts import link_folder
from dphrl.model import check_model

with stage() as job:
    manifest = Path(snakemake.output.manifest)
    source = Path(snakemake.input.files[0]).parent
    check_model(source)
    link_folder(source, manifest.parent)
    job.write_manifest(str(manifest))
