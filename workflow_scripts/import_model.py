"""A model of the user as a policy: links to its files, and a manifest. A checkpoint must have the base's tokenizer."""

from pathlib import Path

from script import snakemake, stage

from dphrl.artifacts.files import link_folder
from dphrl.model.checkpoint import check_base, check_same_tokenizer

with stage() as job:
    given, source = snakemake.input, Path(snakemake.input.files[0]).parent
    check_base(source)
    if given.get("base"):
        check_same_tokenizer(source, job.folder("base", given.base))
    link_folder(source, Path(snakemake.output.weights))
    digests = job.files("files", given.files)
    job.write_manifest(snakemake.output.manifest, digests)
