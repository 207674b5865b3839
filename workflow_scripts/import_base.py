"""The user's base model as the policy `base`: links to its files, and a manifest."""

from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import link_folder
from dphrl.model.checkpoint import check_base

with stage() as job:
    source = Path(snakemake.input.files[0]).parent
    check_base(source)
    link_folder(source, Path(snakemake.output.weights))
    digests = job.files("files", snakemake.input.files)
    job.write_manifest(snakemake.output.manifest, digests)
