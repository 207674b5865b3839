"""A dataset as prompts, with what was rejected and why."""

import json

from door import snakemake, stage
from dphrl.tasks import encoder, prepare, read_source

with stage("transformers", "tokenizers") as job:
    config = json.loads(snakemake.params.config)
    encode = encoder(job.folder("policy", snakemake.input.policy), config["template"])
    source = job.file("source", snakemake.input.source)
    prepared = prepare(read_source(source), config["task"], source.name, encode, config["max_tokens"])
    job.write(prepared.prompts, "prompts", snakemake.output.prompts)
    job.write(prepared.rejected, "rejected", snakemake.output.rejected)
