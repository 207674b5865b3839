"""The user's base model as the policy `base`: links to its files, and their manifest."""

from pathlib import Path

from door import snakemake, stage
from dphrl.artifacts import link_folder

with stage() as job:
    manifest = Path(snakemake.output.manifest)
    link_folder(Path(snakemake.input.files[0]).parent, manifest.parent)
    job.write_manifest(str(manifest))
