"""A model of the user as a policy: links to its files, or an adapter merged into the base."""

from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import link_files
from dphrl.hub import local_files
from dphrl.model.adapter import SETTINGS, merge_adapter
from dphrl.model.checkpoint import check_base, check_same_tokenizer

with stage() as job:
    inputs, weights = snakemake.input, Path(snakemake.output.weights)
    files = local_files(inputs.files)
    source, names = files[0].parent, {file.name for file in files}
    digests: dict[str, str] | None = job.files("files", files)
    base = job.folder("base", inputs.base) if inputs.get("base") else None
    # An adapter that was not saved with a tokenizer has that of its base.
    if base and ("tokenizer_config.json" in names or SETTINGS not in names):
        check_same_tokenizer(source, base)
    if base and SETTINGS in names:
        merge_adapter(source, base, weights)
        check_base(weights)
        digests = None
    else:
        link_files(files, weights)
        # The cache of the hub may hold files that the run does not take; messages name the user's folder.
        check_base(source if files[0] == Path(inputs.files[0]) else weights)
    job.write_manifest(snakemake.output.manifest, digests)
