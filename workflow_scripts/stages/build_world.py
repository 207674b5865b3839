"""The embedded world: databases, questions, supervised corpus, tokenizer."""

from pathlib import Path

from script import snakemake, stage

from dphrl.config.blocks.toy import ToyConfig
from dphrl.store.manifest import folder_of
from dphrl.toy.world import build_world

with stage("toy", libraries=["tokenizers", "transformers"]) as job:
    manifest = snakemake.output.manifest
    build_world(folder_of(Path(manifest)), ToyConfig(**snakemake.params.toy))
    job.write_manifest(manifest)
