"""The embedded default's world: databases, questions, supervised corpus, tokenizer."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.config.blocks.toy import ToyConfig
from dphrl.toy.world import build_world

with stage("tokenizers", "transformers") as job:
    manifest = Path(snakemake.output.manifest)
    build_world(manifest.parent, ToyConfig(**json.loads(snakemake.params.config)))
    job.write_manifest(str(manifest))
