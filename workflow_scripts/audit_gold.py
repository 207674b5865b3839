"""The gold answers of a dataset, each scored as if a model had given it."""

import json
from collections import Counter

import polars as pl
from script import snakemake, stage

from dphrl.scoring.factory import make_scorer
from dphrl.scoring.tables import audit_gold
from dphrl.tasks.gold import gold_of
from dphrl.tasks.source import read_source

with stage("sqlglot", "math-verify") as job:
    if snakemake.input.get("databases"):
        job.scan("databases", snakemake.input.databases)
    config = json.loads(snakemake.params.config)
    prompts, rejected = job.read("prompts", snakemake.input.prompts), job.read("rejected", snakemake.input.rejected)
    rows = read_source(job.file("source", snakemake.input.source))
    reading = {"fields": config["fields"], "comparison": config["comparison"]}
    gold = gold_of(prompts, rejected, rows, config["task"], **reading)
    files = {"databases": snakemake.params.databases, "source": snakemake.input.get("scorer")}
    with make_scorer(config["task"], config["scorer"], workers=snakemake.threads, **files) as scorer:
        audited = audit_gold(gold, scorer, config["drop"])
    reasons = Counter(audited.filter(~pl.col("kept"))["reason"].to_list())
    left_out = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    job.note = f"{audited['kept'].sum()} of {audited.height} kept{f' ({left_out} left out)' if left_out else ''}"
    job.write(audited, "gold", snakemake.output.gold)
