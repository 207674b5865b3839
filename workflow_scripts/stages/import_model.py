"""A model of the user as a policy: links to its files, or an adapter merged into the base."""

from pathlib import Path

from script import snakemake, stage

from dphrl.hub import local_files
from dphrl.policy.limited import run_limited
from dphrl.policy.users_model import import_base, import_checkpoint

with stage() as job:
    inputs, weights = snakemake.input, Path(snakemake.output.weights)
    files = local_files(inputs.files)
    digests = job.files("files", files)
    # The cache of the hub may hold files that the run does not take.
    checked = files[0].parent if files[0] == Path(inputs.files[0]) else weights
    if inputs.get("base"):
        run_limited(import_checkpoint, weights, checked, job.folder("base", inputs.base), *files)
    else:
        run_limited(import_base, weights, checked, *files)
    linked = all((weights / file.name).is_symlink() for file in files)
    job.write_manifest(snakemake.output.manifest, digests if linked else None)
