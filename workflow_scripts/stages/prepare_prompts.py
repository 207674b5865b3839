"""A dataset as prompts, with what was rejected and why."""

from pathlib import Path

from script import snakemake, stage

from dphrl.data.prepare import prepare
from dphrl.data.records import read_source
from dphrl.data.tokens import encoder
from dphrl.hub import local_files

policy = snakemake.input.get("policy")
libraries = ["transformers", "tokenizers"] if policy else []
with stage("reading", "prompts", "thoughts", libraries=libraries) as job:
    reading, prompts, databases = snakemake.params.reading, snakemake.params.prompts, snakemake.params.databases
    render = encoder(job.folder("policy", policy), prompts["template"]) if policy else None
    source = job.file("source", local_files([snakemake.input.source])[0])
    job.scoring_files(snakemake.input)
    prepared = prepare(
        read_source(source),
        reading["task"],
        source.name,
        render,
        prompts["max_tokens"],
        fields=reading["fields"],
        instruction=reading["instruction"],
        prefill=reading["prefill"],
        databases=Path(databases) if databases else None,
        thoughts=snakemake.params.thoughts,
    )
    job.note = prepared.summary()
    job.write(prepared.prompts, "prompts", snakemake.output.prompts)
    job.write(prepared.rejected, "rejected", snakemake.output.rejected)
