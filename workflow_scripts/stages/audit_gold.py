"""Score each gold answer as a model answer, to find golds that the scorer cannot accept."""

from collections import Counter

import polars as pl
from script import snakemake, stage

from dphrl.data.gold import gold_of
from dphrl.data.records import read_source
from dphrl.hub import local_files
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict_tables import audit_gold

with stage("reading", "gold", "task", "scorer", libraries=["sqlglot", "math-verify"]) as job:
    inputs, params = snakemake.input, snakemake.params
    prompts, rejected = job.read("prompts", inputs.prompts), job.read("rejected", inputs.rejected)
    rows = read_source(job.file("source", local_files([inputs.source])[0]))
    reading = {"fields": params.reading["fields"], "comparison": params.gold["comparison"]}
    gold = gold_of(prompts, rejected, rows, params.task, **reading)
    files = {"databases": params.databases, "source": job.scoring_files(inputs)}
    with make_scorer(params.task, params.scorer, workers=snakemake.threads, **files) as scorer:
        audited = audit_gold(gold, scorer, params.gold["drop"])
    reasons = Counter(audited.filter(~pl.col("kept"))["reason"].to_list())
    left_out = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    job.note = f"{audited['kept'].sum()} of {audited.height} kept{f' ({left_out} left out)' if left_out else ''}"
    job.write(audited, "gold", snakemake.output.gold)
