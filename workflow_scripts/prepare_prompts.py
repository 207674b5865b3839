"""A dataset as prompts, with what was rejected and why."""

import json
from pathlib import Path

from script import snakemake, stage

from dphrl.tasks.prepare import prepare
from dphrl.tasks.source import read_source
from dphrl.tasks.tokens import encoder

with stage("transformers", "tokenizers") if snakemake.input.get("policy") else stage() as job:
    config, databases = json.loads(snakemake.params.config), snakemake.params.databases
    policy = snakemake.input.get("policy")
    encode = encoder(job.folder("policy", policy), config["template"]) if policy else None
    source = job.file("source", snakemake.input.source)
    if snakemake.input.get("databases"):
        job.scan("databases", snakemake.input.databases)
    prepared = prepare(
        read_source(source),
        config["task"],
        source.name,
        encode,
        config["max_tokens"],
        fields=config["fields"],
        instruction=config["instruction"],
        databases=Path(databases) if databases else None,
    )
    job.note = prepared.summary()
    job.write(prepared.prompts, "prompts", snakemake.output.prompts)
    job.write(prepared.rejected, "rejected", snakemake.output.rejected)
